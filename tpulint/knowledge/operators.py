"""Operators that torchax lacks or cannot trace; generated, do not edit.

Source: `python -m tpulint.dev probe-operators`, which ran each on torch 2.13.0, torchax 0.0.14.dev20261026
and jax 0.10.2, eager, jitted and compiled for v5e:2x2. What is not listed is unknown, not fine.
Each stands with the operator that has no lowering, or with the exception that is raised.
"""

from __future__ import annotations

#: Raise with and without jit.
RAISES = {
    "torch.Tensor.cholesky": "aten::cholesky",
    "torch.Tensor.geqrf": "aten::geqrf",
    "torch.Tensor.histogram": "aten::histogram.bin_ct",
    "torch.Tensor.index_reduce": "aten::index_reduce",
    "torch.Tensor.index_reduce_": "aten::index_reduce_",
    "torch.Tensor.ldexp": "aten::ldexp.Tensor",
    "torch.Tensor.ldexp_": "aten::ldexp_",
    "torch.Tensor.ormqr": "aten::ormqr",
    "torch.Tensor.take_along_dim": "RuntimeError",
    "torch.Tensor.to_sparse": "aten::_to_sparse",
    "torch.Tensor.to_sparse_csr": "aten::_to_sparse_csr",
    "torch._int_mm": "aten::_int_mm",
    "torch.bartlett_window": "aten::bartlett_window",
    "torch.blackman_window": "aten::blackman_window",
    "torch.can_cast": "aten::can_cast",
    "torch.cholesky": "aten::cholesky",
    "torch.fake_quantize_per_tensor_affine": "aten::fake_quantize_per_tensor_affine_cachemask",
    "torch.geqrf": "aten::geqrf",
    "torch.hamming_window": "aten::hamming_window",
    "torch.hann_window": "aten::hann_window",
    "torch.hash_tensor": "aten::hash_tensor",
    "torch.histogram": "aten::histogram.bin_ct",
    "torch.histogramdd": "aten::_histogramdd_bin_edges",
    "torch.index_reduce": "aten::index_reduce",
    "torch.kaiser_window": "aten::kaiser_window",
    "torch.ldexp": "aten::ldexp.Tensor",
    "torch.linalg.ldl_solve": "aten::linalg_ldl_solve",
    "torch.nested.nested_tensor": "aten::_nested_tensor_from_tensor_list",
    "torch.nn.AdaptiveMaxPool1d": "aten::adaptive_max_pool2d",
    "torch.nn.AdaptiveMaxPool2d": "aten::adaptive_max_pool2d",
    "torch.nn.AdaptiveMaxPool3d": "aten::adaptive_max_pool3d",
    "torch.nn.CTCLoss": "aten::_ctc_loss.Tensor",
    "torch.nn.FractionalMaxPool2d": "aten::fractional_max_pool2d",
    "torch.nn.functional.adaptive_max_pool1d": "aten::adaptive_max_pool2d",
    "torch.nn.functional.adaptive_max_pool2d": "aten::adaptive_max_pool2d",
    "torch.nn.functional.adaptive_max_pool3d": "aten::adaptive_max_pool3d",
    "torch.nn.functional.affine_grid": "aten::mT",
    "torch.nn.functional.ctc_loss": "aten::_ctc_loss.Tensor",
    "torch.nn.functional.fractional_max_pool2d": "aten::fractional_max_pool2d",
    "torch.nn.functional.grouped_mm": "aten::_grouped_mm",
    "torch.nn.utils.rnn.pack_padded_sequence": "aten::_pack_padded_sequence",
    "torch.ormqr": "aten::ormqr",
    "torch.promote_types": "aten::promote_types",
    "torch.segment_reduce": "aten::segment_reduce",
    "torch.sparse_coo_tensor": "aten::_sparse_coo_tensor_with_dims_and_tensors",
    "torch.special.airy_ai": "aten::special_airy_ai",
    "torch.special.chebyshev_polynomial_v": "aten::special_chebyshev_polynomial_v",
    "torch.special.chebyshev_polynomial_w": "aten::special_chebyshev_polynomial_w",
    "torch.special.legendre_polynomial_p": "aten::special_legendre_polynomial_p",
    "torch.special.scaled_modified_bessel_k0": "aten::special_scaled_modified_bessel_k0",
    "torch.special.scaled_modified_bessel_k1": "aten::special_scaled_modified_bessel_k1",
    "torch.special.shifted_chebyshev_polynomial_t": "aten::special_shifted_chebyshev_polynomial_t",
    "torch.special.shifted_chebyshev_polynomial_u": "aten::special_shifted_chebyshev_polynomial_u",
    "torch.special.spherical_bessel_j0": "aten::special_spherical_bessel_j0",
    "torch.take_along_dim": "RuntimeError",
    "torch.vander": "aten::promote_types",
}
#: Work without jit, and raise under it.
RAISES_UNDER_JIT = {
    "torch.Tensor.corrcoef": "TracerBoolConversionError",
    "torch.Tensor.cov": "TracerBoolConversionError",
    "torch.Tensor.istft": "TracerBoolConversionError",
    "torch.cov": "TracerBoolConversionError",
    "torch.istft": "TracerBoolConversionError",
    "torch.linalg.lstsq": "ConcretizationTypeError",
    "torch.linalg.lu": "IndexError",
    "torch.lobpcg": "ConcretizationTypeError",
    "torch.nn.GaussianNLLLoss": "ConcretizationTypeError",
    "torch.nn.MaxUnpool1d": "TracerArrayConversionError",
    "torch.nn.MaxUnpool2d": "TracerArrayConversionError",
    "torch.nn.MaxUnpool3d": "TracerArrayConversionError",
    "torch.nn.functional.embedding_bag": "TracerArrayConversionError",
    "torch.nn.functional.gaussian_nll_loss": "ConcretizationTypeError",
    "torch.nn.functional.max_unpool1d": "TracerArrayConversionError",
    "torch.nn.functional.max_unpool2d": "TracerArrayConversionError",
    "torch.nn.functional.max_unpool3d": "TracerArrayConversionError",
    "torch.nonzero_static": "ConcretizationTypeError",
}
#: Trace, and fail in the TPU's compiler.
FAILS_ON_TPU = {
    "torch.linalg.eig": "NotImplementedError",
    "torch.linalg.eigvals": "NotImplementedError",
}
