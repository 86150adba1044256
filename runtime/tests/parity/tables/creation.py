"""Functions that create tensors, sparse tensors, and quantization."""

from __future__ import annotations

from typing import Any

import torch

from ..samples import Table, f32, i32

CREATION = Table()
CREATION.add(
    {
        "arange": lambda x: (
            _made(x, torch.arange, 5),
            _made(x, torch.arange, 1, 2, 0.25),
            _made(x, torch.arange, 4.0),
        ),
        "arange backwards": lambda x: _made(x, torch.arange, 3, -1, -1),
        "linspace": lambda x: (_made(x, torch.linspace, -1, 2, 7), _made(x, torch.linspace, 0, 1, 1)),
        "logspace": lambda x: _made(x, torch.logspace, -1, 2, 5),
        "eye": lambda x: (_made(x, torch.eye, 3), _made(x, torch.eye, 2, 4)),
        "full": lambda x: (
            _made(x, torch.full, (2, 3), 2.5),
            _made(x, torch.full, (2,), 3),
            _made(x, torch.full, (2,), fill_value=True),
        ),
        "zeros": lambda x: (
            _made(x, torch.zeros, 2, 3),
            _made(x, torch.ones, (2,)),
            _made(x, torch.zeros, ()),
        ),
        "empty": lambda x: _made(x, torch.empty, 2, 0),
        "dtypes": lambda x: tuple(
            _made(x, torch.ones, 2, dtype=dtype)
            for dtype in (torch.int32, torch.int64, torch.bool, torch.bfloat16, torch.complex64, torch.uint8)
        ),
        "tensor": lambda x: (
            _made(x, torch.tensor, [[1.5, 2], [3, 4]]),
            _made(x, torch.tensor, 3),
            _made(x, torch.tensor, [True, False]),
            _made(x, torch.tensor, [], dtype=torch.float32),
            _made(x, torch.tensor, 1j),
        ),
        "zeros_like": lambda x: (
            torch.zeros_like(x),
            torch.ones_like(x),
            torch.full_like(x, 2),
            torch.ones_like(x, dtype=torch.int32),
        ),
        "new_zeros": lambda x: (
            x.new_zeros(2),
            x.new_ones(2, 3),
            x.new_full((2,), 7),
            x.new_tensor([1, 2]),
            x.new_empty(0),
        ),
        "new": lambda x: (x.new(2, 3).zero_(), x.new([1, 2]), x.new(2, device=x.device).zero_()),
        "scalar_tensor": lambda x: _made(x, torch.scalar_tensor, 2.5),
        "windows": lambda x: (
            _made(x, torch.bartlett_window, 6),
            _made(x, torch.blackman_window, 6, periodic=False),
            _made(x, torch.hamming_window, 6),
            _made(x, torch.hamming_window, 6, periodic=True, alpha=0.5, beta=0.4),
            _made(x, torch.hann_window, 6),
            _made(x, torch.kaiser_window, 6, periodic=False, beta=10.0),
        ),
        "fftfreq": lambda x: (_made(x, torch.fft.fftfreq, 5, 0.5), _made(x, torch.fft.rfftfreq, 5)),
        "complex of parts": lambda x: torch.complex(_made(x, torch.ones, 2), _made(x, torch.zeros, 2)),
        "out of arange": lambda x: torch.arange(4, out=_made(x, torch.empty, 4, dtype=torch.int64)),
    },
    (f32(2),),
)
CREATION.add(
    {
        "like integers": lambda x: (
            torch.zeros_like(x),
            torch.full_like(x, 3),
            x.new_ones(2),
            x.new_tensor([1]),
        )
    },
    (i32(2),),
)


def _made(x: torch.Tensor, function: Any, *args: Any, **options: Any) -> torch.Tensor:
    """A tensor on the device of another one."""
    made: torch.Tensor = function(*args, device=x.device, **options)
    return made


CREATION.add(
    {
        "fake_quantize_per_tensor_affine": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.25, 3, 0, 15),
        "fake_quantize_per_channel_affine": lambda x: torch.fake_quantize_per_channel_affine(
            x,
            torch.tensor([0.5, 0.25, 1.0], device=x.device),
            torch.tensor([0, 3, 1], dtype=torch.int32, device=x.device),
            0,
            0,
            15,
        ),
        "to_sparse": lambda x: x.detach().to_sparse().to_dense(),
        "sparse_coo_tensor": lambda x: _sparse(x).to_dense(),
        "sparse product": lambda x: torch.sparse.mm(_sparse(x), x.t()),
        "sparse softmax": lambda x: torch.sparse.softmax(_sparse(x), 1).to_dense(),
        "sparse log_softmax": lambda x: torch.sparse.log_softmax(_sparse(x), 1).to_dense(),
        "sparse_csr_tensor": lambda x: torch.sparse_csr_tensor(
            torch.tensor([0, 1, 2, 3], device=x.device),
            torch.tensor([1, 0, 3], device=x.device),
            x[:, 0],
            (3, 4),
        ).to_dense(),
        "sparse sum": lambda x: torch.sparse.sum(_sparse(x)),
        "sparse addmm": lambda x: torch.sparse.addmm(x[:, :3] * 2, _sparse(x), x.t()),
    },
    (f32(3, 4),),
)


def _sparse(x: torch.Tensor) -> torch.Tensor:
    at = torch.tensor([[0, 1, 2], [1, 0, 3]], device=x.device)
    return torch.sparse_coo_tensor(at, x[:, 0], (3, 4))
