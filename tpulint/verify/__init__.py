"""Executes the rules' fixtures on the real thing and says verified, failed or not run.

Only the workers import torch, torchax and jax; whoever imports this package imports none of them.
"""

from tpulint.verify.conduct import Decide, Fix, Options, missing_packages, verify
from tpulint.verify.platform import PLATFORMS
from tpulint.verify.result import Result, Side, State, case_state, case_states, exit_status

__all__ = [
    "PLATFORMS",
    "Decide",
    "Fix",
    "Options",
    "Result",
    "Side",
    "State",
    "case_state",
    "case_states",
    "exit_status",
    "missing_packages",
    "verify",
]
