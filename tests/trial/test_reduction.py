"""Minimal sets of items without which a check passes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tpulint.trial.reduction import minimal_exclusion


@given(st.integers(1, 40), st.data())
def test_exactly_the_failing_items_are_found(count: int, data: st.DataObject) -> None:
    failing = frozenset(data.draw(st.sets(st.integers(0, count - 1), min_size=1)))
    calls: list[frozenset[int]] = []

    def passes(left_out: frozenset[int]) -> bool:
        calls.append(left_out)
        return failing <= left_out

    assert failing == minimal_exclusion(range(count), passes)
    assert len(calls) == len(set(calls))
    assert frozenset(range(count)) not in calls


@given(st.integers(2, 30), st.integers(0, 10**9))
def test_each_item_that_is_left_out_is_needed(count: int, seed: int) -> None:
    def passes(left_out: frozenset[int]) -> bool:
        if len(left_out) == count:
            return True
        return hash((seed, tuple(sorted(left_out)))) % 3 == 0

    found = minimal_exclusion(range(count), passes)
    assert passes(found)
    assert len(found) == 1 or not any(passes(found - {one}) for one in found)


def test_one_item_of_a_thousand_takes_few_calls() -> None:
    calls = 0

    def passes(left_out: frozenset[int]) -> bool:
        nonlocal calls
        calls += 1
        return 700 in left_out

    assert frozenset({700}) == minimal_exclusion(range(1000), passes)
    assert calls <= 20
