"""Argument `pretrained` or `pretrained_backbone` of a torchvision model.

## What it does

The rule reports the arguments `pretrained` and `pretrained_backbone` of the functions of `torchvision.models`
that create models, and `True` or `False` as the first argument of such a function.

## Why it matters

The arguments are deprecated since torchvision 0.13, and may be removed.
torchvision 0.28 prints two warnings for each call.
`weights` and `weights_backbone` replace them.

These warnings were measured with torchvision 0.28.0.

## Fix safety

The fix is safe: it names the weights that `pretrained=True` loads, which are not always the newest ones.
The new code needs torchvision 0.13 or newer.

| argument | new argument |
| --- | --- |
| `pretrained=True` of a classification model | `weights="IMAGENET1K_V1"` |
| `pretrained=True` of a segmentation model | `weights="COCO_WITH_VOC_LABELS_V1"` |
| `pretrained=True` of a detection model | `weights="COCO_V1"` |
| `pretrained=True` of a video model | `weights="KINETICS400_V1"` |
| `pretrained_backbone=True` | `weights_backbone="IMAGENET1K_V1"` |
| `pretrained=False` | `weights=None` |
| `pretrained=flag` | `weights="IMAGENET1K_V1" if flag else None` |

`weights="DEFAULT"` loads the best weights that torchvision has.

## Without a fix

These functions have no fix, except for `False`:

- models for quantization and for optical flow, whose weights depend on other arguments;
- `keypointrcnn_resnet50_fpn`, for which `pretrained` may be a text;
- `vit_h_14` and `regnet_y_128gf`, for which `pretrained=True` raises `ValueError`;
- the backbone of `ssd300_vgg16`, whose weights have another name;
- `get_model`, `resnet_fpn_backbone` and `mobilenet_backbone`, which create different models.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rewrite, Rule

rule = Rule(
    "UPG106",
    "argument `pretrained` of a torchvision model",
    module=__name__,
    fix=Applicability.SAFE,
    optional=True,
    targets=EVERY_TARGET,
)

_MODELS = "torchvision.models."
#: The weights that `pretrained=True` loads, by the package of the model; "" for those that differ.
_WEIGHTS = {
    "detection": "COCO_V1",
    "optical_flow": "",
    "quantization": "",
    "segmentation": "COCO_WITH_VOC_LABELS_V1",
    "video": "KINETICS400_V1",
}
_BACKBONE = _OF_CLASSIFICATION = "IMAGENET1K_V1"
_OTHERS = frozenset(
    {
        *("get_model", "keypointrcnn_resnet50_fpn", "mobilenet_backbone", "regnet_y_128gf"),
        *("resnet_fpn_backbone", "vit_h_14"),
    }
)
_OTHER_BACKBONES = frozenset({"ssd300_vgg16"})
_NEW = {"pretrained": "weights", "pretrained_backbone": "weights_backbone"}


def _begins_with_flag(call: ast.Call) -> bool:
    return bool(call.args) and isinstance(call.args[0], ast.Constant) and isinstance(call.args[0].value, bool)


@rule.on(ast.Call, passing=_NEW)
def by_name(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    model = _model(call, ctx)
    if model is None:
        return
    for word in call.keywords:
        if word.arg in _NEW:
            code = _code(word.value, word.arg, model, ctx)
            fix = _fix(word.arg, code, ctx.rewrite.replace(word, code), ctx=ctx)
            message = f"the argument `{word.arg}` is deprecated since torchvision 0.13"
            new = _NEW[word.arg]
            yield ctx.finding(word.value, message if fix is not None else f"{message}; use `{new}`", fix)


@rule.on(ast.Call, where=_begins_with_flag)
def by_position(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    model = _model(call, ctx)
    if model is not None:
        code = _code(call.args[0], "pretrained", model, ctx) if len(call.args) == 1 else ""
        edits = ctx.rewrite.remove_argument(call.args[0]), ctx.rewrite.add_argument(call, code)
        fix = _fix("pretrained", code, *edits, ctx=ctx)
        message = "the first argument of torchvision models is `weights`, which is no Boolean any more"
        yield ctx.finding(call.args[0], message, fix)


def _model(call: ast.Call, ctx: Context) -> str | None:
    """The name of a model behind `torchvision.models`."""
    name = ctx.names.qualified(call.func) or ""
    last = name.rpartition(".")[2]
    return name.removeprefix(_MODELS) if name.startswith(_MODELS) and last.islower() else None


def _code(value: ast.expr, old: str, model: str, ctx: Context) -> str:
    """The new argument for a value of the old one; "" if it is not known."""
    weights = _loaded(old, model)
    match value:
        case ast.Constant(value=False | None):
            return f"{_NEW[old]}=None"
        case _ if not weights:
            return ""
        case ast.Constant(value=True):
            return f'{_NEW[old]}="{weights}"'
    return f'{_NEW[old]}="{weights}" if {ctx.text(value)} else None'


def _fix(old: str, code: str, *edits: Rewrite, ctx: Context) -> Fix | None:
    return ctx.rewrite.fix(f"replace `{old}` with `{code}`", *edits) if code else None


def _loaded(old: str, model: str) -> str:
    """The weights that are loaded if the argument is true; "" if they are not known."""
    package, _, name = model.rpartition(".")
    if old == "pretrained_backbone":
        return "" if name in _OTHER_BACKBONES else _BACKBONE
    return "" if name in _OTHERS else _WEIGHTS.get(package.partition(".")[0], _OF_CLASSIFICATION)
