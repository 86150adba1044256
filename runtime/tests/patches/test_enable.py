"""`enable()` and `disable()`: what they change, and that nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import torchax_compat

CHECKS = """
import logging, os, sys, threading
import jax, torch, torchax
import torch._dynamo # torch imports it during the first operation, and it sets an environment variable
import torchax_compat
from jax.extend.core import primitives
from torch.overrides import _get_current_function_mode_stack
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack
from torchax.ops import ops_registry
from torchax_compat import environment
from torchax_compat.patches import application, declarations

MISSING = object()


def registries():
    return ops_registry.all_aten_ops, ops_registry.all_torch_functions, torchax.default_env()._ops


def everything():
    found = {}
    for target in declarations.PATCHES:
        owner, name = application.owner_of(target)
        # Methods that are looked up on an instance or a class are new objects at each access.
        held = vars(owner).get(name, MISSING) if hasattr(owner, "__dict__") else MISSING
        found[target] = held if held is not MISSING else getattr(owner, name, MISSING)
    for number, registry in enumerate(registries()):
        for operation, implementation in registry.items():
            found[number, operation] = implementation
    found["flags"] = [one.func.replace for one in registries()[0].values() if hasattr(one.func, "replace")]
    found["meta_path"], found["environ"] = list(sys.meta_path), dict(os.environ)
    found["logging"] = logging.getLogger("jax").level
    found["jax"] = dict(jax.config.values)
    found["modes"] = [*_get_current_function_mode_stack(), *_get_current_dispatch_mode_stack()]
    found["transpose"] = jax.interpreters.ad.primitive_transposes[primitives.conv_general_dilated_p]
    return found


def differences(before, after):
    def are_same(one, other):
        return one is other or (type(one) in (list, dict, int) and one == other)

    keys = before.keys() | after.keys()
    return sorted(str(key) for key in keys if not are_same(before.get(key, MISSING), after.get(key, MISSING)))


def computed():
    x = torch.arange(6.0, device="jax").reshape(2, 3)
    x.t()[0, 0] = 5
    return str(x)
"""


def _run(code: str) -> str:
    """The output of a program that has the functions above, in a process of its own."""
    environment = dict(
        os.environ, JAX_PLATFORMS="cpu", PYTHONPATH=str(Path(torchax_compat.__file__).parents[1])
    )
    process = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", CHECKS + code],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_disable_restores_every_target_registry_and_setting() -> None:
    out = _run(
        """
environment.import_all()
torchax.default_env()
before = everything()
torchax_compat.enable()
changed = differences(before, everything())
assert not set(declarations.PATCHES) - set(changed), set(declarations.PATCHES) - set(changed)
first = computed()
torchax_compat.disable()
assert differences(before, everything()) == [], differences(before, everything())
torchax_compat.enable()
assert differences(before, everything()) == changed
assert computed() == first
torchax_compat.disable()
print(first)
"""
    )
    assert "tensor([[5., 1., 2.],\n        [3., 4., 5.]], device='jax:0')\n" == out


def test_enable_twice_changes_nothing_more() -> None:
    _run(
        """
torchax_compat.enable()
once = everything()
torchax_compat.enable()
assert differences(once, everything()) == []
torchax_compat.disable()
torchax_compat.disable()
assert not torchax_compat.is_enabled()
"""
    )


def test_importing_all_modules_changes_no_target_and_starts_no_backend() -> None:
    _run(
        """
from torchax_compat.adapters import jax_internals
environment.import_all()
assert not jax_internals.backends_are_initialized()
for target in declarations.PATCHES:
    owner, name = application.owner_of(target)
    module = getattr(getattr(owner, name, None), "__module__", None) or ""
    assert not str(module).startswith("torchax_compat"), target
"""
    )


def test_torchax_that_was_entered_before_stays_entered() -> None:
    _run(
        """
torchax.enable_globally()
before = everything()
torchax_compat.enable()
assert len(_get_current_function_mode_stack()) == 1
torchax_compat.disable()
assert everything()["modes"] == before["modes"]
assert torch.ones(2, device="jax").device.type == "jax"
"""
    )


def test_default_device_may_be_set_before() -> None:
    _run(
        """
torch.set_default_device("jax")
torchax_compat.enable()
assert torchax_compat.is_enabled()
"""
    )


def test_importing_the_package_imports_neither_torch_nor_jax() -> None:
    code = """
import sys
import torchax_compat
torchax_compat.data.cpu_pickle, torchax_compat.distributed.shard_batches, torchax_compat.vision
assert not {"torch", "jax", "torchax"} & set(sys.modules)
torchax_compat.cuda.Event
assert not {"jax", "torchax"} & set(sys.modules)
"""
    environment = dict(os.environ, PYTHONPATH=str(Path(torchax_compat.__file__).parents[1]))
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_status_lists_all_patches_with_reasons() -> None:
    found = torchax_compat.status()
    assert len({one.target for one in found}) == len(found)
    assert all(one.is_applied and one.why.endswith(".") for one in found)
    assert {"torch.nn:Module.to", "aten.copy_", "XLA_FLAGS"} <= {one.target for one in found}
