"""Reads the request of a worker, lets it import the copy of the project, and writes its result."""

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
    """Run a function for a request, and write its result or its exception to the files of the request.

    Args:
        request: the class of the request, with the paths `answer` and `failure`, and the folder `root`.
        run: the function.
        file: the JSON file with the request.
        encode: converts the result to bytes.
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
    """Read a request from a JSON file, which also has the user's `project`: the `root` is a copy of it."""
    values = json.loads(Path(file).read_text(encoding="utf-8"))
    import_copy(Path(values.pop("project")), Path(values["root"]))
    return request(**values)


def import_copy(project: Path, copy: Path) -> None:
    """Replace folders of the project in `sys.path` with those of the copy.

    Otherwise, packages of the project that are installed in editable mode, or found through PYTHONPATH, would
    be imported from the original files.
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
    """The folder in the copy; unchanged if it is not in the project, or belongs to tpulint or Python."""
    path = Path(folder)
    own = (Path(tpulint.__file__).parents[1], Path(sys.prefix))
    if not path.is_relative_to(project) or any(path.is_relative_to(one) for one in own):
        return folder
    copied = copy / path.relative_to(project)
    return str(copied) if copied.exists() else folder
