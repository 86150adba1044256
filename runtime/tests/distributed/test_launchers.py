"""The environment variables by which launchers describe the processes of a program."""

from __future__ import annotations

import os

import pytest
import torch.distributed as dist
import torchax_compat
from torchax_compat import ranks
from torchax_compat.ranks import launchers

_NAMES = ("RANK", "GROUP_RANK", "NODE_RANK", "WORLD_SIZE", "NNODES", "MASTER_ADDR", "MASTER_PORT")
_ADDRESS = {"MASTER_ADDR": "localhost", "MASTER_PORT": "1234"}


@pytest.fixture(autouse=True)
def _without_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _NAMES:
        monkeypatch.delenv(name, raising=False)


def _set(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, None),
        ({"WORLD_SIZE": "1", "RANK": "0"}, (0, 1)),
        ({**_ADDRESS, "WORLD_SIZE": "4", "RANK": "3", "GROUP_RANK": "1"}, (3, 4)),
        ({**_ADDRESS, "NNODES": "2", "NODE_RANK": "1"}, (1, 2)),
        ({**_ADDRESS, "NNODES": "2", "GROUP_RANK": "0"}, (0, 2)),
    ],
)
def test_number_of_the_process_and_of_all_are_read_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: tuple[int, int] | None
) -> None:
    _set(monkeypatch, variables)
    assert expected == launchers.launched()


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"WORLD_SIZE": "2", "RANK": "1"}, "MASTER_ADDR, MASTER_PORT is not set"),
        ({**_ADDRESS, "WORLD_SIZE": "2"}, "but RANK is not set"),
        ({**_ADDRESS, "NNODES": "2"}, "but GROUP_RANK or NODE_RANK is not set"),
        (
            {"WORLD_SIZE": "two"},
            "`WORLD_SIZE` is 'two', not an integer of at least 1",
        ),
        ({**_ADDRESS, "WORLD_SIZE": "2", "RANK": "2"}, "`RANK` is 2, but there are 2 processes"),
    ],
)
def test_incomplete_environment_is_an_error(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str
) -> None:
    _set(monkeypatch, variables)
    with pytest.raises((RuntimeError, ValueError), match=expected):
        launchers.launched()


@pytest.mark.parametrize("value", ["abc", "0", "-1", "1.5"])
def test_number_of_ranks_has_to_be_one(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(ranks.VARIABLE, value)
    expected = f"the environment variable `TORCHAX_COMPAT_RANKS` is '{value}', not an integer of at least 1"
    with pytest.raises(ValueError, match=expected):
        torchax_compat.distributed.one_rank_per_device()


def test_variables_are_those_of_the_first_rank_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    _set(monkeypatch, {**_ADDRESS, "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "SLURM_PROCID": "3"})
    expected = {
        "RANK": "12",
        "LOCAL_RANK": "4",
        "WORLD_SIZE": "16",
        "LOCAL_WORLD_SIZE": "8",
        **_ADDRESS,
        "SLURM_PROCID": "12",
        "SLURM_LOCALID": "0",
        "SLURM_NTASKS": "16",
    }
    assert expected == launchers.variables(12, 4, 16)


def test_environment_is_restored_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    _set(monkeypatch, {"WORLD_SIZE": "1", "RANK": "0"})
    before = dict(os.environ)
    torchax_compat.distributed.one_rank_per_device()
    assert "0" == os.environ["LOCAL_RANK"]
    ranks.forget()
    assert before == dict(os.environ)


def test_other_number_of_ranks_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    torchax_compat.distributed.one_rank_per_device()
    dist.init_process_group("nccl", world_size=8, rank=0)
    dist.destroy_process_group()
    ranks.forget()
    expected = (
        "`init_process_group` gets `world_size=8`, but the world size is 1 (processes: 1, devices of each: 1)"
    )
    assert expected in capsys.readouterr().err
