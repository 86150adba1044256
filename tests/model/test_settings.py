"""The strings that a setting may be on a TPU host."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.processes.groups import backends

HEAD = "import argparse, os, platform, sys\nimport torch\nimport torch.distributed as dist\n"
START = "dist.init_process_group(backend={})"


@pytest.mark.parametrize(
    ("code", "backend", "wanted"),
    [
        ("", "'nccl'", {"nccl"}),
        ("", "'gloo' if os.name == 'nt' else 'nccl'", {"nccl"}),
        ("", "'nccl' if sys.platform.startswith('linux') else 'gloo'", {"nccl"}),
        ("", "'gloo' if platform.system() in ('Windows', 'Darwin') else 'nccl'", {"nccl"}),
        ("", "'nccl' if torch.cuda.is_available() else 'gloo'", {"gloo"}),
        ("", "'nccl' if dist.is_nccl_available() else 'gloo'", {"gloo"}),
        ("", "'nccl' if fast else 'gloo'", {"gloo", "nccl"}),
        ("name = 'nccl'", "'gloo' if name in ('nccl', 'ucc') else name", {"gloo"}),
        ("name = 'nccl'", "name if name != 'nccl' else 'gloo'", {"gloo"}),
        ("name = 'nccl'", "'gloo' if name == 'ucc' else name", {"gloo", "nccl"}),
        ("", "unknown", {None}),
        ("", "os.environ.get('BACKEND', 'nccl')", {"nccl"}),
        ("", "os.environ['BACKEND']", {None}),
        ("name = 'nccl'\nif not torch.cuda.is_available():\n    name = 'gloo'", "name", {"gloo"}),
        ("name = 'nccl'\nif os.name == 'nt':\n    name = 'gloo'", "name", {"nccl"}),
        ("name = 'gloo'\nif fast:\n    name = 'nccl'", "name", {"gloo", "nccl"}),
        ("cfg = {'backend': 'nccl'}", "cfg['backend']", {"nccl"}),
        ("cfg = {'backend': 'nccl'}", "cfg.get('backend')", {"nccl"}),
        ("class Cfg:\n    backend: str = 'nccl'\ncfg = Cfg()", "cfg.backend", {"nccl"}),
        ("def pick():\n    return 'nccl'", "pick()", {"nccl"}),
        ("def pick(x):\n    if x:\n        return 'nccl'\n    return 'gloo'", "pick(1)", {"gloo", "nccl"}),
        (
            "p = argparse.ArgumentParser()\np.add_argument('--backend', default='nccl')\nargs = p.p()",
            "args.backend.lower()",
            {"nccl"},
        ),
        ("a = b\nb = a", "a", set()),
    ],
)
def test_a_backend_is_followed_to_the_strings_that_it_may_be(
    parse: Callable[[str], Module], code: str, backend: str, wanted: set[str | None]
) -> None:
    module = parse(f"{HEAD}{code}\n{START.format(backend)}\n")
    call, scope = module.index.calls["init_process_group"][0]
    assert isinstance(call, ast.Call)
    assert backends(module, call, scope) == wanted


@pytest.mark.parametrize("default", ["'nccl'", "'gloo'"])
def test_defaults_and_arguments_of_a_function_count(parse: Callable[[str], Module], default: str) -> None:
    text = f"{HEAD}def setup(backend={default}):\n    {START.format('backend')}\nsetup()\nsetup('mpi')\n"
    module = parse(text)
    call, scope = module.index.calls["init_process_group"][0]
    assert isinstance(call, ast.Call)
    assert backends(module, call, scope) == {default.strip("'"), "mpi"}
