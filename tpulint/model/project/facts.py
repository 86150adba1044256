"""Facts: what one module tells the others, small enough to send between processes and to store.

`summarise` draws them from a module's index; `tracing.reach.link` puts all modules' facts together.
"""

from __future__ import annotations

from typing import NamedTuple

from tpulint.model.project.device_flow import Edge
from tpulint.model.project.handing import Handed
from tpulint.model.project.on_host import Given
from tpulint.model.project.takers import Taker

#: The callee of a call that may be of anything, being looked up when the program runs.
ANY = "any:"

#: A base class of which nobody knows where it comes from.
SOME_BASE = "?"


class CallFact(NamedTuple):
    """A call or a mention of a function: what, and where it stands (row and column from 1)."""

    callee: str
    row: int
    column: int


class FunctionFacts(NamedTuple):
    """A function: where it is, what it calls, and its return annotation with qualified names.

    `places` says that it puts something on a device that is not the host's, `offered` that it is public,
    `takes` is the annotation of its first parameter that is more than a number, or what its use proves,
    `infers` says that it is decorated to keep no gradients, as those are with which inference begins,
    `takes_module` that it uses a parameter as a module, `files` that it makes pictures or files, `makes` that
    it takes a device and else but sizes, `trains_apart` that it calls `backward` itself, on what ends within.
    `mentions` are the functions that it may pass on to be called; see `project.mentioned`.
    `by_place` are the parameters that it takes by their places, `undeclared` those without an annotation,
    `tensors` those of which it is sure itself that they are tensors, `hands` what it hands to others,
    `gives` are references to the calls of the instances that it may give, `on_host` says which tensors it
    gives that are made on the host.
    """

    qualname: str
    owner: str | None
    row: int
    column: int
    calls: tuple[CallFact, ...]
    returns: str
    places: bool
    offered: bool
    takes: str
    infers: bool
    takes_module: bool = False
    files: bool = False
    makes: bool = False
    trains_apart: bool = False
    mentions: tuple[str, ...] = ()
    by_place: tuple[str, ...] = ()
    undeclared: tuple[str, ...] = ()
    tensors: tuple[str, ...] = ()
    hands: tuple[Handed, ...] = ()
    gives: tuple[str, ...] = ()
    on_host: Given = Given()

    @property
    def looks_up(self) -> bool:
        """Whether it calls what is looked up when the program runs."""
        return any(call.callee == ANY for call in self.calls)


class ClassFacts(NamedTuple):
    """A class: its bases, its methods, and what its attributes hold.

    `modules` gives for an attribute the classes that are instantiated for it (the elements, for a
    `ModuleList` or `Sequential`), `functions` references to the functions that it holds; `tensors` names
    parameters and buffers, `computed` what `forward` leaves in attributes. `changes_itself` says that its
    methods write to its attributes.
    """

    qualname: str
    bases: tuple[str, ...]
    methods: tuple[str, ...]
    modules: dict[str, tuple[str, ...]]
    functions: dict[str, tuple[str, ...]]
    tensors: tuple[str, ...]
    row: int
    column: int
    computed: tuple[str, ...] = ()
    changes_itself: bool = False


class Root(NamedTuple):
    """A place where tracing begins: the function that is traced, by which means, and where."""

    callee: str
    label: str
    owner: str | None
    row: int
    column: int


class ModuleFacts(NamedTuple):
    """All that the project needs to know of one module.

    `places` says that its top level, `placed_anywhere` that any of its code puts something on a device that
    is not the host's, `enters` that it enters the torchax environment, `enters_when_imported` that it does so
    as others import it, too, `trains` that it computes gradients. `starts` are the calls of its own code,
    outside of functions, `aliases` its names that stand for annotations, `handed` is what it hands on of
    devices, `configured` says that it reads configurations at run time, `backward` that it calls
    `loss.backward()`, `takers` are its functions that call `backward` on what they are given,
    `asked_of_others` the attributes of other objects on which it does, `kept_by_marked` those of `self` with
    what JAX differentiates, `savers` the functions that save what they are given. `entries` are the classes
    of which it puts instances into dictionaries, each time that it does, `groups` are the process groups that
    it starts: whether each serves the host. `divides_samples` says that it has samplers that give each
    process its share, `shards_parameters` that it shards parameters over the processes,
    `launches_by_library` that a library does both, `addresses_processes` that its processes differ in other
    ways, `ranks_devices` that it makes each device a rank of one process,
    `splits_batches` that one process splits batches over devices.
    `tables` gives for its names that stand for a dictionary, list or
    tuple references to the functions in it, `cuda_default` says that it makes a type of CUDA the default of
    tensors, `moves` that its import puts tensors on a device, `unwraps` that it asks models that it has not
    wrapped for the `module` in a wrapper, `prefixes` that it counts on the names that parameters have behind
    one, `chosen` are the beginnings of the names of modules that it imports by names which it makes at run
    time, `is_started` says that some of it runs only where it is itself the program, `hands` is what its own
    code hands to functions. `mentions` are the
    functions that its own code may pass on to be called, with where it does.
    """

    name: str
    path: str
    exports: dict[str, str]
    stars: tuple[str, ...]
    functions: dict[str, FunctionFacts]
    classes: dict[str, ClassFacts]
    roots: tuple[Root, ...]
    imports: tuple[str, ...]
    places: bool
    placed_anywhere: bool
    enters: bool
    enters_when_imported: bool
    trains: bool
    starts: tuple[CallFact, ...]
    aliases: dict[str, str]
    handed: tuple[Edge, ...] = ()
    configured: bool = False
    backward: bool = False
    takers: tuple[Taker, ...] = ()
    asked_of_others: tuple[str, ...] = ()
    kept_by_marked: tuple[str, ...] = ()
    savers: tuple[Taker, ...] = ()
    entries: tuple[str, ...] = ()
    groups: tuple[bool, ...] = ()
    divides_samples: bool = False
    shards_parameters: bool = False
    launches_by_library: bool = False
    addresses_processes: bool = False
    ranks_devices: bool = False
    splits_batches: bool = False
    tables: dict[str, tuple[str, ...]] = {}  # noqa: RUF012
    cuda_default: bool = False
    moves: bool = False
    unwraps: bool = False
    prefixes: bool = False
    chosen: tuple[str, ...] = ()
    is_started: bool = False
    mentions: tuple[CallFact, ...] = ()
    hands: tuple[Handed, ...] = ()
