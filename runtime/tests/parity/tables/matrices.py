"""Products of matrices, and linear algebra."""

from __future__ import annotations

import torch
from torch.nn import functional

from ..samples import Table, bf16, c64, definite, f32, i8, i32, named, regular

MATRICES = Table()
MATRICES.add(
    named(torch.matmul, torch.mm) | {"matmul operator": lambda x, y: x @ y},
    (f32(3, 4), f32(4, 2)),
    (bf16(3, 4), bf16(4, 2)),
    (i32(3, 4), i32(4, 2)),
)
MATRICES.add(
    {
        "matmul of several ranks": torch.matmul,
    },
    (f32(3, 4), f32(4)),
    (f32(4), f32(4, 2)),
    (f32(4), f32(4)),
    (f32(2, 3, 4), f32(4, 2)),
    (f32(2, 1, 3, 4), f32(3, 4, 2)),
)
MATRICES.add(
    {
        "bmm": torch.bmm,
        "einsum": lambda x, y: torch.einsum("bij,bjk->bik", x, y),
        "einsum with an ellipsis": lambda x, y: torch.einsum("...ij,...jk->...k", x, y),
        "tensordot": lambda x, y: torch.tensordot(x, y, ([2, 0], [1, 0])),
    },
    (f32(2, 3, 4), f32(2, 4, 2)),
)
MATRICES.add(
    {
        "dot": torch.dot,
        "vdot": torch.vdot,
        "inner": torch.inner,
        "outer": torch.outer,
        "ger": torch.ger,
        "linalg.vecdot": torch.linalg.vecdot,
    },
    (f32(4), f32(4)),
)
MATRICES.add(named(torch.mv), (f32(3, 4), f32(4)))
MATRICES.add(
    {
        "addmm": torch.addmm,
        "addmm with factors": lambda x, y, z: torch.addmm(x, y, z, beta=0.5, alpha=2),
        "addmv": lambda x, y, z: torch.addmv(x[0, 0].expand(3), y, z[:, 0]),
        "addr": lambda x, y, z: torch.addr(x, y[:, 0], z[0]),
        "addbmm": lambda x, y, z: torch.addbmm(x, y[None], z[None]),
        "baddbmm": lambda x, y, z: torch.baddbmm(x[None], y[None], z[None], beta=2),
        "addmm_": lambda x, y, z: x.clone().addmm_(y, z),
        "linear": lambda x, y, z: (functional.linear(y, z.t(), x[0]), functional.linear(y, z.t())),
        "multi_dot": lambda x, y, z: torch.linalg.multi_dot([y, z, x.t()]),
        "chain_matmul": lambda x, y, z: torch.chain_matmul(y, z, x.t()),
    },
    (f32(3, 2), f32(3, 4), f32(4, 2)),
)
MATRICES.add(
    {
        "bilinear": lambda x, y, w: functional.bilinear(x, y, w),
        "bilinear with a bias": lambda x, y, w: functional.bilinear(x, y, w, w[:, 0, 0]),
    },
    (f32(5, 3), f32(5, 4), f32(2, 3, 4)),
)
MATRICES.add({"_int_mm": torch._int_mm}, (i8(17, 16), i8(16, 8)))
MATRICES.add({"matmul of complex": torch.matmul}, (c64(3, 4), c64(4, 2)))
MATRICES.add(
    {
        "cdist": torch.cdist,
        "cdist by p": lambda x, y: (torch.cdist(x, y, 1.0), torch.cdist(x, y, 3.0)),
        "cdist of equal points": lambda x, y: torch.cdist(x, x) + y[:1, :1],
        "pairwise_distance": lambda x, y: functional.pairwise_distance(x, y[:1]),
        "cosine_similarity": lambda x, y: (
            functional.cosine_similarity(x, y[:1]),
            torch.cosine_similarity(x, y[:1], 0),
        ),
    },
    (f32(3, 4), f32(2, 4)),
)
MATRICES.add({"pdist": functional.pdist}, (f32(4, 3),))
MATRICES.add(
    {"normalize": lambda x: (functional.normalize(x), functional.normalize(x, p=1, dim=0))}, (f32(3, 4),)
)

