"""Operations of torch that take plain Python numbers, and where.

Source: each was run under `torchax.interop.jax_jit` with a tensor in the number's place (torch 2.13.0,
torchax 0.0.14.dev20261026, jax 0.10.2); those that take a tensor as well, such as `clamp`, are left out.
"""

from __future__ import annotations

#: For each function or method: the operands that are numbers, or hold numbers, counted with the tensor
#: itself as 0 (from, up to; None is all the rest), and the keywords.
NUMBERS: dict[str, tuple[int, int | None, tuple[str, ...]]] = {
    "adaptive_avg_pool1d": (1, 2, ("output_size",)),
    "adaptive_avg_pool2d": (1, 2, ("output_size",)),
    "broadcast_to": (1, None, ("size",)),
    "chunk": (1, 3, ("chunks", "dim")),
    "cumsum": (1, 2, ("dim",)),
    "diagonal": (1, 4, ("offset", "dim1", "dim2")),
    "dropout": (1, 2, ("p",)),
    "expand": (1, None, ("size",)),
    "full_like": (1, 2, ("fill_value",)),
    "interpolate": (1, 2, ("size",)),
    "kthvalue": (1, 3, ("k", "dim")),
    "layer_norm": (4, 5, ("eps",)),
    "leaky_relu": (1, 2, ("negative_slope",)),
    "multinomial": (1, 2, ("num_samples",)),
    "narrow": (1, 4, ("dim", "start", "length")),
    "new_empty": (1, None, ("size",)),
    "new_full": (1, 3, ("size", "fill_value")),
    "new_ones": (1, None, ("size",)),
    "new_zeros": (1, None, ("size",)),
    "one_hot": (1, 2, ("num_classes",)),
    "pad": (1, 2, ("pad",)),
    "permute": (1, None, ("dims",)),
    "repeat": (1, None, ("repeats",)),
    "reshape": (1, None, ("shape",)),
    "roll": (1, 3, ("shifts", "dims")),
    "rot90": (1, 2, ("k",)),
    "select": (1, 3, ("dim", "index")),
    "split": (1, 3, ("split_size", "split_size_or_sections", "dim")),
    "split_with_sizes": (1, 3, ("split_sizes", "dim")),
    "tensor_split": (1, 3, ("tensor_indices_or_sections", "indices_or_sections", "dim")),
    "tile": (1, None, ("dims",)),
    "topk": (1, 3, ("k", "dim")),
    "tril": (1, 2, ("diagonal",)),
    "triu": (1, 2, ("diagonal",)),
    "unflatten": (1, 3, ("dim", "sizes")),
    "unfold": (1, 4, ("dimension", "size", "step")),
    "unsqueeze": (1, 2, ("dim",)),
    "view": (1, None, ("size",)),
}
