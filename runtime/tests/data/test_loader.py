"""Data loaders, their workers and their samplers give the batches of torch's."""

# mypy: disallow-subclassing-any=False, disallow-untyped-decorators=False

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
import torchax
from torch.utils.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SubsetRandomSampler,
    TensorDataset,
    get_worker_info,
    random_split,
)
from torch.utils.data._utils.worker import _generate_state
from torchax_compat.data import loader_workers


def _batches(loader: Any) -> list[Any]:
    return [batch.tolist() for batch in loader]


def test_loaders_give_all_batches_without_worker_processes() -> None:
    loader = DataLoader(torch.arange(6), batch_size=2, num_workers=2)
    for _ in range(2):
        assert [[0, 1], [2, 3], [4, 5]] == _batches(loader)


def test_loaders_with_persistent_workers_give_all_batches_again() -> None:
    loader = DataLoader(
        torch.arange(5), batch_size=2, num_workers=2, persistent_workers=True, prefetch_factor=1
    )
    for _ in range(2):
        assert [[0, 1], [2, 3], [4]] == _batches(loader)


class Drawn(Dataset):
    """What is drawn in a worker."""

    def __init__(self) -> None:
        self.rng, self.generator = np.random.RandomState(5), torch.Generator()
        self.seen: list[int] = []
        self.more: dict[str, Any] = {"bits": np.random.default_rng(2), "own": random.Random(3)}

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Any:
        info = get_worker_info()
        assert info is not None
        self.seen.append(i)
        numbers = [random.random(), np.random.rand(), torch.rand(1).item(), self.rng.rand()]
        numbers += [self.more["bits"].random(), self.more["own"].random()]
        return torch.tensor([info.id, info.seed % 1000, len(self.seen), *numbers], dtype=torch.float64)


def test_workers_draw_the_numbers_that_their_seeds_give() -> None:
    data, started = Drawn(), list[int]()
    torch.manual_seed(4)
    seed = torch.empty((), dtype=torch.int64).random_().item()
    torch.manual_seed(4)
    got = torch.cat(list(DataLoader(data, num_workers=2, worker_init_fn=started.append)))
    assert [0, 1] == started
    assert [] == data.seen
    for worker in range(2):
        python = random.Random(seed + worker)
        numpys = np.random.RandomState(_generate_state(seed, worker))
        torchs = torch.Generator().manual_seed(seed + worker)
        own, bits, third = np.random.RandomState(5), np.random.default_rng(2), random.Random(3)
        for turn in range(2):
            due = [worker, (seed + worker) % 1000, turn + 1, python.random(), numpys.rand()]
            due += [torch.rand(1, generator=torchs).item(), own.rand(), bits.random(), third.random()]
            assert pytest.approx(due) == got[worker + 2 * turn].tolist()


def test_what_workers_draw_changes_no_generator_of_the_program() -> None:
    before = random.getstate()
    torch.manual_seed(4)
    list(DataLoader(Drawn(), num_workers=2))
    after = torch.rand(1)
    torch.manual_seed(4)
    torch.empty((), dtype=torch.int64).random_()
    assert (before, after) == (random.getstate(), torch.rand(1))


class Stream(IterableDataset):
    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        assert info is not None
        yield from range(10 * info.id, 10 * info.id + (5 if info.id == 0 else 2))


def test_iterable_data_sets_are_shared_out_among_workers() -> None:
    assert [[0, 1], [10, 11], [2, 3], [4]] == _batches(DataLoader(Stream(), batch_size=2, num_workers=2))


def test_errors_of_data_sets_are_raised() -> None:
    class Broken(Dataset):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, i: int) -> Any:
            raise KeyError(i)

    for count in (0, 2):
        with pytest.raises(KeyError):
            list(DataLoader(Broken(), num_workers=count))


def test_data_sets_are_copied_for_each_worker_as_far_as_they_may_note_something() -> None:
    class Own:
        def __init__(self) -> None:
            self.notes, self.pair, self.table = [1], ([2], 3), {"a": [4]}
            self.again, self.net = self.notes, torch.nn.Linear(1, 1)

    class Reduced(Own):
        def __reduce__(self) -> Any:
            return Own, ()

    data = Own()
    made = loader_workers._copied(data, {})
    assert made is not data
    assert made.notes is made.again
    for mine, other in (
        (made.notes, data.notes),
        (made.pair[0], data.pair[0]),
        (made.table["a"], data.table["a"]),
    ):
        assert mine == other
        assert mine is not other
    assert made.net is data.net
    reduced = Reduced()
    assert loader_workers._copied(reduced, {}) is reduced


