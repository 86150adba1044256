"""Where tracing begins, and which conditions say that it is going on."""

import functools
import re

from tpulint.knowledge.runtime import ENABLE

#: Strings that name an accelerator's device.
DEVICE_STRING = re.compile(r"(cuda(:\d+)?|jax)\Z")

#: A text that names a device once its index is put in.
UNFINISHED_DEVICE = re.compile(r"cuda:(%[dis]|\{\d?(:d)?\})?\Z")

#: What people call the number of a device, which is a process's rank in those that are started for each one.
DEVICE_NUMBER = re.compile(
    r"(local_?)?rank\Z|(gpu|cuda|dev|device)_?(ids?|idx|index|num|no|number|rank)\Z|(gpu|cuda)\Z",
    re.IGNORECASE,
)

_DEVICE_WORD = re.compile("dev|cuda|gpu|accel|pin_mem", re.IGNORECASE)

#: Functions that give the torchax environment.
ENVIRONMENTS = frozenset({"torchax.default_env", "torchax.tensor.Environment"})

#: Functions that give or enter the torchax environment; torch_xla2 is the former name of torchax.
ENVIRONMENT_ENTRIES = frozenset(
    {ENABLE}.union(
        name.replace("torchax", package)
        for name in ENVIRONMENTS | {"torchax.enable_globally"}
        for package in ("torchax", "torch_xla2")
    )
)

#: Methods of the environment that enter it.
ENTERS = frozenset({"__enter__", "enable_torch_modes"})

#: Functions that trace what they are given, with the words that a report uses for them.
TRACE_ENTRIES = {
    "torchax.interop.jax_jit": "`torchax.interop.jax_jit`",
    "torchax.interop.JittableModule": "`torchax.interop.JittableModule`",
    "torchax.interop.jax_value_and_grad": "`torchax.interop.jax_value_and_grad`",
    "torchax.compile": "`torchax.compile`",
    "torchax.extract_jax": "`torchax.extract_jax`",
    "torchax.train.make_train_step": "`torchax.train.make_train_step`",
    "torch.compile": "`torch.compile`",
    "torch.export.export": "`torch.export.export`",
    "jax.jit": "`jax.jit`",
}

#: Functions of torchax that compute gradients.
GRADIENT_ENTRIES = frozenset({"torchax.interop.jax_value_and_grad", "torchax.train.make_train_step"})

#: Base classes of functions that come with a gradient of their own.
AUTOGRAD_FUNCTIONS = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})

#: Functions that pass a function on: what they wrap is what is traced.
WRAPPERS = frozenset(
    {"functools.partial", "torchax.interop.jax_view", "torchax.interop.jax_jit", "torch.no_grad"}
)

#: Functions that call the module which is their first argument.
FUNCTIONAL_CALLS = frozenset(
    {
        "torch.func.functional_call",
        "torch.nn.utils.stateless.functional_call",
        "torch._functorch.functional_call.functional_call",
    }
)

#: Methods that give the module itself, put elsewhere or into another mode.
GIVE_MODULE = frozenset(
    {
        *("to", "cuda", "cpu", "xpu", "eval", "train", "half", "float", "double", "bfloat16"),
        *("requires_grad_", "to_empty", "share_memory"),
    }
)

#: Attributes that modules alone have: nothing that is traced takes what has them.
OF_MODULES = frozenset(
    {"named_parameters", "named_buffers", "named_modules", "parameters", "state_dict", "load_state_dict"}
)

#: Functions that make pictures or files, which the host alone does.
FILING = frozenset({"PIL.Image.fromarray", "io.BytesIO", "builtins.open", "cv2.imwrite"})

#: Base classes from outside the project whose instances are `torch.nn.Module`s.
MODULE_BASES = frozenset(
    {
        "torch.nn.Module",
        "torch.nn.modules.Module",
        "torch.nn.modules.module.Module",
        "lightning.LightningModule",
        "lightning.pytorch.LightningModule",
        "pytorch_lightning.LightningModule",
        "pytorch_lightning.core.LightningModule",
        "transformers.PreTrainedModel",
        "transformers.modeling_utils.PreTrainedModel",
        "diffusers.ModelMixin",
        "diffusers.models.modeling_utils.ModelMixin",
        "timm.layers.LayerNorm2d",
    }
)

#: Packages none of whose functions belong to a project under analysis.
LIBRARIES = frozenset(
    {
        "torch",
        "numpy",
        "jax",
        "torchax",
        "torchvision",
        "builtins",
        "math",
        "os",
        "sys",
        "typing",
        "logging",
        "collections",
        "itertools",
        "functools",
        "warnings",
        "dataclasses",
        "abc",
        "copy",
        "re",
        "json",
        "pathlib",
        "contextlib",
        "enum",
        "inspect",
        "random",
        "time",
        "einops",
    }
)


@functools.cache
def is_device_word(name: str) -> bool:
    """Whether a name sounds like that of a device, or of a flag for one."""
    return _DEVICE_WORD.search(name) is not None
