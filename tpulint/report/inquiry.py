"""What is known of one line, in words."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tpulint.engine.inquiry import Inquiry, Said, Silence
from tpulint.model.belief import Belief, LineBelief
from tpulint.model.project.project import Certainty
from tpulint.model.values.kinds import Array, Data, Device, Instance, Kind, Several, Static, Tensor
from tpulint.report.excerpt import excerpt
from tpulint.report.paint import Paint
from tpulint.report.paths import shown

_DTYPES = {"bool": "boolean tensor", "int": "integer tensor", "float": "floating-point tensor"}
_CERTAINTY = {
    Certainty.JIT: "since its root is jitted",
    Certainty.FORWARD: "if its module is jitted, which the project itself does not do",
    Certainty.INTERFACE: "if those who call it jit it, which the project itself does not do",
}
_LONGEST = 40


def render(inquiry: Inquiry, paint: Paint) -> str:
    """The line, how tracing gets there, its values, and what each rule made of it."""
    place = f"{paint.bold(shown(inquiry.path))}{paint.frame(':')}{inquiry.row}"
    lines = [f"{place}  {excerpt(inquiry.line.strip(), 1, None).line}", *_reach(inquiry.belief, paint)]
    values = [(belief.text, believed(belief)) for belief in inquiry.belief.expressions]
    width = max((len(_short(text)) for text, _ in values), default=0)
    if values:
        lines += ["", paint.frame("values")]
        lines += [f"  {_short(text):<{width}}  {words}" for text, words in values]
    spoken = [
        *(_said(one, paint) for one in inquiry.said),
        *(_silence(one, paint) for one in inquiry.silences),
    ]
    lines += ["", paint.frame("rules"), *(spoken or ["  none has anything to look at here"])]
    return "\n".join(lines) + "\n"


def _reach(belief: LineBelief, paint: Paint) -> Iterator[str]:
    where = f"in `{belief.function}`" if belief.function is not None else "outside of any function"
    if belief.chain is None:
        yield f"  {where}; host code: nothing that is traced reaches it"
        return
    yield f"  {where}; traced, {_CERTAINTY[belief.chain.certainty]}:"
    for number, step in enumerate(belief.chain.steps, 1):
        yield f"    {number}. {paint.dim(f'{shown(step.path)}:{step.row}:{step.column}')} {step.label}"


def believed(belief: Belief) -> str:
    """An expression's kind and name in words."""
    words = kind_words(belief.kind, belief.modules)
    if belief.made_at:
        words += f" (line {', '.join(map(str, belief.made_at))})"
    if belief.name is None:
        return words
    called = belief.text.endswith(")")
    if isinstance(belief.kind, Tensor | Data | Static | Array | Device | Instance | Several):
        return f"{words}; {'calls' if called else 'is'} `{belief.name}`"
    return f"{'calls' if called else 'is'} `{belief.name}`" + (", whose result is unknown" if called else "")


def kind_words(kind: Kind, modules: Collection[str] = ()) -> str:
    """A kind in words; `modules` names the classes that are modules."""
    match kind:
        case Tensor():
            words = _DTYPES.get(kind.dtype, "tensor")
            words += " without dimensions" if kind.scalar else ""
            words += " made on the host" if kind.is_host else ""
            return words if kind.certain else f"{words}, or something else"
        case Static(value=value):
            return "static Python value" if value is ... else f"static Python value, {value!r}"
        case Data():
            return "Python value that was read out of a tensor"
        case Array():
            return "NumPy array"
        case Device(type=name):
            return f"device, {name!r}" if name else "device"
        case Instance(cls=cls):
            return f"{'module' if cls in modules else 'instance'} of class `{cls}`"
        case Several(items=None):
            return f"several, each: {kind_words(kind.element, modules)}"
        case Several(items=items):
            return f"({'; '.join(kind_words(item, modules) for item in items or ())})"
        case _:
            return "unknown"


def _said(said: Said, paint: Paint) -> str:
    finding = said.finding
    reasons = ["suppressed by a comment"] * said.suppressed + ["deselected by the settings"] * said.deselected
    kept = f" ({', '.join(reasons)})" if reasons else ""
    head = f"  {paint.code(finding.code)} {finding.name}, column {finding.location.column}"
    return f"{head}: {paint.bad('found')}{kept}: {finding.message}"


def _silence(silence: Silence, paint: Paint) -> str:
    if not silence.traced:
        why = "not asked, since nothing that is traced reaches it"
    elif silence.about:
        told = (f"`{_short(belief.text)}`: {believed(belief)}" for belief in silence.about)
        why = f"its conditions do not hold; {'; '.join(told)}"
    else:
        why = "its conditions do not hold"
    head = f"  {paint.code(silence.code)} {silence.name}, column {silence.location.column}"
    return f"{head}: {paint.dim('silent')}: {why}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
