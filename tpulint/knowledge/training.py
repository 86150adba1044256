"""Names of what training code calls beside the computation itself."""

from tpulint.finding import Companion

#: Methods of modules that take a hook, which each call then runs.
HOOKS = ("register_forward_hook", "register_forward_pre_hook")

#: The class that loads batches, by each of its names.
LOADERS = frozenset({"torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"})

#: Classes of libraries whose instances call `backward` on the `loss` that they are called with.
SCALERS = frozenset({"timm.utils.ApexScaler", "timm.utils.NativeScaler"})

#: The class of accelerate whose instances choose the device, and call `backward` on what they are given.
ACCELERATORS = frozenset({"accelerate.Accelerator", "accelerate.accelerator.Accelerator"})

#: What tells it the device, as the environment variable that it reads.
ACCELERATE_DEVICE = "ACCELERATE_TORCH_DEVICE"

#: Methods of modules that compute nothing from inputs.
MODULE_UPKEEP = frozenset(
    {
        *(
            "parameters",
            "named_parameters",
            "buffers",
            "named_buffers",
            "modules",
            "named_modules",
            "children",
        ),
        *(
            "named_children",
            "state_dict",
            "load_state_dict",
            "train",
            "eval",
            "zero_grad",
            "to",
            "cuda",
            "cpu",
        ),
        *(
            "half",
            "float",
            "double",
            "bfloat16",
            "requires_grad_",
            "apply",
            "register_buffer",
            "size",
            "device",
        ),
        *HOOKS,
        *("add_module", "share_memory", "compile"),
        *(
            "save_pretrained",
            "from_pretrained",
            "no_sync",
            "append",
            "extend",
            "items",
            "keys",
            "values",
            "update",
        ),
        *("step", "save", "load", "load_weights", "num_parameters", "get_num_params", "configure_optimizers"),
        *("gradient_checkpointing_enable", "clip_gradients", "init_weights", "reset_parameters", "copy_"),
    }
)

#: The decorator with which JAX differentiates a function; see `backward-on-torchax`.
DIFFERENTIABLE = "torchax_training.differentiable"

#: The decorator within which `torch.autograd.grad` works.
RECORDED = "torchax_training.recorded"

#: What makes the step of an optimizer one that JAX compiles.
COMPILED = "torchax_training.compiled"

#: The companion that defines all three.
TRAINING = Companion("tpulint_rules:companions/torchax_training")


def is_mark(name: str | None, mark: str) -> bool:
    """Whether the function is one of the runtime, such as `compiled` or `differentiable`.

    `mark` is that function. The runtime may lie in any package.
    """
    folder, _, last = mark.partition(".")
    *path, end = (name or "").split(".")
    return end == last and folder in path
