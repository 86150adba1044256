"""Versions of packages that fit together.

What packages need is in the metadata of their wheels, as of October 2026: `torch==` of torchvision, the extra
`tpu` of jax, of torch_xla and of torchax. A test compares `TESTED` with what this project is tested with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packaging.version import Version

#: What fixed programs are tested with; the runtime torchax-compat refuses other versions of torch, torchax
#: and jax, unless it is told not to.
TESTED = {
    "torch": "2.13.0",
    "torchvision": "0.28.0",
    "torchax": "0.0.14.dev20261026",
    "jax": "0.10.2",
    "jaxlib": "0.10.2",
    "libtpu": "0.0.42.1",
}

#: The packages whose versions the runtime compares with those in `TESTED`.
COMPARED_BY_RUNTIME = ("torch", "torchax", "jax")

#: The versions of Python that torchax, jax and libtpu support, as a specifier.
PYTHON = ">=3.11"

#: The release of torch that a release of torchvision is built for.
TORCH_OF_TORCHVISION = {
    "0.15": "2.0",
    "0.16": "2.1",
    "0.17": "2.2",
    "0.18": "2.3",
    "0.19": "2.4",
    "0.20": "2.5",
    "0.21": "2.6",
    "0.22": "2.7",
    "0.23": "2.8",
    "0.24": "2.9",
    "0.25": "2.10",
    "0.26": "2.11",
    "0.27": "2.12",
    "0.28": "2.13",
}

#: The release of libtpu that the extra `tpu` of a version of jax installs.
LIBTPU_OF_JAX = {
    "0.4.35": "0.0.2",
    "0.4.36": "0.0.5",
    "0.4.37": "0.0.6",
    "0.4.38": "0.0.7",
    "0.5.0": "0.0.8",
    "0.5.1": "0.0.10",
    "0.5.2": "0.0.10",
    "0.5.3": "0.0.11",
    "0.6.0": "0.0.13",
    "0.6.1": "0.0.15",
    "0.6.2": "0.0.17",
    "0.7.0": "0.0.19",
    "0.7.1": "0.0.20",
    "0.7.2": "0.0.23",
    "0.8.0": "0.0.24",
    "0.8.1": "0.0.30",
    "0.8.2": "0.0.32",
    "0.8.3": "0.0.32",
    "0.9.0": "0.0.34",
    "0.9.1": "0.0.35",
    "0.9.2": "0.0.37",
    "0.10.0": "0.0.40",
    "0.10.1": "0.0.41",
    "0.10.2": "0.0.42",
}

#: The release of libtpu that the extra `tpu` of a release of torch_xla installs.
LIBTPU_OF_TORCH_XLA = {"2.8": "0.0.17", "2.9": "0.0.21"}

#: The oldest version of jax that torchax accepts.
JAX_OF_TORCHAX = "0.6.2"


@dataclass(frozen=True, slots=True)
class Conflict:
    """Two versions that do not fit together.

    Args:
        changed: the package whose version is to be changed.
        other: the package that decides on it.
        wanted: the release of the first that fits, such as `0.28`; "" if none is known.
        reason: why they do not fit, as the rest of a sentence.
    """

    changed: str
    other: str
    wanted: str
    reason: str


def conflicts(versions: Mapping[str, str]) -> Iterator[Conflict]:
    """The pairs of versions that do not fit together.

    Args:
        versions: versions by the normalized names of packages; those that are no versions are left out.
    """
    found = {name: version for name, text in versions.items() if (version := _version(text)) is not None}
    torch, vision = found.get("torch"), found.get("torchvision")
    if torch and vision and TORCH_OF_TORCHVISION.get(_minor(vision), _minor(torch)) != _minor(torch):
        fitting = {of_torch: name for name, of_torch in TORCH_OF_TORCHVISION.items()}.get(_minor(torch), "")
        needed = TORCH_OF_TORCHVISION[_minor(vision)]
        yield Conflict("torchvision", "torch", fitting, f"is built for torch {needed}")
    jax, jaxlib, xla = found.get("jax"), found.get("jaxlib"), found.get("torch-xla")
    if torch and xla and _minor(torch) != _minor(xla):
        yield Conflict("torch-xla", "torch", _minor(torch), f"is built for torch {_minor(xla)}")
    if jax and jaxlib and jaxlib > jax:
        yield Conflict("jaxlib", "jax", str(jax), f"is newer than jax {jax}, which does not accept it")
    of_xla = _minor(torch or xla) if xla else ""
    for name, release, table in (
        ("jax", jax.base_version if jax else "", LIBTPU_OF_JAX),
        ("torch-xla", of_xla, LIBTPU_OF_TORCH_XLA),
    ):
        wanted = table.get(release)
        if "libtpu" in found and wanted and not f"{found['libtpu']}.".startswith(f"{wanted}."):
            yield Conflict("libtpu", name, wanted, f"does not fit {name} {release}, which needs {wanted}")
            break
    if jax and "torchax" in versions and jax < _known(JAX_OF_TORCHAX):
        yield Conflict("jax", "torchax", "", f"is too old for torchax, which needs {JAX_OF_TORCHAX} or newer")


def is_tested(name: str, version: str) -> bool:
    """Whether fixed programs are tested with a version of a package, as with `2.13.0+cpu` of torch."""
    return f"{version.partition('+')[0]}.".startswith(f"{TESTED[name]}.")


def _version(text: str) -> Version | None:
    from packaging.version import InvalidVersion, Version

    try:
        return Version(text)
    except InvalidVersion:
        return None


def _known(text: str) -> Version:
    from packaging.version import Version

    return Version(text)


def _minor(version: Version) -> str:
    return f"{version.major}.{version.minor}"
