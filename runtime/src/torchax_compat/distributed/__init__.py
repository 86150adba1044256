"""One process that drives all chips: wrappers, process groups and device meshes of `torch.distributed`."""
