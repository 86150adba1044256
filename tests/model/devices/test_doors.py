"""Where torch takes a device, and code that chooses one."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.devices import doors
from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope

Parse = Callable[[str], Module]
Find = Callable[..., tuple[ast.expr, Scope]]
FindStatement = Callable[..., tuple[ast.stmt, Scope]]

HEAD = "import functools\nimport torch\nfrom torch import nn\nclass Net(nn.Module): pass\n"
F = f"{HEAD}def f(x, y: torch.Tensor, d, args, text: str):\n    net = Net()\n    "


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("torch.device(d)", True),
        ("torch.device('cuda', d)", False),
        ("torch.device(type=d)", True),
        ("torch.set_default_device(device=d)", True),
        ("torch.zeros(3, device=d)", True),
        ("torch.zeros(3, dtype=d)", False),
        ("functools.partial(torch.zeros, device=d)", True),
        ("torch.amp.GradScaler(device=d)", False),
        ("functools.reduce(x, device=d)", False),
        ("y.to(d)", True),
        ("y.to(torch.float32, device=d)", True),
        ("y.to(torch.float32, d)", False),
        ("x.to(d)", True),
        ("net.to(d)", True),
        ("nn.Linear(2, 2).to(d)", True),
        ("torch.optim.Adam([y]).to(d)", False),
        ("text.to(d)", False),
        ("y.new_zeros(3, device=d)", True),
        ("y.fill(device=d)", False),
        ("build(device=d)", False),
    ],
)
def test_an_argument_that_torch_takes_as_a_device(
    parse: Parse, find: Find, call: str, expected: bool
) -> None:
    module = parse(f"{F}return {call}\n")
    node, scope = find(module, call)
    slot, _ = find(module, "d", -1)
    assert isinstance(node, ast.Call)
    assert expected == doors.takes_device(module, node, slot, scope)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("where = 'cuda'\n    y.to(where)", True),
        ("args.where = 'cuda'\n    y.to(args.where)", True),
        ("name = 'cuda'", False),
        ("print('cuda')", False),
    ],
)
def test_a_value_becomes_a_device_where_it_reaches_torch(
    parse: Parse, find: Find, body: str, expected: bool
) -> None:
    module = parse(f"{F}{body}\n")
    assert expected == doors.becomes_device(module, *find(module, "'cuda'"))


def test_an_argument_of_torch_becomes_a_device_itself(parse: Parse, find: Find) -> None:
    module = parse(f"{F}y.to('cuda')\n")
    assert doors.becomes_device(module, *find(module, "'cuda'"), doors=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("D = torch.device('cuda')", True),
        ("D = torch.device('cuda' if ok else 'cpu')", True),
        ("class Config:\n    device = torch.device('cuda')", True),
        ("def f():\n    return torch.device('cuda')", False),
        ("D = build('cuda')", False),
        ("D = 'cuda'", False),
    ],
)
def test_a_device_that_is_made_when_the_file_is_imported(
    parse: Parse, find: Find, text: str, expected: bool
) -> None:
    module = parse(f"import torch\nok = True\n{text}\n")
    assert expected == doors.made_on_import(module, *find(module, "'cuda'"))


@pytest.mark.parametrize(
    ("signature", "body", "expected"),
    [
        ("where", "x.to(where)", True),
        ("where: torch.device", "print(where)", True),
        ("where='cuda'", "print(where)", False),
        ("where='cuda'", "x.to(where)", True),
        ("where", "print(where)", False),
    ],
)
def test_a_name_holds_a_device_by_its_use_or_its_annotation(
    parse: Parse, find: Find, signature: str, body: str, expected: bool
) -> None:
    module = parse(f"import torch\nGPU = 'cuda'\ndef f(x, {signature}):\n    {body}\n")
    assert expected == doors.holds_device(module, *find(module, "where", -1))


def test_a_name_holds_a_literal_device_if_one_is_assigned_to_it(parse: Parse, find: Find) -> None:
    module = parse("def f(x, args):\n    args.where = 'cuda'\n    x.to(args.where)\n    x.to(args.other)\n")
    assert doors.holds_literal_device(module, *find(module, "args.where", -1))
    assert not doors.holds_literal_device(module, *find(module, "args.other"))


@pytest.mark.parametrize(
    ("head", "value", "expected"),
    [
        ("import json\nconfig = json.load(open('c'))", "config['device']", True),
        ("import json\nconfig = json.load(open('c'))", "config.get('device')", True),
        ("import json\nconfig = json.load(open('c'))", "config.device", False),
        ("config = {}", "config['device']", False),
        (
            "import json\nconfig = json.load(open('c'))\nconfig['device'] = 'cuda'",
            "config['device']",
            False,
        ),
    ],
)
def test_a_device_that_is_read_from_a_configuration(
    parse: Parse, find: Find, head: str, value: str, expected: bool
) -> None:
    module = parse(f"{head}\ndef f(x):\n    x.to({value})\n")
    assert expected == doors.is_text_of_file(module, *find(module, value, -1))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("True", True),
        ("torch.accelerator.is_available()", True),
        ("torch.cuda.is_available()", False),
        ("torch.cuda.is_available() and True", False),
        ("load()", False),
        ("False", False),
    ],
)
def test_a_flag_that_is_true_of_torchax_as_well(parse: Parse, find: Find, value: str, expected: bool) -> None:
    module = parse(f"import torch\nuse_gpu = {value}\nif use_gpu:\n    print()\n")
    assert expected == doors.is_served_flag(module, *find(module, "use_gpu", -1))


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("torch.cuda.is_available()", True),
        ("torch.cuda.device_count()", False),
        ("device == 'cuda'", True),
        ("'cuda' == device", True),
        ("'cuda' in device", True),
        ("device != 'cuda'", False),
        ("device == 'cpu'", False),
        ("x.is_cuda", True),
        ("x.is_sparse", False),
        ("use_cuda", False),
    ],
)
def test_a_condition_that_asks_for_cuda(parse: Parse, find: Find, test: str, expected: bool) -> None:
    module = parse(f"import torch\ndef f(x, device, use_cuda):\n    if {test}: pass\n")
    assert expected == doors.asks_for_cuda(module, *find(module, test))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('"cuda"', '"jax"'),
        ("'cuda:0'", "'jax'"),
        ("'cpu'", "'jax'"),
        ("'resnet'", None),
        ("f'cuda:{rank}'", '"jax"'),
        ('torch.device("cuda")', 'torch.device("jax")'),
        ("torch.device(0)", 'torch.device("jax")'),
        ("torch.device(rank)", None),
        ("torch.device()", None),
        ("other.device('cuda')", None),
        ("'cuda' if ok else 'cpu'", "'jax'"),
        ("0 if ok else 'cpu'", "'jax'"),
        ("'cuda' if ok else -1", None),
        ("'cuda' if ok else rank", None),
        ("rank", None),
    ],
)
def test_the_torchax_form_of_a_device(parse: Parse, find: Find, value: str, expected: str | None) -> None:
    module = parse(f"import torch\ndef f(rank, ok, other):\n    d = {value}\n")
    assert expected == doors.jax_form(module, *find(module, value))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("device = 'cuda'", ("device", "'jax'")),
        ("args.device = 'cuda'", ("args.device", "'jax'")),
        ("args.device = 0", ("args.device", '"jax"')),
        ("seed = 0", None),
        ("device = other = 'cuda'", None),
        ("device = 'cuda'\nprint(device)", None),
        ("args['device'] = 'cuda'", None),
        ("print('cuda')", None),
    ],
)
def test_a_block_that_only_assigns_a_device(
    parse: Parse, body: str, expected: tuple[str, str] | None
) -> None:
    module = parse(body)
    assert expected == doors.assigned_device(module, module.source.tree.body, module.index.module)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("d = 'cuda' if torch.cuda.is_available() else 'cpu'", True),
        ("d = 'cpu' if not torch.cuda.is_available() else 'cuda'", True),
        ("d = 'cuda' if flag else 'cpu'", False),
        ("d = build() if torch.cuda.is_available() else 'cpu'", False),
        ("if torch.cuda.is_available():\n    d = 'cuda'\nelse:\n    d = 'cpu'", True),
        ("if torch.cuda.is_available():\n    d = 'cuda'", True),
        ("if torch.cuda.is_available():\n    d = 'cuda'\nelse:\n    raise SystemExit", False),
        ("if torch.cuda.is_available():\n    x = x.cuda()", False),
        ("while torch.cuda.is_available():\n    d = 'cuda'", False),
    ],
)
def test_a_conditional_that_only_chooses_a_device(parse: Parse, text: str, expected: bool) -> None:
    module = parse(f"import torch\n{text}\n")
    statement = module.source.tree.body[1]
    node = statement.value if isinstance(statement, ast.Assign) else statement
    assert expected == doors.is_device_choice(module, node, module.index.module)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("'cuda' if torch.cuda.is_available() else 'cpu'", True),
        ("'cpu' if not torch.cuda.is_available() else 'cuda'", True),
        ("None if torch.cuda.is_available() else torch.device('cpu')", True),
        ("'cpu' if torch.cuda.is_available() else 'cuda'", False),
        ("'cuda' if device == 'cuda' else 'cpu'", False),
        ("'cpu'", False),
    ],
)
def test_the_host_by_name_where_there_is_no_cuda(
    parse: Parse, find: Find, value: str, expected: bool
) -> None:
    module = parse(f"import torch\ndef f(device):\n    d = {value}\n")
    assert expected == doors.is_host_without_cuda(module, *find(module, value))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if torch.cuda.is_available():\n    torch.cuda.synchronize()", True),
        ("if torch.cuda.is_available():\n    torch.cuda.synchronize()\nelse:\n    pass", False),
        ("if torch.cuda.is_available():\n    torch.cuda.empty_cache()", False),
        ("if verbose:\n    torch.cuda.synchronize()", False),
        ("torch.cuda.synchronize()", False),
    ],
)
def test_a_guarded_synchronize(parse: Parse, text: str, expected: bool) -> None:
    module = parse(f"import torch\n{text}\n")
    assert expected == doors.is_guarded_synchronize(module, module.source.tree.body[1], module.index.module)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("torch.zeros(3)", False),
        ("torch.zeros(3, device='cuda')", True),
        ("torch.zeros(3, device='cpu')", False),
        ("torch.zeros(3, device='cpu:0')", False),
        ("torch.zeros(3, device=None)", False),
        ("torch.zeros(3, device=x.device)", True),
        ("torch.zeros(3, device=torch.device('cpu'))", False),
    ],
)
def test_a_factory_that_may_make_its_tensor_on_an_accelerator(
    parse: Parse, find: Find, call: str, expected: bool
) -> None:
    module = parse(f"import torch\ndef f(x):\n    return {call}\n")
    node, scope = find(module, call)
    assert isinstance(node, ast.Call)
    assert expected == doors.may_be_made_on_device(module, node, scope)
