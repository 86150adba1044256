"""Device flow edges of a file, and the names that a project then knows to be devices."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

import pytest

from tpulint.model.devices.edges import device_edges, reads_text
from tpulint.model.devices.given import given_device, made
from tpulint.model.module import Module
from tpulint.model.project.device_flow import Edge

Parse = Callable[[str], Module]
ParseProject = Callable[[Mapping[str, str]], dict[str, Module]]


@pytest.mark.parametrize(
    "text",
    [
        "import math\nx = math.sqrt(2)\n",
        "def f(batch):\n    return batch.mean()\n",
        "names = ['cpu', 'resnet']\n",
    ],
)
def test_a_file_without_devices_has_no_edges(parse: Parse, text: str) -> None:
    assert () == device_edges(parse(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(x, where):\n    return x.to(where)\n", ("device", "P app.f where")),
        ("def f(x, where):\n    return x.to(where)\n", ("D app.f", "P app.f where")),
        ("def f(x, where):\n    return x.to(where)\n", ("P app.f where", "K f 1")),
        ("def f(x, where):\n    return x.to(where)\n", ("P app.f where", "K f where")),
        ("def f(x, where):\n    return x.to(where)\n", ("P app.f where", "K f **where")),
        ("import torch\ndef f(*, device): return torch.device(device)\n", ("P app.f device", "K f device")),
        ("def f(x, where='cuda'):\n    return x.to(where)\n", ("P app.f where", "cuda")),
        ("import torch\nD = torch.device('cuda')\n", ("G app.D", "cuda")),
        ("import torch\nx = torch.zeros(3, device='cuda')\n", ("D app", "cuda")),
        ("def f(x):\n    where = 'cuda'\n    x.to(where)\n", ("L app.f where", "cuda")),
        ("def f(args):\n    args.device = 'cuda:0'\n", (".device", "cuda")),
        ("def f(args, d):\n    args.device: str = d\n", (".device", "P app.f d")),
        ("def f(args):\n    for args.device in range(8): pass\n", (".device", "?")),
        ("def f(c):\n    c['device'] = 'cpu'\n    c['lr'] = 1\n", (".device", "given")),
        ("def f(args, c):\n    return f(**c, device=args.device)\n", ("K f **", "?")),
        ("def f(x, c):\n    x.new_zeros(3, **c)\n", ("device", ".device")),
        ("class Net:\n    def __init__(self, device): pass\n", ("P app.Net.__init__ device", "K Net 0")),
        ("class Net:\n    def __init__(self, device): pass\n", ("P app.Net.__init__ device", "K cls 0")),
        (
            "class Net:\n    @property\n    def device(self):\n        return self.where\n",
            (".device", "R device"),
        ),
        ("class A:\n    device = 'cuda'\n", (".device", "cuda")),
    ],
)
def test_an_edge_from_a_value_to_what_holds_it(parse: Parse, text: str, expected: Edge) -> None:
    assert expected in device_edges(parse(f"{text}GPU = 'cuda'\n"))


def test_a_parameter_is_no_device_because_another_one_of_its_name_is(parse: Parse) -> None:
    edges = device_edges(parse("GPU = 'cuda'\ndef f(x, where):\n    x.to(where)\ndef g(where):\n    pass\n"))
    assert {"P app.f where"} == {target for target, _ in edges if target.startswith("P ")}


def test_a_member_of_an_enumeration_is_found_by_its_value(parse: Parse) -> None:
    module = parse("from enum import Enum\nclass Device(Enum):\n    GPU = 'cuda'\n")
    assert {("E app.Device", "K Device 0"), ("R Device", "E app.Device")} <= set(device_edges(module))


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("'--device', default='cuda'", {("given"), ("cuda")}),
        ("'--device', choices=['cpu', 'cuda']", {"given", "cuda"}),
        ("'--use-cuda', action='store_true'", {"given"}),
    ],
)
def test_an_option_of_a_command_line_is_given_by_the_user(
    parse: Parse, option: str, expected: set[str]
) -> None:
    edges = device_edges(parse(f"parser.add_argument({option})\n"))
    assert expected == {source for _, source in edges}


def test_other_options_of_a_command_line_are_no_flags_of_devices(parse: Parse) -> None:
    edges = device_edges(parse("device = 1\nparser.add_argument('--lr', default=0.1)\n"))
    assert ".lr" not in {target for target, _ in edges}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if which == 'cuda': x.to(d)", ("choice", "P app.f which")),
        ("if 'cuda' == which: x.to(d)", ("choice", "P app.f which")),
        ("if device == 'cuda': x.to(d)", ("device", "P app.f device")),
        ("if device == 'cuda': pass", ("device", "P app.f device")),
    ],
)
def test_what_is_compared_with_the_name_of_a_device_may_choose_it(
    parse: Parse, body: str, expected: Edge
) -> None:
    assert expected in device_edges(parse(f"def f(x, d, which, device):\n    {body}\n"))


@pytest.mark.parametrize(
    "body",
    ["if which == 'cuda': pass", "name = 'cuda'", "local_device = 1\n    if local_device == 'cuda': pass"],
)
def test_a_comparison_in_a_function_that_gives_torch_no_device(parse: Parse, body: str) -> None:
    edges = device_edges(parse(f"def f(which):\n    {body}\n"))
    assert not {"device", "choice"} & {target for target, _ in edges}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return device in NAMES", ("P app.f device", "G app.NAMES")),
        ("return NAMES[device]", ("P app.f device", "[G app.NAMES]")),
        ("return NAMES.get(device, 1)", ("P app.f device", "[G app.NAMES]")),
        ("return NAMES[x.device.type]", (".device", "[G app.NAMES]")),
        ("return NAMES[str(device)]", ("P app.f device", "[G app.NAMES]")),
    ],
)
def test_a_device_is_one_of_what_it_is_looked_up_in(parse: Parse, body: str, expected: Edge) -> None:
    text = f"NAMES = {{'cuda': 1, 'cpu': 2}}\ndef f(x, device):\n    x.to(device)\n    {body}\n"
    assert expected in device_edges(parse(text))


def test_a_device_is_followed_from_an_option_of_one_file_to_torch_in_another(
    parse_project: ParseProject,
) -> None:
    modules = parse_project(
        {
            "options.py": "def parse(parser):\n    parser.add_argument('--device', default='cuda')\n",
            "train.py": "from model import build\ndef main(args):\n    build(args.device, args.name)\n",
            "model.py": "def build(where, name):\n    net = make(name).cuda()\n    return net.to(where)\n",
        }
    )
    project = modules["train.py"].project
    assert project.is_device("P model.build where")
    assert project.is_device(".device")
    assert not project.is_device(".name")
    assert {"cuda", "given"} == project.device_origins("P model.build where")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import json\nconfig = json.load(open('c.json'))\n", True),
        ("from yaml import safe_load\nconfig = safe_load(text)\n", True),
        ("import json\ntext = json.dumps(config)\n", False),
        ("config = load(path)\n", False),
    ],
)
def test_a_file_that_reads_a_configuration(parse: Parse, text: str, expected: bool) -> None:
    assert expected == reads_text(parse(text))


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("x.to(d)", ["d"]),
        ("x.to(device=d)", ["d"]),
        ("x.to(torch.float32, device=d)", ["torch.float32", "d"]),
        ("torch.device('cuda', 0)", ["'cuda'"]),
        ("torch.zeros(3, device=d)", ["d"]),
        ("torch.zeros(3, **options)", ["options.device"]),
        ("functools.partial(torch.zeros, device=d)", ["d"]),
        ("x.new_ones(3, device=d)", ["d"]),
        ("x.to_empty(device=d)", ["d"]),
        ("x.cuda()", []),
        ("x.fit(device=d)", []),
        ("build(device=d)", []),
        ("torch.amp.GradScaler(device=d)", []),
        ("np.zeros(3, device=d)", []),
        ("np.to(d)", []),
        ("to(d)", []),
    ],
)
def test_arguments_that_torch_may_take_as_a_device(parse: Parse, call: str, expected: list[str]) -> None:
    text = f"import torch, functools\nimport numpy as np\ndef f(x, d, options):\n    return {call}\n"
    module = parse(text)
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    found = given_device(module, node, module.index.functions[0])
    assert expected == [ast.unparse(argument) for argument in found]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("functools.partial(torch.zeros, device=d)", "torch.zeros"),
        ("functools.partial()", "functools.partial"),
        ("torch.zeros(3)", "torch.zeros"),
    ],
)
def test_a_partial_application_stands_for_its_function(parse: Parse, call: str, expected: str) -> None:
    module = parse("import torch, functools\ndef f(d): pass\n")
    node = ast.parse(call, mode="eval").body
    assert isinstance(node, ast.Call)
    assert expected == ast.unparse(made(module, node, module.index.functions[0]))
