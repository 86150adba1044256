"""Processes that cost little: one server imports torch and jax once, and each job is a fork of it.

The server (`serve`) reads jobs from standard input, lets each run in a process group of its own up to its
time limit, and answers on standard output.
torchax is left to the jobs, since importing it changes torch, and no backend of JAX is opened before
the fork, since its threads would not survive it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import resource
import select
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tpulint.verify.record import read
from tpulint.verify.script import Ended, Script, execute, text_of
from tpulint.verify.worker import Job, Report, work

_LENGTH = struct.Struct("!Q")
OUTPUT_LIMIT = 256 * 2**20
"""The largest file, printed output included, that a job may write."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a job's process ended: its report if it made one, or in words why it did not."""

    report: Report | None
    death: str = ""
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class _Order:
    """What is to be done, and by which files: the report of a job, and what is printed in both ways."""

    number: int
    task: Job | Script
    answer: Path
    output: Path
    errors: Path
    timeout: float


@dataclass(frozen=True, slots=True)
class _Done:
    number: int
    status: int
    timed_out: bool


class Zygote:
    """The server, seen from the process that gives out the jobs; thread-safe."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tpulint-verify-")
        self._errors = Path(self._folder.name, "server.txt")
        with self._errors.open("wb") as errors:
            self._process = subprocess.Popen(
                # -P: a torch.py in the current folder must not pass for torch.
                [sys.executable, "-P", "-W", "ignore", "-c", f"from {__name__} import serve; serve()"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=dict(environment),
            )
        self._lock = threading.Lock()
        self._waiting: dict[int, tuple[_Order, Future[_Done | None]]] = {}
        self._count = 0
        self._dead = ""
        threading.Thread(target=self._listen, daemon=True).start()

    def run(self, job: Job, timeout: float) -> Ending:
        """Execute a job and wait for its end."""
        with self._done(job, timeout) as (order, done):
            return Ending(None, self._dead) if done is None else _ending(order, done)

    def run_script(self, script: Script, timeout: float) -> Ended:
        """Run a program and wait for its end.

        Raises:
            RuntimeError: when the server has ended.
        """
        with self._done(script, timeout) as (order, done):
            if done is None:
                raise RuntimeError(self._dead)
            with order.output.open("rb") as output, order.errors.open("rb") as errors:
                printed, complaints = text_of(output), text_of(errors)
            status = None if done.timed_out else os.waitstatus_to_exitcode(done.status)
            return Ended(status, printed, complaints, read(script.record))

    @contextlib.contextmanager
    def _done(self, task: Job | Script, timeout: float) -> Iterator[tuple[_Order, _Done | None]]:
        """How a task's process ended, None where the server did; its files go when this is left."""
        future: Future[_Done | None] = Future()
        with self._lock:
            self._count += 1
            stem = Path(self._folder.name, str(self._count))
            answer, output, errors = map(stem.with_suffix, (".answer", ".output", ".errors"))
            order = _Order(self._count, task, answer, output, errors, timeout)
            if self._dead:
                future.set_result(None)
            else:
                self._waiting[order.number] = order, future
                with contextlib.suppress(BrokenPipeError):
                    _send(self._input, order)
        try:
            yield order, future.result()
        finally:
            for path in (order.answer, order.output, order.errors):
                path.unlink(missing_ok=True)

    def close(self) -> None:
        """End the server and whatever it still runs."""
        with contextlib.suppress(BrokenPipeError):
            self._input.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    @property
    def _input(self) -> IO[bytes]:
        assert self._process.stdin is not None
        return self._process.stdin

    def _listen(self) -> None:
        assert self._process.stdout is not None
        while (done := _receive(self._process.stdout)) is not None:
            assert isinstance(done, _Done)
            with self._lock:
                _, future = self._waiting.pop(done.number)
            future.set_result(done)
        with self._lock:
            lines = self._errors.read_text("utf-8", "replace").splitlines() if self._errors.exists() else []
            self._dead = f"the server of verify ended: {lines[-1] if lines else 'no message'}"
            for _, future in self._waiting.values():
                future.set_result(None)
            self._waiting.clear()


