"""Transforms of torchvision that fail for device tensors, or compute something else.

Measured on torch 2.13.0, torchvision 0.28.0, torchax 0.0.14.dev20261026, jax 0.10.2: each function was given
the same picture on the host and on torchax, eagerly and under `jax_jit`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Effect(StrEnum):
    """What a transform of a device tensor comes to, as the end of a sentence about it."""

    WRONG = "gives wrong results for device tensors, without an error"
    RAISES = "raises for device tensors"
    RAISES_ANTIALIASED = "raises for device tensors, because torchax cannot resize with antialiasing"
    RAISES_UNDER_JIT = "raises `ConcretizationTypeError` in traced code"
    ON_HOST = "raises for device tensors, because it creates a PIL image on the host"


@dataclass(frozen=True, slots=True)
class Transform:
    """One function or class of torchvision.

    `instead` is the name that does the same and works, empty where there is none; `needed` are parameters
    one of which a call gives where it fails, none if each call does.
    """

    effect: Effect
    instead: str = ""
    needed: tuple[str, ...] = ()


_OLD = "torchvision.transforms."
_NEW = "torchvision.transforms.v2."
_WRONG = Transform(Effect.WRONG)
_ANTIALIASED = Transform(Effect.RAISES_ANTIALIASED)
_PIL = Transform(Effect.ON_HOST)
_EQUALIZED = Transform(Effect.RAISES_UNDER_JIT, f"{_NEW}functional.equalize")

_BOTH_FUNCTIONS = {
    "affine": _WRONG,  # unless nothing is moved
    "perspective": _WRONG,
    "rotate": Transform(Effect.WRONG, needed=("center",)),
    "resized_crop": _ANTIALIASED,
    "to_pil_image": _PIL,
}
_RAISES = Transform(Effect.RAISES)
_CLASSES = {
    "AugMix": (_RAISES, _RAISES),
    "AutoAugment": (None, _RAISES),
    "RandAugment": (_WRONG, _RAISES),
    "RandomAffine": (_RAISES, _RAISES),
    "RandomPerspective": (_WRONG, _RAISES),
    "RandomResizedCrop": (_ANTIALIASED, _ANTIALIASED),
    "RandomRotation": (_RAISES, None),
    "Resize": (_ANTIALIASED, _ANTIALIASED),
    "ToPILImage": (_PIL, _PIL),
    "TrivialAugmentWide": (_WRONG, _RAISES),
}

#: Functions of a picture, which is their first argument.
FUNCTIONS = {
    **{f"{_OLD}functional.{name}": what for name, what in _BOTH_FUNCTIONS.items()},
    **{f"{_NEW}functional.{name}": what for name, what in _BOTH_FUNCTIONS.items()},
    f"{_OLD}functional.normalize": Transform(Effect.RAISES_UNDER_JIT, f"{_NEW}functional.normalize"),
    f"{_OLD}functional.equalize": _EQUALIZED,
    f"{_NEW}functional.adjust_hue": Transform(Effect.RAISES, f"{_OLD}functional.adjust_hue"),
    f"{_NEW}functional.adjust_sharpness": Transform(Effect.WRONG, f"{_OLD}functional.adjust_sharpness"),
}
#: Classes whose instances are called with a picture.
CLASSES = {
    **{f"{_OLD}{name}": what for name, (what, _) in _CLASSES.items() if what is not None},
    **{f"{_NEW}{name}": what for name, (_, what) in _CLASSES.items() if what is not None},
    f"{_OLD}Normalize": Transform(Effect.RAISES_UNDER_JIT, f"{_NEW}Normalize"),
}
#: Functions that give a tensor of the same dtype where they are given one.
GIVE_ALIKE = frozenset(
    f"{module}functional.{name}"
    for module in (_OLD, _NEW)
    for name in (
        *("adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue", "adjust_saturation"),
        *("adjust_sharpness", "affine", "autocontrast", "center_crop", "crop", "elastic_transform"),
        *("equalize", "erase", "gaussian_blur", "hflip", "invert", "normalize", "pad", "perspective"),
        *("posterize", "resize", "resized_crop", "rgb_to_grayscale", "rotate", "solarize", "vflip"),
    )
)
#: What calls several transforms one after the other.
CHAINS = frozenset({f"{_OLD}Compose", f"{_NEW}Compose", "torch.nn.Sequential"})
