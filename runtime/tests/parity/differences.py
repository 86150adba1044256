"""What is known to differ from torch, and why; the test of a difference that vanishes fails."""

from __future__ import annotations

_DTYPE = "in JAX a tensor without dimensions determines the dtype of the result as any other does"
_EAGER, _COMPILED, _GRADIENTS = "eager", "compiled", "gradients"
_VALUES = (_EAGER, _COMPILED)
_ALL = (*_VALUES, _GRADIENTS)

_REASONS: dict[str, list[tuple[str, tuple[str, ...]]]] = {
    "torchax computes it in float32, or gives an intermediate result in float32, for bfloat16": [
        ("digamma", (_COMPILED,)),
        ("lgamma", (_COMPILED,)),
        ("logit", (_COMPILED,)),
    ],
    "XLA's result for NaN or an infinity is another one": [
        ("special.erfcx", _VALUES),
        ("special.log_ndtr", (_EAGER,)),
        ("sgn", (_EAGER,)),
        ("sign", (_EAGER,)),
        ("clamp by tensors", (_EAGER,)),
        ("gelu", (_COMPILED,)),
        ("hardswish", (_COMPILED,)),
    ],
    "torch's digamma of 0 and of negative integers is infinite or NaN": [("digamma", (_EAGER, _GRADIENTS))],
    "the sign of -0.0 decides": [("angle", _ALL)],
    "JAX converts bools to integers, or the result of an integer reduction to bool": [
        ("add of bools", _VALUES),
        ("any of integers", (_COMPILED,)),
        ("any over a dimension of integers", (_COMPILED,)),
        ("any over dimensions of integers", (_COMPILED,)),
    ],
    _DTYPE: [
        ("promotion by a number in a tensor", _VALUES),
    ],
    "torchax gives the count of elements as an integer": [("linalg.vector_norm", _ALL)],
    "the shape of the result depends on values, so that the function runs call by call": [
        ("bincount", (_COMPILED,)),
        ("bincount of bytes", (_COMPILED,)),
        ("one_hot of unknown classes", (_COMPILED,)),
        ("unique", (_COMPILED,)),
        ("unique rows", (_COMPILED,)),
        ("unique with counts", (_COMPILED,)),
        ("unique_consecutive", (_COMPILED,)),
    ],
    "it needs values, so that the function runs call by call": [
        ("allclose", (_COMPILED,)),
        ("cov", (_COMPILED,)),
        ("equal", (_COMPILED,)),
        ("linalg.lstsq", (_COMPILED,)),
        ("packed sequences", (_COMPILED,)),
    ],
    "JAX has no gradient of it": [
        ("linalg.eigvals", (_COMPILED, _GRADIENTS)),
        ("max_pool2d with dilation", (_COMPILED, _GRADIENTS)),
        ("scatter_reduce by prod", (_COMPILED, _GRADIENTS)),
    ],
    "JAX's gradient at 0, or of equal elements, is another one": [
        ("clamp by tensors", (_GRADIENTS,)),
        ("copysign", (_GRADIENTS,)),
        ("copysign_", (_GRADIENTS,)),
        ("embedding_bag by max", (_GRADIENTS,)),
        ("special.xlog1py", (_GRADIENTS,)),
        ("xlogy", (_GRADIENTS,)),
    ],
    "JAX's gradient is 0, torch's is that of the first argument": [("nextafter", (_GRADIENTS,))],
    "JAX computes the gradient in bfloat16, torch in float32": [("sinc", (_GRADIENTS,))],
}
#: The reason, by the name of the operator and the check that fails: `eager`, `compiled` or `gradients`.
DIFFERENCES = {
    (name, check): reason for reason, names in _REASONS.items() for name, checks in names for check in checks
}
#: Operators that the tables cannot reach, with the reason.
UNREACHED = {
    "rand_like": "on JAX's CPU backend, torch draws the numbers",
    "_sparse_coo_tensor_with_dims_and_tensors": "the runtime replaces `torch.sparse_coo_tensor`",
}
#: The reason, by the name of what draws random numbers.
DIFFERENT_DRAWS = {
    "rrelu": "torchax lacks `rrelu_with_noise`",
}
DIFFERENT_COMPILED_DRAWS = DIFFERENT_DRAWS | {
    "in half precision": _DTYPE,
}
