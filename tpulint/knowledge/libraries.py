"""Libraries that choose the device for a program: CUDA where there is CUDA, and the CPU elsewhere."""

#: Functions that return the device, by package and last name: whether they return its name as a string.
DEVICE_FUNCTIONS = {
    ("accelerate", "infer_device"): True,
    ("catalyst", "get_device"): False,
    ("composer", "get_device"): False,
    ("fastai", "default_device"): False,
    ("ignite", "device"): False,
    ("kornia", "get_cuda_device_if_available"): False,
    ("kornia", "get_cuda_or_mps_device_if_available"): False,
    ("mmengine", "get_device"): True,
    ("pykeen", "resolve_device"): False,
    ("ray", "get_device"): False,
    ("sentence_transformers", "get_device_name"): True,
    ("stable_baselines3", "get_device"): False,
    ("timm", "init_distributed_device"): False,
    ("torch_geometric", "device"): False,
    ("torchtune", "get_device"): False,
    ("transformers", "infer_device"): True,
    ("ultralytics", "select_device"): False,
}

#: Classes whose instances choose the device, and hold it in the attribute `device`.
DEVICE_HOLDERS = frozenset(
    {
        *(f"accelerate.{path}" for path in ("PartialState", "state.PartialState", "state.AcceleratorState")),
        *(f"{path}.Fabric" for path in ("lightning", "lightning.fabric", "lightning.fabric.fabric")),
        *("lightning_fabric.Fabric", "lightning_fabric.fabric.Fabric"),
    }
)
