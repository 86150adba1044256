"""Views and in-place methods: what torchax copies where torch aliases, and what it loses, lacks or breaks.

Source: each was run on torch 2.13.0 and on torchax 0.0.14.dev20261026 with jax 0.10.2, eager and jitted, on
a whole tensor, on a basic slice of one, and through a view.
"""

from __future__ import annotations


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Methods and functions that give a view in torch and a copy on torchax: the whole tensor in another shape.
#: Those that copy in torch, too, when the layout forces them are in `MAY_COPY`.
WHOLE = _names(
    "view view_as reshape reshape_as flatten ravel unflatten t transpose swapaxes swapdims permute movedim"
    " moveaxis unsqueeze squeeze adjoint detach view_as_real view_as_complex"
)
MAY_COPY = _names("reshape reshape_as flatten ravel")
#: The same, but the view is of a part of the tensor.
PART = _names("diagonal narrow select unfold as_strided")
#: The same, but the view has elements several times.
REPEATED = _names("expand expand_as broadcast_to broadcast_tensors")
#: The same, but several views come at once.
PIECES = _names("chunk split split_with_sizes tensor_split unbind hsplit vsplit dsplit")
COPIED = WHOLE | PART | REPEATED | PIECES
#: Attributes that are views in torch and copies on torchax.
COPIED_ATTRIBUTES = _names("T mT H mH real imag")
#: Views after which the elements lie in another order, so that a `reshape` of them is a copy in torch.
REORDERS = _names(
    "t transpose swapaxes swapdims permute movedim moveaxis adjoint T mT H mH diagonal unfold as_strided"
)

#: In-place methods that have no lowering, whose form without `_` has.
NO_LOWERING = _names(
    "abs_ absolute_ acos_ acosh_ addbmm_ addmm_ addr_ arccos_ arccosh_ arcsin_ arcsinh_ arctan_ arctan2_"
    " arctanh_ asin_ asinh_ atan_ atanh_ atan2_ clamp_max_ copysign_ cos_ cosh_ cumprod_ cumsum_ digamma_"
    " erf_ erfc_ erfinv_ exp_ exp2_ expm1_ fix_ floor_ fmod_ hypot_ i0_ lgamma_ log_ log10_ log1p_ log2_"
    " logical_and_ logical_not_ logical_or_ logical_xor_ neg_ negative_ nextafter_ put_ reciprocal_ round_"
    " rsqrt_ sign_ sin_ sinh_ t_ tan_ trunc_"
)
#: Methods that change a whole tensor but not one that is a basic slice of another, and say nothing.
LOST_ON_SLICES = _names(
    "zero_ fill_ masked_fill_ index_add_ index_copy_ index_fill_ addcdiv_ addcmul_ lerp_ tril_ triu_"
    " deg2rad_ rad2deg_ heaviside_ logit_ renorm_ sgn_ sinc_ xlogy_ fill_diagonal_"
)
#: Methods that leave every tensor as it was, and say nothing.
WITHOUT_EFFECT = _names("exponential_ cauchy_")
#: In-place methods that write elements, all of them.
WRITES = (
    NO_LOWERING
    | LOST_ON_SLICES
    | _names(
        "add_ sub_ subtract_ mul_ multiply_ div_ divide_ true_divide_ floor_divide_ remainder_ pow_ clamp_"
        " clamp_min_ clip_ copy_ sqrt_ sigmoid_ relu_ tanh_ nan_to_num_ square_ frac_ ceil_ bitwise_and_"
        " bitwise_not_ bitwise_or_ bitwise_xor_ eq_ ne_ lt_ le_ gt_ ge_ index_put_ scatter_ scatter_add_"
        " scatter_reduce_ masked_scatter_ uniform_ normal_ bernoulli_ geometric_ log_normal_ random_"
    )
) - {"t_"}
#: Those of them whose arguments have nothing to do with the tensor's shape.
SHAPELESS = _names(
    "zero_ fill_ neg_ abs_ exp_ log_ sqrt_ sigmoid_ relu_ tanh_ square_ round_ floor_ ceil_ nan_to_num_"
) | _names(
    "add_ sub_ mul_ div_ clamp_ clamp_min_ clamp_max_ pow_"  # with numbers
)
