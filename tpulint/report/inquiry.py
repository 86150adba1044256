"""The report of `explain --at`: what is inferred about one line, and what each rule made of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tpulint.engine.inquiry import Inquiry, Said, Silence
from tpulint.model.belief import Belief, LineBelief
from tpulint.model.project.trace_path import Certainty
from tpulint.model.values.kinds import Array, Data, Device, Instance, Kind, Several, Static, Tensor
from tpulint.report.excerpt import excerpt
from tpulint.report.paint import Paint
from tpulint.report.paths import shown

_DTYPES = {"bool": "boolean tensor", "int": "integer tensor", "float": "floating-point tensor"}
_CERTAINTY = {
    Certainty.JIT: "because the project jits the function at the top of this call chain",
    Certainty.FORWARD: "assuming that the module is jitted (the project does not do it)",
    Certainty.INTERFACE: "assuming that code outside of the project jits it (the project does not)",
}
_LONGEST = 40


def render(inquiry: Inquiry, paint: Paint) -> str:
    """The line, the call chain by which it is traced, inferred types, and what each rule made of it."""
    place = f"{paint.bold(shown(inquiry.path))}{paint.frame(':')}{inquiry.row}"
    lines = [f"{place}  {excerpt(inquiry.line.strip(), 1, None).line}", *_reach(inquiry.belief, paint)]
    values = [(belief.text, believed(belief)) for belief in inquiry.belief.expressions]
    width = max((len(_short(text)) for text, _ in values), default=0)
    if values:
        lines += ["", paint.frame("inferred types")]
        lines += [f"  {_short(text):<{width}}  {words}" for text, words in values]
    spoken = [
        *(_said(one, paint) for one in inquiry.said),
        *(_silence(one, paint) for one in inquiry.silences),
    ]
    lines += ["", paint.frame("rules"), *(spoken or ["  no rule looks at the code on this line"])]
    return "\n".join(lines) + "\n"


def _reach(belief: LineBelief, paint: Paint) -> Iterator[str]:
    where = f"in `{belief.function}`" if belief.function is not None else "at module level"
    if belief.chain is None:
        yield f"  {where}; not traced: no traced code calls it"
        return
    yield f"  {where}; traced, {_CERTAINTY[belief.chain.certainty]}:"
    for number, step in enumerate(belief.chain.steps, 1):
        yield f"    {number}. {paint.dim(f'{shown(step.path)}:{step.row}:{step.column}')} {step.label}"


def believed(belief: Belief) -> str:
    """An expression's inferred type and name in words."""
    words = kind_words(belief.kind, belief.modules)
    if belief.made_at:
        words += f" (line {', '.join(map(str, belief.made_at))})"
    if belief.name is None:
        return words
    called = belief.text.endswith(")")
    if isinstance(belief.kind, Tensor | Data | Static | Array | Device | Instance | Several):
        return f"{words}; {'calls' if called else 'is'} `{belief.name}`"
    return f"{'calls' if called else 'is'} `{belief.name}`" + (
        ", whose result has an unknown type" if called else ""
    )


def kind_words(kind: Kind, modules: Collection[str] = ()) -> str:
    """An inferred type in words; `modules` names the classes that are modules."""
    match kind:
        case Tensor():
            words = _DTYPES.get(kind.dtype, "tensor")
            words = f"zero-dimensional {words}" if kind.scalar else words
            words += " created on the host" if kind.is_host else ""
            return words if kind.certain else f"{words}, or another type"
        case Static(value=value):
            return "static Python value" if value is ... else f"static Python value, {value!r}"
        case Data():
            return "Python value read from a tensor"
        case Array():
            return "NumPy array"
        case Device(type=name):
            return f"device, {name!r}" if name else "device"
        case Instance(cls=cls):
            return f"{'module' if cls in modules else 'instance'} of class `{cls}`"
        case Several(items=None):
            return f"collection, each item: {kind_words(kind.element, modules)}"
        case Several(items=items):
            return f"({'; '.join(kind_words(item, modules) for item in items or ())})"
        case _:
            return "unknown type"


def _said(said: Said, paint: Paint) -> str:
    finding = said.finding
    reasons = ["suppressed by a comment"] * said.suppressed + ["deselected by the settings"] * said.deselected
    status = f"found, but {' and '.join(reasons)}" if reasons else "reported"
    head = f"  {paint.code(finding.code)} {finding.name}, column {finding.location.column}"
    return f"{head}: {paint.bad(status)}: {finding.message}"


def _silence(silence: Silence, paint: Paint) -> str:
    head = f"  {paint.code(silence.code)} {silence.name}, column {silence.location.column}"
    if silence.handled:
        reasons = (
            f"the runtime handles {subject}: see {', '.join(tests)}" for subject, tests in silence.handled
        )
        return f"{head}: {paint.dim('not reported')}, since {'; '.join(reasons)}"
    return f"{head}: {paint.dim('not reported')}: {_reason(silence)}"


def _reason(silence: Silence) -> str:
    """Why a rule reported nothing at a place that it looked at."""
    types = "; ".join(f"`{_short(belief.text)}`: {believed(belief)}" for belief in silence.about)
    if silence.reason:
        why = silence.reason
    elif silence.by_type:
        why = "the rule looks for another type or name"
    else:
        why = f"the code has another form than the rule looks for (see `tpulint explain {silence.code}`)"
    return f"{why}; {types}" if types else why


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
