"""Worker processes, each at a desk of its own with a fixed share of the files.

A file is judged by the process that summarised it, so that it need not be parsed twice.
A process that dies takes one file with it, never the run.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import pickle
import sys
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection, wait
from typing import Any, Literal

from tpulint.engine.desk import Desk, Summary, Unit, Verdict
from tpulint.finding import FileError
from tpulint.model.project.facts import ModuleFacts
from tpulint.model.project.project import ProjectFacts
from tpulint.registry import rules

Question = Literal["summarise", "judge"]
Answer = Summary | Verdict

_CONTEXT: Any = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")


class Team:
    """Desks in several processes."""

    def __init__(self, units: Sequence[Unit], jobs: int, seconds: float) -> None:
        shares: list[list[Unit]] = [[] for _ in range(jobs)]
        sizes = [0] * jobs
        for unit in sorted(units, key=lambda unit: (-len(unit.data), unit.path)):
            smallest = sizes.index(min(sizes))
            shares[smallest].append(unit)
            sizes[smallest] += len(unit.data)
        rules()  # loaded here, they are so in each process
        self._summaries: dict[str, bytes] = {}
        self._workers = [_Worker(share, seconds) for share in shares if share]

    def stop(self) -> None:
        """End the processes."""
        for worker in self._workers:
            worker.end()
        for worker in self._workers:
            worker.process.join()

    def ask(
        self, question: Question, paths: frozenset[str], project: ProjectFacts | None = None
    ) -> Iterator[tuple[str, Answer]]:
        """Answers about files, in the order in which they come."""
        waiting = {}
        if project is not None:
            project = project.apart(self._packed(project))
        known = pickle.dumps(project, pickle.HIGHEST_PROTOCOL)  # once for all
        for worker in self._workers:
            worker.ask(question, [path for path in worker.share if path in paths], known)
            if worker.open:
                waiting[worker.connection] = worker
        while waiting:
            for connection in wait(list(waiting)):
                assert isinstance(connection, Connection)
                worker = waiting.pop(connection)
                path, packed, answer = worker.take()
                if question == "summarise":
                    self._summaries[path] = packed
                yield path, answer
                if worker.open:
                    waiting[worker.connection] = worker

    def _packed(self, project: ProjectFacts) -> _Facts:
        """The facts of a project's modules, as far as possible as they came from the processes."""
        return _Facts(
            {name: self._summaries.get(facts.path) or facts for name, facts in project.modules.items()}
        )


class _Facts(Mapping[str, ModuleFacts]):
    """The facts of modules by name; packed summaries are unpacked when they are first asked for."""

    def __init__(self, held: dict[str, bytes | ModuleFacts]) -> None:
        self._held = held

    def __getitem__(self, name: str) -> ModuleFacts:
        held = self._held[name]
        if isinstance(held, bytes):
            facts = pickle.loads(held).facts
            assert isinstance(facts, ModuleFacts)
            held = self._held[name] = facts
        return held

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def __iter__(self) -> Iterator[str]:
        return iter(self._held)

    def __len__(self) -> int:
        return len(self._held)


class _Worker:
    """One process, the files that are its share, and the questions that are open."""

    def __init__(self, share: list[Unit], seconds: float) -> None:
        self._seconds = seconds
        self.share = {unit.path: unit for unit in share}
        self.open: list[str] = []
        self._request: tuple[Question, bytes] = ("summarise", b"")
        self._start()

    def _start(self) -> None:
        self.connection, theirs = _CONTEXT.Pipe()
        self.process = _CONTEXT.Process(target=_work, args=(theirs, self.share, self._seconds), daemon=True)
        self.process.start()
        theirs.close()

    def ask(self, question: Question, paths: list[str], project: bytes) -> None:
        self.open = paths
        self._request = (question, project)
        if paths:
            self._send()

    def _send(self) -> None:
        # A worker that is gone is seen again, and reported, when the answer is taken.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.connection.send((self._request[0], self.open, self._request[1]))

    def take(self) -> tuple[str, bytes, Answer]:
        """The next answer: the file that it is about, and what came, packed and unpacked."""
        path, packed = self.open[0], b""
        try:
            packed = self.connection.recv_bytes()
            answer: Answer = pickle.loads(packed)
        except (EOFError, ConnectionResetError):
            self.process.join()
            error = FileError(
                path, f"the analysis died (exit status {self.process.exitcode}); please report this file"
            )
            answer = Summary(error=error) if self._request[0] == "summarise" else Verdict(errors=(error,))
            self._start()
            self.open = self.open[1:]
            if self.open:
                self._send()
            return path, packed, answer
        self.open = self.open[1:]
        return path, packed, answer

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()


def _work(connection: Connection, share: dict[str, Unit], seconds: float) -> None:
    """Answer questions about a share of the files until the other end closes."""
    gc.disable()
    gc.freeze()
    desk = Desk(seconds)
    try:
        while True:
            request: Any = connection.recv()
            question, paths, known = request
            project = pickle.loads(known)
            del request, known
            for path in paths:
                unit = share[path]
                answer = desk.summarise(unit) if question == "summarise" else desk.judge(unit, project)
                connection.send_bytes(pickle.dumps(answer, pickle.HIGHEST_PROTOCOL))
    except (EOFError, BrokenPipeError, KeyboardInterrupt):
        pass
