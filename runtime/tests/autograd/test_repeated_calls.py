"""A call that is like the one before is not analyzed again, and one that differs in anything is."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torchax_compat import compile_optimizer, differentiable
from torchax_compat.jit import reachable_modules

STEPS, CHANGED_AT = 10, 7
TOLERANCE = 1e-4


class Slots:
    """An object without a dictionary."""

    __slots__ = ("scale",)

    def __init__(self) -> None:
        self.scale = 1.0


class Net(nn.Module):
    """A model with what a program may change."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2))
        self.others = [nn.Linear(2, 2)]
        self.register_buffer("offset", torch.full((2,), 0.25))
        self.scale = 1.0
        self.activation = nn.LeakyReLU(0.1)
        self.later: list[nn.Module] = [nn.Softplus()]
        self.factors = {"one": 1.0, "other": 2.0}
        self.slots = Slots()
        inner = types.SimpleNamespace(loss=types.SimpleNamespace(scale=1.0))
        self.settings = types.SimpleNamespace(scale=1.0, model=inner)
        self.nested = [[1.0], [2.0]]
        self.function: Callable[[torch.Tensor], torch.Tensor] = torch.tanh
        self.table = np.ones(2, np.float32)

        def scaled(x: torch.Tensor, first: float = 1.0, *, factor: float = 1.0) -> torch.Tensor:
            return x * first * factor

        self.scaled: Any = scaled
        self.partial = functools.partial(scaled, factor=1.0)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.layers(x) * self.scale + self.offset
        for other in self.others:
            x = other(x)
        x = self.activation(x) * self.factors["one"] * self.settings.scale * self.nested[0][0]
        x = x * self.slots.scale * self.settings.model.loss.scale
        for one in self.later:
            x = x + one(x) * 0.1
        x = self.partial(self.scaled(x)) * float(self.table[0])
        return x + self.function(x) * 0.1


