"""`tpulint doctor`: check whether an environment can run fixed programs, and on which devices."""

from tpulint.doctor.checks import Check, State, diagnose
from tpulint.doctor.probing import InterpreterError, ProbeResults, run_probes

__all__ = ["Check", "InterpreterError", "ProbeResults", "State", "diagnose", "run_probes"]
