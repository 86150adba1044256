"""What calls give: of torch, of tensors, of builtins and of the project's own classes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

Infer = Callable[..., str]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("torch.zeros(3)", "Tensor[float, host]"),
        ("torch.zeros(3, dtype=torch.int64)", "Tensor[int, host]"),
        ("torch.zeros(3, dtype=n)", "Tensor[host]"),
        ("torch.zeros(3, device=x.device)", "Tensor[float]"),
        ("torch.zeros(3, device='cpu')", "Tensor[float, host]"),
        ("torch.zeros(3, device=None)", "Tensor[float, host]"),
        ("torch.zeros(3, out=x)", "Tensor[float]"),
        ("torch.zeros(3, **unknown)", "Tensor[float]"),
        ("torch.zeros(1)", "Tensor[float, scalar, host]"),
        ("torch.zeros((1, 1))", "Tensor[float, scalar, host]"),
        ("torch.zeros((1, n))", "Tensor[float, host]"),
        ("torch.arange(3)", "Tensor[host]"),
        ("torch.randint(0, 9, (3,))", "Tensor[int, host]"),
        ("torch.tensor(3)", "Tensor[scalar, host]"),
        ("torch.tensor([1, 2])", "Tensor[host]"),
        ("torch.tensor([1])", "Tensor[scalar, host]"),
        ("torch.tensor(n * 2)", "Tensor[scalar, host]"),
        ("torch.tensor(x)", "Tensor"),
        ("torch.tensor(unknown)", "Tensor?[scalar, host]"),
        ("torch.tensor(unknown, device=x.device)", "Tensor?"),
        ("torch.as_tensor(x)", "Tensor"),
        ("torch.as_tensor(ids, dtype=torch.float32)", "Tensor[float]"),
        ("torch.as_tensor(unknown)", "Tensor"),
        ("torch.LongTensor(3)", "Tensor[int]"),
        ("torch.LongTensor([3, 4])", "Tensor[int, host]"),
        ("torch.normal(x, x)", "Tensor"),
        ("torch.normal(0.0, 1.0, (3,))", "Tensor[host]"),
        ("torch.zeros_like(x)", "Tensor"),
    ],
)
def test_factories_of_torch_make_host_tensors_unless_a_device_is_given(
    infer: Infer, value: str, expected: str
) -> None:
    assert expected == infer(f"out = {value}")


def test_factories_in_a_block_of_a_device_make_nothing_on_the_host(infer: Infer) -> None:
    assert "Tensor[float]" == infer("with torch.device('jax'):\n    out = torch.zeros(3)")
    assert "Tensor[float, host]" == infer("with torch.no_grad():\n    out = torch.zeros(3)")
    assert "Tensor[float, host]" == infer("with torch.device('jax'):\n    pass\nout = torch.zeros(3)")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("torch.device('cuda:0')", "Device[cuda]"),
        ("torch.device(device)", "Device"),
        ("torch.device(unknown)", "Device"),
        ("torch.device()", "Device"),
        ("nn.Parameter(x)", "Tensor"),
        ("torch.autograd.Variable(ids)", "Tensor[int]"),
        ("nn.Linear(2, 2)", "Instance[torch.nn.Linear]"),
        ("torch.optim.Adam(xs)", "Instance[torch.optim.Adam]"),
        ("torch.cuda.Event()", "Instance[torch.cuda.Event]"),
        ("torch.cuda.synchronize()", "Unknown"),
        ("torch.get_default_dtype()", "Static"),
        ("torch.numel(x)", "Static"),
        ("torch.allclose(x, x)", "Tensor[bool, scalar]"),
        ("torch.equal(x, x)", "Data"),
        ("torch.is_tensor(x)", "Unknown"),
        ("torch.nn.functional.relu(ids)", "Tensor[int]"),
        ("torch.sum(x)", "Tensor[scalar]"),
        ("torch.sum(x, dim=0)", "Tensor"),
        ("torch.sum(x, 0)", "Tensor"),
        ("torch.sum(mask)", "Tensor[scalar]"),
        ("torch.max(x)", "Tensor[scalar]"),
        ("torch.max(x, 0)", "(Tensor, Tensor[int])"),
        ("torch.max(x, x)", "Tensor"),
        ("torch.sort(x)", "(Tensor, Tensor[int])"),
        ("torch.chunk(ids, 2)", "[Tensor[int]]"),
        ("torch.cat([ids, ids])", "Tensor[int]"),
        ("torch.cat([ids, x])", "Tensor"),
        ("torch.stack(xs)", "Tensor"),
        ("torch.where(mask, ids, ids)", "Tensor[int]"),
        ("torch.where(mask)", "[Tensor[int]]"),
        ("torch.nonzero(x)", "Tensor[int]"),
        ("torch.nonzero(x, as_tuple=True)", "[Tensor[int]]"),
        ("torch.unique(x, return_counts=True)", "[Tensor]"),
        ("torch.argmax(x)", "Tensor[int, scalar]"),
        ("torch.isnan(x)", "Tensor[bool]"),
        ("torch.softmax(ids, 0)", "Tensor[float]"),
        ("torch.add(mask, 1)", "Tensor"),
        ("torch.nn.functional.embedding(ids, x)", "Tensor"),
        ("torch.sum(x, dtype=torch.int32)", "Tensor[int, scalar]"),
    ],
)
def test_types_of_calls_of_torch_functions(infer: Infer, value: str, expected: str) -> None:
    assert expected == infer(f"out = {value}")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x.sum()", "Tensor[scalar]"),
        ("x.sum().exp()", "Tensor[float, scalar]"),
        ("x.sum().mul(x)", "Tensor"),
        ("x.sum(-1)", "Tensor"),
        ("x.view(-1)", "Tensor"),
        ("mask.any()", "Tensor[bool, scalar]"),
        ("ids.float()", "Tensor[float]"),
        ("x.long()", "Tensor[int]"),
        ("x.bool()", "Tensor[bool]"),
        ("x.item()", "Data"),
        ("x.tolist()", "Data"),
        ("x.numpy()", "Array"),
        ("x.cpu()", "Tensor[host]"),
        ("x.cpu().cuda()", "Tensor"),
        ("x.cpu().to(device)", "Tensor"),
        ("x.to('cpu')", "Tensor[host]"),
        ("x.to(device='cpu')", "Tensor[host]"),
        ("x.cpu().to(device=device)", "Tensor"),
        ("x.to(torch.int32)", "Tensor[int]"),
        ("ids.to(x)", "Tensor"),
        ("x.to(ids)", "Tensor[int]"),
        ("ids.to(device, torch.float32)", "Tensor[float]"),
        ("ids.to(device, non_blocking=True)", "Tensor[int]"),
        ("ids.to(None, True)", "Tensor[int]"),
        ("ids.to(unknown)", "Tensor"),
        ("ids.to(dtype=torch.float16)", "Tensor[float]"),
        ("ids.type(torch.float32)", "Tensor[float]"),
        ("x.dim()", "Static"),
        ("x.size(0)", "Static"),
        ("x.backward()", "Unknown"),
        ("x.unknown_method()", "Unknown"),
        ("x.max(0)", "(Tensor, Tensor[int])"),
        ("x.cpu().add_(x)", "Tensor[host]"),
        ("x.shape.numel()", "Static"),
        ("'{}'.format(x.item())", "Data"),
        ("n.bit_length()", "Static"),
        ("array.sum()", "Array"),
        ("x.item().real.conjugate()", "Data"),
        ("device.index()", "Static"),
        ("xs.pop()", "Tensor"),
        ("xs.copy()", "[Tensor]"),
        ("xs.index(x)", "Unknown"),
        ("{'a': x}.items()", "[(Static, Tensor)]"),
        ("{'a': x}.values()", "[Tensor]"),
        ("{'a': x}.get('a')", "Tensor"),
        ("unknown.numpy()", "Array"),
        ("unknown.any()", "Tensor[bool, scalar]"),
        ("unknown.all(dim=0)", "Tensor[bool]"),
        ("unknown.unsqueeze(0)", "Tensor"),
        ("unknown.logical_not()", "Tensor[bool]"),
        ("unknown.method()", "Unknown"),
        ("(unknown.a < unknown.b).sum()", "Tensor[scalar]"),
    ],
)
def test_types_of_method_calls(infer: Infer, value: str, expected: str) -> None:
    # A parameter that has a method which only tensors have is one.
    assert expected == infer(f"unknown = unknown.part\nout = {value}")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("float(x)", "Data"),
        ("int(n)", "Static"),
        ("float()", "Static"),
        ("int(unknown)", "Unknown"),
        ("len(x)", "Static"),
        ("isinstance(x, int)", "Static"),
        ("abs(x)", "Tensor"),
        ("sum(xs)", "Tensor"),
        ("round(x.item())", "Data"),
        ("abs(unknown)", "Unknown"),
        ("max(x, n)", "Tensor?"),
        ("max(xs)", "Tensor"),
        ("max(n, 3)", "Static"),
        ("max(x.item(), 3)", "Data"),
        ("min(unknown, 3)", "Unknown"),
        ("max((x, n), (x, n))", "(Tensor, Static)"),
        ("range(n)", "[Static]"),
        ("range(x)", "[Data]"),
        ("list(x)", "[Tensor]"),
        ("list(xs)", "[Tensor]"),
        ("tuple(unknown)", "[Unknown]"),
        ("next(iter(xs))", "Tensor"),
        ("enumerate(xs)", "[(Static, Tensor)]"),
        ("enumerate(unknown)", "[Unknown]"),
        ("zip(xs, unknown)", "[(Tensor, Unknown)]"),
        ("getattr(x, 'shape')", "Unknown"),
        ("print(x)", "Unknown"),
        ("math.sqrt(n)", "Static"),
        ("math.sqrt(x)", "Data"),
        ("np.sqrt(x)", "Array"),
        ("einops.rearrange(ids, 'a b -> b a')", "Tensor[int]"),
        ("einops.rearrange(unknown, 'a b -> b a')", "Unknown"),
        ("torchax.default_env()", "Instance[torchax.tensor.Environment]"),
    ],
)
def test_types_of_calls_of_builtins_and_other_packages(infer: Infer, value: str, expected: str) -> None:
    assert expected == infer(f"unknown = unknown.part\nout = {value}", "import torchax")


HEAD = """
class Block(nn.Module):
    def __init__(self):
        self.inner = nn.Linear(2, 2)
    def forward(self, x: torch.Tensor):
        return x > 0
    def pair(self, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return x, 1
class Scale:
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x
class Other:
    pass
def shift(x, device=None):
    return x + torch.ones(3, device=device)
def make(n: int):
    return torch.ones(n)
def declared(x) -> torch.Tensor:
    return load(x)
"""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("self.linear(x)", "Tensor[float]"),
        ("self.lstm(x)", "(Tensor, [Tensor])"),
        ("nn.Embedding(2, 2)(ids)", "Tensor"),
        ("nn.Dropout(0.5)(ids)", "Tensor[int]"),
        ("nn.Sequential(self.linear)(x)", "Tensor?[float]"),
        ("self.layers[0](x)", "Tensor[float]"),
        ("Block()", "Instance[app.Block]"),
        ("Block()(x)", "Tensor[bool]"),
        ("Block().forward(x)", "Tensor[bool]"),
        ("Block().eval().cuda()(x)", "Tensor[bool]"),
        ("Block().pair(x)", "(Tensor, Static)"),
        ("Block().inner(x)", "Tensor[float]"),
        ("Block().missing(x)", "Unknown"),
        ("Scale()(x)", "Tensor"),
        ("Other()(x)", "Unknown"),
        ("make(n)", "Tensor[float, host]"),
        ("make(n=3)", "Tensor[float, host]"),
        ("declared(x)", "Tensor"),
        ("declared(x, device='cpu')", "Tensor[host]"),
        ("shift(x)", "Tensor[float]"),
        ("shift(torch.ones(3))", "Tensor[float, host]"),
        ("unknown(x)", "Unknown"),
        ("xs[0](x)", "Unknown"),
    ],
)
def test_types_of_calls_of_the_projects_own_classes_and_functions(
    infer: Infer, value: str, expected: str
) -> None:
    assert expected == infer(f"out = {value}", HEAD)
