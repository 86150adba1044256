"""The private names of torchax that the runtime uses: the originals, from before patches are applied."""

from __future__ import annotations

from torchax.ops import jaten
from torchax.tensor import Environment

#: `tensor.to(...)`, from its arguments.
tensor_to = Environment._torch_Tensor_to
#: A tensor on another device, with another dtype.
to_copy = Environment._to_copy

#: Implementations of operators on JAX arrays.
avg_pool = jaten._aten_avg_pool
convolution = jaten._aten_convolution
cummax = jaten._aten_cummax
cummin = jaten._aten_cummin
mean = jaten._aten_mean
mul = jaten._aten_mul
native_batch_norm = jaten._aten_native_batch_norm
nonzero = jaten._aten_nonzero
var = jaten._aten_var
