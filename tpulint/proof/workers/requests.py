"""The request of a worker and its answer; the process imports the copy of the project, not the project."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, MutableMapping
from pathlib import Path
from typing import Any, TypeVar

import tpulint
from tpulint.proof.workers.failures import described
from tpulint.proof.workers.loading import BadTargetError

Request = TypeVar("Request")


def _as_json(answer: Any) -> bytes:
    return json.dumps(answer).encode()


def answer(
    request: type[Any], run: Callable[[Any], Any], file: str, encode: Callable[[Any], bytes] = _as_json
) -> None:
    """Leave what a function gives for a request, or what went wrong, in the files that the request names.

    Args:
        request: the class of the request, with the paths `answer` and `failure`, and the folder `root`.
        run: the function.
        file: the JSON file with the request.
        encode: the answer as bytes.
    """
    asked = read(request, file)
    try:
        found = run(asked)
    except BadTargetError as error:
        Path(asked.failure).write_bytes(_as_json({"usage": str(error)}))
    except BaseException as error:  # the user's code may raise anything
        Path(asked.failure).write_bytes(_as_json(described(error, asked.root)))
    else:
        Path(asked.answer).write_bytes(encode(found))


def read(request: type[Request], file: str) -> Request:
    """The request in a JSON file: its fields, and the user's `project`, of which its `root` is a copy."""
    values = json.loads(Path(file).read_text(encoding="utf-8"))
    import_copy(Path(values.pop("project")), Path(values["root"]))
    return request(**values)


def import_copy(project: Path, copy: Path) -> None:
    """Replace folders of the project on the import path by those of the copy.

    Packages of the project that are installed in editable mode, or found by PYTHONPATH, would otherwise be
    imported from the user's files, which are not fixed.
    """
    sys.path[:] = [_in_copy(folder, project, copy) for folder in sys.path]
    for finder in sys.meta_path:
        # setuptools installs a finder for each distribution, in a module with the folder of each package.
        module = sys.modules.get(getattr(finder, "__module__", ""))
        if module is not None and module.__name__.startswith("__editable__"):
            folders: MutableMapping[str, str] = getattr(module, "MAPPING", {})
            for name, folder in folders.items():
                folders[name] = _in_copy(folder, project, copy)


def _in_copy(folder: str, project: Path, copy: Path) -> str:
    """The folder in the copy; itself if it is not of the project, or belongs to tpulint or to Python."""
    path = Path(folder)
    own = (Path(tpulint.__file__).parents[1], Path(sys.prefix))
    if not path.is_relative_to(project) or any(path.is_relative_to(one) for one in own):
        return folder
    copied = copy / path.relative_to(project)
    return str(copied) if copied.exists() else folder
