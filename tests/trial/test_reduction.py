"""The reduction of a set to what is needed of it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tpulint.trial.reduction import reduced


@given(st.integers(1, 40), st.data())
def test_exactly_the_items_that_are_to_blame_are_found(count: int, data: st.DataObject) -> None:
    blamed = frozenset(data.draw(st.sets(st.integers(0, count - 1), min_size=1)))
    asked: list[frozenset[int]] = []

    def passes(left_out: frozenset[int]) -> bool:
        asked.append(left_out)
        return blamed <= left_out

    assert blamed == reduced(range(count), passes)
    assert len(asked) == len(set(asked))
    assert frozenset(range(count)) not in asked


@given(st.integers(2, 30), st.integers(0, 10**9))
def test_each_item_that_is_left_out_is_needed(count: int, seed: int) -> None:
    def passes(left_out: frozenset[int]) -> bool:
        if len(left_out) == count:
            return True
        return hash((seed, tuple(sorted(left_out)))) % 3 == 0

    found = reduced(range(count), passes)
    assert passes(found)
    assert len(found) == 1 or not any(passes(found - {one}) for one in found)


def test_one_item_of_a_thousand_takes_few_questions() -> None:
    asked = 0

    def passes(left_out: frozenset[int]) -> bool:
        nonlocal asked
        asked += 1
        return 700 in left_out

    assert frozenset({700}) == reduced(range(1000), passes)
    assert asked <= 20
