"""torchvision's own image operators, on a torch without CUDA that refuses to load them.

What holds them back is little. `image.so` of the wheels on PyPI also decodes JPEG on a GPU, and therefore
needs `libc10_cuda.so` and `libtorch_cuda.so`, which CPU torch does not have. All that decodes on the CPU
is in the file, and matches the torch that the wheel was built beside.

So an altered copy is loaded: it needs `libc10.so` and `libtorch.so` instead, and each function of
`c10::cuda` in it is called `abort`. Its machine code is the wheel's, byte for byte. Code that asks for
the GPU ends in SIGABRT, which cannot be taken for the SIGSEGV that decoding under torchax ends in.

The copy lies in a temporary folder while it is loaded and is gone before it is used; nothing is written
beside the wheel. Since a library that does not fit may end the process that loads it, a child process
tries first (`work`), once, and decodes a picture.

It applies on Linux, to 64 bit libraries that need CUDA's, under a torch that has none; with
TPULINT_TORCHVISION_DECODERS=stand-in in the environment it does not.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import os
import re
import resource
import signal
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import torch

SWITCH = "TPULINT_TORCHVISION_DECODERS"

_PATIENCE = 30
# The status of the child that has decoded: not 0, with which a library might end it.
_DECODED = 42
_PICTURE = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c4944"
    "415478da63e0129103000068003d6af5705b0000000049454e44ae426082"
)
_PIXEL = [10, 20, 30]

_HEADER = struct.Struct("<16s24xQ10xHH")
_SECTION = struct.Struct("<4xI16xQQI20x")
_NEED = struct.Struct("<qQ")
_SYMBOL = struct.Struct("<I2xH16x")
_ELF64 = b"\x7fELF\x02\x01"
_DYNAMIC, _DYNAMIC_SYMBOLS, _NEEDED, _UNDEFINED = 6, 11, 1, 0
_OF_CUDA = re.compile(rb"_ZNK?3c104cuda\w*\Z")


@functools.cache
def work() -> bool:
    """Whether `load` can be called; to be asked while the process has no threads, since it forks."""
    try:
        library = _library()
        return library is not None and _survived(library)
    except (OSError, ValueError):
        return False


def load(library: Path) -> None:
    """Register the operators of an `image.so`; OSError or ValueError if that fails."""
    content = without_cuda(library.read_bytes())
    with tempfile.TemporaryDirectory(prefix="tpulint-decoders-") as folder:
        copy = Path(folder, library.parent.name, library.name)
        copy.parent.mkdir()
        copy.write_bytes(content)
        # By its own place the library finds libpng, libjpeg and the others that came with it.
        bundled = library.parent.with_name(f"{library.parent.name}.libs")
        Path(folder, bundled.name).symlink_to(bundled)
        ctypes.CDLL(str(copy))


def without_cuda(library: bytes) -> bytes:
    """The library, as long as it was, in need of nothing of CUDA; ValueError if it needs nothing now."""
    content = bytearray(library)
    try:
        _need_no_cuda(content)
    except (struct.error, IndexError, KeyError) as error:
        raise ValueError(f"no ELF library as it was expected: {error!r}") from None
    return bytes(content)


def _need_no_cuda(content: bytearray) -> None:
    identity, start, size, count = _HEADER.unpack_from(content)
    if not identity.startswith(_ELF64) or size != _SECTION.size:
        raise ValueError("no 64 bit ELF library")
    sections = [_SECTION.unpack_from(content, start + i * size) for i in range(count)]

    def entries(kind: int, form: struct.Struct) -> Iterator[tuple[int, int, int, int]]:
        """Where each entry of a section stands, its two numbers, and where its strings start."""
        for own, at, length, strings in sections:
            if own == kind:
                for place in range(at, at + length - form.size + 1, form.size):
                    yield (place, *form.unpack_from(content, place), sections[strings][1])

    def text(at: int) -> bytes:
        return bytes(content[at : content.index(0, at)])

    needs = {
        text(strings + name): (place, name)
        for place, tag, name, strings in entries(_DYNAMIC, _NEED)
        if tag == _NEEDED
    }
    of_cuda = [name for name in needs if name.endswith(b"_cuda.so")]
    if not of_cuda:
        raise ValueError("it needs no library of CUDA's")
    for name in of_cuda:
        _NEED.pack_into(content, needs[name][0], _NEEDED, needs[name.replace(b"_cuda", b"")][1])
    for _, name_at, section, strings in entries(_DYNAMIC_SYMBOLS, _SYMBOL):
        name = text(strings + name_at)
        if section == _UNDEFINED and _OF_CUDA.match(name):
            content[strings + name_at : strings + name_at + len(name)] = b"abort".ljust(len(name), b"\0")


def _library() -> Path | None:
    """The installed `image.so`, where all else applies too."""
    if sys.platform != "linux" or os.environ.get(SWITCH) == "stand-in":
        return None
    if torch.version.cuda is not None or torch.version.hip is not None:
        return None
    # Nothing is imported to find out.
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None:
        return None
    library = Path(spec.origin).with_name("image.so")
    return library if library.exists() else None


def _survived(library: Path) -> bool:
    """Whether a child process loads the library and decodes a picture with it."""
    without_cuda(library.read_bytes())  # where this raises, nothing need be forked
    with tempfile.TemporaryDirectory(prefix="tpulint-decoders-") as folder:
        pid = os.fork()
        if pid == 0:
            status = 1
            with contextlib.suppress(BaseException):  # a fork must never return to its caller
                _restrain()
                # What it may leave behind when it dies goes with this folder.
                tempfile.tempdir = folder
                load(library)
                status = _DECODED if _decodes() else status
            os._exit(status)
        _, ended = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(ended) == _DECODED


def _restrain() -> None:
    """Let this process end in time, whatever it hangs in, and quietly."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    signal.alarm(_PATIENCE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def _decodes() -> bool:
    data = torch.frombuffer(bytearray(_PICTURE), dtype=torch.uint8)
    pixels: list[int] = torch.ops.image.decode_image(data, 0).flatten().tolist()
    return pixels == _PIXEL
