"""Targets of the value of an expression in device flow."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.devices.targets import option, targets
from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope

Parse = Callable[[str], Module]
Find = Callable[..., tuple[ast.expr, Scope]]

HEAD = """
import os
import random
import timm
import torch
from easydict import EasyDict
from enum import Enum
class Config:
    pass
def build(name, device=None):
    return device
"""


@pytest.fixture
def reached(parse: Parse, find: Find) -> Callable[..., list[str]]:
    """The targets of the last occurrence of `d` in the body of a function."""

    def reached(body: str, value: str = "d") -> list[str]:
        lines = "".join(f"    {line}\n" for line in body.split("\n"))
        module = parse(f"{HEAD}def f(d, x, args, flag, table):\n{lines}")
        return list(targets(module, *find(module, value, -1)))

    return reached


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x.to(d)", ["device"]),
        ("x.to(device=d)", ["device"]),
        ("x.to_empty(device=d)", ["device"]),
        ("torch.zeros(3, device=d)", ["device"]),
        ("x.new_zeros(3, device=d)", ["device"]),
        ("torch.set_default_device(d)", ["device"]),
        ("dev = torch.device(d)", ["device", "L app.f dev"]),
        ("x.to(d if flag else 'cpu')", ["device"]),
        ("x.to(d or 'cpu')", ["device"]),
        ("x.to(d.value)", ["device"]),
        ("x.to(str(d))", ["device"]),
        ("x.to(dtype=d)", ["K to dtype"]),
        ("torch.zeros(d)", []),
        ("torch.amp.GradScaler(device=d)", []),
    ],
)
def test_arguments_that_torch_takes_as_a_device(
    reached: Callable[..., list[str]], body: str, expected: list[str]
) -> None:
    assert expected == reached(body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("name = d", ["L app.f name"]),
        ("args.device = d", [".device"]),
        ("name: str = d", ["L app.f name"]),
        ("use(name := d)", ["L app.f name"]),
        ("args['device'] = d", [".device"]),
        ("table[x] = d", ["P app.f table"]),
        ("batch, device = 32, d", ["L app.f device"]),
        ("batch, device = d", []),
        ("for each in d:\n    pass", ["L app.f each"]),
        ("for each in [d, 'cpu']:\n    pass", ["L app.f each"]),
        ("return d", ["R f"]),
        ("names = [d]", ["L app.f names"]),
        ("names = [d for _ in x]", ["L app.f names"]),
        ("names = [n for n in d]", []),
        ("config = {'device': d}", [".device", "L app.f config"]),
        ("config = {'devices': [d]}", ["L app.f config"]),
        ("config = {**d}", ["L app.f config"]),
        ("g = lambda dev=d: dev", ["P app.f.<lambda:13:8> dev"]),
        ("d.index", []),
        ("if d:\n    pass", []),
        ("x = 1 if d else 2", []),
    ],
)
def test_targets_of_assigned_and_returned_values(
    reached: Callable[..., list[str]], body: str, expected: list[str]
) -> None:
    assert expected == reached(body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("build(d)", ["K build 0"]),
        ("build('net', device=d)", ["K build device"]),
        ("args.build(x, d)", ["K build 1"]),
        ("Config(device=d)", ["K Config device", ".device"]),
        ("dict(device=d)", ["K dict device", ".device"]),
        ("d(x)", []),
        ("timm.create_model(device=d)", []),
        ("EasyDict(device=d)", [".device"]),
        ("n = next(iter(d))", ["L app.f n"]),
        ("n = random.choice([d])", ["L app.f n"]),
        ("build([d])", []),
        ("where = field(default=d)", ["L app.f where"]),
        ("where = os.environ.get('DEVICE', d)", ["L app.f where"]),
        ("where = os.getenv(d)", []),
        ("setattr(args, 'device', d)", [".device"]),
        ("where = getattr(args, 'device', d)", [".device", "L app.f where"]),
        ("where = args.get('device', d)", [".device", "L app.f where"]),
        ("args.setdefault('device', d)", [".device"]),
        ("build(*d)", []),
    ],
)
def test_targets_of_arguments(reached: Callable[..., list[str]], body: str, expected: list[str]) -> None:
    assert expected == reached(body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("parser.add_argument('--device', default=d)", [".device"]),
        ("parser.add_argument('--device', choices=[d, 'cpu'])", [".device"]),
        ("parser.add_argument('--device', choices=d)", []),
        ("parser.add_argument('--device', help=d)", []),
        ("parser.add_argument('-d', '--gpu-id', dest='device', default=d)", [".device"]),
        ("parser.add_argument(x, default=d)", []),
        ("@click.option('--use-cuda/--no-cuda', default=d)\ndef g(use_cuda): pass", ["P app.f.g use_cuda"]),
        ("@click.option('--dev', 'where', default=d)\ndef g(where): pass", ["P app.f.g where"]),
        ("@click.option('--dev', type=click.Choice([d, 'cpu']))\ndef g(dev): pass", ["P app.f.g dev"]),
        ("@click.option('--dev', help=d)\ndef g(dev): pass", ["K option help"]),
        ("click.option('--dev', default=d)", []),
        ("@click.argument('dev', default=d)\ndef g(dev): pass", []),
    ],
)
def test_targets_of_defaults_and_choices_of_command_line_options(
    reached: Callable[..., list[str]], body: str, expected: list[str]
) -> None:
    assert expected == reached(body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("x = {'cuda': 1, 'cpu': 2}[d]", ["P app.f d"]),
        ("x = {'cuda': 1, 'cpu': 2}[d.type]", ["P app.f d"]),
        ("x = {'cuda': 1, 'cpu': 2}.get(d, 3)", ["P app.f d"]),
        ("names = {'cuda': 1, 'cpu': 2}", ["[L app.f names]"]),
        ("x = {'cuda': 1, 'cuda:1': 2}[d]", []),  # torchax has one device
    ],
)
def test_a_key_of_a_mapping_is_compared_with_what_is_looked_up(
    reached: Callable[..., list[str]], body: str, expected: list[str]
) -> None:
    assert expected == reached(body, "'cuda'")


@pytest.mark.parametrize(
    ("members", "expected"),
    [("GPU = 'cuda'\n    CPU = 'cpu'", ["E app.Device"]), ("A = 'cuda'\n    B = 'jax'", [])],
)
def test_a_member_of_an_enumeration_unless_two_name_the_same_device(
    parse: Parse, find: Find, members: str, expected: list[str]
) -> None:
    module = parse(f"from enum import Enum\nclass Device(Enum):\n    {members}\n")
    assert expected == list(targets(module, *find(module, "'cuda'")))


def test_a_default_belongs_to_its_parameter(parse: Parse, find: Find) -> None:
    module = parse("def f(x, device='cuda', *, where='cpu'):\n    pass\n")
    assert ["P app.f device"] == list(targets(module, *find(module, "'cuda'")))
    assert ["P app.f where"] == list(targets(module, *find(module, "'cpu'")))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("add_argument('--gpu-id')", ".gpu_id"),
        ("add_argument('-g', '--gpu')", ".gpu"),
        ("add_argument('device')", ".device"),
        ("add_argument('-g', '--gpu', dest='device')", ".device"),
        ("add_argument('--gpu', dest=name)", None),
        ("add_argument(name)", None),
    ],
)
def test_the_attribute_of_an_option(call: str, expected: str | None) -> None:
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    assert expected == option(node)
