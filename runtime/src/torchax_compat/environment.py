"""`enable()`, `disable()` and `status()`: whether the runtime is in use, and what it changes."""

from __future__ import annotations

import functools
import importlib
import json
import pkgutil
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata, resources

from .patches import application
from .version import __version__

_PACKAGE = __package__ or __name__.rpartition(".")[0]
#: The attribute of torch that says which copy of the runtime is enabled in this process.
_MARK = "_torchax_compat"
#: The package that was written beside programs before this one.
_FORMER = "torchax_training"
_lock = threading.RLock()
#: What restores all that is changed, to be called in reverse; empty unless the runtime is enabled.
_undone: list[Callable[[], None]] = []
#: Why a module of the runtime cannot be imported with the installed versions.
_import_errors: list[str] = []


class UnsupportedVersion(ImportError):  # noqa: N818 # as Python's `StopIteration`, it says what is so
    """The installed torch, torchax or JAX differs from those that the runtime was tested with."""


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """A patch of the runtime.

    Attributes:
        target: what it replaces: an attribute, an operator of torch, or a setting.
        why: what is wrong or slow without it.
        upstream: the issue or code upstream that makes it necessary, or "".
        is_applied: whether it is in effect.
    """

    target: str
    why: str
    upstream: str
    is_applied: bool


def is_enabled() -> bool:
    """Whether `enable()` was called, and `disable()` not since."""
    return bool(_undone)


def enable(*, force: bool = False) -> None:
    """Enter the torchax environment, and make it behave as PyTorch on a GPU does.

    All patches are applied, or none is.
    A second call only enters the environment again, if the program has left it.
    The environment is entered in the thread that calls this function, and in threads that are started later.

    Args:
        force: whether to go on with versions that were not tested. Targets that do not exist are an error
            all the same.

    Raises:
        UnsupportedVersion: the installed versions were not tested, or lack what a patch replaces;
            nothing was changed.
        RuntimeError: another copy of this package is enabled.

    Example:
        >>> import torch, torchax_compat
        >>> torchax_compat.enable()
        >>> torch.ones(2, device="jax").sum().item()
        2.0
    """
    with _lock:
        if _undone:
            _enter()
            return
        _check_versions(force=force)
        _check_copies()
        undone: list[Callable[[], None]] = []
        try:
            undone.append(_before_jax_starts())
            import_all()
            _apply(undone, force=force)
        except BaseException:
            application.restore(undone)
            raise
        _undone.extend(undone)


def disable() -> None:
    """Leave the torchax environment, and restore everything that `enable()` changed.

    Names by which modules imported functions while the runtime was enabled keep the patched functions.
    """
    with _lock:
        if _undone and not application.is_entered():
            _enter()  # which the program, or another thread, has left
        application.restore(_undone)


def status() -> list[PatchStatus]:
    """The patches of the runtime, whether or not they are applied.

    Raises:
        UnsupportedVersion: the installed versions lack what the runtime uses.

    Example:
        >>> import torchax_compat
        >>> torchax_compat.enable()
        >>> all(patch.is_applied for patch in torchax_compat.status())
        True
    """
    import_all()
    from .patches.declarations import OPERATORS, PATCHES, SETUPS

    on = is_enabled()
    return [
        *(PatchStatus(one.target, one.why, one.upstream, on) for one in PATCHES.values()),
        *(PatchStatus(str(one.operation), one.why, "", on) for one in OPERATORS.values()),
        *(PatchStatus(one.name, one.why, "", on) for one in SETUPS.values()),
    ]


def tested_versions() -> dict[str, list[str]]:
    """The releases that the runtime was tested with, by the name of the package."""
    text = resources.files(_PACKAGE).joinpath("patches/versions.json").read_text(encoding="utf-8")
    found: dict[str, list[str]] = json.loads(text)
    return found


def _signatures() -> dict[str, list[str]]:
    text = resources.files(_PACKAGE).joinpath("patches/signatures.json").read_text(encoding="utf-8")
    found: dict[str, list[str]] = json.loads(text)
    return found


def _check_versions(*, force: bool) -> None:
    for name, tested in tested_versions().items():
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError as error:
            text = f"torchax-compat needs {name}, which is not installed: pip install {name}=={tested[-1]}"
            raise UnsupportedVersion(text) from error
        if not force and not any(_is_of(version, release) for release in tested):
            raise UnsupportedVersion(_message([f"{name} {version} was not tested"]))


def _is_of(version: str, release: str) -> bool:
    """Whether a version belongs to a release, as `2.13.0+cpu` does to `2.13`."""
    return f"{version.partition('+')[0]}.".startswith(f"{release}.")


def _message(problems: list[str], *, force: bool = False) -> str:
    tested = ", ".join(f"{name} {' or '.join(found)}" for name, found in tested_versions().items())
    text = (
        f"torchax-compat {__version__} does not fit the installed versions: {'; '.join(problems)}. "
        f"It was tested with {tested}. Install these"
    )
    if force:
        return f"{text}."
    return f"{text}, or call `torchax_compat.enable(force=True)` to try versions that were not tested."


def _check_copies() -> None:
    torch = sys.modules.get("torch")
    other = getattr(torch, _MARK, None)
    if other is not None:
        raise RuntimeError(f"another copy of torchax-compat is enabled already: `{other}`; import that one")
    former = next((name for name in sys.modules if name.rpartition(".")[2] == _FORMER), None)
    if former is not None:
        raise RuntimeError(
            f"the program also imports `{former}`, a former version of torchax-compat, which patches the "
            "same functions: apply the fixes of tpulint to all its files"
        )


def _before_jax_starts() -> Callable[[], None]:
    from .jit import jax_logging, xla_flags

    undone = [jax_logging.set_level(), xla_flags.set_flags()]
    return functools.partial(application.restore, undone)


def import_all() -> None:
    """Import all modules of the runtime, which declare the patches.

    Raises:
        UnsupportedVersion: a module uses something that the installed versions do not have.
    """
    if _import_errors:  # some modules have declared their patches already
        raise UnsupportedVersion(_message(_import_errors))
    try:
        package = importlib.import_module(_PACKAGE)
        for module in pkgutil.walk_packages(package.__path__, f"{_PACKAGE}."):
            importlib.import_module(module.name)
    except (ImportError, AttributeError) as error:
        _import_errors.append(str(error))
        raise UnsupportedVersion(_message(_import_errors)) from error


def _apply(undone: list[Callable[[], None]], *, force: bool) -> None:
    """Apply the patches, and enter the torchax environment.

    Args:
        undone: gets functions that take this back, to be called in reverse.
        force: whether signatures may differ from those on record.
    """
    import torch
    import torchax

    from .adapters import instance_attributes

    problems = application.moved({} if force else _signatures()) or instance_attributes.problems()
    if problems:
        raise UnsupportedVersion(_message(problems, force=force))
    undone.extend(application.apply_all())
    setattr(torch, _MARK, _PACKAGE)
    undone.append(functools.partial(delattr, torch, _MARK))
    if not application.is_entered():
        torchax.enable_globally()
        undone.append(torchax.disable_globally)


def _enter() -> None:
    import torchax

    if not application.is_entered():
        torchax.enable_globally()
