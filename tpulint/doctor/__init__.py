"""`tpulint doctor`: whether an environment can run fixed programs, and on which devices."""

from tpulint.doctor.checks import Check, State, diagnose
from tpulint.doctor.examination import Examination, examine

__all__ = ["Check", "Examination", "State", "diagnose", "examine"]
