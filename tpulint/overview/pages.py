"""The report as a page: HTML or Markdown."""

from __future__ import annotations

import posixpath
import shlex
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from tpulint.overview.charts import MOST_FILES, findings_chart, memory_bars
from tpulint.overview.content import Overview


def html(overview: Overview) -> str:
    """The report as an HTML page without external resources."""
    pages = _environment(escaping=True)
    rows = pages.get_template("by_hand.html.j2")

    def evidence_of(path: str) -> list[dict[str, Any]]:
        """The results about a program."""
        return [one for one in overview.evidence if is_about(str(one["target"]), path)]

    return pages.get_template("report.html.j2").render(
        o=overview,
        most_files=MOST_FILES,
        chart=findings_chart(overview.modules),
        memory=memory_bars(overview.evidence),
        hand=lambda by_hand: Markup(rows.render(rows=by_hand)),
        evidence_of=evidence_of,
    )


def markdown(overview: Overview) -> str:
    """The report as Markdown, without charts."""
    template = _environment(escaping=False).get_template("report.md.j2")
    return template.render(o=overview, memory=memory_bars(overview.evidence))


def is_about(target: str, path: str) -> bool:
    """Whether a target of `tpulint verify` is the program of a path, or a module or function in it."""
    file, is_module, _ = target.partition(".py:")
    named = f"{file}.py" if is_module else next(iter(shlex.split(target)), "")
    return posixpath.normpath(named) == path


def _environment(*, escaping: bool) -> Environment:
    pages = Environment(
        loader=PackageLoader("tpulint.overview"),
        autoescape=escaping,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    pages.filters["code"] = _code
    pages.filters["cell"] = _cell
    return pages


def _code(text: str) -> Markup:
    """A message as HTML, with the parts in backticks as code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return Markup(escape(text))
    tags = (Markup("<code>{}</code>") if number % 2 else Markup("{}") for number in range(len(parts)))
    return Markup("").join(tag.format(part) for tag, part in zip(tags, parts, strict=True))


def _cell(text: str) -> str:
    """A text as a cell of a Markdown table; HTML is escaped, except in backticks."""
    parts = " ".join(str(text).replace("|", "\\|").splitlines()).split("`")
    if len(parts) % 2 == 0:
        return "`".join(parts).replace("<", "&lt;")
    return "`".join(part if number % 2 else part.replace("<", "&lt;") for number, part in enumerate(parts))
