"""From reports to outcomes, and from outcomes to verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tpulint.verify.claims import Claim, Outcome, Word
from tpulint.verify.recipe import Recipe
from tpulint.verify.result import Side, State
from tpulint.verify.values import Comparison, Scalar, Tolerance, arrays, compare
from tpulint.verify.worker import Call
from tpulint.verify.zygote import Ending

# Which of two calls says more, when they come out differently: a wrong second call unmasks the first.
_WEIGHT = (Word.BROKEN, Word.RAISES, Word.NOTHING, Word.DIFFERS, Word.HOST, Word.NARROWED, Word.EQUAL)


def death(ending: Ending) -> Outcome | None:
    """The outcome of a job that came to no report, or that found the case itself at fault."""
    if ending.report is None:
        return Outcome(Word.HANGS if ending.timed_out else Word.CRASHES, ending.death)
    if ending.report.broken:
        return Outcome(Word.BROKEN, ending.report.broken)
    return None


def outcome(
    ending: Ending, reference: Sequence[Call], recipe: Recipe, notes: set[str], side: Side
) -> Outcome:
    """What a stage on torchax came to, beside the reference; remarks go into `notes`."""
    if (died := death(ending)) is not None:
        return died
    assert ending.report is not None
    if ending.report.stood_in:
        return stood_in(ending.report.stood_in)
    if not ending.report.calls:
        return Outcome(Word.BROKEN, "no call was made")
    pairs = list(zip(ending.report.calls, reference, strict=False))
    judged = [_of_call(call, expected, recipe, notes, side) for call, expected in pairs]
    index = min(range(len(judged)), key=lambda i: _WEIGHT.index(judged[i].word))
    worst = judged[index]
    if index and worst.word in (Word.DIFFERS, Word.RAISES):
        return Outcome(worst.word, f"{worst.detail} (second call, other values)", worst.error)
    if worst.word in (Word.EQUAL, Word.NARROWED):
        return Outcome(worst.word, f"{ending.report.calls[0].operations} operations")
    return worst


def stood_in(names: Iterable[str]) -> Outcome:
    """The outcome of a run under torchax that needed what is not there."""
    return Outcome(Word.STOOD_IN, f"torchvision's compiled {', '.join(names)} did not load")


def _of_call(call: Call, expected: Call, recipe: Recipe, notes: set[str], side: Side) -> Outcome:
    if call.error is not None:
        return Outcome(Word.RAISES, call.error[1], call.error[0])
    comparison: Comparison = compare(expected.value, call.value, recipe.tolerance)
    notes |= comparison.notes | {f"{text} (torchax's default)" for text in comparison.narrowed}
    if comparison.difference:
        return Outcome(Word.DIFFERS, comparison.difference)
    if comparison.compared == 0:
        return Outcome(Word.NOTHING)
    if any(array.place == "host" for array in arrays(call.value)):
        return Outcome(Word.HOST, "the result is a host tensor")
    # Data that the original itself takes to a device is the user's own doing: a fix may do it too.
    own = expected.moved if side == "fixed" or recipe.inputs_on_host else frozenset[str]()
    if call.from_host - own:
        if not recipe.round_trip:
            return Outcome(Word.HOST, "computed on the host from the inputs, then moved back")
        notes.add(f"round trip: {recipe.round_trip}")
    if call.operations == 0:
        return Outcome(Word.HOST, "nothing ran on torchax")
    return Outcome(Word.NARROWED if comparison.narrowed else Word.EQUAL)


def of_reference(ending: Ending) -> Outcome:
    """What the original on plain torch came to: `equal`, to itself, if it is a reference."""
    if (died := death(ending)) is not None:
        return died
    assert ending.report is not None
    for call in ending.report.calls:
        if call.error is not None:
            return Outcome(Word.RAISES, call.error[1], call.error[0])
        if compare(call.value, call.value, Tolerance()).compared == 0:
            return Outcome(Word.NOTHING)
    return Outcome(Word.EQUAL)


def of_compilation(ending: Ending) -> Outcome:
    """What a compilation for TPU came to."""
    if (died := death(ending)) is not None:
        return died
    assert ending.report is not None
    call = ending.report.calls[0]
    if call.error is not None:
        return Outcome(Word.RAISES, call.error[1], call.error[0])
    return Outcome(Word.COMPILES, str(call.value.value) if isinstance(call.value, Scalar) else "")


def verdict(claim: Claim, outcome: Outcome) -> State:
    """Verified if what happened is what was claimed."""
    if outcome.word is Word.STOOD_IN:
        return State.NOT_RUN
    return State.VERIFIED if claim.holds(outcome) else State.FAILED
