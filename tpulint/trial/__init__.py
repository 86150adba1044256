"""`tpulint fix --verify-with`: fixes are kept if a command of the user passes with them."""

from tpulint.trial.journal import JournalError, recover
from tpulint.trial.trial import Outcome, Trial, TrialError, explained

__all__ = ["JournalError", "Outcome", "Trial", "TrialError", "explained", "recover"]
