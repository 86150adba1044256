"""`gather_values()`: a value as each rank has it."""

from __future__ import annotations

from typing import Any


def gather_values(value: Any) -> list[Any]:
    """Return a list of what each rank has, with tensors copied to the host.

    With `one_rank_per_device()`, tensors, and numbers from `item()` and `tolist()`, have a value for each
    rank.
    Of other values, such as strings, the list has the value of rank 0 for each rank.
    Without ranks, the list has one item. All processes have to call this function.

    Args:
        value: a number or tensor, or lists, tuples and dictionaries of them.

    Example:
        >>> import torchax_compat
        >>> torchax_compat.distributed.gather_values(2.5)
        [2.5]
    """
    import torch

    from .. import ranks
    from ..adapters.torch_internals import pytree
    from ..ranks import between_processes, local_tensor

    if ranks.count() > 1 and not local_tensor.differs(value):
        ranks.report_once(
            f"`gather_values` gets the value of rank 0 for each of {ranks.count()} ranks: only tensors, and "
            "numbers from `item()` and `tolist()`, have the values of all ranks, and a float times such an "
            "integer, as in `100.0 * correct`, has not; write `correct * 100.0`"
        )
    values = [local_tensor.of_rank(value, rank) for rank in range(ranks.count())]
    values = [pytree.tree_map_only(torch.Tensor, torch.Tensor.cpu, one) for one in values]
    return between_processes.lists_joined(values)