def _ending(order: _Order, done: _Done) -> Ending:
    report: Report | None = None
    death = ""
    try:
        if done.timed_out:
            death = f"no end within {order.timeout:g} s"
        elif order.answer.exists():
            report = pickle.loads(order.answer.read_bytes())
        elif os.WIFSIGNALED(done.status):
            death = f"the process died of {signal.Signals(os.WTERMSIG(done.status)).name}"
        else:
            death = f"the process ended by itself with status {os.waitstatus_to_exitcode(done.status)}"
    except Exception as error:  # an answer that does not load is a failed job, not our end
        death = f"the answer cannot be read: {error}"
    return Ending(report, death, done.timed_out)


def _send(stream: IO[bytes], message: object) -> None:
    data = pickle.dumps(message)
    stream.write(_LENGTH.pack(len(data)) + data)
    stream.flush()


def _receive(stream: IO[bytes]) -> object | None:
    head = _exactly(stream, _LENGTH.size)
    if not head:
        return None
    message: object = pickle.loads(_exactly(stream, _LENGTH.unpack(head)[0]))
    return message


def _exactly(stream: IO[bytes], size: int) -> bytes:
    """So many bytes, or none at the stream's end; an unbuffered stream may give them in pieces."""
    pieces = b""
    while len(pieces) < size:
        piece = stream.read(size - len(pieces))
        if not piece:
            return b""
        pieces += piece
    return pieces


def serve() -> None:
    """Be the server, until standard input ends."""
    _preload()
    # Unbuffered, so that `select` sees every order that has not been read.
    orders = os.fdopen(os.dup(0), "rb", buffering=0)
    answers = os.fdopen(os.dup(1), "wb")
    # What a job or a library prints must not end up among the answers.
    os.dup2(2, 1)
    running: dict[int, tuple[_Order, float]] = {}
    try:
        while True:
            # A child's end is noticed within this time; the wait is idle while nothing runs.
            ready, _, _ = select.select([orders], [], [], 0.01 if running else None)
            if ready:
                order = _receive(orders)
                if order is None:
                    return
                assert isinstance(order, _Order)
                pid = _fork(order, (orders.fileno(), answers.fileno()))
                running[pid] = order, time.monotonic() + order.timeout
            for pid, (order, deadline) in list(running.items()):
                ended, status = os.waitpid(pid, os.WNOHANG)
                late = not ended and time.monotonic() > deadline
                if ended or late:
                    # The group goes too: a job may have started processes of its own.
                    with contextlib.suppress(ProcessLookupError, PermissionError):
                        os.killpg(pid, signal.SIGKILL)
                    if late:
                        _, status = os.waitpid(pid, 0)
                    del running[pid]
                    _send(answers, _Done(order.number, status, late))
    finally:
        for pid in running:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(pid, signal.SIGKILL)


def _preload() -> None:
    import jax.numpy  # noqa: F401
    import torch

    # torch imports this at the first operation of a tensor subclass, and it takes longer than all else.
    import torch._dynamo

    from tpulint.verify import torchvision_decoders

    # Every job inherits the answer.
    torchvision_decoders.work()
    torch.set_num_threads(1)
    gc.collect()
    gc.freeze()


def _fork(order: _Order, server_only: tuple[int, ...]) -> int:
    pid = os.fork()
    if pid:
        with contextlib.suppress(PermissionError, ProcessLookupError):
            os.setpgid(pid, pid)
        return pid
    try:
        with contextlib.suppress(PermissionError):
            os.setpgid(0, 0)
        for descriptor in server_only:
            os.close(descriptor)
        null = os.open(os.devnull, os.O_RDONLY)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        output, errors = os.open(order.output, flags), os.open(order.errors, flags)
        for source, target in ((null, 0), (output, 1), (errors, 2)):
            os.dup2(source, target)
        resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT_LIMIT, OUTPUT_LIMIT))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if isinstance(order.task, Script):
            os._exit(execute(order.task))
        report = work(order.task)
        unfinished = order.answer.with_suffix(".unfinished")
        unfinished.write_bytes(pickle.dumps(report))
        unfinished.rename(order.answer)
    except BaseException:  # a fork must never return into the server's loop
        with contextlib.suppress(BaseException):
            sys.excepthook(*sys.exc_info())
        os._exit(70)
    # Not sys.exit: the case's own exit handlers are no part of its result.
    os._exit(0)
