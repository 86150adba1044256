"""A change to a file, and how it is written."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Change:
    """A file that fixes changed: its text before and after, and its bytes before and after."""

    path: str
    before: str
    after: str
    original: bytes
    data: bytes

    def write(self) -> None:
        """Put the new content in the file's place in one step; links, mode and owner survive.

        Raises:
            OSError: when the file cannot be written, or somebody has changed it meanwhile; it is then
                as it was.
        """
        target = os.path.realpath(self.path)
        state = os.stat(target)
        if Path(target).read_bytes() != self.original:
            raise OSError(errno.EAGAIN, "it has changed meanwhile, so fix it again", self.path)
        if not os.access(target, os.W_OK):
            raise PermissionError(13, "Permission denied", self.path)
        with _temporary(target, self.data) as temporary:
            os.chmod(temporary, stat.S_IMODE(state.st_mode))
            if hasattr(os, "chown") and (state.st_uid, state.st_gid) != (os.geteuid(), os.getegid()):
                # Only root may give files away; the content matters more.
                with contextlib.suppress(PermissionError):
                    os.chown(temporary, state.st_uid, state.st_gid)
            os.replace(temporary, target)


@contextlib.contextmanager
def _temporary(target: str, data: bytes) -> Iterator[str]:
    """A file with some content, beside the one that it replaces; deleted if that fails."""
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=".tpulint-", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())
        yield temporary
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
