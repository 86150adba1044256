"""Where the dependency on torchax-compat goes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpulint.runtime.dependencies import declarations, is_declared, to_extend

LINE = "torchax-compat>=0.1"


#: Files, with `{}` where the dependency goes.
FILES = [
    ("requirements.txt", "torch>=2.1  # GPU\n{}\nnumpy\n"),
    ("requirements.txt", "-r base.txt\nnumpy\n{}\n"),
    ("requirements.txt", "torch==2.1 \\\n  --hash=a\n{}\nnumpy\n"),
    ("requirements.txt", "torch\r\n{}\r\nnumpy\r\n"),
    ("pyproject.toml", '[project]\nname = "a"  # ours\ndependencies = [\n  "torch",  # any\n  "{}",\n]\n'),
    ("pyproject.toml", '[project]\ndependencies = ["torch", "numpy", "{}"]\n'),
    ("setup.cfg", "[options]\ninstall_requires =\n    torch\n    {}\n\n[flake8]\nmax-line-length = 99\n"),
    (
        "setup.py",
        'setup(\n    install_requires=[\n    "torch",\n    "numpy",  # any\n    "{}",\n  ],\n)\n',
    ),
    ("setup.py", 'import setuptools\n\nsetuptools.setup(name=\'é\', install_requires=["torch", "{}"])\n'),
    ("setup.py", 'needed = [\r\n    "torch",\r\n    "{}",\r\n]\r\nsetup(install_requires=needed)\r\n'),
    ("environment.yml", "name: a\ndependencies:\n  - pytorch  # conda\n  - pip:\n    - timm\n    - {}\n"),
]


@pytest.mark.parametrize(("name", "form"), FILES)
def test_dependency_is_added_with_the_layout_of_the_file(tmp_path: Path, name: str, form: str) -> None:
    lines = form.splitlines(keepends=True)
    text = "".join(one for one in lines if one.strip(' -",\r\n') != "{}").replace(', "{}"', "")
    expected = form.replace("{}", LINE)
    (tmp_path / name).write_bytes(text.encode())
    found = to_extend([*declarations(tmp_path)])
    assert found is not None
    assert found.path.name == name
    assert expected == found.extended
    found.path.write_bytes(expected.encode())
    assert is_declared(tmp_path)
    assert to_extend([*declarations(tmp_path)]) is None


def test_dependency_is_added_to_the_table_of_poetry(tmp_path: Path) -> None:
    before, after = '[tool.poetry.dependencies]\ntorch = "^2"\n', "\n[tool.black]\nline-length = 99\n"
    (tmp_path / "pyproject.toml").write_text(f"{before}{after}")
    found = to_extend([*declarations(tmp_path)])
    assert found is not None
    assert found.extended == f'{before}torchax-compat = ">=0.1"\n{after}'


def test_last_line_without_an_end_gets_one(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("numpy")
    found = to_extend([*declarations(tmp_path)])
    assert found is not None and found.extended == f"numpy\n{LINE}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[]", f'["{LINE}"]'),
        ("[\n    'torch'\n]", f"[\n    'torch',\n    '{LINE}'\n]"),
        ("[\n    'torch']", f"[\n    'torch',\n    '{LINE}']"),
    ],
)
def test_dependency_is_written_like_the_other_items(tmp_path: Path, before: str, after: str) -> None:
    (tmp_path / "setup.py").write_text(f"setup(install_requires={before})\n")
    found = to_extend([*declarations(tmp_path)])
    assert found is not None and found.extended == f"setup(install_requires={after})\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyproject.toml", "[tool.black]\nline-length = 99\n"),
        ("pyproject.toml", "[project\n"),
        ("setup.cfg", "no section\n"),
        ("setup.cfg", "[options]\ninstall_requires = torch\n"),
        ("setup.py", "setup(\n"),
        ("setup.py", "setup(install_requires=read('requirements.txt'))\n"),
        ("setup.py", "setup(install_requires=['torch', NUMPY])\n"),
        ("setup.py", "needed = ['torch']\nneeded = []\nsetup(install_requires=needed)\n"),
        ("environment.yml", "dependencies: [\n"),
        ("environment.yml", "dependencies:\n  - pytorch\n"),
        ("requirements.txt", "torch\nTorchax_Compat\n"),
        ("notes.txt", "torch\n"),
    ],
)
def test_files_without_a_list_and_those_that_have_it_are_left_alone(
    tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    assert to_extend([*declarations(tmp_path)]) is None


def test_dependency_goes_where_torch_is_declared(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\ndependencies = ["numpy"]\n')
    (tmp_path / "requirements-dev.txt").write_text("pytest\n")
    (tmp_path / "requirements-gpu.txt").write_text("torch\n")
    found = to_extend([*declarations(tmp_path)])
    assert found is not None and found.path.name == "requirements-gpu.txt"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("requirements.txt", "torch \\"),
        ("pyproject.toml", "project = 1\n"),
        ("pyproject.toml", '[tool]\npoetry = "x"\n'),
        ("pyproject.toml", "[project]\ndependencies = 3\n"),
        ("environment.yml", "- a\n"),
        ("environment.yml", "dependencies: 3\n"),
    ],
)
def test_files_of_another_form_are_no_error(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found = to_extend([*declarations(tmp_path)])
    assert found is None or LINE in (found.extended or "")


def test_line_endings_of_a_table_are_kept(tmp_path: Path) -> None:
    text = '[project]\r\ndependencies = [\r\n  "torch",\r\n]\r\n'
    (tmp_path / "pyproject.toml").write_bytes(text.encode())
    found = to_extend([*declarations(tmp_path)])
    assert found is not None and found.extended is not None
    assert found.extended.count("\n") == found.extended.count("\r\n")


def test_requirements_come_before_those_for_development(tmp_path: Path) -> None:
    for name in ("requirements-dev.txt", "requirements.txt"):
        (tmp_path / name).write_text("numpy\n")
    found = to_extend([*declarations(tmp_path)])
    assert found is not None and found.path.name == "requirements.txt"


def test_list_of_another_section_is_left_alone(tmp_path: Path) -> None:
    other = "[mypy]\ninstall_requires =\n    a\n\n"
    (tmp_path / "setup.cfg").write_text(f"{other}[options]\ninstall_requires =\n    torch\n")
    found = to_extend([*declarations(tmp_path)])
    assert found is not None
    assert found.extended == f"{other}[options]\ninstall_requires =\n    torch\n    {LINE}\n"
