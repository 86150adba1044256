"""Where a project declares its dependencies, and the same file with torchax-compat among them.

The dependency goes where torch is declared, else into the first of `pyproject.toml`, `setup.cfg`, `setup.py`,
`requirements.txt` and `environment.yml` that has a list of dependencies.
Comments and layout of the file stay as they are.
"""

from __future__ import annotations

import ast
import configparser
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tpulint.knowledge.runtime import DISTRIBUTION, REQUIREMENT
from tpulint.project_files.packages import normalized
from tpulint.source import Source, SourceError

if TYPE_CHECKING:
    from tomlkit.items import Array

_TORCH = ("torch", "pytorch")
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")


@dataclass(frozen=True, slots=True)
class Declaration:
    """A file that declares dependencies.

    Attributes:
        path: the file.
        names: the normalized names of the distributions that it declares.
        text: what it holds.
        extended: what it holds with torchax-compat added, or None where it cannot be added.
    """

    path: Path
    names: frozenset[str]
    text: str
    extended: str | None


def is_declared(root: Path) -> bool:
    """Whether a project declares torchax-compat as a dependency."""
    return any(DISTRIBUTION in one.names for one in declarations(root))


def to_extend(found: Sequence[Declaration]) -> Declaration | None:
    """The file to which torchax-compat is to be added; None if no file can be, or one has it already."""
    if any(DISTRIBUTION in one.names for one in found):
        return None
    able = [one for one in found if one.extended is not None]
    with_torch = (one for one in able if not one.names.isdisjoint(_TORCH))
    return next(with_torch, able[0] if able else None)


def declarations(root: Path) -> Iterator[Declaration]:
    """The files of a project's root that declare dependencies, in order of preference.

    Files that cannot be read or parsed are left out.
    """
    for pattern, read in _READERS.items():
        # `requirements.txt` comes before those for other purposes.
        for path in sorted(root.glob(pattern), key=lambda path: (len(path.name), path.name)):
            try:
                with path.open(encoding="utf-8", newline="") as stream:
                    text = stream.read()
                names, extended = read(text)
            except (OSError, ValueError, configparser.Error):
                continue
            if names or extended is not None:
                yield Declaration(path, frozenset(map(normalized, names)), text, extended)


def _name(requirement: str) -> str:
    """The distribution that a line of requirements names; "" for options, addresses and comments."""
    found = _NAME.match(requirement)
    return found[1] if found is not None and "://" not in requirement.partition("@")[0] else ""


def _of_requirements(text: str) -> tuple[list[str], str | None]:
    """Of `requirements.txt`: behind torch, else at the end."""
    lines = text.splitlines(keepends=True)
    names = [_name(line) for line in lines]
    at = next((row for row, name in enumerate(names, 1) if name.lower() in _TORCH), len(lines))
    while 0 < at < len(lines) and lines[at - 1].rstrip("\r\n").endswith("\\"):  # it goes on in the next line
        at += 1
    return [name for name in names if name], _with_requirement(lines, at)


def _with_requirement(lines: list[str], at: int, indent: str = "") -> str:
    """The text of lines, with the requirement as one more line at an index."""
    newline = "\r\n" if any(line.endswith("\r\n") for line in lines) else "\n"
    ahead = "".join(lines[:at])
    if ahead and not ahead.endswith(("\n", "\r")):
        ahead += newline
    return f"{ahead}{indent}{REQUIREMENT}{newline}{''.join(lines[at:])}"