class OnDevice(Dataset):
    def __init__(self) -> None:
        self.calls = 0

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Any:
        self.calls += 1
        return torch.rand(1).to("jax") + i


def test_data_sets_that_move_their_items_to_the_device_are_fetched_with_torchax() -> None:
    data = OnDevice()
    torch.manual_seed(4)
    got = torch.cat(list(DataLoader(data, batch_size=2))).flatten().tolist()
    torch.manual_seed(4)
    torch.empty((), dtype=torch.int64).random_()
    assert pytest.approx([torch.rand(1).item() + i for i in range(4)]) == got
    assert data.calls <= 6


def test_batches_of_tensors_of_the_device() -> None:
    data = TensorDataset(torch.arange(4.0).to("jax"), torch.arange(4))
    for one, other in DataLoader(data, batch_size=2, pin_memory=True):
        assert ("jax", "cpu") == (one.device.type, other.device.type)
        assert one.tolist() == other.tolist()


def test_nothing_is_pinned() -> None:
    x = torch.ones(2)
    assert x.pin_memory() is x
    assert [[0, 1]] == _batches(DataLoader(torch.arange(2), batch_size=2, pin_memory=True))


def test_permutations_are_those_of_the_host() -> None:
    torch.manual_seed(3)
    due = torch.randperm(5, generator=None)
    torch.manual_seed(3)
    got = torch.randperm(5, device="jax")
    assert (due.tolist(), "cpu", "jax") == (got.tolist(), due.device.type, got.device.type)
    parts = random_split(range(5), [3, 2], generator=torch.Generator().manual_seed(1))
    assert [0, 1, 2, 3, 4] == sorted([*parts[0], *parts[1]])


@pytest.mark.parametrize("place", ["cpu", "jax"])
def test_loaders_shuffle_alike_whatever_the_default_device_is(place: str) -> None:
    due = _batches(DataLoader(range(6), shuffle=True, generator=torch.Generator().manual_seed(3)))
    with torch.device(place):
        loader = DataLoader(range(6), shuffle=True, generator=torch.Generator(place).manual_seed(3))
        assert due == _batches(loader)
        assert 6 == len(list(RandomSampler(range(6))))
        assert [3, 4] == sorted(SubsetRandomSampler([3, 4]))


def test_items_are_made_on_the_default_device() -> None:
    class Made(Dataset):
        def __len__(self) -> int:
            return 2

        def __getitem__(self, i: int) -> Any:
            return torch.tensor(float(i))

    fetcher = torch.utils.data._utils.fetch._MapDatasetFetcher(Made(), True, torch.stack, False)  # noqa: FBT003
    with torch.device("jax"):
        assert "jax" == fetcher.fetch([0, 1]).device.type


def test_a_generator_of_the_device_is_one_of_the_host() -> None:
    one, other = (torch.Generator(device=where).manual_seed(3) for where in ("jax", "cpu"))
    assert isinstance(one, torch.Generator)
    assert not isinstance(torch.device("jax"), torch.Generator)
    assert "cpu" == one.device.type
    there, host = torch.randn(4, generator=one, device="jax"), torch.randn(4, generator=other)
    assert ("jax", host.tolist()) == (there.device.type, there.tolist())


def test_fork_rng_keeps_the_random_state_of_the_device() -> None:
    environment = torchax.default_env()
    key = environment.prng_key
    with torch.random.fork_rng(devices=[0]):
        ahead = torch.rand(3, device="jax")
        environment.get_and_rotate_prng_key()
    assert ahead.tolist() == torch.rand(3, device="jax").tolist()
    assert key is environment.prng_key


def test_whole_modules_are_read_to_where_they_were(tmp_path: Any) -> None:
    net = torch.nn.Linear(2, 1).to("jax")
    torch.save(net, tmp_path / "net.pt")
    read = torch.load(tmp_path / "net.pt", weights_only=False)
    assert "jax" == read.weight.device.type
    assert net.weight.tolist() == read.weight.tolist()
    assert "cpu" == torch.load(tmp_path / "net.pt", map_location="cpu", weights_only=False).weight.device.type
