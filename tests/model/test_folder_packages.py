"""The packages that folders without an `__init__.py` are, in which the runtime is imported."""

from __future__ import annotations

import pytest

from tpulint.model.project.folders import FolderPackages, names_by_folder

INSIDE_A_PACKAGE = {"net": "src/net/__init__.py", "attention": "src/net/blocks/parts/attention.py"}
WITHOUT_ANY = {"train": "train.py", "attention": "net/blocks/attention.py", "norms": "net/blocks/norms.py"}


def of(paths: dict[str, str], *imports: tuple[str, str]) -> FolderPackages:
    return FolderPackages(paths, imports, names_by_folder(paths.items()))


def test_a_folder_inside_a_package() -> None:
    found = of(INSIDE_A_PACKAGE)
    assert "net.blocks.parts" == found.package_around("src/net/blocks/parts/attention.py")
    assert "net" == found.package_around("src/net/heads.py")
    assert "" == found.package_around("src/train.py")


@pytest.mark.parametrize(
    ("imports", "package"),
    [
        ([("train.py", "net.blocks.attention.Attention")], "net.blocks"),
        ([("train.py", "net.blocks.attention"), ("net/blocks/norms.py", "blocks.attention")], "net.blocks"),
        ([("net/run.py", "blocks.attention")], "blocks"),
        # A relative import names folders that need not be packages.
        ([("net/blocks/norms.py", "net.blocks.attention")], ""),
        ([("train.py", "os.path")], ""),
    ],
)
def test_a_folder_is_a_package_by_imports_from_outside(imports: list[tuple[str, str]], package: str) -> None:
    assert package == of(WITHOUT_ANY, *imports).imported_from("attention")