def _of_pyproject(text: str) -> tuple[list[str], str | None]:
    """Of `pyproject.toml`: the list of `[project]`, or the table of Poetry."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError
    from tomlkit.items import Array, Table

    try:
        document = tomlkit.parse(text)
    except TOMLKitError as error:
        raise ValueError(str(error)) from error
    listed = _within(document, "project", "dependencies")
    if isinstance(listed, Array):
        names = [_name(str(one)) for one in listed]
        _append(listed)
        return names, _with_endings_of(text, tomlkit.dumps(document))
    table = _within(document, "tool", "poetry", "dependencies")
    if isinstance(table, Table):
        names = [str(name) for name in table]
        table[DISTRIBUTION] = REQUIREMENT.removeprefix(DISTRIBUTION)
        return names, _with_endings_of(text, tomlkit.dumps(document))
    return [], None


def _within(document: object, *keys: str) -> object:
    """What a document has below some keys; None if there is none."""
    for key in keys:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document


def _with_endings_of(text: str, changed: str) -> str:
    """A changed text with the line endings of the original."""
    return changed.replace("\r\n", "\n").replace("\n", "\r\n") if "\r\n" in text else changed


def _append(listed: Array) -> None:
    """Add the requirement to a list of TOML, on a line of its own if the others have theirs."""
    written = listed.as_string()
    if "\n" not in written:
        listed.append(REQUIREMENT)
        return
    indent = re.search(r"\n([ \t]*)\S", written)
    listed.add_line(REQUIREMENT, indent=indent[1] if indent is not None else "  ", newline=True)
    if "\n" not in listed.as_string().rpartition(REQUIREMENT)[2]:
        listed.add_line(indent="", newline=True)


def _of_setup(text: str) -> tuple[list[str], str | None]:
    """Of `setup.cfg`: `install_requires`, if it has a line for each requirement."""
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    wanted = parser.get("options", "install_requires", fallback=None)
    if wanted is None:
        return [], None
    names = [_name(line) for line in wanted.splitlines()]
    lines = text.splitlines(keepends=True)
    options = next((row for row, line in enumerate(lines) if line.startswith("[options]")), len(lines))
    rows = range(options, len(lines))
    first = next((row for row in rows if re.match(r"install_requires\s*=\s*$", lines[row])), None)
    if first is None:
        return [name for name in names if name], None
    last = first
    for row in range(first + 1, len(lines)):
        if not lines[row].startswith((" ", "\t")) or not lines[row].strip():
            break
        last = row
    indent = re.match(r"[ \t]*", lines[last])[0] if last > first else "    "  # type: ignore[index]
    return [name for name in names if name], _with_requirement(lines, last + 1, indent)


def _of_setup_py(text: str) -> tuple[list[str], str | None]:
    """Of `setup.py`: `install_requires`, if it is a list of strings, also one that a variable holds."""
    source = Source("setup.py", text)
    try:
        tree = source.tree
    except (SyntaxError, SourceError) as error:
        raise ValueError(str(error)) from error
    words = (word for node in ast.walk(tree) if isinstance(node, ast.Call) for word in node.keywords)
    listed = next((word.value for word in words if word.arg == "install_requires"), None)
    if isinstance(listed, ast.Name):
        assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
        values = [node.value for node in assigned if any(_is_name(one, listed.id) for one in node.targets)]
        listed = values[0] if len(values) == 1 else None
    if not isinstance(listed, ast.List):
        return [], None
    texts = [item.value for item in listed.elts if isinstance(item, ast.Constant)]
    names = [name for value in texts if isinstance(value, str) and (name := _name(value))]
    return names, _with_item(source, listed) if len(texts) == len(listed.elts) else None


def _is_name(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _with_item(source: Source, listed: ast.List) -> str:
    """The text of a file with the requirement as the last item of a list, written like the item before it."""
    text = source.text
    if not listed.elts:
        end = source.span(listed).end - 1
        return f'{text[:end]}"{REQUIREMENT}"{text[end:]}'
    span = source.span(listed.elts[-1])
    quote = text[span.end - 1]
    item = f"{quote}{REQUIREMENT}{quote}"
    indent = text[: span.start].rpartition("\n")[2]
    if indent.strip():
        return f"{text[: span.end]}, {item}{text[span.end :]}"
    has_comma = text[span.end :].startswith(",")
    rest = text[span.end + has_comma :]
    line = rest.partition("\n")[0].rstrip("\r")
    comment = "" if line.partition("#")[0].strip() else line
    added = f"{source.newline}{indent}{item}{',' * has_comma}"
    return f"{text[: span.end]},{comment}{added}{rest[len(comment) :]}"


def _of_conda(text: str) -> tuple[list[str], str | None]:
    """Of `environment.yml`: the list `pip` among the dependencies."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        document = YAML().load(text)
    except YAMLError as error:
        raise ValueError(str(error)) from error
    listed = document.get("dependencies") if isinstance(document, dict) else None
    if not isinstance(listed, list):
        return [], None
    names = [_name(one) for one in listed if isinstance(one, str)]
    pip = next((one["pip"] for one in listed if isinstance(one, dict) and "pip" in one), None)
    if not isinstance(pip, list) or not pip:
        return names, None
    names += [_name(str(one)) for one in pip]
    row, column = pip.lc.item(len(pip) - 1)  # type: ignore[attr-defined]
    lines = text.splitlines(keepends=True)
    indent = lines[row][:column]
    if not re.fullmatch(r"\s*-\s*", indent):
        return names, None
    return names, _with_requirement(lines, row + 1, indent)


_READERS: dict[str, Callable[[str], tuple[list[str], str | None]]] = {
    "pyproject.toml": _of_pyproject,
    "setup.cfg": _of_setup,
    "setup.py": _of_setup_py,
    "requirements*.txt": _of_requirements,
    "environment.y*ml": _of_conda,
}
