"""Import of a name that torch or torchvision removed.

## What it does

The rule reports imports of:

- `torch._six`;
- `rfft`, `irfft` and `ifft` of `torch`;
- `torchvision.models.utils`;
- `torchvision.transforms.functional_tensor`;
- `Scale` and `RandomSizedCrop` of `torchvision.transforms`.

The rule does not report an import inside a `try` statement or under a condition.

## Why it matters

The import raises, and so ends the program.
For example, `from torch._six import inf` raises `ModuleNotFoundError: No module named 'torch._six'`, and
`from torchvision.transforms import Scale` raises `ImportError`.

These errors were measured with torch 2.13.0 and torchvision 0.28.0.

## Fix safety

The fix is safe. It imports the same object, under the same name, from its current location:

| old name | new name |
| --- | --- |
| `torch._six.inf`, `torch._six.nan` | `torch.inf`, `torch.nan` |
| `torch._six.container_abcs` | `collections.abc` |
| `torch._six.queue` | `queue` |
| `torchvision.models.utils.load_state_dict_from_url` | `torch.hub.load_state_dict_from_url` |
| `rgb_to_grayscale` of `functional_tensor` | `torchvision.transforms.functional.rgb_to_grayscale` |
| `torchvision.transforms.Scale` | `torchvision.transforms.Resize` |
| `torchvision.transforms.RandomSizedCrop` | `torchvision.transforms.RandomResizedCrop` |

## Without a fix

- Replace `string_classes` of `torch._six` with `(str, bytes)`, and `int_classes` with `int`.
- For another function of `torchvision.transforms.functional_tensor`, use the function of the same name in
  `torchvision.transforms.functional`.
- Replace `torch.rfft`, `torch.irfft` and `torch.ifft` with functions of the module `torch.fft`, which have
  complex tensors.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Context, Finding, Rule

rule = Rule(
    "UPG102",
    "import of a name that torch or torchvision removed",
    module=__name__,
    fix=Applicability.SAFE,
    optional=True,
    targets=EVERY_TARGET,
)

_MODULES = frozenset({"torch._six", "torchvision.models.utils", "torchvision.transforms.functional_tensor"})
_NAMES = {
    "torch._six.container_abcs": "collections.abc",
    "torch._six.inf": "torch.inf",
    "torch._six.nan": "torch.nan",
    "torch._six.queue": "queue",
    "torch.ifft": "",
    "torch.irfft": "",
    "torch.rfft": "",
    "torchvision.models.utils.load_state_dict_from_url": "torch.hub.load_state_dict_from_url",
    "torchvision.transforms.RandomSizedCrop": "torchvision.transforms.RandomResizedCrop",
    "torchvision.transforms.Scale": "torchvision.transforms.Resize",
    "torchvision.transforms.functional_tensor.rgb_to_grayscale": (
        "torchvision.transforms.functional.rgb_to_grayscale"
    ),
}


@rule.on(ast.ImportFrom)
def imported_from(statement: ast.ImportFrom, ctx: Context) -> Iterator[Finding]:
    if statement.level or ctx.names.is_optional_import(statement):
        return
    for alias in statement.names:
        name = f"{statement.module}.{alias.name}"
        if name not in _NAMES and statement.module not in _MODULES:
            continue
        message, fix = f"`{name}` was removed, so this import raises", None
        new = _NAMES.get(name)
        if new:
            fix = ctx.rewrite.fix(
                f"replace `{name}` with `{new}`", ctx.rewrite.rename_import(statement, alias, new)
            )
        yield ctx.finding(statement, message, fix)


@rule.on(ast.Import)
def imported(statement: ast.Import, ctx: Context) -> Iterator[Finding]:
    if ctx.names.is_optional_import(statement):
        return
    for alias in statement.names:
        if alias.name in _MODULES:
            yield ctx.finding(statement, f"`{alias.name}` was removed, so this import raises")
