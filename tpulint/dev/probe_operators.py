"""Writes `tpulint/knowledge/operators.py` from what the installed torchax does with each operator below.

Each sample runs in plain torch, on torchax with and without jit, and through the TPU's compiler; what gives
torch's result everywhere is left out of the table.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parents[1] / "knowledge" / "operators.py"
TPU = "v5e:2x2"
_NO_LOWERING = re.compile(r"Operator with name (aten::\S+) has no lowering")
HEADER = '''"""Operators that torchax lacks or cannot trace; generated, do not edit.

Source: `python -m tpulint.dev probe-operators`, which ran each on torch {torch}, torchax {torchax}
and jax {jax}, eager, jitted and compiled for {topology}. What is not listed is unknown, not fine.
Each stands with the operator that has no lowering, or with the exception that is raised.
"""

from __future__ import annotations

#: Raise with and without jit.
RAISES = {{
{eager}}}
#: Work without jit, and raise under it.
RAISES_UNDER_JIT = {{
{jit}}}
#: Trace, and fail in the TPU's compiler.
FAILS_ON_TPU = {{
{tpu}}}
'''

_F = "torch.nn.functional"
_RNN = "torch.nn.utils.rnn"
_METHODS = """
torch.cholesky: spd.cholesky()
torch.corrcoef: x.corrcoef()
torch.cov: x.cov()
torch.det: spd.det()
torch.geqrf: x.geqrf()
torch.histogram: v.histogram(4, range=(-2.0, 2.0))
torch.index_reduce: torch.zeros(4, device=v.device).index_reduce(0, i, v[:5], 'amax')
torch.index_reduce_: torch.zeros(4, device=v.device).index_reduce_(0, i, v[:5], 'amax')
torch.ldexp: x.ldexp(n)
torch.ldexp_: x.clone().ldexp_(n)
torch.ormqr: spd.ormqr(spd[0], spd)
torch.slogdet: spd.slogdet()[1]
torch.take_along_dim: x.take_along_dim(n, 1)
torch.to_sparse: x.to_sparse()
torch.to_sparse_csr: x.to_sparse_csr()
torch.istft: torch.stft(v, 4, window=torch.ones(4, device=v.device), return_complex=True).istft(4)
torch.lu: spd.lu()
"""
_FUNCTIONS = f"""
torch._int_mm: torch._int_mm(b, b)
torch.bartlett_window: v * torch.bartlett_window(8, device=v.device)
torch.binomial: torch.binomial(0 * v, 0 * v)
torch.blackman_window: v * torch.blackman_window(8, device=v.device)
torch.can_cast: x.to(torch.int32 if torch.can_cast(x.dtype, torch.int32) else torch.float32)
torch.cholesky: torch.cholesky(spd)
torch.cholesky_inverse: torch.cholesky_inverse(torch.linalg.cholesky(spd))
torch.corrcoef: torch.corrcoef(x)
torch.cov: torch.cov(x)
torch.det: torch.det(spd)
torch.fake_quantize_per_tensor_affine: torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)
torch.geqrf: torch.geqrf(x)
torch.hamming_window: v * torch.hamming_window(8, device=v.device)
torch.hann_window: v * torch.hann_window(8, device=v.device)
torch.hash_tensor: torch.hash_tensor(x)
torch.histogram: torch.histogram(v, bins=4, range=(-2.0, 2.0)).hist
torch.histogramdd: torch.histogramdd(x[:, :2], bins=[2, 2]).hist
torch.index_reduce: torch.index_reduce(torch.zeros(4, device=v.device), 0, i, v[:5], 'amax')
torch.istft: torch.istft(torch.stft(v, 4, return_complex=True), 4)
torch.kaiser_window: v * torch.kaiser_window(8, device=v.device)
torch.ldexp: torch.ldexp(x, n)
torch.linalg.eig: torch.linalg.eig(spd).eigenvalues.real.sort().values
torch.linalg.eigvals: torch.linalg.eigvals(spd).real.sort().values
torch.linalg.ldl_factor: torch.linalg.ldl_factor(spd).LD
torch.linalg.ldl_solve: torch.linalg.ldl_solve(spd, i[:1].expand(4).int() + 1, spd)
torch.linalg.lstsq: torch.linalg.lstsq(spd, x).solution
torch.linalg.lu: torch.linalg.lu(spd).L
torch.linalg.lu_factor: torch.linalg.lu_factor(spd).LU
torch.linalg.lu_solve: torch.linalg.lu_solve(*torch.linalg.lu_factor(spd), x)
torch.linalg.matrix_exp: torch.linalg.matrix_exp(spd / 10)
torch.linalg.matrix_rank: torch.linalg.matrix_rank(spd)
torch.linalg.pinv: torch.linalg.pinv(x)
torch.linalg.tensorinv: torch.linalg.tensorinv(spd, 1)
torch.lobpcg: torch.lobpcg(spd, 1)[0]
torch.nanquantile: torch.nanquantile(x, 0.5)
torch.nested.nested_tensor: torch.nested.nested_tensor([x, x[:2]]).to_padded_tensor(0.0)
torch.nonzero_static: torch.nonzero_static(v, size=8)
torch.ormqr: torch.ormqr(spd, spd[0], spd)
torch.poisson: torch.poisson(0 * v)
torch.promote_types: x.to(torch.promote_types(x.dtype, torch.bfloat16))
torch.quantile: torch.quantile(x, 0.5)
torch.slogdet: torch.slogdet(spd)[1]
torch.sparse_coo_tensor: torch.sparse_coo_tensor(torch.stack([i, i]), v[:5], (6, 6)).to_dense()
torch.segment_reduce: torch.segment_reduce(v, 'sum', lengths=torch.tensor([3, 5], device=v.device))
torch.take_along_dim: torch.take_along_dim(x, n, 1)
torch.vander: torch.vander(v, 3)
{_F}.adaptive_max_pool1d: F.adaptive_max_pool1d(img[0], 4)
{_F}.adaptive_max_pool2d: F.adaptive_max_pool2d(img, 4)
{_F}.adaptive_max_pool3d: F.adaptive_max_pool3d(img, 4)
{_F}.affine_grid: F.affine_grid(x[:2, :3][None], (1, 3, 4, 4), align_corners=False)
{_F}.ctc_loss: F.ctc_loss(x[:, None].log_softmax(-1), one, four, two)
{_F}.embedding_bag: F.embedding_bag(i[None], x)
{_F}.fractional_max_pool2d: F.fractional_max_pool2d(img, 2, output_size=4).shape
{_F}.gaussian_nll_loss: F.gaussian_nll_loss(x, x + 1, x.abs() + 1)
{_F}.grouped_mm: F.grouped_mm(h, h[None].expand(2, 32, 32).contiguous(), offs=offs)
{_F}.max_unpool1d: F.max_unpool1d(*F.max_pool1d(img[0], 2, return_indices=True), 2)
{_F}.max_unpool2d: F.max_unpool2d(*F.max_pool2d(img, 2, return_indices=True), 2)
{_F}.max_unpool3d: F.max_unpool3d(*F.max_pool3d(img, 2, return_indices=True), 2)
{_F}.multi_margin_loss: F.multi_margin_loss(x, i[:4])
{_F}.multilabel_margin_loss: F.multilabel_margin_loss(x, n.expand(4, 6).contiguous())
{_F}.rrelu: F.rrelu(x)
torch.nn.AdaptiveMaxPool1d: torch.nn.AdaptiveMaxPool1d(4)(img[0])
torch.nn.AdaptiveMaxPool2d: torch.nn.AdaptiveMaxPool2d(4)(img)
torch.nn.AdaptiveMaxPool3d: torch.nn.AdaptiveMaxPool3d(4)(img)
torch.nn.CTCLoss: torch.nn.CTCLoss()(x[:, None].log_softmax(-1), one, four, two)
torch.nn.FractionalMaxPool2d: torch.nn.FractionalMaxPool2d(2, output_size=4)(img).shape
torch.nn.GaussianNLLLoss: torch.nn.GaussianNLLLoss()(x, x + 1, x.abs() + 1)
torch.nn.MaxUnpool1d: torch.nn.MaxUnpool1d(2)(*F.max_pool1d(img[0], 2, return_indices=True))
torch.nn.MaxUnpool2d: torch.nn.MaxUnpool2d(2)(*F.max_pool2d(img, 2, return_indices=True))
torch.nn.MaxUnpool3d: torch.nn.MaxUnpool3d(2)(*F.max_pool3d(img, 2, return_indices=True))
torch.nn.RReLU: torch.nn.RReLU().eval()(x)
{_RNN}.pack_padded_sequence: {_RNN}.pack_padded_sequence(x[None], [4], batch_first=True).data
torch.special.airy_ai: torch.special.airy_ai(x)
torch.special.bessel_j0: torch.special.bessel_j0(x)
torch.special.bessel_j1: torch.special.bessel_j1(x)
torch.special.legendre_polynomial_p: torch.special.legendre_polynomial_p(x, n)
torch.special.chebyshev_polynomial_t: torch.special.chebyshev_polynomial_t(x, n)
torch.special.chebyshev_polynomial_v: torch.special.chebyshev_polynomial_v(x, n)
torch.special.chebyshev_polynomial_w: torch.special.chebyshev_polynomial_w(x, n)
torch.special.scaled_modified_bessel_k0: torch.special.scaled_modified_bessel_k0(x.abs())
torch.special.scaled_modified_bessel_k1: torch.special.scaled_modified_bessel_k1(x.abs())
torch.special.shifted_chebyshev_polynomial_t: torch.special.shifted_chebyshev_polynomial_t(x, n)
torch.special.shifted_chebyshev_polynomial_u: torch.special.shifted_chebyshev_polynomial_u(x, n)
torch.special.spherical_bessel_j0: torch.special.spherical_bessel_j0(x)
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """An operator by its qualified name, and an expression that uses it."""

    name: str
    code: str


