"""The level of JAX's logger, so that a program that logs the messages of all libraries does not log JAX's."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

from ..patches.declarations import setup


@setup(
    'level of logging.getLogger("jax")',
    why="A program that logs the messages of all libraries would log each compilation.",
)
def set_level() -> Callable[[], None]:
    """Set the level to WARNING.

    Returns:
        A function that restores the level.
    """
    logger = logging.getLogger("jax")
    before = logger.level
    logger.setLevel(logging.WARNING)
    return functools.partial(logger.setLevel, before)
