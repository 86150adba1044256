"""Inferred types of values, and how two of them are joined."""

from __future__ import annotations

import pytest

from tpulint.model.values.kinds import (
    ARRAY,
    DATA,
    NONE,
    STATIC,
    TENSOR,
    TENSORS,
    UNKNOWN,
    Device,
    Instance,
    Kind,
    Several,
    Static,
    Tensor,
    element_of,
    join,
    joined,
    made_on_host,
    placed_as,
)

HOST = Tensor("float", origins=frozenset({4}))
OTHER_HOST = Tensor("int", origins=frozenset({9}))
UNSURE = Tensor(certain=False)
NET = Instance("app.Net")


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        (TENSOR, TENSOR, TENSOR),
        (Tensor("bool"), Tensor("int"), TENSOR),
        (Tensor("int", scalar=True), Tensor("int"), Tensor("int")),
        (HOST, OTHER_HOST, Tensor(origins=frozenset({4, 9}))),
        (HOST, TENSOR, TENSOR),
        (Tensor(root="x"), Tensor(root="y"), TENSOR),
        (Tensor(root="x"), Tensor(root="x"), Tensor(root="x")),
        (TENSOR, UNSURE, UNSURE),
        (Tensor(root="x"), NONE, TENSOR),
        (Tensor("int", scalar=True), STATIC, Tensor("int", certain=False)),
        (TENSOR, DATA, UNSURE),
        (TENSOR, Several(STATIC), Several(UNSURE)),
        (TENSOR, TENSORS, UNKNOWN),
        (TENSOR, ARRAY, UNKNOWN),
        (STATIC, Static(3), STATIC),
        (STATIC, DATA, DATA),
        (Several(TENSOR), Several(STATIC), Several(UNSURE)),
        (
            Several(TENSOR, (TENSOR, TENSOR)),
            Several(STATIC, (STATIC, TENSOR)),
            Several(UNSURE, (UNSURE, TENSOR)),
        ),
        (Several(TENSOR, (TENSOR,)), Several(TENSOR, ()), TENSORS),
        (Several(TENSOR, (TENSOR,)), TENSORS, TENSORS),
        (ARRAY, Several(STATIC), Several(UNKNOWN)),
        (Device("cuda"), Device("cpu"), Device()),
        (NET, NONE, NET),
        (TENSORS, NONE, TENSORS),
        (NET, Instance("app.Other"), UNKNOWN),
        (DATA, ARRAY, UNKNOWN),
        (UNKNOWN, TENSOR, UNKNOWN),
    ],
)
def test_a_value_that_is_one_or_the_other(one: Kind, other: Kind, expected: Kind) -> None:
    assert expected == join(one, other)
    assert expected == join(other, one)


@pytest.mark.parametrize(
    ("kinds", "expected"), [((), UNKNOWN), ((TENSOR,), TENSOR), ((TENSOR, NONE, STATIC), UNSURE)]
)
def test_a_value_that_is_one_of_many(kinds: tuple[Kind, ...], expected: Kind) -> None:
    assert expected == joined(kinds)


@pytest.mark.parametrize(
    ("kind", "is_tensor", "is_traced", "holds_tracer"),
    [
        (TENSOR, True, True, True),
        (UNSURE, False, False, False),
        (HOST, True, False, False),
        (TENSORS, False, False, True),
        (Several(UNKNOWN, (STATIC, TENSOR)), False, False, True),
        (Several(TENSOR, (STATIC, HOST)), False, False, False),
        (STATIC, False, False, False),
        (UNKNOWN, False, False, False),
    ],
)
def test_which_values_are_tracers_while_tracing(
    kind: Kind, is_tensor: bool, is_traced: bool, holds_tracer: bool
) -> None:
    assert (is_tensor, is_traced, holds_tracer) == (kind.is_tensor, kind.is_traced, kind.holds_tracer)


@pytest.mark.parametrize(
    ("kind", "is_bool", "is_mask"),
    [
        (Tensor("bool"), True, True),
        (Tensor("bool", scalar=True), True, False),
        (Tensor("bool", origins=frozenset({1})), True, False),
        (Tensor("bool", certain=False), False, False),
        (Tensor("int"), False, False),
    ],
)
def test_a_mask_is_a_traced_boolean_tensor_with_dimensions(
    kind: Tensor, is_bool: bool, is_mask: bool
) -> None:
    assert (is_bool, is_mask) == (kind.is_bool, kind.is_mask)


@pytest.mark.parametrize(
    ("kind", "dtype", "expected"),
    [
        (HOST, "", {4}),
        (HOST, "float", {4}),
        (HOST, "int", set()),
        (Tensor(scalar=True, origins=frozenset({4})), "", set()),
        (Several(HOST), "", {4}),
        (Several(UNKNOWN, (HOST, Several(OTHER_HOST))), "", {4, 9}),
        (TENSOR, "", set()),
        (STATIC, "", set()),
    ],
)
def test_origins_of_host_tensors_with_dimensions(kind: Kind, dtype: str, expected: set[int]) -> None:
    assert expected == made_on_host(kind, dtype)


@pytest.mark.parametrize(
    ("kind", "other", "expected"),
    [
        (Tensor("int"), HOST, Tensor("int", origins=frozenset({4}))),
        (HOST, TENSOR, Tensor("float")),
        (TENSOR, Tensor(scalar=True), Tensor(scalar=True)),
        (TENSORS, Several(HOST), Several(Tensor(origins=frozenset({4})))),
        (
            Several(TENSOR, (TENSOR, STATIC)),
            Several(HOST, (HOST, STATIC)),
            Several(Tensor(origins=frozenset({4})), (Tensor(origins=frozenset({4})), STATIC)),
        ),
        (
            Several(TENSOR, (TENSOR,)),
            Several(HOST, ()),
            Several(Tensor(origins=frozenset({4})), (TENSOR,)),
        ),
        (STATIC, HOST, STATIC),
        (TENSOR, UNKNOWN, TENSOR),
    ],
)
def test_a_declared_type_where_its_tensors_are(kind: Kind, other: Kind, expected: Kind) -> None:
    assert expected == placed_as(kind, other)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (TENSORS, TENSOR),
        (Tensor("int", scalar=True, certain=False, root="x"), Tensor("int")),
        (Static("abc"), STATIC),
        (DATA, DATA),
        (ARRAY, ARRAY),
        (UNKNOWN, UNKNOWN),
        (NET, UNKNOWN),
    ],
)
def test_what_iteration_gives(kind: Kind, expected: Kind) -> None:
    assert expected == element_of(kind)
