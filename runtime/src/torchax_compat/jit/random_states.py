"""The states of random generators, so that random numbers can be drawn again."""

from __future__ import annotations

import pickle
import random

import numpy
import torch


def states(generators=()):
    """The states of the generators of Python, NumPy and torch on the host, and of others."""
    drawn = numpy.random.get_state()
    own = [(one, _state(one)) for one in generators]
    return random.getstate(), drawn[1].tobytes(), drawn[2:], torch.get_rng_state().numpy().tobytes(), own


def restore(states):
    """Restore the states of the generators."""
    of_python, key, rest, of_torch, own = states
    random.setstate(of_python)
    numpy.random.set_state(("MT19937", numpy.frombuffer(key, dtype=numpy.uint32), *rest))
    torch.set_rng_state(torch.frombuffer(bytearray(of_torch), dtype=torch.uint8))
    for generator, state in own:
        match generator:
            case random.Random():
                generator.setstate(state)
            case torch.Generator():
                generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
            case _:
                _bits(generator).state = pickle.loads(state)


def _state(generator):
    match generator:
        case random.Random():
            return generator.getstate()
        case torch.Generator():
            return generator.get_state().numpy().tobytes()
        case _:
            return pickle.dumps(_bits(generator).state)


def _bits(generator):
    """The bit generator of a NumPy generator."""
    return (
        generator.bit_generator if isinstance(generator, numpy.random.Generator) else generator._bit_generator
    )


def generators(values):
    """The random generators among some values."""
    kinds = (numpy.random.Generator, numpy.random.RandomState, random.Random, type(torch.default_generator))
    return list({id(one): one for one in values if type(one) in kinds}.values())
