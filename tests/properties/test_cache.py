"""Findings that come from the cache equal fresh ones, whatever was edited in between."""

from __future__ import annotations

import ast
import os
import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest

from tpulint.engine.cache import MemoryCache
from tpulint.engine.run import analyse_units, as_units
from tpulint.finding import Finding
from tpulint.fixture import cases, strip_wants
from tpulint.settings import Settings

FIXTURES = Path(__file__).parents[2] / "fixtures"
SETTINGS = Settings(root=Path("/project"), traced="interface")
#: `CACHE_EDITS=2000 pytest tests/properties/test_cache.py` tries as many edits.
PROJECTS = int(os.environ.get("CACHE_EDITS", "300")) // 25
EDITS = 25
FILES = (
    "main.py",
    "train.py",
    "model.py",
    "helper.py",
    "lib/__init__.py",
    "lib/core.py",
    "lib/util.py",
    "lib/sub/deep.py",
)

#: Statements that connect files or change what a program does as a whole.
EFFECTS = (
    "import torch",
    "import json",
    "import torchax",
    "import torchax\ntorchax.enable_globally()",
    "import torch.distributed as dist\ndist.init_process_group('nccl')",
    "import torch\ntorch.set_default_tensor_type('torch.cuda.FloatTensor')",
    "import torchax_compat",
    "from torchax_compat import differentiable",
    "import hydra",
    "device = 'cuda'",
    "import torch\ndevice = torch.device('cuda' if torch.cuda.is_available() else 'cpu')",
    "device = 'cpu'",
    "import torch\nx = torch.ones(3, device=device)",
    "def step(loss, optimizer):\n    total = loss * 2\n    total.backward()\n    optimizer.step()",
    "def run(loss, optimizer):\n    step(loss, optimizer)",
    (
        "import torch\nclass Base(torch.nn.Module):\n    def forward(self, x):\n        return self.pick(x)\n"
        "    def pick(self, x):\n        return x[x > 0]"
    ),
    "class Heir(Base):\n    def pick(self, x):\n        return x.item()",
    "def made(device):\n    return torch.zeros(3, device=device)",
    "y = made('cuda')",
    "if __name__ == '__main__':\n    run(x, None)",
    "def save(state):\n    torch.save(state, 'a.pt')",
    "import torch\n@torch.compile\ndef traced(x):\n    return helper(x)",
    "def helper(x):\n    return x.nonzero()",
)


class Project:
    """Files of statements that a random generator changes."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.files: dict[str, list[str]] = {}
        for name in chance.sample(FILES, chance.randint(2, 5)):
            self.files[name] = []
            for _ in range(chance.randint(1, 4)):
                self._insert(name)

    def edit(self) -> None:
        """Change one file: a statement, an import, a name, or the file itself."""
        kinds = (
            self._insert,
            self._insert,
            self._import,
            self._import,
            self._delete,
            self._rename,
            self._move,
        )
        self.chance.choice(kinds)(self.chance.choice(list(self.files)))

    def _insert(self, name: str) -> None:
        pool = self.chance.choice((EFFECTS, EFFECTS, _statements()))
        self._put(name, self.chance.choice(pool))

    def _import(self, name: str) -> None:
        """Import a module or a name of another file, in place of another import or beside it."""
        other = self.chance.choice(list(self.files))
        module = other.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        defined = _defined(self.files[other])
        forms = [f"import {module}", f"from {module} import *"]
        forms += [f"from {module} import {one}" for one in self.chance.sample(defined, min(2, len(defined)))]
        imports = [i for i, text in enumerate(self.files[name]) if text.startswith(("import ", "from "))]
        if imports and self.chance.random() < 0.5:
            self.files[name][self.chance.choice(imports)] = self.chance.choice(forms)
        else:
            self._put(name, self.chance.choice(forms))

    def _put(self, name: str, statement: str) -> None:
        statements = self.files[name]
        statements.insert(self.chance.randint(0, len(statements)), statement)

    def _delete(self, name: str) -> None:
        if self.files[name]:
            del self.files[name][self.chance.randrange(len(self.files[name]))]
        elif len(self.files) > 1:
            del self.files[name]

    def _rename(self, name: str) -> None:
        """Give a definition another name, as one that other files know."""
        defined = _defined(self.files[name])
        known = [one for statements in self.files.values() for one in _defined(statements)]
        if defined:
            old, new = self.chance.choice(defined), self.chance.choice([*known, "renamed"])
            self.files[name] = [text.replace(f"def {old}(", f"def {new}(") for text in self.files[name]]

    def _move(self, name: str) -> None:
        free = [one for one in FILES if one not in self.files]
        if free:
            self.files[self.chance.choice(free)] = self.files.pop(name)

    def contents(self) -> dict[str, bytes]:
        """The files' bytes by path."""
        return {f"/project/{name}": "\n".join(text).encode() for name, text in self.files.items()}


def _defined(statements: Sequence[str]) -> list[str]:
    found = (node for text in statements for node in ast.parse(text).body)
    return [node.name for node in found if isinstance(node, ast.FunctionDef | ast.ClassDef)]


@cache
def _statements() -> tuple[str, ...]:
    """The statements at the top level of all fixture cases."""
    files = (item for case in cases(FIXTURES) for item in case.before.items())
    texts = [strip_wants(text) for name, text in files if name.endswith(".py")]
    return tuple(
        dict.fromkeys(
            segment
            for text in texts
            for node in ast.parse(text).body
            if (segment := ast.get_source_segment(text, node)) and len(segment) < 3000
        )
    )


def _found(contents: dict[str, bytes], cached: MemoryCache | None) -> list[Finding]:
    analysis = analyse_units(as_units(contents), SETTINGS, jobs=1, cache=cached)
    assert not analysis.errors
    return analysis.findings


@pytest.mark.parametrize("seed", range(PROJECTS))
def test_findings_from_the_cache_equal_fresh_ones_after_any_edit(seed: int) -> None:
    project, cached = Project(random.Random(seed)), MemoryCache()
    for _ in range(EDITS):
        contents = project.contents()
        assert _found(contents, None) == _found(contents, cached)
        project.edit()
