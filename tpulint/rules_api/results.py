"""Types of what the namespaces of a context answer, and the reasons for which training steps have no fix."""

from tpulint.knowledge.targets import Target
from tpulint.model.devices.guarded import Guard
from tpulint.model.names.scopes import Binding
from tpulint.model.processes.variables import VariableWrite
from tpulint.model.project.trace_path import TracePath
from tpulint.model.tracing.jitted import Jitted
from tpulint.model.training.collected import Filling
from tpulint.model.training.regions import Region
from tpulint.model.training.steps import NOT_FOUND, SHARED_LINE, Step, Steps
from tpulint.model.values.branches import Condition, Selection
from tpulint.model.values.masked import Lifted
from tpulint.model.values.readers import Reader
from tpulint.model.values.views import Copied
from tpulint.source import Source

__all__ = [
    "NOT_FOUND",
    "SHARED_LINE",
    "Binding",
    "Condition",
    "Copied",
    "Filling",
    "Guard",
    "Jitted",
    "Lifted",
    "Reader",
    "Region",
    "Selection",
    "Source",
    "Step",
    "Steps",
    "Target",
    "TracePath",
    "VariableWrite",
]
