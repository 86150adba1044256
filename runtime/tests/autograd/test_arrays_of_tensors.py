"""Tensors of torchax and the arrays of JAX in them."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest
import torch
import torchax
from torchax_compat.tensor import arrays


def test_tensor_of_an_array_and_back() -> None:
    value = jnp.arange(3.0)
    assert arrays.tensor(value).jax() is value
    there = torch.ones(2, device="jax")
    assert arrays.on_torchax(there) is there
    assert "jax" == arrays.on_torchax(torch.ones(2)).device.type
    assert [1.0] == arrays.on_torchax(there[:1]).tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.int32, torch.bool, torch.complex64, torch.bfloat16])
def test_array_of_a_tensor_of_the_host_and_back(dtype: torch.dtype) -> None:
    tensor = torch.tensor([0, 1, 2]).to(dtype)
    value = arrays.of_host(tensor)
    tensor[0] = 1  # what is written later is not seen
    assert [0, 1, 2 if dtype != torch.bool else 1] == arrays.on_host(value).tolist()
    assert dtype == arrays.on_host(value).dtype


def test_array_of_a_large_tensor_of_the_host() -> None:
    tensor = torch.arange(100_000.0)
    assert torch.equal(tensor, arrays.on_host(arrays.of_host(tensor)))


def test_array_of_a_conjugated_view_of_the_host() -> None:
    tensor = torch.tensor([1 + 2j]).conj()
    assert 1 - 2j == arrays.of_host(tensor)[0]


def test_write_to_what_was_detached_leaves_the_other_its_gradient() -> None:
    tensor = torch.ones(2, device="jax")
    arrays.put(tensor, jnp.zeros(2))
    arrays.write(tensor, jnp.full(2, 3.0))
    assert [3.0, 3.0] == tensor.tolist()


def test_rounded_numbers_are_the_same_compiled_or_not() -> None:
    values = jnp.array([0.4, 1.5, 2.6])
    assert [0.0, 1.0, 2.0] == arrays.rounded(jnp.floor, values).tolist()
    assert [0.0, 1.0, 2.0] == jax.jit(lambda x: arrays.rounded(jnp.floor, x))(values).tolist()
    whole = jnp.arange(3)
    assert arrays.rounded(jnp.floor, whole) is whole


def test_half_precision_is_widened() -> None:
    assert "float32" == arrays.widened(jnp.ones(2, jnp.bfloat16)).dtype
    assert "float32" == arrays.widened(jnp.ones(2)).dtype


def test_traced_tensors_are_distinguished_from_others() -> None:
    seen = []

    def function(x):
        tensor = torchax.interop.torch_view(x)
        seen.append((arrays.is_traced(tensor), arrays.computes_on_torchax([tensor])))
        return x

    jax.jit(function)(jnp.ones(2))
    there = torch.ones(2, device="jax")
    seen.append((arrays.is_traced(there), arrays.computes_on_torchax([there, torch.ones(1)])))
    seen.append((arrays.is_traced(torch.ones(2)), arrays.computes_on_torchax([torch.ones(2)])))
    assert [(True, False), (False, True), (False, False)] == seen


def test_environment_is_left_as_it_was() -> None:
    environment = torchax.default_env()
    at_start = environment.enabled
    with torchax.disable_temporarily():
        before = environment.enabled
        with arrays.entered():
            assert environment.enabled
        assert before == environment.enabled
    assert at_start == environment.enabled


def test_first_line_of_an_error() -> None:
    assert "one" == arrays.first_line(ValueError("one\ntwo"))
