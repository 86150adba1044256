"""Types of what the namespaces of a context answer."""

from tpulint.model.devices.guarded import Guard
from tpulint.model.names.scopes import Binding
from tpulint.model.project.trace_path import TracePath
from tpulint.model.tracing.jitted import Jitted
from tpulint.model.training.collected import Filling
from tpulint.model.training.regions import Region
from tpulint.model.training.steps import Step, Steps
from tpulint.model.values.branches import Condition, Selection
from tpulint.model.values.masked import Lifted
from tpulint.model.values.readers import Reader
from tpulint.model.values.views import Copied

__all__ = [
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
    "Step",
    "Steps",
    "TracePath",
]
