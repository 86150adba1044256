"""Names of what training code calls beside the computation itself."""

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

#: The classes of transformers whose instances choose the device of `Trainer`.
TRAINING_ARGUMENTS = frozenset(
    f"transformers{module}.{name}"
    for module, name in (
        *(("", name) for name in ("TrainingArguments", "Seq2SeqTrainingArguments")),
        (".training_args", "TrainingArguments"),
        (".training_args_seq2seq", "Seq2SeqTrainingArguments"),
    )
)

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
        *("unshard", "reshard", "set_modules_to_forward_prefetch", "set_modules_to_backward_prefetch"),
        *("set_requires_gradient_sync", "set_requires_all_reduce", "set_is_last_backward"),
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
