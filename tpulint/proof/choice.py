"""Options and targets, from the command line over the table `[tool.tpulint.verify]`."""

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


def chosen(
    words: Sequence[str], inputs: Sequence[str], choices: Mapping[str, Any]
) -> tuple[Options, list[Target]]:
    """What a command line asks for; the table of the nearest pyproject.toml has what it leaves open.

    Raises:
        UsageError: something is not as it has to be.
        ValueError: the memory limit is no size.
    """
    options, targets = Options(), read_words(words, inputs)
    place = targets[0].file.resolve().parent if targets else Path.cwd()
    if (found := _table(place)) is not None:
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
        # The rules by which `fix` lets programs shard their parameters.
        options = replace(options, mesh=replace(options.mesh, rules=load(place).sharding))
    if options.project is not None:
        for target in targets:
            if not target.file.resolve().is_relative_to(options.project.resolve()):
                raise UsageError(f"`{target.file}` is not in the folder of --project, {options.project}")
    return options, targets


def _table(start: Path) -> tuple[Mapping[str, Any], Path] | None:
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
