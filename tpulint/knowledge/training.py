"""Names of what training code calls beside the computation itself."""

from tpulint.finding import Companion

#: Methods of modules that take a hook, which each call then runs.
HOOKS = ("register_forward_hook", "register_forward_pre_hook")

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

#: The decorator of the companion file with which JAX differentiates a function; see `backward-on-torchax`.
DIFFERENTIABLE = "torchax_training.differentiable"

#: The decorator within which `torch.autograd.grad` works.
RECORDED = "torchax_gradients.recorded"

#: The companion files themselves, with those that the first imports.
_OPERATIONS = Companion("torchax_operations.py", "tpulint_rules:companions/torchax_operations.py")
_DISPATCH = Companion("torchax_dispatch.py", "tpulint_rules:companions/torchax_dispatch.py")
FUNCTIONS = Companion("torchax_functions.py", "tpulint_rules:companions/torchax_functions.py")
_DERIVATIVES = Companion("torchax_derivatives.py", "tpulint_rules:companions/torchax_derivatives.py")
_ATTRIBUTES = Companion("torchax_attributes.py", "tpulint_rules:companions/torchax_attributes.py")
_LOADING = Companion("torchax_loading.py", "tpulint_rules:companions/torchax_loading.py")
_ITEMS = Companion("torchax_items.py", "tpulint_rules:companions/torchax_items.py")
_VARYING = Companion("torchax_varying.py", "tpulint_rules:companions/torchax_varying.py")
_TRACING = Companion("torchax_tracing.py", "tpulint_rules:companions/torchax_tracing.py")
_CALLS = Companion("torchax_calls.py", "tpulint_rules:companions/torchax_calls.py")
TRAINING = Companion(
    "torchax_training.py",
    "tpulint_rules:companions/torchax_training.py",
    (
        _OPERATIONS,
        _DISPATCH,
        FUNCTIONS,
        _ATTRIBUTES,
        _DERIVATIVES,
        _ITEMS,
        _LOADING,
        _VARYING,
        _TRACING,
        _CALLS,
    ),
)
GRADIENTS = Companion("torchax_gradients.py", "tpulint_rules:companions/torchax_gradients.py")
