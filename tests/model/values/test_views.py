"""Views of tensors: what gives a name its value, slices, and reads after a write."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.values.views import (
    after,
    copied,
    definition,
    is_basic,
    is_shared,
    is_slice,
    lost_write,
    value_of,
)

Parse = Callable[[str], Module]
Find = Callable[..., tuple[ast.expr, Scope]]
FindStatement = Callable[..., tuple[ast.stmt, Scope]]

HEAD = "import torch\nfrom torch import nn\nclass Net(nn.Module):\n"


def net(body: str) -> str:
    lines = body.replace("\n", "\n        ")
    return (
        f"{HEAD}    def forward(self, x: torch.Tensor, n: int, xs: list[torch.Tensor], u):\n        {lines}\n"
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("v = x\nuse(v)", "x"),
        ("v = n\nv = x\nuse(v)", "x"),
        ("v = x\nv += 1\nuse(v)", "x"),
        ("v = x\nif n:\n    use(v)", "x"),
        ("v = x\nif n:\n    v = n\nuse(v)", None),
        ("v = x\nfor i in xs:\n    use(v)", "x"),
        ("v = x\nfor i in xs:\n    use(v)\n    v = i", None),
        ("v = x\nwhile n:\n    use(v)\n    v = n", None),
        ("for v in xs:\n    use(v)", "xs"),
        ("for v in range(3):\n    use(v)", None),
        ("for v in xs:\n    use(v)\n    v = n", None),
        ("for i, v in enumerate(xs):\n    use(v)", "xs"),
        ("for i, v in u:\n    use(v)", None),
        ("for a, v in zip(u, xs):\n    use(v)", "xs"),
        ("for v.a in xs:\n    use(v)", None),
        ("a, v = x.chunk(2)\nuse(v)", "x.chunk(2)"),
        ("a, v = n, x\nuse(v)", None),
        ("a = v = x\nuse(v)", None),
        ("with x as v:\n    use(v)", None),
        ("with x:\n    use(v)", None),
        ("v = x\nwith n:\n    use(v)", "x"),
        ("v = x\ntry:\n    use(v)\nexcept E:\n    pass", "x"),
        ("v = x\ntry:\n    v = n\nexcept E:\n    use(v)", None),
        ("v = x\ntry:\n    n()\nexcept E:\n    use(v)", "x"),
        ("use(v)", None),
        ("v = x\ndel v\nuse(v)", None),
        ("v = x\ng = lambda v: use(v)", "x"),
    ],
)
def test_the_statement_that_gives_a_name_its_value(
    parse: Parse, find: Find, body: str, expected: str | None
) -> None:
    module = parse(net(body))
    node, _ = find(module, "use(v)")
    found = definition(module, "v", module.statement(node))
    assert expected == (ast.unparse(found.value) if found is not None else None)


def test_a_name_of_a_loop_has_no_value_of_its_own(parse: Parse, find: Find) -> None:
    module = parse(net("v = x\nfor w in xs:\n    use(v, w)"))
    v, w = find(module, "v", -1)[0], find(module, "w", -1)[0]
    assert isinstance(v, ast.Name) and isinstance(w, ast.Name)
    value = value_of(module, v)
    assert value is not None
    assert "x" == ast.unparse(value)
    assert value_of(module, w) is None


def test_a_name_at_module_level_has_a_definition(parse: Parse, find_statement: FindStatement) -> None:
    module = parse("v = 1\nw = v\n")
    found = definition(module, "v", find_statement(module, "w")[0])
    assert found is not None
    assert "1" == ast.unparse(found.value)
    assert definition(module, "missing", find_statement(module, "w")[0]) is None


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("v = x * 2\nv[0] = 1\nreturn v", False),
        ("v = x * 2\ny = torch.exp(v)\nreturn v + y.shape[0]", False),
        ("v = x * 2\nreturn v > 0", False),
        ("v = x * 2\ny = v[1:]\nreturn v", True),
        ("v = x * 2\ny = v.view(-1)\nreturn v", True),
        ("v = x * 2\ny = v.T\nreturn v", True),
        ("v = x * 2\ny = [v]\nreturn v", True),
        ("v = x * 2\nother(v)\nreturn v", True),
        ("v = x * 2\ny = v\nreturn v", True),
        ("v = x.exp()\nreturn v", True),
        ("v = x\nreturn v", True),
        ("return v", True),
    ],
)
def test_a_tensor_that_may_have_another_name(parse: Parse, find: Find, body: str, expected: bool) -> None:
    module = parse(net(body))
    node, scope = find(module, "v", -1)
    assert isinstance(node, ast.Name)
    assert expected == is_shared(module, node, scope)


def test_a_tensor_of_a_script_may_have_another_name(parse: Parse, find: Find) -> None:
    module = parse("v = 1 + 2\nv\n")
    node, scope = find(module, "v", -1)
    assert isinstance(node, ast.Name)
    assert is_shared(module, node, scope)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("use(x[:, 0])", True),
        ("use(x[n])", True),
        ("use(x[n + 1:])", True),
        ("use(x[-1])", True),
        ("use(x[..., None])", True),
        ("use(x[True])", False),
        ("use(x[x > 0])", False),
        ("use(u.part[0])", False),
        ("use(x)", False),
        ("use(x[0].contiguous())", True),
        ("use(x[0].add_(1))", True),
        ("use(x[0].exp())", False),
        ("v = x[0]\nuse(v)", True),
        ("v = x[0]\nw = v\nuse(w)", True),
        ("v = x[0].contiguous()\nuse(v)", True),
        ("v = x.exp()\nuse(v)", False),
        ("v = x[0]\nif n:\n    v = x\nuse(v)", False),
        ("for v in x:\n    use(v)", False),
        ("v = x[0]\n" + "".join(f"v{n} = v{n - 1 or ''}\n" for n in range(1, 9)) + "use(v8)", False),
        ("use(undefined)", False),
        ("use(torch)", False),
        ("def v(): pass\nuse(v)", False),
        ("use(x['key'])", False),
        ("k = 'key'\nuse(x[k])", False),
        ("for k in ('a', 'b'):\n    use(x[k])", False),
        ("for k in x.keys():\n    use(x[k])", False),
    ],
)
def test_a_basic_slice_of_a_tensor(parse: Parse, find: Find, body: str, expected: bool) -> None:
    module = parse(net(body))
    call, scope = find(module, body[body.index("use(") :].strip(), -1)
    assert isinstance(call, ast.Call)
    assert expected == is_slice(module, call.args[0], scope)


@pytest.mark.parametrize(
    ("index", "expected"),
    [
        ("0", True),
        ("n", True),
        (":", True),
        ("-1", True),
        ("n - 1", True),
        ("(None, ..., 0)", True),
        ("x", False),
        ("True", False),
        ("[0, 1]", False),
        ("f(n)", False),
        ("(0, x)", False),
        ("'key'", False),
        ("f'{n}'", False),
    ],
)
def test_an_index_of_numbers_and_slices(parse: Parse, find: Find, index: str, expected: bool) -> None:
    module = parse(net(f"return x[{index}]"))
    node, scope = find(module, f"x[{index}]")
    assert isinstance(node, ast.Subscript)
    assert expected == is_basic(module, node.slice, scope)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return x.view(-1)", ["x"]),
        ("return x.T", ["x"]),
        ("return x.data.view(-1)", ["x"]),
        ("return torch.transpose(x, 0, 1)", ["x"]),
        ("return torch.exp(x)", []),
        ("return x.exp()", []),
        ("return x.view(torch.int32)", []),
        ("return x.view(-1).requires_grad_()", ["x"]),
        ("return x.view(-1)[0]", ["x"]),
        ("return x.t().reshape(-1)", []),
        ("return x[0].reshape(-1)", []),
        ("return x.reshape(-1)[0]", ["x"]),
        ("return xs[0].view(-1)", ["xs"]),
        ("return self.buffer.view(-1)", ["self.buffer"]),
        ("return u.part.view(-1)", []),
        ("y = x * 2\nv = y.view(-1)\nreturn v[0]", ["y"]),
        ("v = x.chunk(2)\nreturn v[0]", ["x"]),
        ("for v in x:\n    return v", ["x"]),
        ("for v in xs:\n    return v", []),
        ("for v in u.part:\n    return v", []),
        ("return x.shape", []),
    ],
)
def test_the_tensor_behind_a_view_that_torchax_copies(
    parse: Parse, find_statement: FindStatement, body: str, expected: list[str]
) -> None:
    module = parse(
        net(body) + "    def __init__(self):\n        self.register_buffer('buffer', torch.ones(3))\n"
    )
    statement, scope = find_statement(module, "return")
    assert isinstance(statement, ast.Return) and statement.value is not None
    assert expected == [ast.unparse(one.base) for one in copied(module, statement.value, scope)]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.buffer.view(-1)[0] = 1", "self.buffer"),
        ("self.buffer.view(-1)[0] = 1\nself.buffer = x", None),
        ("self.buffer.view(-1)[0] = 1\nself.buffer.zero_()", None),
        ("self.buffer = x\nself.buffer.view(-1)[0] = 1", "self.buffer"),
        ("y = x * 2\ny.view(-1)[0] = 1\nreturn y", "y"),
        ("y = x * 2\ny.view(-1)[0] = 1\ny.fill_(0)\nreturn y", None),
        ("y = x * 2\ny.view(-1)[0] = 1\nreturn y is None, len(y), torch.zeros_like(y)", None),
        ("y = x * 2\ny.view(-1)[0] = 1\ndel y", None),
        ("y = x * 2\nif n:\n    y.view(-1)[0] = 1\n    raise ValueError\nreturn y", None),
        ("y = x * 2\nif n:\n    y.view(-1)[0] = 1\nelse:\n    return y", None),
        ("y = x * 2\ny.view(-1)[0] = 1\ny = n\nreturn y", None),
        ("y = x * 2\ny.view(-1)[0] = 1\nreturn other(y)", "y"),
    ],
)
def test_a_write_through_a_view_that_is_read_afterwards(
    parse: Parse, body: str, expected: str | None
) -> None:
    module = parse(
        net(body) + "    def __init__(self):\n        self.register_buffer('buffer', torch.ones(3))\n"
    )
    ((node, scope),) = [
        (one, at)
        for one, at in module.index.nodes[ast.Subscript]
        if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Store)
    ]
    found = lost_write(module, node.value, scope)
    assert expected == (ast.unparse(found.base) if found is not None else None)


def test_a_write_at_module_level_is_not_reported_as_lost(parse: Parse, find: Find) -> None:
    module = parse("import torch\nx = torch.ones(3)\nx.view(-1)[0] = 1\nprint(x)\n")
    assert lost_write(module, *find(module, "x.view(-1)")) is None


def test_a_write_in_a_return_statement_is_not_read_afterwards(parse: Parse, find: Find) -> None:
    module = parse(net("y = x * 2\nreturn y.view(-1).zero_()"))
    assert lost_write(module, *find(module, "y.view(-1)")) is None


def test_statements_behind_another_one_in_its_block() -> None:
    (branch,) = ast.parse("if a:\n    b\n    c\nelse:\n    d\n    e\n").body
    assert isinstance(branch, ast.If)
    assert ["c"] == [ast.unparse(one) for one in after(branch, branch.body[0])]
    assert ["e"] == [ast.unparse(one) for one in after(branch, branch.orelse[0])]
    assert [] == after(branch, branch.test)
