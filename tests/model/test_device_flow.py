"""Which names of a whole project hold a device, and where their values come from."""

from __future__ import annotations

import pytest

from tpulint.model.project.device_flow import DeviceFlow, Edge, defined


class Definitions:
    """A project with a variable that is re-exported, a class and an enumeration."""

    def resolve(self, name: str) -> str:
        return {"settings.DEVICE": "settings.base.DEVICE"}.get(name, name)

    def home(self, name: str) -> tuple[str, str] | None:
        module, _, rest = name.partition(".")
        return (module, rest) if module in ("app", "settings") else None

    def is_enumeration(self, name: str) -> bool:
        return name == "app.Backend"


@pytest.mark.parametrize(
    ("edges", "name"),
    [
        ([("device", ".device")], ".device"),
        ([("device", "P app.f where"), ("P app.f where", "K f 0")], "K f 0"),
        ([("device", "R pick"), ("R pick", "L app.pick name")], "L app.pick name"),
        ([("device", "R pick"), ("R pick", "cuda")], "R pick"),
    ],
)
def test_a_name_whose_value_reaches_torch_as_a_device_is_a_device(edges: list[Edge], name: str) -> None:
    assert DeviceFlow(edges).is_device(name)


@pytest.mark.parametrize(
    ("edges", "name"),
    [
        ([("device", ".device"), (".name", ".device")], ".name"),
        ([("device", "R pick")], "R pick"),  # of a package that is no part of the project
        ([("device", "cuda")], "cuda"),
        ([], ".device"),
    ],
)
def test_a_name_that_torch_never_takes_as_a_device_is_none(edges: list[Edge], name: str) -> None:
    assert not DeviceFlow(edges).is_device(name)


def test_a_name_compared_with_a_device_name_is_a_device_if_its_value_is_one_elsewhere() -> None:
    compared = [("choice", "L app.f which"), ("L app.f which", ".device")]
    assert not DeviceFlow(compared).is_device("L app.f which")
    assert DeviceFlow([*compared, ("device", ".device")]).is_device("L app.f which")


@pytest.mark.parametrize(
    ("edges", "name", "expected"),
    [
        ([(".device", "cuda"), (".device", "given")], ".device", {"cuda", "given"}),
        ([("P app.f d", "K f 0"), ("K f 0", ".device"), (".device", "cuda")], "P app.f d", {"cuda"}),
        # A variable that no file of the project assigns is unknown.
        ([("P app.f d", "K f 0"), ("K f 0", ".device")], "P app.f d", {"?"}),
        # A call that does not occur adds nothing.
        ([("P app.f d", "K f 0"), ("P app.f d", "K f d"), ("K f 0", "cuda")], "P app.f d", {"cuda"}),
        ([("P app.f d", "K f 0")], "P app.f d", {"?"}),
        ([(".a", ".b"), (".b", ".a"), (".b", "off")], ".a", {"off"}),
    ],
)
def test_origins_of_a_name(edges: list[Edge], name: str, expected: set[str]) -> None:
    assert expected == DeviceFlow(edges).origins(name)


def test_a_function_takes_a_literal_device_if_one_reaches_torch_in_it() -> None:
    flow = DeviceFlow([("D app.train", ".device"), (".device", "cuda"), ("D app.test", ".where")])
    assert flow.takes_literal("app.train")
    assert not flow.takes_literal("app.test")


def test_an_unpacked_mapping_gives_a_parameter_the_entry_of_its_name() -> None:
    edges = [("device", "P app.f device"), ("P app.f device", "K f **device"), (".device", "cuda")]
    assert {"?"} == DeviceFlow(edges).origins("P app.f device")
    assert {"cuda"} == DeviceFlow([*edges, ("K f **", "?")]).origins("P app.f device")
    assert DeviceFlow([*edges, ("K f **", "?")]).is_device(".device")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (".device", ".device"),
        ("P app.f device", "P app.f device"),
        ("G settings.DEVICE", "G settings.base.DEVICE"),
        ("G app.Backend.GPU", "E app.Backend"),
        ("G app.Config.device", ".device"),  # an attribute of a class
        ("G other.DEVICE", "G other.DEVICE"),
        ("[G settings.DEVICE]", "[G settings.base.DEVICE]"),
    ],
)
def test_a_variable_of_a_module_is_known_by_the_name_of_its_definition(name: str, expected: str) -> None:
    assert expected == defined(name, Definitions())
