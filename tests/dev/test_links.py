"""Relative links of the pages lead to files that exist, and to headings of theirs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1[ \t]*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_LINK = re.compile(r"\]\(\s*<?([^\s)>]+)>?(?:\s+\"[^\"]*\")?\s*\)")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_ANCHOR = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|//", re.IGNORECASE)


def links(text: str) -> Iterator[str]:
    """The relative links of a page, without those in code."""
    for match in _LINK.finditer(_CODE.sub("", _FENCE.sub("", text))):
        if not _ELSEWHERE.match(match[1]):
            yield match[1]


def anchors(text: str) -> set[str]:
    """The anchors that GitHub makes of a page's headings, and those that it sets itself."""
    found: set[str] = set()
    text = _FENCE.sub("", text)
    for heading in _HEADING.findall(text):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        slug = base = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        count = 0
        while slug in found:
            count += 1
            slug = f"{base}-{count}"
        found.add(slug)
    return found | set(_ANCHOR.findall(text))


@cache
def anchors_of(path: Path) -> set[str]:
    return anchors(path.read_text(encoding="utf-8"))


def broken(page: Path) -> Iterator[str]:
    """The links of a page that lead nowhere."""
    for link in links(page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors_of(target)):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_of_a_page_resolve(page: Path) -> None:
    assert list(broken(page)) == []


def test_links_in_code_and_to_other_sites_are_left_alone() -> None:
    text = '[a](b.md) `[c](d.md)` [e](https://f.org)\n```\n[g](h.md)\n```\n[i](j.md#k "title")'
    assert list(links(text)) == ["b.md", "j.md#k"]


def test_anchors_are_those_of_github() -> None:
    text = "# `torch.compile`, TorchScript and export\n## On a GPU\n## On a GPU\n```\n# no heading\n```\n"
    assert anchors(text) == {"torchcompile-torchscript-and-export", "on-a-gpu", "on-a-gpu-1"}


def test_missing_files_and_headings_are_reported(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Here\n[a](#here) [b](#there) [c](gone.md) [d](page.md#here) [e](page.md#gone)\n")
    assert list(broken(page)) == ["#there", "gone.md", "page.md#gone"]
