"""Versions that do not fit together, or with which fixed programs do not run.

## What it does

Reports, in requirements files, `pyproject.toml`, `setup.cfg`, `setup.py`, conda environments, notebooks, and
commands of Dockerfiles and shell scripts that install packages:

- versions that do not fit together, such as `torch==2.5.1` with `torchvision==0.19.0`, `jax==0.9.2` with
  `libtpu==0.0.32`, or `torch==2.8.0` with `torch_xla==2.9.0`;
- in files that require torchax or torchax-compat, versions of torch, torchax and jax with which the runtime
  torchax-compat was not tested.

The rule compares versions that are pinned with `==`.
It reports nothing about a package that a file pins to several versions.

## Why it matters on TPU

- torchvision is built for one release of torch: with another one, its operators do not load, and
  `RuntimeError: operator torchvision::nms does not exist` ends the program.
- JAX and libtpu are released together; each version of jax installs one release of libtpu with its extra
  `tpu`.
- `torchax_compat.enable()` raises `UnsupportedVersion` for versions of torch, torchax and jax that it was
  not tested with.

`tpulint doctor` compares the installed versions in the same way.

## Fix safety

The fix is unsafe, because the program then uses another version of the package.
It changes the package that has to fit the other one: torchvision fits torch, and libtpu fits jax.

## Without a fix

If a version that fits is not known, leave the package without a version, and let pip choose.
"""

from __future__ import annotations

from collections.abc import Iterator

from tpulint.knowledge.runtime import DISTRIBUTION
from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.knowledge.versions import COMPARED_BY_RUNTIME, TESTED, conflicts, is_tested
from tpulint.rules_api import Applicability, Finding, Fix, Rule, Span
from tpulint.rules_api.files import FileContext, Requirement

rule = Rule(
    "ENV108",
    "versions that do not fit together, or with which fixed programs do not run",
    module=__name__,
    fix=Applicability.UNSAFE,
    targets=EVERY_TARGET,
)


@rule.on_part(Requirement)
def together(found: Requirement, ctx: FileContext) -> Iterator[Finding]:
    if (version := _pin(found)) is None:
        return
    pins = _pins(ctx)
    if _needs_runtime(ctx):  # whose own versions take the place of others
        pins |= {name: TESTED[name] for name in COMPARED_BY_RUNTIME if name in pins}
    for one in conflicts(pins):
        if one.changed == _name(found):
            wanted = f"{one.wanted}.*" if one.wanted and one.changed != "jaxlib" else one.wanted
            yield ctx.finding(found, f"`{one.changed}` {version} {one.reason}", _fix(found, wanted, ctx))


@rule.on_part(Requirement)
def of_runtime(found: Requirement, ctx: FileContext) -> Iterator[Finding]:
    name, version = _name(found), _pin(found)
    if version is None or name not in COMPARED_BY_RUNTIME or not _needs_runtime(ctx):
        return
    if not is_tested(name, version) and name in _pins(ctx):
        tested = TESTED[name]
        message = f"`{DISTRIBUTION}` does not accept {name} {version}; it was tested with {tested}"
        yield ctx.finding(found, message, _fix(found, tested, ctx))


def _pins(ctx: FileContext) -> dict[str, str]:
    """The version of each package that the file pins to one version."""
    pinned: dict[str, set[str]] = {}
    for part in ctx.parts:
        if isinstance(part, Requirement) and (version := _pin(part)) is not None:
            pinned.setdefault(_name(part), set()).add(version)
    return {name: versions.pop() for name, versions in pinned.items() if len(versions) == 1}


def _needs_runtime(ctx: FileContext) -> bool:
    return any(isinstance(part, Requirement) and part.name in ("torchax", DISTRIBUTION) for part in ctx.parts)


def _name(found: Requirement) -> str:
    """The name of a package on the package index."""
    return "torch" if found.is_conda and found.name == "pytorch" else found.name


def _pin(found: Requirement) -> str | None:
    """The version that a requirement pins with `==`, or with the single `=` of conda."""
    operator = "=" if found.is_conda and not found.version.startswith("==") else "=="
    version = found.version.removeprefix(operator).strip()
    if not found.version.startswith(operator) or version.endswith("*") or "," in version:
        return None
    return version.partition("=")[0] if found.is_conda else version  # a build of conda stands behind it


def _fix(found: Requirement, wanted: str, ctx: FileContext) -> Fix | None:
    """The fix that pins another version; None if it is not known, or for conda, whose channels differ."""
    version = _pin(found)
    if not wanted or version is None or found.is_conda:
        return None
    start = ctx.contents.rindex(version, found.span.start, found.span.end)
    _, plus, local = version.partition("+")
    text = wanted if wanted.endswith("*") else f"{wanted}{plus}{local}"
    return ctx.replace(f"use version {wanted}", Span(start, start + len(version)), text)