def samples() -> Iterator[Sample]:
    """All operators that are tried."""
    for prefix, text in (("torch.", _FUNCTIONS), ("torch.Tensor.", _METHODS)):
        for line in text.strip().splitlines():
            name, _, code = line.partition(": ")
            yield Sample(prefix + name.removeprefix("torch."), code)


def probe() -> Iterator[tuple[str, str, str]]:
    """Each operator with where it fails (`eager`, `jit`, `tpu` or, in value, `differs`) and with what."""
    import torch
    import torchax
    from torchax import interop

    from tpulint.verify.tpu import compile_for

    values = _values()
    for sample in samples():
        function: Callable[..., Any] = eval(
            f"lambda {', '.join(values)}: {sample.code}", {"torch": torch, "F": torch.nn.functional}
        )
        expected = function(*values.values())
        with torchax.default_env():
            given = tuple(value.to("jax") for value in values.values())
            stage = "eager"
            try:
                same = _same(expected, function(*given))
                stage = "jit"
                same = _same(expected, interop.jax_jit(function)(*given)) and same
                stage = "tpu"
                compile_for(TPU, function, given)
            except Exception as error:
                lacking = _NO_LOWERING.search(str(error))
                yield sample.name, stage, lacking[1] if lacking else type(error).__name__
                continue
        if not same:
            yield sample.name, "differs", ""