LINALG = Table()
LINALG.add(
    {
        "det": lambda x: (torch.det(x), torch.linalg.det(x), x.det()),
        "logdet": lambda x: (torch.logdet(x), x.logdet()),
        "slogdet": lambda x: (*torch.slogdet(x), *torch.linalg.slogdet(x), *x.slogdet()),
        "inverse": lambda x: (torch.inverse(x), torch.linalg.inv(x), x.inverse()),
        "linalg.solve": lambda x: (torch.linalg.solve(x, x[:, :2]), torch.linalg.solve(x, x[0])),
        "linalg.solve from the right": lambda x: torch.linalg.solve(x, x[:2], left=False),
        "linalg.solve_ex": lambda x: tuple(torch.linalg.solve_ex(x, x[:, :2])),
        "linalg.inv_ex": lambda x: tuple(torch.linalg.inv_ex(x)),
        "linalg.pinv": torch.linalg.pinv,
        "linalg.matrix_power": lambda x: (torch.linalg.matrix_power(x, 3), torch.linalg.matrix_power(x, -1)),
        "linalg.cond": lambda x: torch.linalg.cond(x),
        "linalg.matrix_rank": torch.linalg.matrix_rank,
        "linalg.qr": lambda x: tuple(torch.linalg.qr(x)),
        "linalg.svdvals": torch.linalg.svdvals,
        "linalg.lu_factor": lambda x: tuple(torch.linalg.lu_factor(x)),
        "linalg.matrix_norm by nuc": lambda x: (
            torch.linalg.matrix_norm(x, "nuc"),
            torch.linalg.matrix_norm(x, 2),
        ),
        "linalg.eigvals": lambda x: torch.view_as_real(torch.linalg.eigvals(x)).sum(),
        "svd products": lambda x: _product_of_svd(x),
    },
    (regular(3, 3),),
)
LINALG.add(
    {
        "det of several": lambda x: (torch.det(x), torch.linalg.slogdet(x).logabsdet),
        "inverse of several": torch.inverse,
        "linalg.solve of several": lambda x: (
            torch.linalg.solve(x, x[..., :2]),
            torch.linalg.solve(x, x[0, :, 0]),
        ),
    },
    (regular(2, 3, 3),),
)
LINALG.add(
    {
        "linalg.cholesky": torch.linalg.cholesky,
        "linalg.cholesky_ex": lambda x: tuple(torch.linalg.cholesky_ex(x)),
        "cholesky": lambda x: (torch.cholesky(x), torch.cholesky(x, upper=True)),
        "cholesky_solve": lambda x: torch.cholesky_solve(x[:, :2], torch.linalg.cholesky(x)),
        "cholesky_inverse": lambda x: torch.cholesky_inverse(torch.linalg.cholesky(x)),
        "linalg.eigvalsh": torch.linalg.eigvalsh,
        "linalg.eigh products": lambda x: _product_of_eigh(x),
        "linalg.solve_triangular": lambda x: torch.linalg.solve_triangular(x.tril(), x[:, :2], upper=False),
        "triangular_solve": lambda x: tuple(torch.triangular_solve(x[:, :2], x.triu())),
    },
    (definite(3, 3),),
)


def _product_of_svd(x: torch.Tensor) -> torch.Tensor:
    u, s, v = torch.linalg.svd(x, full_matrices=False)
    return (u * s) @ v


def _product_of_eigh(x: torch.Tensor) -> torch.Tensor:
    values, vectors = torch.linalg.eigh(x)
    return (vectors * values) @ vectors.mT


LINALG.add(
    {
        "fft": lambda x: (torch.fft.fft(x), torch.fft.fft(x, 3, 0, norm="ortho")),
        "ifft": torch.fft.ifft,
        "rfft": lambda x: (torch.fft.rfft(x), torch.fft.rfft(x, dim=0)),
        "irfft": lambda x: torch.fft.irfft(torch.fft.rfft(x), 5),
        "fft2": torch.fft.fft2,
        "irfft2": lambda x: torch.fft.irfft2(torch.fft.rfft2(x), (3, 5)),
        "rfftn": torch.fft.rfftn,
        "fftshift": lambda x: (torch.fft.fftshift(x), torch.fft.ifftshift(x)),
        "stft": lambda x: torch.stft(
            x.reshape(-1), 4, 2, window=torch.ones(4, device=x.device), return_complex=True
        ),
    },
    (f32(3, 5),),
)
LINALG.add({"ifftn of complex": torch.fft.ifftn, "hfft": torch.fft.hfft}, (c64(3, 4),))
LINALG.add({"vecdot of complex": torch.linalg.vecdot}, (c64(4), c64(4)))
LINALG.add(
    {
        "linalg.matrix_exp": lambda x: torch.linalg.matrix_exp(x / 4),
        "linalg.lstsq": lambda x: torch.linalg.lstsq(x, x[:, :2]).solution,
    },
    (regular(3, 3),),
    is_composite=True,
)
