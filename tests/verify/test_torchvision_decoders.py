"""torchvision's own decoders where they do not load by themselves, each time in a fresh process."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tpulint.verify import missing_packages

pytestmark = [
    pytest.mark.skipif(bool(missing_packages()), reason="tpulint[verify] is not installed"),
    pytest.mark.skipif(sys.platform != "linux", reason="the decoders are altered on Linux alone"),
]

START = """\
import os, sys
from pathlib import Path
import torch
from tpulint.verify import torchvision_decoders as decoders, torchvision_standin as standin
"""


def run(code: str, temporary: Path, environment: Mapping[str, str] | None = None) -> str:
    done = subprocess.run(
        [sys.executable, "-c", START + code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "TPULINT_TORCHVISION_DECODERS": "", "TMPDIR": str(temporary)}
        | dict(environment or {}),
    )
    assert done.returncode == 0, done.stderr
    # torch's compiler has a folder of its own.
    left = [path.name for path in temporary.iterdir() if not path.name.startswith("torchinductor")]
    assert left == [], "something was left behind"
    return done.stdout


@pytest.fixture(scope="module", autouse=True)
def _a_torchvision_that_does_not_load(tmp_path_factory: pytest.TempPathFactory) -> None:
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("torchvision is not installed")
    code = "library = decoders._library()\nprint(library is not None and b'_cuda.so' in library.read_bytes())"
    if run(code, tmp_path_factory.mktemp("asked")) != "True\n":
        pytest.skip("torchvision loads by itself, or has no decoders")


def test_the_real_decoders_load_and_leave_the_package_folder_unchanged(tmp_path: Path) -> None:
    code = """\
def beside():
    home = decoders._library().parent
    return sorted((path, path.stat().st_mtime_ns, path.stat().st_size) for path in home.iterdir())
before = beside()
standin.install()
from torchvision.io import decode_image
data = torch.frombuffer(bytearray(decoders._PICTURE), dtype=torch.uint8)
print(decode_image(data).tolist(), sorted(standin.used), beside() == before)
print(hasattr(torch.ops.image, "decode_jpegs_cuda"))
"""
    assert run(code, tmp_path) == "[[[10]], [[20]], [[30]]] [] True\nTrue\n"


def test_environment_variable_selects_the_stand_in(tmp_path: Path) -> None:
    code = """\
standin.install()
from torchvision.io import decode_image
decode_image(torch.frombuffer(bytearray(decoders._PICTURE), dtype=torch.uint8))
print(decoders.work(), sorted(standin.used))
"""
    switched = run(code, tmp_path, {"TPULINT_TORCHVISION_DECODERS": "stand-in"})
    assert switched == "False ['decode_image']\n"


def test_a_failing_load_affects_only_the_child_process(tmp_path: Path) -> None:
    code = """\
import tempfile
original, decoders._PATIENCE = decoders.load, 2

def of_no_use(library):
    original(library)
    torch.ops.image.decode_image = lambda *_: torch.zeros(3)

def forever(library):
    while True:
        pass

wrong = {
    "segmentation fault": lambda _: os.kill(os.getpid(), 11),
    "abort, files left": lambda _: (tempfile.mkdtemp(), os.abort()),
    "C's exit": lambda _: os._exit(0),
    "exit": lambda _: sys.exit(0),
    "error": lambda _: 1 / 0,
    "hangs": forever,
    "decodes wrongly": of_no_use,
    "right": original,
}
for name, decoders.load in wrong.items():
    decoders.work.cache_clear()
    print(name, decoders.work())
"""
    answers = dict(line.rsplit(" ", 1) for line in run(code, tmp_path).splitlines())
    assert len(answers) == 8
    assert [name for name, answer in answers.items() if answer == "True"] == ["right"]


def test_the_stand_in_is_used_if_a_later_load_fails(tmp_path: Path) -> None:
    code = """\
print(decoders.work())
def full(library):
    raise OSError("no space left")
decoders.load = full
standin.install()
from torchvision.io import decode_image
decode_image(torch.frombuffer(bytearray(decoders._PICTURE), dtype=torch.uint8))
print(sorted(standin.used))
"""
    assert run(code, tmp_path) == "True\n['decode_image']\n"


def test_only_symbol_names_of_cuda_are_changed(tmp_path: Path) -> None:
    code = """\
library = decoders._library()
old = library.read_bytes()
new = decoders.without_cuda(old)
altered = [i for i, (a, b) in enumerate(zip(old, new, strict=True)) if a != b]
texts = {old[old.rfind(0, 0, i) + 1 : old.index(0, i)] for i in altered}
names = {text for text in texts if text.startswith((b"_ZN3c104cuda", b"_ZNK3c104cuda"))}
# What is left are the numbers in the dynamic section that stand for the libraries' names.
print(len(names) > 5, len(texts - names) <= 4)
def refused(content):
    try:
        decoders.without_cuda(content)
    except ValueError:
        return True
bundled = next((library.parents[1] / "torchvision.libs").glob("libpng*"))
others = (b"", b"MZ", old[:64], old[:9000], old[:-200], b"\\x7fELF" + old[5:], bundled.read_bytes(), new)
print([refused(content) for content in others] == [True] * 8)
"""
    assert run(code, tmp_path) == "True True\nTrue\n"
