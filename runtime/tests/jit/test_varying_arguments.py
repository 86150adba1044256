"""Plain arguments that keep changing, and dictionaries and lists that a function fills."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# mypy: disable-error-code="attr-defined"

from __future__ import annotations

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch import nn
from torchax_compat import differentiable
from torchax_compat.jit import varying_arguments

from ..comparison import assert_equal, assert_same_as_torch, copied, plain_torch

X = torch.linspace(-1, 2, 12).reshape(4, 3)


def same(function, batches, *, is_compiled=True):
    with warnings.catch_warnings():
        warnings.filterwarnings("error" if is_compiled else "ignore", "`.*` runs call by call")
        return assert_same_as_torch(function, nn.Linear(3, 2), X, batches=batches, is_compiled=is_compiled)


def test_numbers_that_keep_changing_become_inputs() -> None:
    def compute_loss(net, x, step, weight):
        return net(x).square().mean() * weight + net(x).abs().sum() * step

    decorated = same(compute_loss, [(step, step / 10) for step in range(20)])
    assert len(decorated.compiled_function.known.traces) <= 4


def test_numbers_that_are_compared_and_printed_are_needed_as_they_are() -> None:
    def compute_loss(net, x, step):
        loss = net(x).square().mean() * min(1.0, step / 20)
        return loss * 2 if step > 6 else loss, f"{step:03d}", str(step)

    same(compute_loss, [(step,) for step in range(7)])


def test_number_that_is_given_back_is_itself() -> None:
    def compute_loss(net, x, step):
        return net(x).sum(), step

    same(compute_loss, [(step,) for step in range(7)])


def test_number_that_is_a_key_or_a_size() -> None:
    names = {step: 1.0 + step for step in range(9)}

    def compute_loss(net, x, step):
        return (net(x) * names[step]).sum() + torch.ones(step + 1, device=x.device).sum()

    same(compute_loss, [(step,) for step in range(7)])


def test_integers_of_numpy_are_inputs() -> None:
    def compute_loss(net, x, chosen):
        return net(x[chosen]).square().mean()

    decorated = same(compute_loss, [(np.array([k % 4, (k + 1) % 4]),) for k in range(6)])
    assert 1 == len(decorated.compiled_function.known.traces)


def test_text_that_keeps_changing_is_left_out() -> None:
    def compute_loss(net, batch):
        x = torch.stack([one["image"] for one in batch])
        return net(x).square().mean()

    net, decorated = nn.Linear(3, 2).to("jax"), differentiable(compute_loss)
    for step in range(12):
        batch = [
            {"image": X[k].to("jax"), "name": f"{step}-{k}.png", "number": 2 * step + k} for k in range(2)
        ]
        loss = decorated(net, batch)
    assert_equal(compute_loss(net, batch), loss)
    assert decorated.compiled_function.is_compiled and len(decorated.compiled_function.known.traces) <= 4


@pytest.mark.parametrize(
    "needed", [lambda name: name.endswith("4.png"), lambda name: len(name) > 5, lambda name: f"{name}" == "x"]
)
def test_text_that_is_needed_is_itself(needed) -> None:
    def compute_loss(net, x, name):
        return net(x).sum() * (2.0 if needed(name) else 1.0)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`.*` runs call by call")
        net, decorated = nn.Linear(3, 2).to("jax"), differentiable(compute_loss)
        for step in range(6):
            name = f"{step}.png"
            assert_equal(compute_loss(net, X.to("jax"), name), decorated(net, X.to("jax"), name))


def test_text_that_is_given_back_is_itself() -> None:
    decorated, net = differentiable(lambda net, x, name: (net(x).sum(), name)), nn.Linear(3, 2).to("jax")
    assert [f"{step}" for step in range(6)] == [
        decorated(net, X.to("jax"), f"{step}")[1] for step in range(6)
    ]


def test_text_in_its_place_is_known_as_one_and_refuses_all_else() -> None:
    text = varying_arguments.Text("name")
    assert isinstance(text, str)
    with pytest.raises(AttributeError):
        _ = text.__array__
    with pytest.raises(TypeError, match="needed for tracing"):
        _ = text.upper


def test_number_in_the_place_of_one_is_plain_where_it_is_known() -> None:
    number = varying_arguments.placeholder(jnp.asarray(3))
    assert ("3", "003", 3, hash(3)) == (str(number), f"{number:03d}", int(number), hash(number))


def test_functions_that_run_call_by_call_get_their_texts() -> None:
    def compute_loss(net, x, name):
        return net(x).sum() * float(net(x).detach().cpu().numpy().size), name

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`.*` runs call by call")
        net, decorated = nn.Linear(3, 2).to("jax"), differentiable(compute_loss)
        names = [decorated(net, X.to("jax"), f"{step}")[1] for step in range(6)]
    assert [f"{step}" for step in range(6)] == names


def filled(function, make, notes, steps=4) -> None:
    """What is put into an argument is what torch's run puts there."""
    found, decorated = [], differentiable(function)
    for device in ("cpu", "jax"):
        torch.manual_seed(0)
        net, held = nn.Linear(3, 2).to(device), make()
        for step in range(steps):
            x = (X + step).to(device)
            if device == "cpu":
                with plain_torch():
                    result = function(net, x, held)
                    result[0].backward()
            else:
                result = decorated(net, x, held)
                result[0].backward()
            found.append(copied((result[0], notes(held), net.weight.grad)))
            assert result[1] is held
    assert_equal(found[:steps], found[steps:])
    assert decorated.compiled_function.is_compiled


def test_dictionary_is_filled_changed_and_emptied() -> None:
    def compute_loss(net, x, log):
        out = net(x)
        log["mean"] = out.mean().item()
        log["out"] = out.detach()
        log["kept"] = log["kept"]
        log.pop("started", None)
        return out.square().sum(), log

    filled(compute_loss, lambda: {"started": True, "kept": [1]}, dict)


def test_list_is_filled_and_its_end_is_replaced() -> None:
    def compute_loss(net, x, seen):
        out = net(x)
        del seen[2:]
        seen.extend([out.detach().sum(), 3])
        seen[0] = "first"
        return out.square().sum(), seen

    filled(compute_loss, lambda: ["a", "b", "c"], list)


def test_list_that_stays_as_it_is() -> None:
    filled(lambda net, x, seen: (net(x).sum(), seen), lambda: [1, 2], list)


def test_batch_in_a_dictionary_gets_a_further_tensor() -> None:
    def compute_loss(net, batch, target):
        batch["target"] = target.to("jax") if batch["x"].device.type == "jax" else target
        return (net(batch["x"]) - batch["target"]).square().mean()

    net, decorated = nn.Linear(3, 2).to("jax"), differentiable(compute_loss)
    for _ in range(3):
        batch = {"x": X.to("jax")}
        decorated(net, batch=batch, target=X[:, :2]).backward()
        assert "jax" == batch["target"].device.type
