"""Calls that torchax does not know or takes otherwise, such as `out`, and what is left on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import pytest
import torch
import torchax
from torch import nn
from torch.nn import functional
from torchax_compat.tensor import dispatch, dynamic_shapes

Alike = Callable[..., None]


def _made(device: str) -> Any:
    return torch.arange(1.0, 7.0, device=device).reshape(2, 3).clone()


CALLS: list[Callable[[str], Any]] = [
    lambda d: torch._foreach_add([_made(d), _made(d)], 1.0),
    lambda d: torch._foreach_mul([_made(d), _made(d)], [_made(d), 2 * _made(d)]),
    lambda d: (x := [_made(d)], torch._foreach_lerp_(x, [_made(d) * 2], 0.5))[0],
    lambda d: (x := [_made(d)], torch._foreach_zero_(x))[0],
    lambda d: _made(d).abs_().neg_(),
    lambda d: _made(d).pow_(2.0),
    lambda d: _made(d)[1].clamp_(2, 5),
    lambda d: _made(d).to(torch.int32).bitwise_not_(),
    lambda d: torch.add(_made(d), 1, out=torch.empty(2, 3, device=d)),
    lambda d: torch.div(_made(d), 2, out=torch.empty(2, 3, device=d)),
    lambda d: torch.matmul(_made(d), _made(d).t(), out=torch.empty(2, 2, device=d)),
    lambda d: torch.cumsum(_made(d), 1, out=torch.empty(2, 3, device=d)),
    lambda d: torch.rot90(_made(d)),
    lambda d: _made(d).rot90(2),
    lambda d: _made(d).cumprod_(1),
    lambda _: torch.promote_types(torch.float16, torch.float32),
    lambda d: torch.where(_made(d) > 2, _made(d), 0.0),
    lambda d: functional.linear(_made(d), _made(d)),
    lambda d: _made(d).unsqueeze_(0).squeeze_(0).t_(),
    lambda d: _made(d) * -(2**32) + 1,
    lambda d: torch.clamp_min(_made(d), -(2**32) + 1),
    lambda d: _made(d).masked_fill(_made(d) > 2, -(2**33)),
    lambda d: torch.where(_made(d) > 2, _made(d), 2**33),
    lambda d: _made(d) + torch.tensor(2.0),
    lambda d: torch.cat([_made(d)[:1], _made(d)]),
    lambda d: _made(d).copy_(_made(d) * 2),
    lambda d: _made(d).copy_(_made(d)[0]),
    lambda d: _made(d).unbind(1)[0] + 1,
    lambda d: torch.max(_made(d), 1)[1],
    lambda d: _made(d).std(),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_calls(number: int, alike: Alike) -> None:
    alike(CALLS[number])


WHOLE: list[Callable[[Any], Any]] = [
    lambda x: torch.where(x > 2, 1.0, 0.0),
    lambda x: x.quantile(0.5),
    lambda x: torch.nanquantile(x, 0.5),
    lambda x: torch.cov(x),
    lambda x: torch.corrcoef(x),
    lambda x: torch.cosine_similarity(x, x + 1),
    lambda x: torch.logdet(x[:, :2] + torch.eye(2)),
    lambda _: torch.Tensor(2, 3).shape,
    lambda x: nn.utils.rnn.pad_sequence([x[0], x[1, :2]]),
    lambda _: functional.one_hot(torch.tensor([0, 2]), 3),
    lambda x: torch.repeat_interleave(x, 2),
]


@pytest.mark.parametrize("number", range(len(WHOLE)))
def test_what_is_computed_of_tensors_of_the_host_stays_there(number: int) -> None:
    made = WHOLE[number](_made("cpu"))
    assert not isinstance(made, torch.Tensor) or "cpu" == made.device.type


def test_tensors_are_made_on_the_host_unless_a_device_is_named() -> None:
    for made in (torch.zeros(2), torch.tensor([1.0]), torch.arange(3), torch.rand(2), torch.randperm(3)):
        assert "cpu" == made.device.type


def test_normal_draws_from_the_distribution_that_it_is_given(alike: Alike) -> None:
    alike(
        lambda device: torch.normal(_made(device), _made(device)),
        lambda device: torch.normal(_made(device), 2.0),
        lambda device: torch.normal(1.0, _made(device)),
    )


@pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
def test_gradients_are_clipped(norm_type: float, alike: Alike) -> None:
    def clipped(device: str) -> Any:
        parameters = [
            nn.Parameter(_made(device)),
            nn.Parameter(_made(device)[0].clone()),
            nn.Parameter(_made(device)),
        ]
        for number, p in enumerate(parameters[:2]):
            p.grad = _made(device)[number].expand(p.shape).clone()
        found = [nn.utils.clip_grad_norm_(parameters, 2.0, norm_type), *(p.grad for p in parameters[:2])]
        found.append(nn.utils.clip_grad_norm_(parameters[0], 1e9, norm_type, error_if_nonfinite=True))
        nn.utils.clip_grad_value_(parameters, 0.5)
        return [*found, *(p.grad for p in parameters[:2])]

    alike(clipped)


def test_norm_of_no_gradients_is_zero() -> None:
    assert 0 == nn.utils.clip_grad_norm_([nn.Parameter(_made("jax"))], 1.0).item()
    assert 0 == nn.utils.clip_grad_norm_([nn.Parameter(torch.ones(2))], 1.0).item()


def test_norm_and_clipping_apart() -> None:
    x = nn.Parameter(_made("jax"))
    x.grad = _made("jax")
    norm = nn.utils.get_total_norm(x.grad)
    nn.utils.clip_grads_with_norm_(x, 1.0, norm)
    assert torch.allclose((_made("cpu") / norm.item()), x.grad.cpu(), atol=1e-5)


@pytest.mark.parametrize("setting", ["debug_print_each_op", "force_materialize_views"])
def test_all_goes_torchaxs_own_way_while_it_is_debugged(
    setting: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(torchax.default_env().config, setting, True)
    x = _made("jax")
    assert [[2.0, 4.0], [8.0, 10.0]] == (x[:, :2] * 2).tolist()
    assert ("mul" in capsys.readouterr().err) == (setting == "debug_print_each_op")


def test_mixed_precision_computes_in_the_type_of_autocast() -> None:
    with torchax.amp.autocast("jax", torch.bfloat16):
        made = torch.mm(_made("jax"), _made("jax").t())
        functional.linear(_made("jax"), _made("jax"))
    assert torch.bfloat16 == made.dtype


def test_operations_of_other_libraries_are_left_to_them() -> None:
    library = torch.library.Library("runtime_tests", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x.as_subclass(torch.Tensor) + x, "CompositeExplicitAutograd")
    assert [2.0] == torch.ops.runtime_tests.twice(torch.ones(1)).tolist()


def test_operators_that_there_are_not_raise() -> None:
    with pytest.raises(torchax.tensor.OperatorNotFound):
        torch.ops.aten.polygamma_(_made("jax"), 2)
    with pytest.raises(torchax.tensor.OperatorNotFound):
        torch.cdist(_made("jax"), _made("jax"), compute_mode="donot_use_mm_for_euclid_dist").geqrf()


INTEGERS: list[Callable[[Any], Any]] = [
    lambda x: x + 2**40,
    lambda x: x.clamp(max=2**40),
    lambda x: x.masked_fill(x > 1, 2**40),
]


@pytest.mark.parametrize("number", range(len(INTEGERS)))
def test_wide_numbers_beside_integers_raise_as_in_jax(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic_shapes, "few_numbers", lambda: 0)
    with pytest.raises(OverflowError):
        INTEGERS[number](torch.arange(3, device="jax"))


HASHES: list[Callable[[Any], Any]] = [
    lambda x: x * 2654435761,
    lambda x: 2654435761 * x % 1009,
    lambda x: x ^ 0x9E3779B9,
    lambda x: x.mul(1000003**3) | 2**40,
]


@pytest.mark.parametrize("number", range(len(HASHES)))
def test_wide_numbers_beside_integers_of_64_bits_are_kept(number: int) -> None:
    wanted = HASHES[number](torch.arange(5)).tolist()
    with jax.enable_x64(True):  # noqa: FBT003
        assert HASHES[number](torch.arange(5).to("jax")).tolist() == wanted


WIDE: list[Callable[[Any], Any]] = [
    lambda x: functional.softshrink(x, 2**40),
    lambda x: functional.hardtanh(x, -(2**40), 2**40),
    lambda x: torch.addcmul(x, x, x, value=2**40),
    lambda x: torch.rsub(x, 2**40),
    lambda x: torch.copysign(x, -(2**40)),
]


@pytest.mark.parametrize("number", range(len(WIDE)))
def test_wide_numbers_beside_floats_are_floats(number: int, alike: Alike) -> None:
    alike(lambda device: WIDE[number](_made(device)))


@pytest.mark.xfail(
    reason="functions that torchax has itself are given the number as it is", raises=OverflowError
)
def test_padding_with_a_wide_number(alike: Alike) -> None:
    alike(lambda device: functional.pad(_made(device), (1, 1), value=2**40))


def test_nested_parts_have_the_shape_of_torchs() -> None:
    x = _made("jax")[1:][:, 1:]
    assert (1, 2) == tuple(x.shape)
    assert (2,) == tuple(jax.eval_shape(lambda y: y[0], x.jax()).shape)
    assert dispatch.writes_first(torch.ops.aten.zero_.default)
    assert not dispatch.writes_first(torch.ops.aten.__and__.Tensor)
