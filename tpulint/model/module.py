"""The façade on one file's meaning: everything that a rule may ask, computed when first asked."""

from __future__ import annotations

from functools import cached_property

from tpulint.model.devices.edges import device_edges, reads_text
from tpulint.model.processes.groups import (
    addresses_processes,
    divides_samples,
    groups,
    launches_by_library,
    ranks_devices,
    shards_parameters,
    splits_batches,
)
from tpulint.model.project.facts import ModuleFacts
from tpulint.model.project.savers import savers
from tpulint.model.project.summary import summarise
from tpulint.model.syntax.parsed_file import ModulePath
from tpulint.model.training.kept import asked_of_others, kept_by_marked
from tpulint.model.training.losses import takers
from tpulint.model.training.steps import Steps
from tpulint.model.values.inference import Inference
from tpulint.source import Source


class Module(Inference):
    """One parsed file within its project."""

    def __init__(self, source: Source, path: ModulePath) -> None:
        super().__init__(source, path)
        #: What the runtime was said to handle since this was last cleared; see `Program.runtime_handles`.
        self.handled: set[str] = set()

    def _forget(self) -> None:
        super()._forget()
        self.__dict__.pop("training_steps", None)

    def facts(self) -> ModuleFacts:
        """What this module tells the others, drawn anew."""
        facts = summarise(self.name, self.source.path, self.index, self.names)
        return facts._replace(
            handed=device_edges(self),
            configured=reads_text(self),
            takers=takers(self),
            asked_of_others=asked_of_others(self),
            kept_by_marked=kept_by_marked(self),
            savers=savers(self),
            groups=groups(self),
            divides_samples=divides_samples(self),
            shards_parameters=shards_parameters(self),
            launches_by_library=launches_by_library(self),
            addresses_processes=addresses_processes(self),
            ranks_devices=ranks_devices(self),
            splits_batches=splits_batches(self),
        )

    @cached_property
    def training_steps(self) -> Steps:
        """What leads to the losses of this file."""
        return Steps(self)