def _values() -> dict[str, Any]:
    import torch

    generator = torch.Generator().manual_seed(0)
    square = torch.randn(4, 4, generator=generator)
    return {
        "x": torch.randn(4, 6, generator=generator),
        "spd": square @ square.T + 4 * torch.eye(4),
        "v": torch.randn(8, generator=generator),
        "i": torch.tensor([0, 2, 1, 3, 1]),
        "n": torch.tensor([[1], [0], [2], [1]]),
        "img": torch.randn(1, 3, 8, 8, generator=generator),
        "b": torch.ones(32, 32, dtype=torch.int8),
        "h": torch.randn(32, 32, generator=generator).to(torch.bfloat16),
        "offs": torch.tensor([8, 32], dtype=torch.int32),
        "one": torch.tensor([[1, 2]]),
        "four": torch.tensor([4]),
        "two": torch.tensor([2]),
    }


def _same(expected: Any, got: Any) -> bool:
    import torch

    if not isinstance(expected, torch.Tensor):
        return True
    wanted, found = expected.float(), torch.as_tensor(got.float().numpy())
    return wanted.shape == found.shape and bool(torch.isclose(wanted, found, rtol=1e-3, atol=1e-3).all())


def write() -> list[str]:
    """Probe, write the module, and give the operators that run and give something else."""
    found: dict[str, dict[str, str]] = {}
    for name, stage, reason in probe():
        found.setdefault(stage, {})[name] = reason
    versions = {
        name: importlib.metadata.version(name).partition("+")[0] for name in ("torch", "torchax", "jax")
    }
    rows = {
        stage: "".join(
            f"    {json.dumps(name)}: {json.dumps(reason)},\n"
            for name, reason in sorted(found.get(stage, {}).items())
        )
        for stage in ("eager", "jit", "tpu")
    }
    TARGET.write_text(HEADER.format(**versions, topology=TPU, **rows), encoding="utf-8")
    return sorted(found.get("differs", {}))
