"""`tpulint verify` for users: runs their programs and modules before and after `fix`, and compares.

User code runs only in processes of its own; whoever imports this package imports neither torch nor JAX.
"""

from tpulint.proof.results import Report, State, Verification, as_json
from tpulint.proof.targets import Options, Target
from tpulint.proof.verification import verify

__all__ = ["Options", "Report", "State", "Target", "Verification", "as_json", "verify"]
