"""Laws of `fixes.apply` over any edits, against a plain model of what it promises."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tpulint.finding import Applicability, Edit, Fix, Location, Span
from tpulint.fixes import apply

LENGTH = 24
TEXT = "".join(chr(ord("a") + number) for number in range(LENGTH))
HERE = Location(1, 1)


def edit(start: int, end: int, content: str) -> Edit:
    return Edit(Span(start, end), content, HERE, HERE)


@st.composite
def edits(draw: st.DrawFn) -> Edit:
    start = draw(st.integers(0, LENGTH))
    end = draw(st.integers(start, min(LENGTH, start + 6)))
    return edit(start, end, draw(st.sampled_from(("", "X", "YZ", "import jax\n"))))


fixes = st.lists(edits(), max_size=3).map(lambda e: Fix("change it", tuple(sorted(e)), Applicability.SAFE))
several = st.lists(fixes, max_size=6)


def tangled(edits: list[Edit]) -> bool:
    return any(one.span.end > other.span.start for one, other in pairwise(sorted(edits)))


def plain(text: str, edits: list[Edit]) -> str:
    """The text with edits that do not overlap, written from left to right."""
    parts, position = [], 0
    for change in sorted(edits):
        parts += [text[position : change.span.start], change.content]
        position = change.span.end
    return "".join([*parts, text[position:]])


@given(several)
def test_the_result_has_the_edits_of_the_applied_fixes_and_no_others(given_fixes: list[Fix]) -> None:
    text, taken = apply(TEXT, given_fixes)
    assert plain(TEXT, list({edit for fix in taken for edit in fix.edits})) == text


@given(several)
def test_applied_fixes_are_complete_and_do_not_overlap(given_fixes: list[Fix]) -> None:
    _, taken = apply(TEXT, given_fixes)
    assert not tangled(list({edit for fix in taken for edit in fix.edits}))
    for number, fix in enumerate(taken):
        others = {edit for other in taken[:number] for edit in other.edits}
        fresh = set(fix.edits) - others
        assert not any(one.span.overlaps(other.span) for one in fresh for other in others)


@given(several)
def test_a_fix_is_skipped_only_if_it_overlaps_an_applied_one(given_fixes: list[Fix]) -> None:
    _, taken = apply(TEXT, given_fixes)
    made = [edit for fix in taken for edit in fix.edits]
    for fix in given_fixes:
        fresh = [edit for edit in fix.edits if edit not in made]
        collides = any(one.span.overlaps(other.span) for one in fresh for other in made)
        assert fix in taken or collides or tangled(list(set(fix.edits)))


@given(several)
def test_applied_fixes_keep_their_order_and_the_first_valid_one_is_applied(given_fixes: list[Fix]) -> None:
    _, taken = apply(TEXT, given_fixes)
    rest = iter(given_fixes)
    assert all(any(fix == other for other in rest) for fix in taken)
    sound = [fix for fix in given_fixes if not tangled(list(set(fix.edits)))]
    assert sound[:1] == list(taken[:1])


@given(st.permutations(range(5)), st.lists(st.booleans(), min_size=5, max_size=5), st.data())
def test_fixes_that_do_not_overlap_commute(
    order: list[int], sharing: list[bool], data: st.DataObject
) -> None:
    shared = edit(0, 0, "import jax\n")
    made = []
    for number in range(5):
        content = data.draw(st.sampled_from(("", "X", "YZ")))
        own = edit(number * 4 + 2, number * 4 + data.draw(st.integers(2, 4)), content)
        made.append(Fix("change it", (shared, own) if sharing[number] else (own,), Applicability.SAFE))
    text, taken = apply(TEXT, made)
    again, shuffled = apply(TEXT, [made[number] for number in order])
    assert text == again
    assert (set(made), set(made)) == (set(taken), set(shuffled))


@given(fixes, st.integers(1, 4))
def test_a_duplicate_fix_changes_nothing(fix: Fix, times: int) -> None:
    text, taken = apply(TEXT, [fix] * times)
    assert apply(TEXT, [fix])[0] == text
    assert len(taken) in (0, times)


@given(several)
def test_text_outside_of_edits_is_kept(given_fixes: list[Fix]) -> None:
    text, taken = apply(TEXT, given_fixes)
    gone = {offset for fix in taken for edit in fix.edits for offset in range(edit.span.start, edit.span.end)}
    kept = [character for offset, character in enumerate(TEXT) if offset not in gone]
    rest = iter(text)
    assert all(character in rest for character in kept)


def test_a_fix_with_overlapping_edits_is_never_applied() -> None:
    bad = Fix("change it", (edit(0, 5, "x"), edit(3, 8, "y")), Applicability.SAFE)
    good = Fix("change it", (edit(1, 2, "z"),), Applicability.SAFE)
    assert ("azcdefghijklmnopqrstuvwx", (good,)) == apply(TEXT, [bad, good])


def test_an_insertion_shared_by_two_fixes_is_applied_once() -> None:
    shared = edit(0, 0, "import jax\n")
    one = Fix("change it", (shared, edit(4, 5, "J")), Applicability.SAFE)
    other = Fix("change it", (shared, edit(8, 9, "K")), Applicability.SAFE)
    assert ("import jax\nabcdJfghKjklmnopqrstuvwx", (one, other)) == apply(TEXT, [one, other])


def test_an_insertion_adjacent_to_an_edit_is_left_for_the_next_round() -> None:
    one = Fix("change it", (edit(4, 5, "J"),), Applicability.SAFE)
    other = Fix("change it", (edit(5, 5, "K"),), Applicability.SAFE)
    assert ("abcdJfghijklmnopqrstuvwx", (one,)) == apply(TEXT, [one, other])
