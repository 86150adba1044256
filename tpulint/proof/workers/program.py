"""Runs a user's program for its first steps: `python -m tpulint.proof.workers.program REQUEST`.

REQUEST is a JSON file with the keys of `Request`.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpulint.proof.workers import requests
from tpulint.proof.workers.failures import described
from tpulint.proof.workers.seeds import repeat_random_numbers
from tpulint.verify.steps import Extent


@dataclass(frozen=True, slots=True)
class Request:
    """The program, the number of steps, and the files for the results."""

    where: str
    """`reference`: run it in plain PyTorch on the CPU, with CUDA emulated; `trace`: run it in the same way,
    and then trace each module that it called; `torchax`: run it as it is."""
    path: str
    arguments: list[str]
    root: str
    """The copy of the project."""
    record: str
    failure: str
    steps: int
    shift: float = 0.0
    relative_shift: float = 0.0
    answer: str = ""
    """The file for the results of a trace."""


def run(request: Request) -> None:
    """Run the program; an exception is written to the file for failures, and raised again."""
    sys.path.insert(0, "")  # for the program's folder
    repeat_random_numbers()
    extent = Extent(request.steps, request.shift, request.relative_shift)
    try:
        if request.where == "reference":
            from tpulint.verify import reference

            reference.run_script(Path(request.record), request.path, request.arguments, extent=extent)
        elif request.where == "trace":
            _trace(request, extent)
        else:
            from tpulint.verify import on_torchax

            on_torchax.run_script(Path(request.record), request.path, request.arguments, extent=extent)
    except BaseException as error:
        if isinstance(error, SystemExit) and not error.code:
            raise  # the program exits, or has taken all steps
        Path(request.failure).write_text(json.dumps(described(error, request.root)), encoding="utf-8")
        raise


def _trace(request: Request, extent: Extent) -> None:
    """Run the program, and then trace each module that it called."""
    import torch

    from tpulint.proof.workers.batches import LoaderRecorder
    from tpulint.proof.workers.loading import Subject
    from tpulint.proof.workers.tracing import traced
    from tpulint.verify import reference

    call = torch.nn.Module.__call__
    subjects: dict[int, tuple[Subject, bool]] = {}
    depth = 0

    @functools.wraps(call)
    def called(module: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal depth
        if not depth:
            subjects.setdefault(id(module), (Subject(module, args, kwargs), module.training))
        depth += 1
        try:
            return call(module, *args, **kwargs)
        finally:
            depth -= 1

    loader_recorder = LoaderRecorder()
    loader_recorder.install()
    torch.nn.Module.__call__ = called
    try:
        reference.run_script(Path(request.record), request.path, request.arguments, extent=extent)
    except SystemExit:  # the program exits, or has taken all steps
        pass
    finally:
        torch.nn.Module.__call__ = call
    for subject, is_training in subjects.values():
        subject.call.train(is_training)  # type: ignore[attr-defined]
    if subjects:
        found = traced([subject for subject, _ in subjects.values()], request.root)
        found["shapes"] = loader_recorder.shapes()
        Path(request.answer).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":  # tpulint: ignore[TPU001]
    os.environ.setdefault("PYTHONHASHSEED", "0")
    run(requests.read(Request, sys.argv[1]))
