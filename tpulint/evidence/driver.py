"""Executes one side of a fixture case in the environment that this script is started in.

Usage: `python driver.py REQUEST ANSWER`, with the paths of two JSON files.
The script imports nothing of tpulint, which the environment does not have.
"""

from __future__ import annotations

import base64
import contextlib
import importlib.util
import io
import json
import logging
import runpy
import sys
import warnings
from pathlib import Path
from typing import Any


def main(request: str, answer: str) -> None:
    """Execute what a request asks for, and write what happened."""
    asked = json.loads(Path(request).read_text("utf-8"))
    found: dict[str, Any] = {"error": None, "warnings": [], "value": None, "broken": ""}
    run: dict[str, Any] = {"__name__": "run"}
    try:
        exec(compile(Path(asked["run"]).read_text("utf-8"), asked["run"], "exec"), run)
    except BaseException as error:  # run.py may raise anything
        found["broken"] = f"run.py raises {type(error).__name__}: {error}"
    else:
        sys.path[:0] = [asked["folder"], asked["standins"]]
        with _warnings(found["warnings"]):
            try:
                found["value"] = plain(_executed(asked, run))
            except BaseException as error:  # the code under study may raise anything
                found["error"] = [type(error).__name__, str(error)[:4000]]
    Path(answer).write_text(json.dumps(found), "utf-8")


def _executed(asked: dict[str, Any], run: dict[str, Any]) -> Any:
    """What a side gives: the result of its call, the lines that it prints, or the expected result."""
    if "prepare" in run:
        run["prepare"]()
    if asked["side"] == "expected":
        return run["expected"](*_inputs(run))
    path = Path(asked["folder"]) / asked["main"]
    if run.get("program"):
        printed = io.StringIO()
        sys.argv = [str(path)]
        with contextlib.redirect_stdout(printed):
            runpy.run_path(str(path), run_name="__main__")
        return printed.getvalue().splitlines()
    name = asked["main"].removesuffix(".py").replace("/", ".")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    if "call" in run:
        return run["call"](module, *_inputs(run))
    return module.f(*_inputs(run))


def _inputs(run: dict[str, Any]) -> Any:
    return run["inputs"]() if "inputs" in run else ()


@contextlib.contextmanager
def _warnings(found: list[list[str]]) -> Any:
    """Collect warnings, and what loggers get as a warning or an error, which counts as the category `log`."""

    def warned(message: Any, category: type, *_: Any, **__: Any) -> None:
        found.append([category.__name__, str(message)])

    def logged(_: logging.Logger, record: logging.LogRecord) -> None:
        if record.levelno >= logging.WARNING:
            found.append(["log", record.getMessage()])

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = warned
        logging.Logger.callHandlers = logged  # type: ignore[assignment,method-assign]
        yield


def plain(value: Any) -> dict[str, Any]:
    """A value as JSON has it: a scalar, an array, a sequence, a mapping, or the name of another type."""
    if isinstance(value, (bool, int, float, str)):
        return {"scalar": value}
    if isinstance(value, dict):
        return {"mapping": [[str(key), plain(item)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return {"sequence": [plain(item) for item in value]}
    if hasattr(value, "detach"):
        value = value.detach().cpu()
    if hasattr(value, "__array__"):
        import numpy as np

        kept = getattr(value, "dtype", "")
        dtype = getattr(kept, "name", str(kept).removeprefix("torch."))
        array = np.asarray(value.float() if dtype == "bfloat16" and hasattr(value, "float") else value)
        if array.dtype.kind in "SOU":
            return {"sequence": [{"scalar": str(item)} for item in array.ravel().tolist()]}
        if array.dtype.kind not in "biufc":  # bfloat16 and float8
            array = array.astype("float32")
        data = base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
        return {"array": [dtype or array.dtype.name, array.dtype.str, list(array.shape), data]}
    return {"opaque": type(value).__name__}


if __name__ == "__main__":
    main(*sys.argv[1:])