class Loop:
    """A training loop, on the host with PyTorch or on torchax."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(0)
        self.net, self.device, self.weight, self.rows = Net().to(device), device, 1.0, 6
        self.net.others[0].to(device)
        parameters = [*self.net.parameters(), *self.net.others[0].parameters()]
        self.optimizer = compile_optimizer(torch.optim.SGD(parameters, lr=0.1, momentum=0.9))
        self.handles: list[Any] = []
        self.context: Callable[[], Any] = contextlib.nullcontext
        weight_of = lambda: self.weight  # noqa: E731 # a closure of the loss

        def compute_loss(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return nn.functional.mse_loss(net(x), y) * weight_of()

        self.compute_loss = differentiable(compute_loss) if device == "jax" else compute_loss

    def linear(self, *sizes: int) -> nn.Linear:
        generator = torch.Generator().manual_seed(5)
        made = nn.Linear(*sizes)
        for p in made.parameters():
            p.data.copy_(torch.rand(p.shape, generator=generator))
        return made.to(self.device)

    def run(self, change: Callable[[Loop], None]) -> list[float]:
        generator = torch.Generator().manual_seed(1)
        losses = []
        for step in range(STEPS):
            if step == CHANGED_AT:
                change(self)
            x = torch.randn(self.rows, 4, generator=generator).to(self.device)
            y = torch.randn(self.rows, 2, generator=generator).to(self.device)
            self.optimizer.zero_grad()
            with self.context():
                loss = self.compute_loss(self.net, x, y)
            loss.backward()
            self.optimizer.step()
            losses.append(loss.item())
        for handle in self.handles:
            handle.remove()
        return losses


def nothing(_loop: Loop) -> None:
    pass


def assigned_module(loop: Loop) -> None:
    loop.net.layers[3] = loop.linear(8, 2)


def module_in_the_dictionary(loop: Loop) -> None:
    loop.net.layers._modules["2"] = nn.ReLU()


def other_activation(loop: Loop) -> None:
    loop.net.layers[2] = nn.ReLU()


def removed_module(loop: Loop) -> None:
    del loop.net.layers[2]


def assigned_parameter(loop: Loop) -> None:
    loop.net.layers[3].weight = loop.linear(8, 2).weight


def parameter_in_the_dictionary(loop: Loop) -> None:
    loop.net.layers[3]._parameters["weight"] = loop.linear(8, 2).weight


def frozen_parameter(loop: Loop) -> None:
    loop.net.layers[0].weight.requires_grad_(requires_grad=False)


def frozen_module(loop: Loop) -> None:
    loop.net.layers[0].requires_grad_(requires_grad=False)


def evaluation(loop: Loop) -> None:
    loop.net.eval()


def evaluation_of_one(loop: Loop) -> None:
    loop.net.layers[1].training = False


def forward_hook(loop: Loop) -> None:
    loop.net.layers[3].register_forward_hook(lambda _module, _args, out: out * 2)


def hook_of_all_modules(loop: Loop) -> None:
    def double(module: nn.Module, _args: Any, out: torch.Tensor) -> torch.Tensor | None:
        return out * 2 if isinstance(module, nn.LeakyReLU) else None

    loop.handles.append(nn.modules.module.register_module_forward_hook(double))


def assigned_number(loop: Loop) -> None:
    loop.net.scale = 0.5


def number_in_the_dictionary(loop: Loop) -> None:
    vars(loop.net)["scale"] = 0.5


def setting_of_torch(loop: Loop) -> None:
    loop.net.layers[1].momentum = 0.5
    loop.net.layers[1].eps = 0.1


def setting_of_an_activation(loop: Loop) -> None:
    loop.net.activation.negative_slope = 0.9


def forward_of_a_module(loop: Loop) -> None:
    loop.net.activation.forward = lambda x: x * 2


def forward_of_a_class(loop: Loop) -> None:
    loop.net.activation.__class__ = type("Other", (nn.LeakyReLU,), {"forward": lambda _self, x: x * 3})


def moved_module(loop: Loop) -> None:
    loop.net.later.insert(0, loop.net.others.pop())


def names_of_values(loop: Loop) -> None:
    one, other = loop.net.factors.values()
    loop.net.factors.clear()
    loop.net.factors.update(other=one, one=other)


def number_in_a_namespace(loop: Loop) -> None:
    loop.net.settings.scale = 3.0


def number_in_slots(loop: Loop) -> None:
    loop.net.slots.scale = 3.0


def number_in_a_namespace_of_namespaces(loop: Loop) -> None:
    loop.net.settings.model.loss.scale = 3.0


def number_in_a_nested_list(loop: Loop) -> None:
    loop.net.nested[0][0] = 3.0


def function_of_a_module(loop: Loop) -> None:
    loop.net.function = torch.sigmoid


def array_of_numpy(loop: Loop) -> None:
    loop.net.table[0] = 3.0


def keyword_of_a_partial_function(loop: Loop) -> None:
    loop.net.partial.keywords["factor"] = 3.0


def default_of_a_keyword(loop: Loop) -> None:
    loop.net.scaled.__kwdefaults__["factor"] = 3.0


def other_defaults_of_keywords(loop: Loop) -> None:
    loop.net.scaled.__kwdefaults__ = {"factor": 3.0}


def other_defaults(loop: Loop) -> None:
    loop.net.scaled.__defaults__ = (3.0,)


def appended_module(loop: Loop) -> None:
    loop.net.others.append(loop.linear(2, 2))


def replaced_buffer(loop: Loop) -> None:
    loop.net.offset = torch.full((2,), -0.5).to(loop.device)


def buffer_in_the_dictionary(loop: Loop) -> None:
    loop.net._buffers["offset"] = torch.full((2,), -0.5).to(loop.device)


def variable_of_the_closure(loop: Loop) -> None:
    loop.weight = 3.0


def other_shape(loop: Loop) -> None:
    loop.rows = 5


def autocast(loop: Loop) -> None:
    device = "jax" if loop.device == "jax" else "cpu"
    loop.context = lambda: torch.autocast(device, dtype=torch.bfloat16)


CHANGES = [
    *(
        nothing,
        assigned_module,
        other_activation,
        module_in_the_dictionary,
        removed_module,
        assigned_parameter,
    ),
    *(parameter_in_the_dictionary, frozen_parameter, frozen_module, evaluation, evaluation_of_one),
    *(forward_hook, assigned_number, number_in_the_dictionary, setting_of_torch, appended_module),
    *(
        setting_of_an_activation,
        forward_of_a_module,
        forward_of_a_class,
        hook_of_all_modules,
        moved_module,
        names_of_values,
    ),
    *(
        number_in_a_namespace,
        number_in_slots,
        number_in_a_namespace_of_namespaces,
        number_in_a_nested_list,
        function_of_a_module,
    ),
    *(array_of_numpy, keyword_of_a_partial_function, default_of_a_keyword, other_defaults_of_keywords),
    *(
        other_defaults,
        replaced_buffer,
        buffer_in_the_dictionary,
        variable_of_the_closure,
        other_shape,
        autocast,
    ),
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_a_change_between_calls_is_noticed(change: Callable[[Loop], None]) -> None:
    tolerance = 2e-2 if change is autocast else TOLERANCE
    expected = Loop("cpu").run(change)
    assert Loop("jax").run(change) == pytest.approx(expected, rel=tolerance)
    if change is not nothing:
        assert Loop("cpu").run(nothing) != pytest.approx(expected, rel=TOLERANCE)


def searches(monkeypatch: pytest.MonkeyPatch, loop: Loop, change: Callable[[Loop], None]) -> int:
    """How many calls searched for modules."""
    calls = []
    search = reachable_modules.modules_and_tensors
    monkeypatch.setattr(
        reachable_modules, "modules_and_tensors", lambda *args: (calls.append(1), search(*args))[1]
    )
    loop.run(change)
    return len(calls)


def test_calls_that_are_alike_search_for_modules_only_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    assert searches(monkeypatch, Loop("jax"), nothing) == 4


def test_a_call_that_differs_searches_once_more(monkeypatch: pytest.MonkeyPatch) -> None:
    assert searches(monkeypatch, Loop("jax"), frozen_parameter) > 4


def test_functions_whose_calls_never_repeat_are_not_compared_for_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loop = Loop("jax")
    steps = iter(range(100))
    before = type(loop.optimizer).zero_grad

    def zero_grad() -> None:
        vars(loop.net)["note"] = object()  # another one at each step, which the loss does not read
        next(steps)
        before(loop.optimizer)

    loop.optimizer.zero_grad = zero_grad  # type: ignore[method-assign]
    assert searches(monkeypatch, loop, nothing) == STEPS
