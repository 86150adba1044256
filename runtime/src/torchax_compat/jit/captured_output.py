"""Output of `print` and logging in a traced function, which is repeated after each call.

Numbers that are read from tensors are formatted once they are known.
A function that prints runs without compilation first.
If its output, apart from such numbers, is not the same while it is traced, or if a formatted number is used
elsewhere, it is not compiled as a whole.
"""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from . import deferred_scalars


class Refused(io.TextIOBase):
    """A stream that raises an error in place of output, in which tensors may be replaced."""

    def __init__(self, error: Callable[[], Exception]) -> None:
        super().__init__()
        self._error = error

    def write(self, _text: Any) -> Any:
        """Raise the error."""
        raise self._error()


_loggers: Any = logging.Logger  # whose method is replaced while a function runs
_handle = logging.Logger.handle


class Output:
    """The output of one run of a function; `pattern` has it with markers in place of numbers.

    `write` gets text with the output that it is for, and `log` a message with its logger.
    """

    write: Callable[[Any, Any], Any]
    log: Callable[[Any, Any], None]

    def __init__(self, numbers: Any) -> None:
        self.numbers = numbers
        self.pattern: list[Any] = []

    @contextlib.contextmanager
    def listening(self) -> Iterator[Any]:
        """Record the output."""
        with contextlib.redirect_stdout(_Stream(self, sys.stdout)):
            _loggers.handle = lambda logger, record: self.log(logger, record)
            try:
                yield
            finally:
                _loggers.handle = _handle

    def _note(self, record: Any, message: Any) -> None:
        given = record.args if isinstance(record.args, tuple) else (record.args,)
        arguments = ("a number" if deferred_scalars.is_read(one) else one for one in given)
        self.pattern.append((record.name, record.levelno, message, *arguments))


class RecordedOutput(Output):
    """The output of a function that runs without compilation."""

    def __init__(self, numbers: Any) -> None:
        super().__init__(numbers)
        self.used = 0
        self.lines: list[str] = []

    def write(self, output: Any, text: Any) -> Any:
        """Record text, and write it."""
        self.pattern.append(self._marked(text))
        return output.write(f"{text} "[:-1])  # a copy, since some outputs keep what is written

    def log(self, logger: Any, record: Any) -> None:
        """Record a message, and log it."""
        self._note(record, self._marked(record.msg))
        if isinstance(record.args, tuple):
            record.args = tuple(map(deferred_scalars.plain, record.args))
        _handle(logger, record)

    def _marked(self, text: Any) -> Any:
        if not isinstance(text, str):
            return text
        marked, rest = "", text
        for number in self.numbers.texts[self.used :]:
            before, found, after = rest.partition(number)
            if not found:
                break
            marked, rest, self.used = (
                marked + before + deferred_scalars.marker(self.used),
                after,
                self.used + 1,
            )
        if marked:
            self.lines.append(text)
        return marked + rest

    def is_complete(self) -> bool:
        """Whether all formatted numbers were printed, and nothing else holds them."""
        texts = set(map(id, self.numbers.texts))
        # The list, the variable and `getrefcount` hold a line.
        are_kept = any(len(one) > 1 and sys.getrefcount(one) > 3 + (id(one) in texts) for one in self.lines)
        return self.used == len(self.numbers.texts) and not are_kept


class DeferredOutput(Output):
    """The output of a traced function, which is held back and repeated after each call."""

    def __init__(self, numbers: Any) -> None:
        super().__init__(numbers)
        self.parts: list[tuple[Any, Any]] = []

    def write(self, output: Any, text: Any) -> Any:
        """Hold text back."""
        self.pattern.append(text)
        self.parts.append((output, text))
        return len(text)

    def log(self, logger: Any, record: Any) -> None:
        """Hold a message back."""
        self._note(record, record.msg)
        self.parts.append((logger, record))

    def numbers_kept(self) -> Any:
        """The placeholders of numbers that are formatted."""
        records = (what for _, what in self.parts if not isinstance(what, str))
        arguments = [one for record in records if isinstance(record.args, tuple) for one in record.args]
        return [*arguments, *(number for number, _ in self.numbers.texts)]

    def emit(self, values: Any) -> None:
        """Repeat the output, with the numbers that were read."""
        texts = [format(number.number(values), form) for number, form in self.numbers.texts]
        for to, what in self.parts:
            if isinstance(what, str):
                to.write(_filled(what, texts))
            else:
                record, new = copy.copy(what), logging.makeLogRecord({})
                record.created, record.msecs, record.relativeCreated = (
                    new.created,
                    new.msecs,
                    new.relativeCreated,
                )
                record.msg = _filled(what.msg, texts) if isinstance(what.msg, str) else what.msg
                if isinstance(what.args, tuple):
                    record.args = tuple(deferred_scalars.resolved(one, values) for one in what.args)
                _handle(to, record)

    def emit_without_numbers(self) -> None:
        """Repeat the output that preceded an error."""
        for to, what in self.parts:
            if isinstance(what, str) and not re.search(deferred_scalars.MARK, what):
                to.write(what)


class _Stream:
    """A standard output that reports to an object what is written to it."""

    def __init__(self, recorder: Any, output: Any) -> None:
        self._recorder, self._output = recorder, output

    def write(self, text: Any) -> Any:
        return self._recorder.write(self._output, text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._output, name)


def _filled(text: Any, texts: Any) -> Any:
    return re.sub(deferred_scalars.MARK, lambda mark: texts[int(mark[1])], text)
