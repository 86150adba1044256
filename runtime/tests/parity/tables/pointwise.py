"""Operators that compute each element of their result from one element of each argument."""

from __future__ import annotations

import torch
from torch.nn import functional

from ..samples import Table, bf16, boolean, c64, f32, i32, i64, in_place, named, positive, small, u8, unit

POINTWISE = Table()

_FLOATS = ((f32(3, 4),), (bf16(3, 4),))
_REALS = (*_FLOATS, (i32(3, 4),))

POINTWISE.add(
    named(
        torch.acos,
        torch.acosh,
        torch.asin,
        torch.asinh,
        torch.atan,
        torch.atanh,
        torch.cos,
        torch.cosh,
        torch.deg2rad,
        torch.digamma,
        torch.erf,
        torch.erfc,
        torch.erfinv,
        torch.exp,
        torch.exp2,
        torch.expm1,
        torch.frac,
        torch.i0,
        torch.lgamma,
        torch.log,
        torch.log10,
        torch.log1p,
        torch.log2,
        torch.logit,
        torch.nan_to_num,
        torch.rad2deg,
        torch.reciprocal,
        torch.rsqrt,
        torch.sigmoid,
        torch.sin,
        torch.sinc,
        torch.sinh,
        torch.sqrt,
        torch.tan,
        torch.tanh,
    )
    | {
        "special.entr": torch.special.entr,
        "special.i0e": torch.special.i0e,
        "special.ndtr": torch.special.ndtr,
    },
    *_FLOATS,
    has_special=True,
)
POINTWISE.add(
    {f"special.{name}": getattr(torch.special, name) for name in ("erfcx", "i1", "i1e", "log_ndtr", "ndtri")},
    (f32(3, 4),),
    has_special=True,
)
POINTWISE.add(
    named(
        torch.abs,
        torch.ceil,
        torch.floor,
        torch.isfinite,
        torch.isinf,
        torch.isnan,
        torch.isneginf,
        torch.isposinf,
        torch.logical_not,
        torch.neg,
        torch.positive,
        torch.round,
        torch.sgn,
        torch.sign,
        torch.signbit,
        torch.square,
        torch.trunc,
        torch.angle,
    ),
    *_REALS,
    has_special=True,
)
POINTWISE.add(
    {
        "sqrt of integers": torch.sqrt,
        "exp of integers": torch.exp,
        "sin of integers": torch.sin,
        "sigmoid of integers": torch.sigmoid,
        "reciprocal of integers": torch.reciprocal,
    },
    (i32(3, 4),),
    (i64(3, 4),),
)
POINTWISE.add(
    {
        "polygamma": lambda x: torch.polygamma(1, x),
        "mvlgamma": lambda x: torch.mvlgamma(x + 1, 2),
        "lgamma of positive": torch.lgamma,
        "special.zeta": lambda x: torch.special.zeta(x.detach() + 1, 2.0),
    },
    (positive(3, 4),),
)
POINTWISE.add(
    {
        "abs of complex": torch.abs,
        "angle of complex": torch.angle,
        "conj": torch.conj_physical,
        "exp of complex": torch.exp,
        "real": torch.real,
        "imag": torch.imag,
        "sgn of complex": torch.sgn,
        "view_as_real": torch.view_as_real,
        "product with the conjugate": lambda x: x * x.conj(),
    },
    (c64(3, 4),),
)
POINTWISE.add(
    named(torch.complex)
    | {
        "polar": lambda x, y: torch.polar(x.abs() + 0.1, y),
        "view_as_complex": lambda x, y: torch.view_as_complex(torch.stack([x, y], -1)),
    },
    (f32(3, 4), f32(3, 4)),
)
POINTWISE.add(named(torch.bitwise_not), (i32(3, 4),), (boolean(3, 4),), (u8(3, 4),))
POINTWISE.add(
    {
        "clamp": lambda x: x.clamp(-1, 1.5),
        "clamp with one bound": lambda x: (x.clamp(min=0.5), x.clamp(max=0.5)),
        "clamp by tensors": lambda x: x.clamp(x.flip(0), x.flip(1)),
        "clamp_min": lambda x: x.clamp_min(0.5),
        "clamp_max": lambda x: x.clamp_max(0.5),
        "pow of a number": lambda x: (x**2, x**3, x**0.5, 2**x),
        "round to decimals": lambda x: x.round(decimals=1),
        "nan_to_num with values": lambda x: x.nan_to_num(nan=1.0, posinf=2.0, neginf=-2.0),
        "number operators": lambda x: (x + 1, 1 - x, 2 * x, x / 2, 3 / x, x % 2, -x),
        "comparisons with a number": lambda x: (x < 1, x <= 1, x > 1, x >= 1, x == 1, x != 1),
    },
    (f32(3, 4),),
    has_special=True,
)
POINTWISE.add(
    {
        "clamp of integers": lambda x: (x.clamp(-1, 2), x.clamp(min=0.5), x.clamp_max(1), x.clamp_min(1)),
        "number operators of integers": lambda x: (x + 1, 1 - x, x / 2, x % 3, x // 2, -x, x**2),
        "integers with floats": lambda x: (x + 0.5, x * 0.5, x == 0.5, x > 0.5),
        "shifts by numbers": lambda x: ((x + 8) << 2, (x + 8) >> 1),
        "bits with numbers": lambda x: (x & 3, x | 4, x ^ 5, ~x),
    },
    (i32(3, 4),),
    (i64(3, 4),),
)
POINTWISE.add(
    named(
        torch.add,
        torch.atan2,
        torch.copysign,
        torch.div,
        torch.eq,
        torch.fmax,
        torch.fmin,
        torch.fmod,
        torch.ge,
        torch.gt,
        torch.hypot,
        torch.le,
        torch.logaddexp,
        torch.logaddexp2,
        torch.lt,
        torch.maximum,
        torch.minimum,
        torch.mul,
        torch.ne,
        torch.nextafter,
        torch.pow,
        torch.remainder,
        torch.rsub,
        torch.sub,
        torch.true_divide,
        torch.xlogy,
        torch.ldexp,
        torch.logical_and,
        torch.logical_or,
        torch.logical_xor,
    )
    | {
        "floor_divide": lambda x, y: (torch.floor_divide(x.detach(), y.detach()), x.detach() // 2),
        "heaviside": lambda x, y: torch.heaviside(x.detach(), y.detach()),
        "isclose": torch.isclose,
        "special.xlog1py": torch.special.xlog1py,
    },
    (f32(3, 4), f32(4)),
    has_special=True,
)
POINTWISE.add(
    {
        f"{name} of integers": getattr(torch, name)
        for name in (
            "add",
            "div",
            "eq",
            "lt",
            "maximum",
            "minimum",
            "mul",
            "sub",
            "bitwise_and",
            "bitwise_or",
            "bitwise_xor",
            "logical_and",
        )
    },
    (i32(3, 4), i32(4)),
    (i64(3, 4), i32(3, 1)),
)
POINTWISE.add(
    {
        f"{name} of integers": getattr(torch, name)
        for name in ("floor_divide", "fmod", "remainder", "gcd", "lcm", "pow")
    },
    (i32(3, 4), i32(4, low=1)),
)
POINTWISE.add(
    {
        f"{name} of bools": getattr(torch, name)
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "logical_or", "add", "mul", "eq", "ne")
    },
    (boolean(3, 4), boolean(4)),
)
POINTWISE.add(
    {"and, or, xor": lambda x, y: (x & y, x | y, x ^ y)}, (i32(3, 4), i32(4)), (boolean(3, 4), boolean(4))
)
POINTWISE.add(named(torch.bitwise_left_shift, torch.bitwise_right_shift), (u8(3, 4), u8(4, high=7)))
POINTWISE.add(
    {
        "promotion of sums": torch.add,
        "promotion of products": torch.mul,
        "promotion of quotients": torch.div,
        "promotion of comparisons": torch.eq,
    },
    (f32(3, 4), i32(4)),
    (bf16(3, 4), i64(4)),
    (i32(3, 4), boolean(4)),
    (u8(3, 4), i32(4)),
    (bf16(3, 4), f32(4)),
    (f32(3, 4), c64(4)),
)
POINTWISE.add({"promotion by a number in a tensor": torch.mul}, (bf16(3, 4), f32()), (i32(3, 4), i64()))
POINTWISE.add(
    {
        "div rounded down": lambda x, y: torch.div(x, y, rounding_mode="floor"),
        "div rounded to zero": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
        "add with alpha": lambda x, y: torch.add(x, y, alpha=2),
        "sub with alpha": lambda x, y: torch.sub(x, y, alpha=2),
        "float_power": lambda x, y: torch.float_power(x.abs() + 1, y),
    },
    (f32(3, 4), f32(4)),
)
POINTWISE.add(
    {
        "addcdiv": lambda x, y, z: torch.addcdiv(x, y, z.abs() + 1, value=2),
        "addcmul": lambda x, y, z: torch.addcmul(x, y, z, value=2),
        "lerp": torch.lerp,
        "lerp by a number": lambda x, y, z: torch.lerp(x, y, 0.3) + z,
        "where": lambda x, y, z: torch.where(x > 0, y, z),
        "where with numbers": lambda x, y, z: (
            torch.where(x > 0, y, 0.0) + z,
            torch.where(y > 0, 1.0, 0.0),
        ),
    },
    (f32(3, 4), f32(4), f32(3, 1)),
)
POINTWISE.add({"lerp between": torch.lerp}, (f32(3, 4), f32(3, 4), unit(3, 4)))
POINTWISE.add({"atanh of small": torch.atanh, "asin of small": torch.asin}, (small(3, 4),))
POINTWISE.add(
    in_place(
        "abs_",
        "ceil_",
        "cos_",
        "erf_",
        "exp_",
        "floor_",
        "neg_",
        "relu_",
        "round_",
        "sigmoid_",
        "sign_",
        "sin_",
        "square_",
        "tanh_",
        "trunc_",
        "zero_",
    ),
    (f32(3, 4),),
)
POINTWISE.add(in_place("sqrt_", "log_", "rsqrt_", "reciprocal_", "log1p_", "lgamma_"), (positive(3, 4),))
POINTWISE.add(
    in_place(
        "add_",
        "sub_",
        "mul_",
        "div_",
        "copy_",
        "atan2_",
        "fmod_",
        "remainder_",
        "copysign_",
        "hypot_",
        "ldexp_",
    ),
    (f32(3, 4), f32(4)),
    (bf16(3, 4), f32(4)),
)
POINTWISE.add(in_place("eq_", "lt_", "ge_"), (f32(3, 4), f32(4)))
POINTWISE.add(in_place("bitwise_and_", "bitwise_or_", "bitwise_xor_"), (i32(3, 4), i32(4)))
POINTWISE.add(in_place("pow_"), (positive(3, 4), 2), (positive(3, 4), f32(4)))
POINTWISE.add(in_place("clamp_"), (f32(3, 4), -1, 1.5))
POINTWISE.add(in_place("clamp_min_", "clamp_max_", "fill_"), (f32(3, 4), 0.5))
POINTWISE.add({"fill_ by a tensor": in_place("fill_")["fill_"]}, (f32(3, 4), f32()))
POINTWISE.add(in_place("addcmul_", "addcdiv_"), (f32(3, 4), f32(4), positive(3, 1)))
POINTWISE.add(in_place("lerp_"), (f32(3, 4), f32(3, 4), 0.3), (f32(3, 4), f32(3, 4), unit(3, 4)))
POINTWISE.add(
    {
        "add of complex": torch.add,
        "mul of complex": torch.mul,
        "div of complex": torch.div,
        "sub of complex": torch.sub,
    },
    (c64(3, 4, low=0.5), c64(4, low=0.5)),
)
POINTWISE.add(
    {
        "iadd through an operator": lambda x, y: x.clone().__iadd__(y),
        "imul": lambda x, y: x.clone().__imul__(y),
    },
    (f32(3, 4), f32(4)),
)
POINTWISE.add(
    {
        "out of add": lambda x, y: torch.add(x.detach(), y.detach(), out=torch.empty_like(x)),
        "logical_and_": lambda x, y: x.detach().clone().logical_and_(y.detach()),
        "floor_divide_": lambda x, y: x.detach().clone().floor_divide_(y.detach()),
        "out of mul": lambda x, y: torch.mul(x.detach(), y.detach(), out=torch.empty_like(x)),
    },
    (f32(3, 4), f32(4)),
)

ACTIVATIONS = Table()
ACTIVATIONS.add(
    named(
        functional.celu,
        functional.elu,
        functional.gelu,
        functional.hardshrink,
        functional.hardsigmoid,
        functional.hardswish,
        functional.hardtanh,
        functional.leaky_relu,
        functional.logsigmoid,
        functional.mish,
        functional.relu,
        functional.relu6,
        functional.selu,
        functional.silu,
        functional.softplus,
        functional.softshrink,
        functional.softsign,
        functional.tanhshrink,
    )
    | {
        "gelu by tanh": lambda x: functional.gelu(x, approximate="tanh"),
        "celu with alpha": lambda x: functional.celu(x, 2.0),
        "elu with alpha": lambda x: functional.elu(x, 0.5),
        "hardtanh with bounds": lambda x: functional.hardtanh(x, -0.5, 2),
        "leaky_relu with a slope": lambda x: functional.leaky_relu(x, 0.2),
        "softplus with beta": lambda x: functional.softplus(x, 2.0, 5.0),
        "threshold": lambda x: functional.threshold(x, 0.5, -1),
    },
    *_FLOATS,
    has_special=True,
)
ACTIVATIONS.add(
    {
        "softmax": lambda x: x.softmax(-1),
        "log_softmax": lambda x: x.log_softmax(0),
        "softmin": lambda x: functional.softmin(x, 1),
        "glu": functional.glu,
        "large inputs": lambda x: tuple(
            function(100 * x)
            for function in (
                functional.softplus,
                functional.mish,
                functional.elu,
                functional.celu,
                functional.silu,
                functional.logsigmoid,
            )
        ),
    },
    *_FLOATS,
)
ACTIVATIONS.add(
    {"softmax of another type": lambda x: x.softmax(-1, dtype=torch.float32)}, (bf16(3, 4),), (i32(3, 4),)
)
ACTIVATIONS.add(named(functional.prelu), (f32(3, 4), f32(4)), (f32(3, 4), f32(1)))
ACTIVATIONS.add(
    {
        "_safe_softmax": lambda x: torch.ops.aten._safe_softmax(
            x.masked_fill(torch.arange(4, device=x.device) > 2, -torch.inf), -1
        ),
        "_safe_softmax of nothing": lambda x: torch.ops.aten._safe_softmax(
            x.masked_fill(x > -10, -torch.inf), -1
        ),
    },
    (f32(3, 4),),
)
