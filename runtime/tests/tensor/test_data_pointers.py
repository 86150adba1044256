"""Addresses and storages of tensors of the device say which of them share their memory."""

from __future__ import annotations

import torch


def test_tensors_that_share_nothing_have_addresses_of_their_own() -> None:
    net = torch.nn.Linear(3, 2).to("jax")
    x, y = torch.zeros(4, 3, device="jax"), torch.zeros(4, 3, device="jax")
    assert x.data_ptr() != y.data_ptr()
    assert x.data_ptr() != 0
    assert len({p.data_ptr() for p in net.parameters()}) == 2
    state = net.state_dict().values()
    assert [p.data_ptr() for p in net.parameters()] == [p.data_ptr() for p in state]


def test_addresses_of_views_are_those_of_their_first_elements() -> None:
    x = torch.zeros(4, 3, device="jax")
    views = x.detach(), x.data, x.view(-1), x[1:], x[1], x.t()
    assert [0, 0, 0, 12, 12, 0] == [one.data_ptr() - x.data_ptr() for one in views]


def test_storages_are_those_of_the_whole_tensor() -> None:
    x, y = torch.zeros(4, 3, device="jax"), torch.zeros(4, 3, device="jax")
    base = x.untyped_storage()
    others = x[2:], x.t(), x.t().reshape(-1), x + 0
    same = [one.untyped_storage().data_ptr() == base.data_ptr() for one in others]
    assert [True, True, False, False] == same
    assert (48, 48, 48) == (base.nbytes(), x[1:].untyped_storage().size(), len(base))
    assert y.untyped_storage().data_ptr() != base.data_ptr()
    assert "jax" == base.device.type
