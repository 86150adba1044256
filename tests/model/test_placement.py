"""Whether a program puts something on a device, through functions that it passes instead of calling them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tpulint.model.module import Module

Parse = Callable[[Mapping[str, str]], dict[str, Module]]

WORK = """
import torch
def work(): return torch.zeros(1, device="cuda")
def rest(): return torch.zeros(1)
class Worker(Thread):
    def run(self): work()
class Plain:
    def run(self): work()
"""


@pytest.mark.parametrize(
    ("code", "places"),
    [
        ("Thread(target=work)", True),
        ("Thread(target=rest)", False),
        ("Thread(target=lambda: work())", True),
        ("for step in (rest, work): step()", True),
        ("TABLE = {'a': work}", True),
        ("TABLE = [rest]", False),
        ("run = work", True),
        ("def main():\n    Thread(target=work).start()\nmain()", True),
        ("Worker().start()", True),
        ("Plain()", False),
        ("import fire\nclass App:\n    def go(self): work()\nfire.Fire(App)", True),
    ],
)
def test_functions_that_are_passed_on_count(parse_project: Parse, code: str, places: bool) -> None:
    head = "from threading import Thread\n"
    run = f"from work import Plain, Worker, rest, work\n{head}{code}\n"
    modules = parse_project({"work.py": head + WORK, "main.py": run})
    assert modules["main.py"].project.places("main") is places


def test_modules_that_import_what_looks_up_names_are_not_looked_up(parse_project: Parse) -> None:
    files = {
        "tools.py": "import hydra\ndef make(name): return hydra.utils.get_method(name)()\n",
        "train.py": "from tools import make\nmake('net.build')\n",
        "net.py": "import torch\ndef build(): return torch.zeros(1, device='cuda')\n",
        "script.py": "import torch\ntorch.zeros(1).cuda()\n",
    }
    project = parse_project(files)["train.py"].project
    assert project.imports["tools"] == {"net"}
    assert not project.importing["train"]
    assert project.places("train")
