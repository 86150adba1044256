"""Names of the runtime torchax-compat, and of `torchax_training`, which fixes wrote before."""

#: What a program installs.
DISTRIBUTION = "torchax-compat"

#: The requirement that fixes add to a project.
REQUIREMENT = f"{DISTRIBUTION}>=0.1"

#: What it imports.
PACKAGE = "torchax_compat"

#: The package that fixes of earlier versions wrote beside programs.
FORMER = "torchax_training"

#: The call that enters the torchax environment, and makes it behave as PyTorch does.
ENABLE = f"{PACKAGE}.enable"

#: The call that leaves it, and restores torch and torchax.
DISABLE = f"{PACKAGE}.disable"

#: What `ENABLE` imports itself.
IMPORTED_BY_ENABLE = frozenset({"torchax", "jax"})

#: The decorator of functions whose gradients JAX computes; see `backward-on-torchax`.
DIFFERENTIABLE = f"{PACKAGE}.differentiable"

#: The decorator of functions in which `torch.autograd.grad` works.
HIGHER_ORDER = f"{PACKAGE}.higher_order"

#: Compiles the step of an optimizer.
COMPILE_OPTIMIZER = f"{PACKAGE}.compile_optimizer"

#: The decorator of functions that change weights without gradients.
COMPILE_UPDATE = f"{PACKAGE}.compile_update"

#: Wraps a module like `DistributedDataParallel`, without distributing it.
SINGLE_PROCESS = f"{PACKAGE}.single_process"

#: Makes each device a rank of `torch.distributed`.
ONE_RANK_PER_DEVICE = f"{PACKAGE}.distributed.one_rank_per_device"

#: What the former package called these.
FORMER_NAMES = {
    DIFFERENTIABLE: f"{FORMER}.differentiable",
    HIGHER_ORDER: f"{FORMER}.recorded",
    COMPILE_OPTIMIZER: f"{FORMER}.compiled",
    COMPILE_UPDATE: f"{FORMER}.compiled",
    SINGLE_PROCESS: f"{FORMER}.undivided",
}


def is_of_runtime(name: str) -> bool:
    """Whether a dotted name is the runtime's or of something in it; the runtime may lie in any package."""
    return not {PACKAGE, FORMER}.isdisjoint(name.split("."))


def is_runtime_function(name: str | None, function: str) -> bool:
    """Whether a dotted name is a function of the runtime, such as `DIFFERENTIABLE`, in any package."""
    return any(f".{name}".endswith(f".{one}") for one in (function, FORMER_NAMES.get(function, function)))
