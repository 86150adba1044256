"""Texts, types and numbers that name a CUDA device."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.devices.literals import (
    is_cuda_location,
    is_cuda_string,
    is_formatted_cuda,
    starts_cuda,
)
from tpulint.model.module import Module
from tpulint.model.project.device_mentions import cuda_types, default_types, numbered_devices

Parse = Callable[[str], Module]


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'cuda'", True),
        ("'cuda:0'", True),
        ("'cuda:'", False),
        ("'cuda_ext'", False),
        ("'cpu'", False),
        ("b'cuda'", False),
        ("cuda", False),
    ],
)
def test_only_a_literal_with_the_whole_name_is_a_cuda_string(text: str, expected: bool) -> None:
    assert expected == is_cuda_string(expression(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("cuda", True), ("cuda:1", True), ("cuda:", True), ("cuda:{}", True), ("cudnn", False), ("cpu", False)],
)
def test_a_text_starts_a_cuda_device_if_only_the_index_is_missing(text: str, expected: bool) -> None:
    assert expected == starts_cuda(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("f'cuda:{rank}'", True),
        ("f'cuda'", True),
        ("'cuda:%d' % rank", True),
        ("'cuda:' + str(rank)", True),
        ("'cuda:{}'.format(rank)", True),
        ("f'{name}:0'", False),
        ("f'cpu:{rank}'", False),
        ("f'cuda:{a}{b}'", False),
        ("'cuda:0' + suffix", False),
        ("'cuda:0'", False),
        ("'-'.join(names)", False),
    ],
)
def test_a_cuda_device_that_is_formatted_with_its_index(text: str, expected: bool) -> None:
    assert expected == is_formatted_cuda(expression(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lambda storage, location: storage.cuda()", True),
        ("lambda storage, loc: storage.cuda() if use_cuda else storage", True),
        ("lambda storage, location: storage", False),
        ("lambda storage, location: location.cuda()", False),
        ("lambda storage: storage.cuda()", False),
        ("'cuda'", False),
    ],
)
def test_a_map_location_that_moves_the_storage_to_cuda(text: str, expected: bool) -> None:
    assert expected == is_cuda_location(expression(text))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("'torch.cuda.FloatTensor'", ["torch.cuda.FloatTensor"]),
        ("torch.DoubleTensor", ["torch.DoubleTensor"]),
        (
            "torch.cuda.FloatTensor if ok else torch.FloatTensor",
            ["torch.cuda.FloatTensor", "torch.FloatTensor"],
        ),
        ("t, 1", []),
    ],
)
def test_types_that_become_the_default_tensor_type(parse: Parse, given: str, expected: list[str]) -> None:
    module = parse(f"import torch\ntorch.set_default_tensor_type({given})\n")
    calls = module.index.calls["set_default_tensor_type"]
    assert expected == list(default_types(module.names, calls))


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("t = torch.cuda.FloatTensor(3)", 1),
        ("t = x.type(torch.cuda.LongTensor)", 1),
        ("t = x.type('torch.cuda.FloatTensor')", 1),
        ("t = isinstance(x, torch.cuda.FloatTensor)", 0),
        ("torch.set_default_tensor_type('torch.cuda.FloatTensor')", 0),
        ("t = torch.FloatTensor(3)", 0),
        ("t = other.cuda.FloatTensor(3)", 0),
    ],
)
def test_uses_of_cuda_tensor_types(parse: Parse, line: str, expected: int) -> None:
    module = parse(f"import torch\ndef f(x, other):\n    {line}\n")
    found = list(cuda_types(module.index, module.names))
    assert ["f"] * expected == [scope.name for scope in found]


@pytest.mark.parametrize(
    "line",
    [
        "x.to(0)",
        "x.to(local_rank)",
        "x.to(args.gpu)",
        "x.to(gpu_ids[0])",
        "x.to('cpu' if cpu else 0)",
        "torch.device(0)",
        "x = torch.zeros(3, device=rank)",
        "torch.nn.Linear(2, 2).to(0)",
    ],
)
def test_a_device_given_by_its_number(parse: Parse, line: str) -> None:
    module = parse(f"import torch\ndef f(x, local_rank, args, gpu_ids, cpu, rank):\n    {line}\n")
    assert ["f"] == [scope.name for scope in numbered_devices(module.index, module.names)]


@pytest.mark.parametrize(
    "line",
    [
        "x.to(device)",
        "x.to(True)",
        "x.to('cuda')",
        "x.to(dtype)",
        "x.to()",
        "np.device(0)",
        "make(x).to(0)",  # of the project's own
        "x = torch.zeros(3, device=device)",
        "x = torch.zeros(rank)",
    ],
)
def test_what_is_no_number_of_a_device(parse: Parse, line: str) -> None:
    text = (
        "import torch\nimport numpy as np\ndef make(x): return x\n"
        f"def f(x, device, dtype, rank):\n    {line}\n"
    )
    module = parse(text)
    assert [] == list(numbered_devices(module.index, module.names))
