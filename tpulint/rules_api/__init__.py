"""The API that rules are written against, and all of tpulint that a rule may use.

A rule registers functions for the node types of `ast` that may concern it. tpulint calls such a function for
each of these nodes, with a `Context`, which says what the code means and builds findings and fixes.
`tpulint.rules_api.syntax` has questions about syntax alone, and `tpulint.rules_api.results` the types of
answers. The tables in `tpulint.knowledge` may be imported, too.
"""

from tpulint.finding import Applicability, Effort, Finding, Fix, Location, Related, Severity, Span
from tpulint.model.names.scopes import FunctionNode, Scope, ScopeKind
from tpulint.model.project.trace_path import Certainty
from tpulint.model.values.kinds import (
    UNKNOWN,
    Array,
    Data,
    Device,
    Instance,
    Kind,
    Several,
    Static,
    Tensor,
    Unknown,
)
from tpulint.plan import Change, Import, Rewrite
from tpulint.rules_api.context import Context
from tpulint.rules_api.rule import Rule

__all__ = [
    "UNKNOWN",
    "Applicability",
    "Array",
    "Certainty",
    "Change",
    "Context",
    "Data",
    "Device",
    "Effort",
    "Finding",
    "Fix",
    "FunctionNode",
    "Import",
    "Instance",
    "Kind",
    "Location",
    "Related",
    "Rewrite",
    "Rule",
    "Scope",
    "ScopeKind",
    "Several",
    "Severity",
    "Span",
    "Static",
    "Tensor",
    "Unknown",
]
