"""What the commands have in common that execute code."""

from __future__ import annotations

import importlib.util

import click

PLATFORM = click.option(
    "--platform",
    type=click.Choice(["auto", "cpu", "gpu", "tpu"]),
    default="auto",
    show_default=True,
    help="The JAX platform on which the code is executed. auto: a TPU or GPU that is attached to the"
    " machine. If there is no such device, the CPU is used.",
)


def require_packages(command: str, *, libtpu: bool = False) -> None:
    """Raise a usage error with the packages that a command needs and that are not installed."""
    try:
        from tpulint.verify import missing_packages

        missing = [*missing_packages()]
    except ModuleNotFoundError as error:
        missing = [str(error.name)]
    if libtpu and importlib.util.find_spec("libtpu") is None:
        missing.append("libtpu")
    if missing:
        extras = "verify,tpu" if libtpu else "verify"
        raise click.UsageError(
            f"{command} needs {', '.join(missing)}, which is not installed: "
            f"pip install 'tpulint[{extras}]' torchax-compat"
        )
