"""Names that sound like modules, options and buffers."""

from __future__ import annotations

import ast

import pytest

from tpulint.model.training.naming import (
    asked_path,
    is_option,
    sounds_like_class,
    sounds_like_keeper,
    sounds_like_module,
    sounds_like_modules,
    sounds_like_upkeep,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("model", True),
        ("netG", True),
        ("self.actor_target", True),
        ("G", True),
        ("D2", True),
        ("text_encoder", True),
        ("resnet", True),
        ("unet_ema", True),
        ("model_path", False),
        ("net_type", False),
        ("encoder_cfg", False),
        ("bottom_mlp_output", False),
        ("optimizer", False),
        ("g", False),
        ("loss", False),
        ("magnet.size", False),
    ],
)
def test_names_of_modules(name: str, expected: bool) -> None:
    assert expected == sounds_like_module(name)


@pytest.mark.parametrize(
    ("name", "is_one", "expected"),
    [
        ("self.models", False, True),
        ("nets", False, True),
        ("model", True, True),
        ("model", False, False),
        ("D", False, False),
        ("encoder_outputs", True, False),
        ("losses", True, False),
    ],
)
def test_names_of_containers_of_modules(name: str, is_one: bool, expected: bool) -> None:
    assert expected == sounds_like_modules(name, is_one=is_one)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("args.model", True), ("self.cfg.net", True), ("model", False), ("self.model", False), ("args", False)],
)
def test_options_of_a_program(name: str, expected: bool) -> None:
    assert expected == is_option(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("Encoder", True), ("VGGNet", True), ("netG", False), ("G", False), ("MODEL", False), ("model", False)],
)
def test_names_of_classes(name: str, expected: bool) -> None:
    assert expected == sounds_like_class(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("self.replay_buffer", True),
        ("memory", True),
        ("loss_meter", True),
        ("parameters", False),
        ("x", False),
    ],
)
def test_names_of_objects_that_keep_what_they_are_given(name: str, expected: bool) -> None:
    assert expected == sounds_like_keeper(name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("init_weights", True),
        ("reset", True),
        ("load_checkpoint", True),
        ("log", True),
        ("log_prob", False),
        ("logits", False),
        ("forward", False),
        ("encode", False),
    ],
)
def test_names_of_methods_that_prepare_or_report(name: str, expected: bool) -> None:
    assert expected == sounds_like_upkeep(name)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("self.net", "self.net"), ("nets['G']", "nets['G']"), ("f(x)", None), ("f(x)[0]", None), ("x", "x")],
)
def test_the_text_by_which_an_object_is_known(text: str, expected: str | None) -> None:
    assert expected == asked_path(ast.parse(text, mode="eval").body)
