"""YAML and TOML: settings, variables, and the requirements of conda environments and pyproject.toml."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from tpulint.finding import Span
from tpulint.project_files import packages
from tpulint.project_files.lines import whole_lines
from tpulint.project_files.parts import Address, Image, Part, Setting, Variable

_QUOTED = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'")
#: The keys below which the names of variables stand, as in Compose files, workflows and manifests.
_ENVIRONMENTS = {"environment", "env", "envs", "variables"}


def of_yaml(text: str) -> Iterator[Part]:
    """The settings of a YAML file, and the variables and images of Compose files and the like."""
    for keys, value, span, removal in _scalars(text):
        if len(keys) > 1 and keys[-2] in _ENVIRONMENTS:
            yield Variable(span, removal, keys[-1], value, span)
        elif keys and keys[-1] in _ENVIRONMENTS and (match := re.fullmatch(r"(\w+)=(.*)", value)):
            yield Variable(span, removal, match[1], match[2])
        elif keys and keys[-1] == "image":
            yield Image(span, None, value)
        else:
            yield Setting(span, removal, keys, value)


def of_conda(text: str) -> Iterator[Part]:
    """The requirements, channels and variables of a conda environment."""
    for keys, value, span, removal in _scalars(text):
        if keys == ("dependencies",):
            found = packages.conda_requirement(value, 0, removal)
        elif keys == ("dependencies", "pip"):
            if value.startswith("-"):
                for part in packages.of_lines(value):
                    if isinstance(part, Address):
                        start = span.start + part.span.start
                        yield Address(Span(start, start + len(part.address)), removal, part.address)
                continue
            found = packages.requirement(value, 0, removal)
        elif keys == ("channels",):
            yield Address(span, removal, value)
            continue
        elif keys[:1] == ("variables",) and len(keys) > 1:
            yield Variable(span, removal, keys[-1], value, span)
            continue
        else:
            continue
        if found is not None:
            yield packages.moved(found, span)


def _scalars(text: str) -> Iterator[tuple[tuple[str, ...], str, Span, Span | None]]:
    """The texts among the values, with their keys, their spans without quotes, and their lines."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        documents = list(YAML(typ="rt", pure=True).compose_all(text))
    except (YAMLError, ValueError, RecursionError):
        return  # a template, or no YAML
    for document in documents:
        yield from _below(text, document, (), set())


def _below(
    text: str, node: Any, keys: tuple[str, ...], seen: set[int]
) -> Iterator[tuple[tuple[str, ...], str, Span, Span | None]]:
    if node is None or id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node.value, str):
        start, end = node.start_mark.index, node.end_mark.index
        written = text[start:end]
        quoted = written[:1] in ("'", '"')
        span = Span(start + quoted, end - quoted)
        if node.style not in ("|", ">") and text[span.start : span.end] == node.value:
            yield keys, node.value, span, _line(text, start, end)
        return
    for item in node.value:
        if isinstance(item, tuple):
            key, value = item
            name = key.value if isinstance(key.value, str) else ""
            yield from _below(text, value, (*keys, name), seen)
        else:
            yield from _below(text, item, keys, seen)


def _line(text: str, start: int, end: int) -> Span | None:
    """The line of a value, if only its key or the dash of a list stands in front of it."""
    lines = whole_lines(text, start, end)
    is_alone = re.fullmatch(r"[ \t]*(?:-[ \t]+|[\w.\"'-]+[ \t]*:[ \t]+)['\"]?", text[lines.start : start])
    behind = text[end : lines.end].strip().lstrip("'\"").strip()
    return lines if is_alone and (not behind or behind.startswith("#")) else None


def of_pyproject(text: str) -> Iterator[Part]:
    """The requirements and addresses of pyproject.toml, and its settings."""
    document = _parsed_toml(text)
    project = document.get("project", {})
    lists = [project.get("dependencies"), *_values(project.get("optional-dependencies"))]
    lists += [*_values(document.get("dependency-groups")), document.get("build-system", {}).get("requires")]
    wanted = {one for each in lists if isinstance(each, list) for one in each if isinstance(one, str)}
    for value, span in _literals(text):
        if value in wanted and _is_of_list(text, span):
            found = packages.requirement(value, 0, _item(text, span))
            if found is not None:
                yield packages.moved(found, span)
        elif "://" in value and "/whl/" in value:
            yield Address(span, None, value)


def of_toml(text: str) -> Iterator[Part]:
    """The settings of a TOML file."""
    if not _parsed_toml(text):
        return
    for match in re.finditer(r"^[ \t]*([\w.\"-]+)[ \t]*=[ \t]*(?=[\"'])", text, re.MULTILINE):
        literal = _QUOTED.match(text, match.end())
        if literal is not None and not literal[0].startswith(('""', "''")):
            span = Span(literal.start() + 1, literal.end() - 1)
            keys = tuple(key.strip('"') for key in match[1].split("."))
            yield Setting(span, None, keys, literal[0][1:-1])


def _parsed_toml(text: str) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except (tomllib.TOMLDecodeError, RecursionError):
        return {}


def _values(table: object) -> list[Any]:
    return list(table.values()) if isinstance(table, dict) else []


def _literals(text: str) -> Iterator[tuple[str, Span]]:
    """The texts in quotes outside of comments, without their quotes."""
    for match in re.finditer(rf"#[^\n]*|{_QUOTED.pattern}", text):
        if not match[0].startswith("#"):
            yield match[0][1:-1], Span(match.start() + 1, match.end() - 1)


def _is_of_list(text: str, span: Span) -> bool:
    """Whether a literal is an item of a list, not the value of a key."""
    lines = text[: span.start - 1].splitlines() or [""]
    before = "".join(line.partition("#")[0].rstrip() for line in lines[-2:])
    return before.rstrip().endswith(("[", ","))


def _item(text: str, span: Span) -> Span | None:
    """The line of an item of a list that has it to itself."""
    lines = whole_lines(text, span.start, span.end)
    before, behind = text[lines.start : span.start - 1], text[span.end + 1 : lines.end]
    return lines if not before.strip() and behind.strip() in (",", "") else None
