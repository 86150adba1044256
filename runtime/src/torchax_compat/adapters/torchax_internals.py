"""The private names of torchax that the runtime uses: the originals, from before patches are applied."""

from __future__ import annotations

from torchax.ops import jaten
from torchax.tensor import Environment

#: `tensor.to(...)`, from its arguments.
tensor_to = Environment._torch_Tensor_to
#: A tensor on another device, with another dtype.
to_copy = Environment._to_copy

#: Implementations of operators on JAX arrays.
nonzero = jaten._aten_nonzero
