"""The states of random generators, so that random numbers can be drawn again."""

from __future__ import annotations

import pickle
import random
from typing import Any

import numpy as np
import torch


def states(generators: Any = ()) -> Any:
    """The states of the generators of Python, NumPy and torch on the host, and of others."""
    drawn: Any = np.random.get_state()
    own = [(one, _state(one)) for one in generators]
    return random.getstate(), drawn[1].tobytes(), drawn[2:], torch.get_rng_state().numpy().tobytes(), own


def restore(states: Any) -> None:
    """Restore the states of the generators."""
    of_python, key, rest, of_torch, own = states
    random.setstate(of_python)
    np.random.set_state(("MT19937", np.frombuffer(key, dtype=np.uint32), *rest))
    torch.set_rng_state(torch.frombuffer(bytearray(of_torch), dtype=torch.uint8))
    for generator, state in own:
        match generator:
            case random.Random():
                generator.setstate(state)
            case torch.Generator():
                generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
            case _:
                _bits(generator).state = pickle.loads(state)


def _state(generator: Any) -> Any:
    match generator:
        case random.Random():
            return generator.getstate()
        case torch.Generator():
            return generator.get_state().numpy().tobytes()
        case _:
            return pickle.dumps(_bits(generator).state)


def _bits(generator: Any) -> Any:
    """The bit generator of a NumPy generator."""
    return generator.bit_generator if isinstance(generator, np.random.Generator) else generator._bit_generator


def generators(values: Any) -> Any:
    """The random generators among some values."""
    kinds = (np.random.Generator, np.random.RandomState, random.Random, type(torch.default_generator))
    return list({id(one): one for one in values if type(one) in kinds}.values())
