"""`tpulint sharding`."""

from __future__ import annotations

import ast

import click

from tpulint.cli.options import cli
from tpulint.cli.output import CLEAN, ERROR, complain, write
from tpulint.invocation import asked_for


@cli.command(short_help="Propose sharding rules by the names of layers, for pyproject.toml.")
@click.argument("paths", nargs=-1, metavar="[PATH]...", type=click.Path())
def sharding(paths: tuple[str, ...]) -> int:
    """Propose sharding rules by the names of layers, for pyproject.toml.

    The rules are for linear layers with the names of projections in attention, such as `q_proj`, or of layers
    in feed-forward networks, such as `up_proj`. With these rules in pyproject.toml,
    `tpulint fix` adds `torchax_compat.distributed.shard_by_name(...)` to the programs that it fixes.

    PATH is a file or a folder. Without PATH, the command reads the current folder.
    """
    from tpulint.sharding_rules import as_toml, propose_rules
    from tpulint.source import Source, SourceError

    given = asked_for(paths)
    errors = [f"{error.path}: {error.message}" for error in given.errors]
    trees = []
    for file in given.files:
        try:
            trees.append(ast.parse(Source.decode(str(file), file.read_bytes()).text))
        except (OSError, SourceError, SyntaxError, ValueError) as error:
            errors.append(f"{file}: {error}")
    for text in errors:
        complain(text)
    rules = propose_rules(trees)
    if rules:
        write("".join(f"{line}\n" for line in as_toml(rules)))
    else:
        complain("no linear layer has a known name of a layer in attention or in a feed-forward network")
    return ERROR if errors else CLEAN
