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
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO

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
    number: int
    job: Job
    answer: Path
    output: Path
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
        self._waiting: dict[int, tuple[_Order, Future[Ending]]] = {}
        self._count = 0
        self._dead = ""
        threading.Thread(target=self._listen, daemon=True).start()

    def run(self, job: Job, timeout: float) -> Ending:
        """Execute a job and wait for its end."""
        future: Future[Ending] = Future()
        with self._lock:
            if self._dead:
                return Ending(None, self._dead)
            self._count += 1
            stem = Path(self._folder.name, str(self._count))
            order = _Order(self._count, job, stem.with_suffix(".answer"), stem.with_suffix(".txt"), timeout)
            self._waiting[order.number] = order, future
            with contextlib.suppress(BrokenPipeError):
                _send(self._input, order)
        return future.result()

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
                order, future = self._waiting.pop(done.number)
            future.set_result(_ending(order, done))
        with self._lock:
            lines = self._errors.read_text("utf-8", "replace").splitlines() if self._errors.exists() else []
            self._dead = f"the server of verify ended: {lines[-1] if lines else 'no message'}"
            for _, future in self._waiting.values():
                future.set_result(Ending(None, self._dead))
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
    for path in (order.answer, order.output):
        path.unlink(missing_ok=True)
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
        output = os.open(order.output, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for source, target in ((null, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        resource.setrlimit(resource.RLIMIT_FSIZE, (OUTPUT_LIMIT, OUTPUT_LIMIT))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        report = work(order.job)
        unfinished = order.answer.with_suffix(".unfinished")
        unfinished.write_bytes(pickle.dumps(report))
        unfinished.rename(order.answer)
    except BaseException:  # a fork must never return into the server's loop
        with contextlib.suppress(BaseException):
            sys.excepthook(*sys.exc_info())
        os._exit(70)
    # Not sys.exit: the case's own exit handlers are no part of its result.
    os._exit(0)
