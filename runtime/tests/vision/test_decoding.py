"""Decoders of torchvision, which run outside of the torchax environment."""

from __future__ import annotations

import sys
import types
from typing import Any

import pytest
import torch
import torchax_compat
from torchax_compat.vision import decoding


@pytest.fixture
def _torchvision(monkeypatch: pytest.MonkeyPatch) -> None:
    """A torchvision whose decoders return tensors with their arguments."""

    def decode_image(contents: Any, mode: Any = "UNCHANGED") -> Any:
        """Decodes an image."""
        assert type(contents) is torch.Tensor
        return torch.ones(2, device="meta"), contents, mode

    def decode_jpeg(contents: Any, mode: Any = "UNCHANGED", apply_exif_orientation: bool = False) -> Any:
        numbers = [float(apply_exif_orientation), float(mode == "RGB")]
        return (
            [torch.tensor(numbers) for _ in contents] if isinstance(contents, list) else torch.tensor(numbers)
        )

    io = types.SimpleNamespace(
        decode_image=decode_image,
        decode_jpeg=decode_jpeg,
        ImageReadMode=types.SimpleNamespace(UNCHANGED="UNCHANGED"),
    )
    module = types.ModuleType("torchvision")
    module.io = io
    monkeypatch.setitem(sys.modules, "torchvision", module)
    decoding.__getattr__.cache_clear()
    yield
    decoding.__getattr__.cache_clear()


@pytest.mark.usefixtures("_torchvision")
def test_images_are_decoded_on_the_host() -> None:
    made, contents, mode = torchax_compat.vision.decode_image(torch.ones(1, device="jax"), mode="RGB")
    assert torch.Tensor is type(made) is type(contents)
    assert "RGB" == mode
    assert "Decodes an image." == torchax_compat.vision.decode_image.__doc__
    assert decoding.decode_image is torchax_compat.vision.decode_image


@pytest.mark.usefixtures("_torchvision")
def test_jpegs_are_decoded_on_the_host_and_moved_to_the_device() -> None:
    jpeg = torch.ones(1, dtype=torch.uint8)
    made = torchax_compat.vision.decode_jpeg(jpeg, device="jax")
    assert ("jax", [0.0, 0.0]) == (made.device.type, made.tolist())
    several = torchax_compat.vision.decode_jpeg([jpeg, jpeg], "RGB", "cpu", apply_exif_orientation=True)
    assert [("cpu", [1.0, 1.0])] * 2 == [(one.device.type, one.tolist()) for one in several]


@pytest.mark.usefixtures("_torchvision")
def test_decoders_that_torchvision_lacks_are_missing() -> None:
    with pytest.raises(AttributeError, match="decode_avif"):
        _ = torchax_compat.vision.decode_avif
    with pytest.raises(ImportError, match="write_png"):
        from torchax_compat.vision import write_png  # noqa: F401


def test_torchvision_is_not_needed_for_other_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision", None)
    assert not hasattr(torchax_compat.vision, "no_such_function")
    decoding.__getattr__.cache_clear()
    with pytest.raises(ImportError, match="torchvision"):
        _ = torchax_compat.vision.read_image
