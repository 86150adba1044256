"""What NumPy's functions give that is not of floats."""

from __future__ import annotations

#: Functions whose arrays are of integers, whatever they are given.
OF_INTEGERS = frozenset(
    f"numpy.{name}"
    for name in (
        *("argmax", "argmin", "argpartition", "argsort", "argwhere", "bincount", "count_nonzero", "digitize"),
        *("flatnonzero", "indices", "lexsort", "random.randint", "random.random_integers", "searchsorted"),
    )
)

#: Functions whose arrays are of booleans.
OF_BOOLEANS = frozenset(
    f"numpy.{name}"
    for name in ("isclose", "isfinite", "isin", "isinf", "isnan", "logical_and", "logical_not", "logical_or")
)

#: Functions whose arrays are of the type of the numbers that they are given.
OF_GIVEN = frozenset(f"numpy.{name}" for name in ("arange", "array", "asarray", "full"))

#: The dtypes of torch that take the place of NumPy's, floats of single and double precision left out.
DTYPES = {
    **{
        name: f"torch.{name}" for name in ("int8", "int16", "int32", "int64", "uint8", "float16", "complex64")
    },
    "int": "torch.int64",
    "int_": "torch.int64",
    "intp": "torch.int64",
    "long": "torch.int64",
    "bool": "torch.bool",
    "bool_": "torch.bool",
}
