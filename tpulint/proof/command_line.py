"""Reads options and targets from the command line and from the table `[tool.tpulint.verify]`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from tpulint.invocation import UsageError
from tpulint.proof.names import topology
from tpulint.proof.targets import Options, Target, read_mesh, read_size, read_table, read_words
from tpulint.settings import load


def read_command_line(
    words: Sequence[str], inputs: Sequence[str], choices: Mapping[str, Any]
) -> tuple[Options, list[Target]]:
    """The options and targets of a command line, with defaults from the closest pyproject.toml.

    Args:
        words: a program with its arguments, or modules.
        inputs: the values of `--input`.
        choices: the values of the other options; None or () for an option that is not given.

    Raises:
        UsageError: a word, an option or the table is not valid.
        ValueError: the memory limit is not a size.
    """
    options, targets = Options(), read_words(words, inputs)
    folder = targets[0].file.resolve().parent if targets else Path.cwd()
    if (found := _table(folder)) is not None:
        table, root = found
        options, listed = read_table(table, root, options)
        targets = targets or listed
    given = {key: value for key, value in choices.items() if value is not None and value != ()}
    if "memory" in given:
        given["memory"] = read_size(given["memory"])
    if "exclude" in given:
        given["exclude"] = tuple(one for globs in given["exclude"] for one in globs.split(","))
    given["tpus"] = tuple(map(topology, given.get("tpus", options.tpus)))
    axes, rules = given.pop("mesh", None), given.pop("shard", ())
    if axes or rules:
        given["mesh"] = read_mesh(axes or "", rules)
    options = replace(options, **given)
    if options.mesh.axes and not options.mesh.rules:
        # The rules that `fix` writes into programs.
        options = replace(options, mesh=replace(options.mesh, rules=load(folder).sharding))
    if options.project is not None:
        for target in targets:
            if not target.file.resolve().is_relative_to(options.project.resolve()):
                raise UsageError(f"`{target.file}` is not in the folder of --project, {options.project}")
    return options, targets


def _table(start: Path) -> tuple[Mapping[str, Any], Path] | None:
    """The table in the closest pyproject.toml that has one, and its folder."""
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file():
            try:
                document = tomllib.loads(path.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise UsageError(f"{path} cannot be read: {error}") from None
            table = document.get("tool", {}).get("tpulint", {}).get("verify")
            if table is not None:
                return table, folder
    return None
