"""`LBFGS` and `SparseAdam` give the numbers of torch's."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torchax_compat import differentiable


def _descended(device: str, calls: int = 3, **options: Any) -> tuple[list[float], list[float], Any]:
    start = torch.tensor([-1.2, 1.0, 0.5])
    x, y = nn.Parameter(start[:2].clone().to(device)), nn.Parameter(start[2].clone().to(device))
    unused = nn.Parameter(torch.ones(2).to(device))
    optimizer = torch.optim.LBFGS([x, y, unused], **options)

    def loss(x: Any, y: Any) -> Any:
        return 10 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2 + (y - x[0]) ** 2

    computed = differentiable(loss) if device == "jax" else loss

    def closure() -> Any:
        optimizer.zero_grad()
        made = computed(x, y)
        made.backward()
        return made

    losses = [float(optimizer.step(closure)) for _ in range(calls)]
    return losses, [*x.detach().tolist(), y.item()], optimizer


OPTIONS: dict[str, dict[str, Any]] = {
    "rate": {"lr": 0.1, "max_iter": 3},
    "line search": {"line_search_fn": "strong_wolfe", "max_iter": 6},
    "few pairs": {"lr": 0.1, "max_iter": 5, "history_size": 2},
    "few evaluations": {"lr": 0.2, "max_iter": 9, "max_eval": 3},
    "already flat": {"tolerance_grad": 1e9},
    "no change": {"lr": 0.1, "tolerance_change": 10.0},
    "no slope": {"lr": 0.1, "tolerance_change": 1e9},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_lbfgs(name: str) -> None:
    due, at, host = _descended("cpu", **OPTIONS[name])
    got, there, made = _descended("jax", **OPTIONS[name])
    assert pytest.approx(due, rel=2e-3, abs=1e-4) == got
    assert pytest.approx(at, rel=2e-3, abs=1e-3) == there
    kept, found = (one.state_dict()["state"][0] for one in (host, made))
    assert kept.keys() == found.keys()
    assert (kept["func_evals"], kept["n_iter"]) == (found["func_evals"], found["n_iter"])


def test_lbfgs_goes_on_from_a_state_that_was_saved() -> None:
    _, _, optimizer = _descended("jax", calls=2, lr=0.1, max_iter=4)
    p = [nn.Parameter(one.detach().clone()) for one in optimizer.param_groups[0]["params"]]
    other = torch.optim.LBFGS(p, lr=0.1, max_iter=4)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    loss = differentiable(lambda x, y: 10 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2 + (y - x[0]) ** 2)

    def closure() -> Any:
        other.zero_grad()
        made = loss(p[0], p[1])
        made.backward()
        return made

    other.step(closure)
    _, due, _ = _descended("cpu", calls=3, lr=0.1, max_iter=4)
    assert pytest.approx(due, rel=2e-3, abs=1e-3) == [*p[0].detach().tolist(), p[1].item()]


def test_lbfgs_refuses_other_line_searches() -> None:
    with pytest.raises(RuntimeError, match="only 'strong_wolfe' is supported"):
        _descended("jax", line_search_fn="backtracking")


def test_lbfgs_of_the_program_or_the_host_is_torchs_own() -> None:
    p = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.LBFGS([p], lr=0.5)

    def closure() -> Any:
        optimizer.zero_grad()
        made = p.square().sum()
        made.backward()
        return made

    assert 2.0 == float(optimizer.step(closure))
    assert p.abs().max() < 1e-2


@pytest.mark.parametrize("maximize", [True, False])
def test_sparse_adam_leaves_rows_alone_that_no_index_chose(maximize: bool) -> None:
    results = []
    for device in ("cpu", "jax"):
        torch.manual_seed(0)
        words = nn.Embedding(5, 3, sparse=True).to(device)
        other = nn.Embedding(2, 3, sparse=True).to(device)
        optimizer = torch.optim.SparseAdam(
            [*words.parameters(), *other.parameters()], lr=0.1, maximize=maximize
        )

        def loss(words: Any, x: Any) -> Any:
            return words(x).square().sum()

        computed = differentiable(loss) if device == "jax" else loss
        for places in ([0, 2, 2], [2, 3, 3], [0, 1, 2]):
            optimizer.zero_grad()
            made = computed(words, torch.tensor(places).to(device))
            made.backward()
            assert optimizer.step(lambda made=made: made) is made
        optimizer.zero_grad()
        assert optimizer.step() is None
        results.append(words.weight.detach().cpu())
    assert torch.allclose(*results, atol=1e-5)
