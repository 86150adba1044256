"""`tpulint fix --verify-with`: keep the fixes with which a command of the user passes."""

from tpulint.trial.journal import JournalError, recover
from tpulint.trial.trial import FixedFiles, Trial, TrialError, description

__all__ = ["FixedFiles", "JournalError", "Trial", "TrialError", "description", "recover"]
