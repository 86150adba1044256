"""What a function prints and logs while it is traced, which is told again after each call.

Texts of numbers that it reads are made once these are known.
A function that prints is run as it is first: unless what it tells is the same then as while it is traced, but
for such texts, and each of these goes there, it is not compiled as a whole.
"""

from __future__ import annotations

import contextlib
import copy
import logging
import re
import sys

from . import reads

_handle = logging.Logger.handle


class Told:
    """What one run of a function tells; `pattern` has it with marks in the places of numbers."""

    def __init__(self, numbers):
        self.numbers, self.pattern = numbers, []

    @contextlib.contextmanager
    def listening(self):
        """Note what is told."""
        with contextlib.redirect_stdout(_Output(self, sys.stdout)):
            logging.Logger.handle = lambda logger, record: self.log(logger, record)
            try:
                yield
            finally:
                logging.Logger.handle = _handle

    def _note(self, record, message):
        arguments = record.args if isinstance(record.args, tuple) else (record.args,)
        arguments = ("a number" if reads.is_read(one) else one for one in arguments)
        self.pattern.append((record.name, record.levelno, message, *arguments))


class Spoken(Told):
    """What a function tells that runs as it is."""

    def __init__(self, numbers):
        super().__init__(numbers)
        self.used, self.lines = 0, []

    def write(self, output, text):
        self.pattern.append(self._marked(text))
        return output.write(f"{text} "[:-1])  # a copy, since some outputs keep what is written

    def log(self, logger, record):
        self._note(record, self._marked(record.msg))
        if isinstance(record.args, tuple):
            record.args = tuple(map(reads.plain, record.args))
        _handle(logger, record)

    def _marked(self, text):
        if not isinstance(text, str):
            return text
        marked, rest = "", text
        for number in self.numbers.texts[self.used :]:
            before, found, after = rest.partition(number)
            if not found:
                break
            marked, rest, self.used = marked + before + reads.mark(self.used), after, self.used + 1
        if marked:
            self.lines.append(text)
        return marked + rest

    def is_complete(self):
        """Whether all texts of numbers were told, and something else keeps none of them."""
        texts = set(map(id, self.numbers.texts))
        # A line is known to the list, the variable, and what counts.
        are_kept = any(len(one) > 1 and sys.getrefcount(one) > 3 + (id(one) in texts) for one in self.lines)
        return self.used == len(self.numbers.texts) and not are_kept


class Held(Told):
    """What a function tells that is traced: it is held back, to be told after each call."""

    def __init__(self, numbers):
        super().__init__(numbers)
        self.parts = []

    def write(self, output, text):
        self.pattern.append(text)
        self.parts.append((output, text))
        return len(text)

    def log(self, logger, record):
        self._note(record, record.msg)
        self.parts.append((logger, record))

    def numbers_kept(self):
        """What stands for numbers of which texts are made."""
        records = (what for _, what in self.parts if not isinstance(what, str))
        arguments = [one for record in records if isinstance(record.args, tuple) for one in record.args]
        return [*arguments, *(number for number, _ in self.numbers.texts)]

    def tell(self, values):
        """Tell it, with the numbers that were read."""
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
                    record.args = tuple(reads.known(one, values) for one in what.args)
                _handle(to, record)

    def tell_without_numbers(self):
        """Tell what went before an error."""
        for to, what in self.parts:
            if isinstance(what, str) and not re.search(reads.MARK, what):
                to.write(what)


class _Output:
    """The standard output, of which something is told what is written to it."""

    def __init__(self, told, output):
        self._told, self._output = told, output

    def write(self, text):
        return self._told.write(self._output, text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def __getattr__(self, name):
        return getattr(self._output, name)


def _filled(text, texts):
    return re.sub(reads.MARK, lambda mark: texts[int(mark[1])], text)
