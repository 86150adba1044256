"""Attributes that a traced function reads and assigns: of modules, objects, containers and hooks."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# mypy: disable-error-code="has-type, index, operator, type-arg, var-annotated"
# ruff: noqa: ARG005

from __future__ import annotations

import copy
import warnings
from collections import OrderedDict, defaultdict, deque
from typing import Any

import pytest
import torch
from torch import nn
from torchax_compat import differentiable

from ..comparison import assert_equal, assert_same_as_torch, copied, moved, plain_torch

X = torch.linspace(-1, 2, 12).reshape(4, 3)


def mean_square(net, x):
    return net(x).square().mean()


def noted(make, notes, *, steps=6, is_compiled=True, change=None, function=mean_square) -> Any:
    """What `notes` reads of a module after each step is that of torch; `change` changes it before."""
    found = []
    decorated = differentiable(function)
    for device in ("cpu", "jax"):
        torch.manual_seed(0)
        net = moved(make(), device)
        for step in range(steps):
            if change is not None:
                change(net, step)
            if device == "cpu":
                with plain_torch():
                    loss = function(net, X + step / 4)
                    loss.backward()
            else:
                loss = decorated(net, (X + step / 4).to("jax"))
                loss.backward()
            gradients = [p.grad for p in net.parameters()]
            found.append(copied((loss, notes(net), gradients)))
            net.zero_grad()
    assert_equal(found[:steps], found[steps:])
    assert is_compiled == decorated.compiled_function.is_compiled
    return decorated


class Noting(nn.Module):
    """Assigns attributes of several types in `forward`."""

    def __init__(self):
        super().__init__()
        self.layer, self.last, self.parts, self.seen = nn.Linear(3, 2), None, {}, []

    def forward(self, x):
        out = self.layer(x)
        self.last = out.detach()
        self.parts["mean"] = out.mean().detach()
        self.pair = (out.detach() * 2, "text")
        return out


def test_tensors_that_are_left_in_attributes_are_those_of_each_call() -> None:
    noted(Noting, lambda net: (net.last, net.parts, net.pair))


def test_loss_that_is_left_in_an_attribute_is_differentiated() -> None:
    class Distance(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("target", torch.ones(3))

        def forward(self, x):
            self.loss = (x - self.target).square().mean()
            return x

    def compute_loss(net, x):
        net(x)
        return net[1].loss + net[3].loss

    net = nn.Sequential(nn.Linear(3, 3), Distance(), nn.Tanh(), Distance())
    assert_same_as_torch(compute_loss, net, X)


def test_attribute_that_is_deleted_and_one_that_is_missing() -> None:
    class Once(nn.Linear):
        def forward(self, x):
            if hasattr(self, "first"):
                del self.first
                self.second = x.detach()
            else:
                self.first = x.detach()
            return super().forward(x)

    noted(lambda: Once(3, 2), lambda net: (hasattr(net, "first"), hasattr(net, "second")))


def test_state_that_a_module_reads_and_leaves() -> None:
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.hidden = nn.Linear(3, 3), None

        def forward(self, x):
            hidden = torch.tanh(self.layer(x)) + (0 if self.hidden is None else self.hidden)
            self.hidden = hidden.detach()
            return hidden

    noted(Recurrent, lambda net: net.hidden)


def test_states_in_containers_are_inputs() -> None:
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.states, self.named = nn.Linear(3, 3), [None, None], {"sum": torch.zeros(())}

        def forward(self, x):
            out = self.layer(x)
            for k in range(2):
                out = out if self.states[k] is None else out + self.states[k] * 0.5
                self.states[k] = out.detach()
            self.named["sum"] = self.named["sum"].to(x.device) + out.detach().sum()
            return out * self.named["sum"].sign()

    noted(Recurrent, lambda net: (net.states, net.named))


def test_tensor_that_is_written_in_place_in_an_attribute() -> None:
    class Averaged(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.average = nn.Linear(3, 2), None

        def forward(self, x):
            out = self.layer(x)
            if self.average is None:
                self.average = torch.zeros(2, device=x.device)
            self.average.mul_(0.9).add_(out.detach().mean(0), alpha=0.1)
            return out - self.average

    noted(Averaged, lambda net: net.average)


def test_number_that_changes_once_stays_a_constant_and_one_that_keeps_changing_becomes_an_input() -> None:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.once, self.often = nn.Linear(3, 2), 1.0, 1.0

        def forward(self, x):
            return self.layer(x) / self.once * self.often

    net = Net().to("jax")
    compute_loss = differentiable(lambda net, x: net(x).sum())
    counts = []
    for name in ("once", "often"):
        for step in range(12):
            setattr(net, name, 2.0 if name == "once" and step > 3 else 1.0 + step * (name == "often"))
            compute_loss(net, torch.ones(2 + step % 3, 3).to("jax"))
        known = compute_loss.compiled_function.known
        counts.append(
            (
                sum(map(len, known.traces.values())),
                compute_loss.compiled_function.is_compiled,
                len(known.states),
            )
        )
    assert [(6, True, 0), (11, True, 1)] == counts


class Counting(nn.Module):
    """Counts, sums up and keeps a history of what it computes."""

    def __init__(self):
        super().__init__()
        self.layer, self.step, self.total, self.smooth, self.best = nn.Linear(3, 2), 0, 0.0, None, None
        self.history, self.recent, self.log = [], deque(maxlen=4), defaultdict(list)

    def forward(self, x):
        self.step += 1
        out = self.layer(x)
        value = out.square().mean().item()
        self.total += value
        self.smooth = value if self.smooth is None else 0.9 * self.smooth + 0.1 * value
        self.best = value if self.best is None else min(self.best, value)
        self.history.append(value)
        self.recent.append(round(value, 3))
        self.log["near"].append(out.abs().mean().detach())
        return out * min(1.0, self.step / 10) * (0.5 + self.step)


def test_counters_sums_and_histories_become_inputs() -> None:
    def notes(net):
        numbers = net.step, net.total, net.smooth, net.best
        return numbers, net.history, list(net.recent), list(net.log["near"])

    with warnings.catch_warnings():
        warnings.filterwarnings("error", "`.*` runs call by call")
        noted(Counting, notes, steps=14)


def test_history_whose_length_is_read_is_that_of_each_call() -> None:
    class Reading(nn.Linear):
        def __init__(self):
            super().__init__(3, 2)
            self.seen = []

        def forward(self, x):
            self.seen.append(1.0)
            return super().forward(x) * len(self.seen)

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`.*` runs call by call")
        decorated = differentiable(mean_square)
        net = Reading().to("jax")
        losses = [decorated(net, X.to("jax")).item() for _ in range(12)]
    plain = net.cpu()
    plain.seen.clear()
    assert_equal([mean_square(plain, X).item() for _ in range(12)], losses)


def test_list_that_is_replaced_by_another_one() -> None:
    class Replacing(nn.Linear):
        def __init__(self):
            super().__init__(3, 2)
            self.seen = [0.0]

        def forward(self, x):
            self.seen.append(1.0)
            self.seen = [*self.seen, 2.0]
            return super().forward(x) * (1 + sum(self.seen))

    net, decorated = Replacing(), differentiable(mean_square)
    there = moved(copy.deepcopy(net), "jax")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`.*` runs call by call")
        for _ in range(12):
            assert_equal(mean_square(net, X), decorated(there, X.to("jax")))
    assert net.seen == there.seen


def test_plain_attribute_that_keeps_changing_in_other_ways_lets_calls_be_compiled_one_by_one() -> None:
    class Named(nn.Linear):
        mode = ""

        def forward(self, x):
            return super().forward(x) * (1 + len(self.mode))

    def change(net, step):
        net.mode = "m" * step

    with pytest.warns(UserWarning, match="it reads `mode` of `Named`, which keeps changing"):
        noted(lambda: Named(3, 2), lambda net: net.mode, steps=12, change=change, is_compiled=False)


def test_setting_of_a_module_of_torch_that_programs_change() -> None:
    def change(net, step):
        net[1].p, net[2].momentum = 0.0 if step > 2 else 0.5, 0.1 * (1 + step // 3)

    def make():
        return nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5), nn.BatchNorm1d(2))

    noted(make, lambda net: net[2].running_mean, change=change)


def test_tensor_of_the_host_that_is_written_is_another_constant() -> None:
    class Weighed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.scale = nn.Linear(3, 2), torch.ones(2)

        def forward(self, x):
            return self.layer(x) * self.scale.to(x.device)

    def change(net, step):
        if step == 3:
            net.scale += 1

    noted(Weighed, lambda net: net.scale, change=change)


def test_tensor_of_the_host_without_version_is_a_constant() -> None:
    class Weighed(nn.Linear):
        def forward(self, x):
            return super().forward(x) * self.scale.to(x.device)

    with torch.inference_mode():
        scale = torch.tensor([1.0, 2.0])
    net = Weighed(3, 2).to("jax")
    net.scale = scale
    decorated = differentiable(mean_square)
    assert decorated(net, X.to("jax")).item() == decorated(net, X.to("jax")).item()


def test_sets_and_nested_containers_are_restored_and_refilled() -> None:
    class Nested(nn.Linear):
        def __init__(self):
            super().__init__(3, 2)
            self.names, self.nested = {"a"}, {"lists": [[1], [2]], "ordered": OrderedDict(x=1)}

        def forward(self, x):
            out = super().forward(x)
            self.names.add("b")
            self.nested["lists"][0] = [len(x)]
            self.nested["lists"][1].append(3)
            self.nested["ordered"]["mean"] = out.detach().mean()
            return out

    noted(Nested, lambda net: (sorted(net.names), net.nested))


def test_attribute_of_an_object_that_a_module_holds() -> None:
    class Meter:
        def __init__(self):
            self.last = self.sum = self.mean = 0.0
            self.count = 0

        def update(self, value, n=1):
            self.last = value
            self.sum += value * n
            self.count += n
            self.mean = self.sum / self.count

    class Metered(nn.Linear):
        def __init__(self):
            super().__init__(3, 2)
            self.meters = {"far": Meter(), "near": Meter()}

        def forward(self, x):
            out = super().forward(x)
            self.meters["far"].update(out.square().mean().item(), len(x))
            self.meters["near"].update(out.abs().mean().item())
            return out

    noted(Metered, lambda net: [vars(meter) for meter in net.meters.values()], steps=12)


def test_object_that_counts_by_properties_and_refuses_attributes() -> None:
    class Strict:
        __slots__ = ("__dict__",)

        def __init__(self):
            self.count = 0

        @property
        def doubled(self):
            return 2 * self.count

    class Counted(nn.Linear):
        def __init__(self):
            super().__init__(3, 2)
            self.counter = Strict()

        def forward(self, x):
            self.counter.count += 1
            missing = getattr(self.counter, "missing", 1.0)
            return super().forward(x) * self.counter.doubled * missing

    noted(Counted, lambda net: net.counter.count, steps=8)


def test_hooks_fill_dictionaries_lists_and_objects() -> None:
    class Outputs:
        def __init__(self):
            self.outputs = []

        def keep(self, module, given, output):
            self.outputs.append(output)

    found = []
    for device in ("cpu", "jax"):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).to(device)
        features, listed, outputs = {}, [], Outputs()

        def save(name, features=features):
            def hook(module, given, output):
                features[name] = output

            return hook

        net[0].register_forward_hook(save("first"))
        net[1].register_forward_hook(lambda module, given, output, listed=listed: listed.append(output))
        net[2].register_forward_hook(outputs.keep)

        def compute_loss(net, x, features, outputs):
            net(x)
            return features["first"].square().mean() + outputs.outputs[-1].sum() * features["first"].sum()

        function = compute_loss if device == "cpu" else differentiable(compute_loss)
        for step in range(4):
            net.zero_grad()
            loss = function(net, (X + step).to(device), features, outputs=outputs)
            loss.backward()
            shown = [features["first"], outputs.outputs[-1]]
            found.append(copied((loss, shown, len(outputs.outputs), net[0].weight.grad)))
            outputs.outputs.clear()
    assert_equal(found[:4], found[4:])


def test_hook_that_fills_a_global() -> None:
    net = nn.Linear(3, 2).to("jax")
    ACTIVATIONS.clear()
    net.register_forward_hook(_keep)
    decorated = differentiable(mean_square)
    for step in range(3):
        decorated(net, (X + step).to("jax"))
    assert_equal(net(X.to("jax") + 2).detach(), ACTIVATIONS["last"])


ACTIVATIONS: dict[str, Any] = {}


def _keep(module, given, output):
    ACTIVATIONS["last"] = output.detach()


def test_mapping_that_makes_what_it_is_asked_for_is_not_asked_to_watch_it() -> None:
    class Lazy(dict):
        """Makes what it is asked for."""

        def items(self):
            raise AssertionError

        def values(self):
            raise AssertionError

        def __iter__(self):
            raise AssertionError

        keys = __iter__

    class Made(OrderedDict):
        def __getitem__(self, key):
            return super().__getitem__(key)()

    activations, lazy = Made(relu=nn.ReLU, broken=None), Lazy(far=1.0)

    @differentiable
    def compute_loss(net, x):
        return activations["relu"](net(x)).sum() * len(lazy)

    net = nn.Linear(3, 1).to("jax")
    for _ in range(3):
        compute_loss(net, X.to("jax")).backward()
    assert compute_loss.compiled_function.is_compiled and (1, 3) == net.weight.grad.shape


def test_configuration_whose_items_are_attributes() -> None:
    class Configuration(dict):
        def __getattr__(self, name):
            return self[name]

    class AttrDict(dict):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.__dict__ = self

    class Margin(nn.Linear):
        defaults = Configuration(power=2)

        def forward(self, x):
            return super().forward(x).abs().pow(self.defaults.power)

    config = Configuration(scale=4.0)

    @differentiable
    def compute_loss(net, x, h):
        out = net(x) * config.scale * h.scale
        return out.mean() ** h["power"], config

    net = Margin(3, 2).to("jax")
    losses = [compute_loss(net, X.to("jax"), AttrDict(scale=k, power=2)) for k in (1.0, 1.0, 2.0)]
    assert_equal(4 * losses[0][0], losses[2][0])
    assert compute_loss.compiled_function.is_compiled and "scale" in losses[0][1]


def test_error_in_the_function_puts_attributes_back() -> None:
    class Breaking(Noting):
        def forward(self, x):
            out = super().forward(x)
            if self.seen:
                raise KeyError("broken")
            return out

    net, decorated = Breaking().to("jax"), differentiable(mean_square)
    decorated(net, X.to("jax"))
    last = net.last
    net.seen.append(1)
    with pytest.raises(KeyError, match="broken"):
        decorated(net, X.to("jax"))
    assert net.last is last


class Proxy:
    """An object that passes for the one that it holds, as loaders of accelerate do."""

    def __init__(self, held: object) -> None:
        self.held = held
        self.scale = 2.0

    @property
    def __class__(self) -> Any:
        return self.held.__class__


def test_an_object_that_passes_for_another_one_is_read() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.net, self.scale = nn.Linear(2, 1).to("jax"), 2.0
            self.loader = Proxy(torch.utils.data.DataLoader([1]))

        @differentiable
        def compute_loss(self, x: torch.Tensor) -> torch.Tensor:
            return (self.net(x) * self.scale * self.loader.scale).sum()

    x = torch.ones(2, device="jax", requires_grad=True)
    trainer = Trainer()
    trainer.compute_loss(x).backward()
    assert torch.equal(x.grad.cpu(), 4 * trainer.net.weight.detach().cpu()[0])
