"""Where the value of an expression may come from, in terms of device flow."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.devices.places import is_enumeration, last_name, places, text_of, variable
from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope

Parse = Callable[[str], Module]
Find = Callable[..., tuple[ast.expr, Scope]]

HEAD = """
import itertools
import os
import random
import torch
import jax
from enum import Enum
import settings
from options import *

DEVICE = "cuda"
class Backend(str, Enum):
    GPU = "cuda"
    def on(self):
        return self
class Config:
    device = "cuda"
    where = device
"""


def sources(module: Module, find: Find, text: str) -> list[str]:
    return list(places(module, *find(module, text, -1)))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('"cuda"', ["cuda"]),
        ('"cuda:1"', ["cuda"]),
        ('"jax"', ["cuda"]),
        ('f"cuda:{rank}"', ["cuda"]),
        ('"cuda:%d" % rank', ["cuda"]),
        ('"cuda:{}".format(rank)', ["cuda"]),
        ('"cpu"', ["given"]),
        ('""', ["given"]),
        ('"cudnn"', ["?"]),
        ('"resnet50"', ["?"]),
        ("True", ["given"]),
        ("False", ["off"]),
        ("0", ["off"]),
        ("None", []),
        ("-1", ["given"]),
        ("lambda: device", ["?"]),
        ("a + b", ["?"]),
    ],
)
def test_sources_of_literals(parse: Parse, find: Find, value: str, expected: list[str]) -> None:
    assert expected == sources(parse(f"{HEAD}def f(rank, a, b, device):\n    x = {value}\n"), find, value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("device", ["P app.f device"]),
        ("local", ["L app.f local"]),
        ("DEVICE", ["G app.DEVICE"]),
        ("undefined", ["?", "G options.undefined"]),
        ("settings.DEVICE", ["G settings.DEVICE"]),
        ("args.device", [".device"]),
        ("args.backend.value", [".backend", ".value"]),
        ("torch.float32", ["?"]),
        ('args["device"]', [".device"]),
        ('os.environ["DEVICE"]', ["text"]),
        ("args.devices[0]", [".devices"]),
        ("device[index]", ["P app.f device"]),
        ("[device, local]", ["P app.f device", "L app.f local"]),
        ("(device, 'cpu')", ["P app.f device", "given"]),
        ("{'train': device}", ["P app.f device"]),
        ("[d for d in args.devices]", ["L app.f.<comprehension:21:8> d", ".devices"]),
        ("device if flag else local", ["P app.f device", "L app.f local"]),
        ("device or 'cpu'", ["P app.f device", "given"]),
        ("not flag", ["P app.f flag"]),
        ("(chosen := device)", ["P app.f device"]),
        ("device == 'cuda'", ["cuda?"]),
        ("'jax' == device", ["given"]),
        ("flag == local", ["P app.f flag", "L app.f local"]),
        ("device.startswith('cuda')", ["cuda?"]),
        ("torch.cuda.is_available()", ["cuda?"]),
        ("torch.cuda.device_count()", ["cuda?"]),
        ("torch.accelerator.is_available()", ["given"]),
        ("jax.devices()", ["given"]),
        ("torch.device(device)", ["P app.f device"]),
        ("str(device)", ["P app.f device"]),
        ("next(itertools.cycle(devices))", ["P app.f devices"]),
        ("random.choice(['cuda:0', 'cuda:1'])", ["cuda", "cuda"]),
        ("os.environ.get('DEVICE', device)", ["text", "P app.f device"]),
        ("os.getenv('DEVICE')", ["text"]),
        ("getattr(args, 'device', 'cuda')", [".device", "cuda"]),
        ("args.get('device', local)", [".device", "L app.f local"]),
        ("args.pop('device')", [".device"]),
        ("dataclasses.field(default='cuda')", ["cuda"]),
        ("typer.Option('cuda', help='where')", ["cuda"]),
        ("pick_device(args)", ["R pick_device"]),
        ("args.pick()", ["R pick"]),
        ("makers[0]()", ["?"]),
    ],
)
def test_sources_of_names_attributes_and_calls(
    parse: Parse, find: Find, value: str, expected: list[str]
) -> None:
    text = f"{HEAD}def f(device, devices, flag, args, index, makers):\n    local = 1\n    x = {value}\n"
    assert expected == sources(parse(text), find, value)


@pytest.mark.parametrize(
    ("loop", "expected"),
    [
        ("for d in devices:", ["L app.f d", "P app.f devices"]),
        ("for d in args.devices:", ["L app.f d", ".devices"]),
        ("for d in ['cuda:0', 'cpu', d]:", ["L app.f d", "cuda", "given"]),
        ("for d in {'cuda': 'cuda:1'}:", ["L app.f d", "cuda"]),
        ("for d in range(8):", ["L app.f d"]),
        ("for d, n in zip(devices, names):", ["L app.f d", "P app.f devices"]),
        ("for d, n in pairs:", ["L app.f d"]),
    ],
)
def test_a_loop_variable_comes_from_what_the_loop_runs_over(
    parse: Parse, find: Find, loop: str, expected: list[str]
) -> None:
    module = parse(f"{HEAD}def f(devices, args, pairs, names):\n    {loop}\n        use(d)\n")
    assert expected == sources(module, find, "d")


def test_a_member_of_an_enumeration_stands_for_its_class(parse: Parse, find: Find) -> None:
    module = parse(f"{HEAD}def f():\n    x = Backend.GPU\n")
    assert ["G app.Backend.GPU"] == sources(module, find, "Backend.GPU")
    assert ["E app.Backend"] == sources(module, find, "self")


def test_a_name_of_a_class_body_is_an_attribute(parse: Parse, find: Find) -> None:
    module = parse(HEAD)
    assert [".device"] == sources(module, find, "device")
    enumeration, config = module.index.classes
    assert "E app.Backend" == variable(module, "GPU", enumeration)
    assert is_enumeration(enumeration)
    assert not is_enumeration(config)
    assert not is_enumeration(module.index.module)


def test_a_captured_parameter_and_that_of_a_lambda(parse: Parse, find: Find) -> None:
    module = parse("def f(device):\n    def g():\n        return device\n    h = lambda d: d\n    return g\n")
    assert ["P app.f device"] == sources(module, find, "device")
    assert ["P app.f.<lambda:4:8> d"] == sources(module, find, "d")


@pytest.mark.parametrize(("text", "expected"), [("a.b.c", "c"), ("a", "a"), ("a()", ""), ("a[0]", "")])
def test_last_name_of_a_dotted_expression(text: str, expected: str) -> None:
    assert expected == last_name(ast.parse(text, mode="eval").body)


@pytest.mark.parametrize(
    ("text", "expected"), [("'cuda'", "cuda"), ("1", None), ("f'{a}'", None), ("a", None)]
)
def test_text_of_a_string_literal(text: str, expected: str | None) -> None:
    assert expected == text_of(ast.parse(text, mode="eval").body)
