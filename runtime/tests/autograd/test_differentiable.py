"""A decorated function as one node of torch's graph: what it is called with, and which gradients it gives."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# mypy: disable-error-code="has-type"
# ruff: noqa: B905, N812

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torchax_compat import compile_update, differentiable, environment
from torchax_compat.jit import trace

from ..comparison import assert_equal, assert_same_as_torch

X = torch.linspace(-1, 2, 12).reshape(4, 3)


def mean_square(net, x):
    return net(x).square().mean()


def test_loss_of_a_network_has_the_gradients_of_torch() -> None:
    assert_same_as_torch(mean_square, nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), X)


def test_slices_and_flattening_lose_no_gradients() -> None:
    def compute_loss(x, w):
        hidden = x @ w
        return hidden[:, 0].sum() + hidden.flatten()[::2].square().sum()

    assert_same_as_torch(compute_loss, X, torch.randn(3, 3).requires_grad_())


def test_without_the_decorator_gradients_of_torchax_are_none_or_partial() -> None:
    net = nn.Linear(3, 2).to("jax")
    with pytest.raises(RuntimeError, match="does not require grad"):
        mean_square(net, X.to("jax")).backward()


def test_tensors_of_the_host_alone_are_left_to_torch() -> None:
    compute_loss = differentiable(mean_square)
    net = nn.Linear(3, 2)
    compute_loss(net, X).backward()
    assert {} == compute_loss.compiled_function.known.traces and net.weight.grad is not None


def test_decorated_method_is_bound_to_its_object() -> None:
    class Trainer:
        def __init__(self):
            self.net = nn.Linear(3, 2).to("jax")

        @differentiable
        def compute_loss(self, x):
            return self.net(x).sum()

    trainer = Trainer()
    trainer.compute_loss(X.to("jax")).backward()
    assert_equal(torch.full((2,), 4.0), trainer.net.bias.grad)
    assert Trainer.compute_loss is Trainer.__dict__["compute_loss"]


def test_decorator_with_options_gives_a_decorator() -> None:
    @differentiable(compiled=False)
    def compute_loss(net, x):
        """Its own documentation."""
        return net(x).sum()

    net = nn.Linear(3, 2).to("jax")
    compute_loss(net, x=X.to("jax")).backward()
    assert not compute_loss.compiled_function.is_compiled
    assert ("compute_loss", "Its own documentation.") == (compute_loss.__name__, compute_loss.__doc__)


def test_learned_tensors_that_are_no_parameters_have_gradients() -> None:
    class Agent:
        def __init__(self, device):
            self.net = nn.Linear(3, 2).to(device)
            nn.init.constant_(self.net.weight, 0.3), nn.init.zeros_(self.net.bias)
            self.log_alpha = torch.zeros(1, device=device).requires_grad_()
            self.scales = {"x": torch.ones(3, device=device).requires_grad_()}

        def loss(self, x):
            return (self.net(x * self.scales["x"]) * self.log_alpha.exp()).square().sum()

        def gradients(self):
            return self.log_alpha.grad, self.scales["x"].grad, self.net.weight.grad

    host, there = Agent("cpu"), Agent("jax")
    host.loss(X).backward()
    differentiable(there.loss)(X.to("jax")).backward()
    assert_equal(host.gradients(), there.gradients())


def test_leaves_in_lists_and_dictionaries_have_gradients() -> None:
    def compute_loss(p, corners, x):
        return (torch.tanh(x @ p["turn"] + p["shift"]) * torch.stack(corners).prod(0)).square().sum()

    def leaf(*shape):
        return torch.rand(*shape).requires_grad_()

    p = {"turn": leaf(3, 2), "shift": leaf(2)}
    assert_same_as_torch(compute_loss, p, [leaf(2), leaf(2)], X)


def test_parameter_that_the_loss_does_not_depend_on_has_no_gradient() -> None:
    class Detector(nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.boxes, self.spare = nn.Linear(3, 3), nn.Linear(3, 2), nn.Linear(3, 2)

        def forward(self, x, target):
            h = torch.tanh(self.body(x))
            return h.mean() + (self.boxes(h) ** 2).mean() if target.sum() > 0 else h.mean()

    batches = [(torch.full((2,), float(step != 2)),) for step in range(4)]
    assert_same_as_torch(lambda net, x, target: net(x, target), Detector(), X, batches=batches)


@pytest.mark.parametrize("is_compiled", [True, False])
def test_only_what_leads_to_the_output_in_use_has_gradients(is_compiled: bool) -> None:
    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.left, self.right = nn.Linear(3, 2), nn.Linear(3, 2)

    def compute_both(net, x):
        return net.left(x).square().mean(), net.right(x).square().mean(), x.argmax()

    net, compute = Pair().to("jax"), differentiable(compute_both, compiled=is_compiled)
    for used in (0, 1, 0):
        net.zero_grad()
        compute(net, X.to("jax"))[used].backward()
        assert [used == 1, used == 0] == [net.left.weight.grad is None, net.right.weight.grad is None]


def test_output_without_any_gradient_requires_none() -> None:
    @differentiable
    def compute(net, x):
        return net(x).sum(), x.mean(), net(x).detach(), (x > 0).sum()

    loss, mean, detached, count = compute(nn.Linear(3, 2).to("jax"), X.to("jax"))
    wants = [one.requires_grad for one in (loss, mean, detached, count)]
    assert [True, False, False, False] == wants


def test_loss_may_be_differentiated_twice_where_the_graph_is_retained() -> None:
    net = nn.Linear(3, 2).to("jax")
    loss = differentiable(mean_square)(net, X.to("jax"))
    loss.backward(retain_graph=True)
    first = net.weight.grad.clone()
    loss.backward()
    assert_equal(2 * first, net.weight.grad)


def test_losses_of_several_decorated_functions_are_one_graph() -> None:
    compute_hidden = differentiable(lambda net, x: net(x))
    compute_loss = differentiable(lambda hidden: hidden.square().mean())
    net = nn.Linear(3, 2)
    expected = torch.autograd.grad(mean_square(net, X), net.weight)
    net.to("jax")
    compute_loss(compute_hidden(net, X.to("jax"))).backward()
    assert_equal(expected[0], net.weight.grad)


def test_sum_of_losses_and_their_parts_by_index() -> None:
    compute_losses = differentiable(lambda net, x: net(x).square().mean(0))
    net = nn.Linear(3, 2)
    expected = torch.autograd.grad((net(X).square().mean(0) * torch.tensor([1.0, 3.0])).sum(), net.weight)
    net.to("jax")
    losses = compute_losses(net, X.to("jax"))
    (losses[0] + 3 * losses[1]).backward()
    assert_equal(expected[0], net.weight.grad)


def test_gradients_of_an_earlier_step_are_not_kept_alive_by_a_state_that_is_detached() -> None:
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.out = nn.RNN(3, 4), nn.Linear(4, 2)

        def forward(self, x, hidden):
            y, hidden = self.rnn(x, hidden.detach())
            return self.out(y), hidden

    def compute_loss(net, x, hidden):
        y, hidden = net(x, hidden)
        return y.square().mean(), hidden

    results = []
    for device in ("cpu", "jax"):
        torch.manual_seed(0)
        net, hidden = Model().to(device), torch.zeros(1, 4).to(device)
        function = compute_loss if device == "cpu" else differentiable(compute_loss)
        for _ in range(3):  # torch would raise at the second one where the graph behind is freed
            loss, hidden = function(net, X.to(device), hidden)
            loss.backward()
            results.append((loss.item(), net.rnn.weight_ih_l0.grad.cpu().clone()))
    assert_equal(results[:3], results[3:])


def test_in_torch_no_grad_results_require_no_gradient() -> None:
    compute_loss = differentiable(mean_square)
    net = nn.Linear(3, 2).to("jax")
    with torch.no_grad():
        assert not compute_loss(net, X.to("jax")).requires_grad
    assert compute_loss(net, X.to("jax")).requires_grad
    assert 2 == len(compute_loss.compiled_function.known.traces)


def test_modes_and_shapes_have_versions_of_their_own() -> None:
    compute_loss = differentiable(mean_square)
    net = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)).to("jax")
    for mode in (True, False, True):
        net.train(mode)
        compute_loss(net, X.to("jax"))
    compute_loss(net, X[:2].to("jax"))
    assert 3 == len(compute_loss.compiled_function.known.traces)


def test_loss_modules_that_are_created_anew_are_distinguished_by_their_settings() -> None:
    @differentiable
    def compute_loss(net, criterion, x):
        return criterion(net(x), x[:, :1])

    net = nn.Linear(3, 1).to("jax")
    for _ in range(20):
        compute_loss(net, nn.MSELoss(), X.to("jax"))
    assert (
        1 == len(compute_loss.compiled_function.known.traces) and compute_loss.compiled_function.is_compiled
    )
    for criterion in (nn.MSELoss(reduction="sum"), nn.HuberLoss(), nn.HuberLoss(delta=2.0)):
        compute_loss(net, criterion, X.to("jax"))
    assert 4 == len(compute_loss.compiled_function.known.traces)


def test_with_too_many_plain_values_calls_are_compiled_one_by_one() -> None:
    @differentiable
    def compute_loss(net, x, what):
        return net(x).sum() * (1 if what is None else 2)

    net, others = nn.Linear(3, 1).to("jax"), [object() for _ in range(2 * trace.MOST_VERSIONS)]
    for what in others[: trace.MOST_NEW_VERSIONS]:
        compute_loss(net, X.to("jax"), what).backward()
    with pytest.warns(UserWarning, match="it was called with 8 combinations of non-tensor arguments"):
        compute_loss(net, X.to("jax"), others[trace.MOST_NEW_VERSIONS])
    assert not compute_loss.compiled_function.is_compiled
    for what in others:
        compute_loss(net, X.to("jax"), what)
    assert len(compute_loss.compiled_function.known.traces) <= trace.MOST_VERSIONS + 1


def test_function_that_is_given_an_iterator_is_not_compiled_as_a_whole() -> None:
    @differentiable
    def compute_loss(net, batches):
        return net(next(batches).to("jax")).sum()

    net = nn.Linear(3, 1).to("jax")
    batches = iter([X, 2 * X])
    losses = [compute_loss(net, batches).item() for _ in range(2)]
    assert_equal([net.cpu()(one).sum().item() for one in (X, 2 * X)], losses)
    assert not compute_loss.compiled_function.is_compiled


def test_error_of_the_function_is_raised_as_it_is() -> None:
    @differentiable
    def compute_loss(net, x):
        raise KeyError("missing")

    for _ in range(2):
        with pytest.raises(KeyError, match="missing"):
            compute_loss(nn.Linear(3, 1).to("jax"), X.to("jax"))
    assert compute_loss.compiled_function.is_compiled


def test_values_that_are_needed_let_calls_be_compiled_one_by_one() -> None:
    def compute_loss(net, x, target):
        output = net(x)
        seen = output.detach().cpu().numpy().sum() + sum(output.mean(0).tolist())
        return F.cross_entropy(output, target), float(seen)

    with pytest.warns(UserWarning, match="`compute_loss` runs call by call: .* Reason: "):
        assert_same_as_torch(compute_loss, nn.Linear(3, 2), X, torch.tensor([0, 1, 1, 0]), is_compiled=False)


def test_parameter_that_is_replaced_without_gradients_stays_itself() -> None:
    class Codebook(nn.Module):
        def __init__(self):
            super().__init__()
            self.codes = nn.Embedding(4, 3)
            self.register_buffer("counts", torch.ones(4))
            self.sums = nn.Parameter(torch.randn(4, 3))

        def forward(self, z):
            distances = ((z[:, None] - self.codes.weight[None]) ** 2).sum(2)
            picked = F.one_hot(distances.argmin(1), 4).float()
            quantized = picked @ self.codes.weight
            self.counts = self.counts * 0.9 + 0.1 * picked.sum(0)
            self.sums = nn.Parameter(self.sums * 0.9 + 0.1 * (picked.t() @ z))
            self.codes.weight = nn.Parameter(self.sums / self.counts.unsqueeze(1))
            return z + (quantized - z).detach()

    results: list[Any] = []
    for device in ("cpu", "jax"):
        torch.manual_seed(0)
        encoder, book = nn.Linear(3, 3).to(device), Codebook().to(device)

        def compute_loss(encoder, book, x):
            return (book(encoder(x)) - x).square().mean()

        function = compute_loss if device == "cpu" else differentiable(compute_loss)
        for k in range(4):
            encoder.zero_grad()
            function(encoder, book, (X + k).to(device)).backward()
            results.append((encoder.weight.grad.cpu().clone(), book.codes.weight.detach().cpu().clone()))
    assert_equal(results[:4], results[4:])


def test_parameter_that_is_replaced_with_gradients_is_another_one() -> None:
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))

        def forward(self, x):
            out = x * self.scale
            self.scale = nn.Parameter(self.scale * 0.9)
            return out

    net = Scaled().to("jax")
    first = net.scale
    compute_loss = differentiable(lambda net, x: net(x).sum())
    compute_loss(net, X.to("jax")).backward()
    assert net.scale is not first
    assert_equal((torch.full((3,), 0.9), X.sum(0)), (net.scale.detach(), first.grad))


def test_argument_that_is_given_back_is_itself() -> None:
    @differentiable
    def compute_loss(picture, net):
        return net(picture).sum(), picture, picture.detach().cpu()

    picture = X.clone().to("jax").requires_grad_()
    loss, same, host = compute_loss(picture, nn.Linear(3, 2).to("jax"))
    loss.backward()
    assert same is picture and picture.grad is not None
    assert "cpu" == host.device.type


def test_host_tensor_that_is_an_argument_is_written_as_its_copy_is() -> None:
    def compute_loss(net, x, seen, means):
        h = net(x)
        seen.copy_(h.detach().mean(0))
        means.add_(h.detach().mean())
        return h.square().sum()

    net, seen, table = nn.Linear(3, 2), torch.zeros(2), torch.zeros(4)
    compute_loss(net, X, seen, table[1:3])
    there, means = torch.zeros(2), torch.zeros(4, device="jax")
    differentiable(compute_loss)(net.to("jax"), X.to("jax"), there, means[1:3]).backward()
    assert_equal((seen, table), (there, means))
    assert "cpu" == there.device.type


def test_host_tensor_whose_copy_gets_another_shape() -> None:
    @differentiable
    def compute_loss(net, x, average):
        average.data = average.data.repeat(2).double()
        return net(x).sum()

    average = torch.ones(2)
    compute_loss(nn.Linear(3, 2).to("jax"), X.to("jax"), average)
    assert (4,) == average.shape


def test_half_precision_parameters_have_gradients_of_half_precision() -> None:
    net = nn.Linear(3, 2).to("jax").half()
    differentiable(lambda net, x: net(x).float().square().mean())(net, X.half().to("jax")).backward()
    assert torch.float16 == net.weight.grad.dtype


def test_shared_weight_has_the_gradients_of_both_uses() -> None:
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
            self.head.weight = self.words.weight

        def forward(self, x):
            return self.head(torch.tanh(self.words(x)))

    results = []
    for device in ("cpu", "jax"):
        torch.manual_seed(0)
        net = Tied()
        net.to(device)
        function = mean_square if device == "cpu" else differentiable(mean_square)
        function(net, torch.arange(4).to(device)).backward()
        results.append(net.words.weight.grad.cpu())
    assert_equal(results[0], results[1])


def test_lazy_modules_get_their_parameters_ahead_of_the_trace() -> None:
    net = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2)).to("jax")
    compute_loss = differentiable(mean_square)
    compute_loss(net, X.to("jax")).backward()
    assert (4, 3) == net[0].weight.grad.shape and compute_loss.compiled_function.is_compiled


def test_modules_in_a_table_that_nobody_moved_are_left_on_the_host() -> None:
    class Swish(nn.Module):
        def __init__(self):
            super().__init__()
            self.beta = nn.Parameter(torch.tensor(1.0))

    table = {"tanh": nn.Tanh(), "swish": Swish()}

    @differentiable
    def compute_loss(net, x):
        return table["tanh"](net(x)).sum()

    net = nn.Linear(3, 2).to("jax")
    compute_loss(net, X.to("jax")).backward()
    assert net.weight.grad is not None and table["swish"].beta.device.type == "cpu"


def test_compiled_function_changes_weights_without_gradients() -> None:
    @compile_update
    def follow(average, net, rate):
        for p, q in zip(average.parameters(), net.parameters()):
            p.mul_(rate).add_(q, alpha=1 - rate)

    average, net = nn.Linear(3, 2), nn.Linear(3, 2)
    expected = 0.9 * average.weight.detach() + 0.1 * net.weight.detach()
    average.to("jax"), net.to("jax")
    follow(average, net, 0.9)
    assert_equal(expected, average.weight.detach())


def test_sums_over_seven_dimensions_have_the_values_of_torch() -> None:
    def compute_loss(flow, weights):
        weights = torch.softmax(weights.view(2, 1, 9, 8, 8, 8, 12), dim=2)
        around = F.unfold(8 * flow, [3, 3], padding=1).view(2, 2, 9, 1, 1, 8, 12)
        spread = (weights * around).sum(2).permute(0, 1, 4, 2, 5, 3)
        return spread.reshape(2, 2, 64, 96).pow(2).sum()

    flow, weights = torch.randn(2, 2, 8, 12), torch.randn(2, 576, 8, 12)
    decorated = differentiable(compute_loss)
    for _ in range(6):
        loss = decorated(flow.to("jax").requires_grad_(), weights.to("jax").requires_grad_())
        loss.backward()
    torch.testing.assert_close(loss.cpu(), compute_loss(flow, weights), rtol=1e-4, atol=0)


def test_without_the_runtime_torchax_tensors_are_an_error_and_host_tensors_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(environment, "is_enabled", lambda: False)
    double = differentiable(lambda x: 2 * x)
    assert double(torch.ones(1, device="cpu")).item() == 2
    with pytest.raises(RuntimeError, match=r"call `torchax_compat\.enable\(\)`"):
        double(torch.ones(1, device="jax"))


@differentiable
def double_at_module_level(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


def test_decorated_functions_are_copied_and_pickled_by_name() -> None:
    assert copy.copy(double_at_module_level) is double_at_module_level
    assert copy.deepcopy({"function": double_at_module_level})["function"] is double_at_module_level
    reduced = double_at_module_level.__reduce__()
    assert reduced == "double_at_module_level" == double_at_module_level.__name__


@pytest.mark.parametrize("kind", ["coroutine", "generator", "classmethod", "number"])
def test_what_cannot_be_compiled_is_refused_when_it_is_decorated(kind: str) -> None:
    async def coroutine(x: Any) -> Any:
        return x

    def generator(x: Any) -> Any:
        yield x

    values = {"coroutine": coroutine, "generator": generator, "classmethod": classmethod(generator)}
    given: Any = values.get(kind, 3)
    with pytest.raises(TypeError, match="`@differentiable`"):
        differentiable(given)
