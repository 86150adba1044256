"""Prints the environment of all ranks; the first argument may be the address at which JAX is initialized."""

import os
import sys

import jax

if len(sys.argv) > 1:
    jax.distributed.initialize(sys.argv[1], num_processes=2, process_id=int(sys.argv[2]))

import torch.distributed as dist
import torchax_compat

torchax_compat.enable()
torchax_compat.distributed.one_rank_per_device()
dist.init_process_group("nccl")
found = [None] * dist.get_world_size()
dist.all_gather_object(found, [os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE")])
if dist.get_rank() == 0:
    print(found)
dist.destroy_process_group()
