"""The rule pack of docs/writing-rules.md, built from the page and installed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tpulint.rules_api.rule import OWN_PREFIXES

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "writing-rules.md").read_text(encoding="utf-8")
FILES = (
    "pyproject.toml",
    "acme_tpu_rules/__init__.py",
    "acme_tpu_rules/fused_gelu.py",
    "acme_tpu_rules/cuda_backend.py",
    "acme_tpu_rules/acme_requirement.py",
    "tests/fixtures/fused_gelu/example/before.py",
    "tests/fixtures/fused_gelu/example/after.py",
    "tests/fixtures/fused_gelu/clean/before.py",
    "tests/fixtures/cuda_backend/example/before.py",
    "tests/fixtures/cuda_backend/example/after.py",
    "tests/fixtures/acme_requirement/example/before/requirements.txt",
    "tests/fixtures/acme_requirement/example/after/requirements.txt",
    "tests/test_rules.py",
    "acme_tpu_rules/codemods.py",
)

pytestmark = pytest.mark.xdist_group("packaging")


@pytest.fixture(scope="module")
def pack(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sources of the pack, as the page shows them."""
    folder = tmp_path_factory.mktemp("pack") / "acme-tpu-rules"
    blocks = re.findall(r"^```(?:toml|python|text)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for path, text in zip(FILES, blocks, strict=True):
        assert f"`{path}`" in PAGE
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def environment(pack: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment variables of a process that has the pack installed, beside this checkout."""
    installed = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "--target", str(installed), str(pack)], check=True)
    # tpulint itself is in no folder of its own here: its entry point lies beside that of the pack.
    info = installed / "tpulint_of_the_checkout-0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tpulint-of-the-checkout\nVersion: 0\n")
    (info / "entry_points.txt").write_text("[tpulint.rules]\nbuiltin = tpulint_rules\n")
    paths = (installed, ROOT, ROOT / "rules")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}


def tpulint(environment: dict[str, str], folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tpulint", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "" == done.stderr
    return done.stdout


def codes(environment: dict[str, str], folder: Path, *arguments: str) -> list[str]:
    report = tpulint(environment, folder, "check", "--no-cache", "--output-format", "json", *arguments, ".")
    return [finding["code"] for finding in json.loads(report)]


def test_rules_of_an_installed_pack_are_on_by_default(
    pack: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    text = (pack / "tests/fixtures/fused_gelu/example/before.py").read_text()
    (tmp_path / "model.py").write_text(text)
    assert ["ACME101"] == codes(environment, tmp_path)
    assert [] == codes(environment, tmp_path, "--ignore", "ACME")
    assert [] == codes(environment, tmp_path, "--select", "TPU")
    (tmp_path / "model.py").write_text(text.replace("want: ACME101", "tpulint: ignore[ACME101] "))
    assert [] == codes(environment, tmp_path)


def test_report_of_the_page_is_what_check_prints(
    pack: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "model.py").write_text((pack / "tests/fixtures/fused_gelu/example/before.py").read_text())
    printed = tpulint(
        environment, tmp_path, "check", "--no-cache", "-q", "--output-format", "concise", "model.py"
    )
    assert f"$ tpulint check --output-format concise model.py\n{printed.splitlines()[0]}\n" in PAGE


def test_page_and_address_of_a_rule_of_a_pack_are_its_own(
    environment: dict[str, str], tmp_path: Path
) -> None:
    assert "CUDA function `acme.kernels.fused_gelu`" in tpulint(environment, tmp_path, "explain", "ACME101")
    listed = json.loads(tpulint(environment, tmp_path, "rules", "--output-format", "json"))
    addresses = {row["code"]: row["url"] for row in listed}
    assert "https://acme.example/rules/fused-gelu" == addresses["ACME101"]
    assert {"TPU", "UPG"} < {code.rstrip("0123456789") for code in addresses} <= {"ACME", *OWN_PREFIXES}


def test_cases_of_the_pack_pass_with_the_test_kit(pack: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
        cwd=pack,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert "8 passed" in done.stdout, done.stdout + done.stderr


def test_rules_of_the_pack_are_codemods(pack: Path, environment: dict[str, str], tmp_path: Path) -> None:
    before = (pack / "tests/fixtures/cuda_backend/example/before.py").read_text().replace("want: ", "")
    (tmp_path / "net.py").write_text(before)
    command = ["codemod", "-x", "--no-format", "acme_tpu_rules.codemods.CudaBackend", "net.py"]
    done = subprocess.run(
        [sys.executable, "-m", "libcst.tool", *command],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert 0 == done.returncode, done.stderr
    assert before.replace('"acme-cuda"', '"reference"') == (tmp_path / "net.py").read_text()


def test_rule_with_a_pattern_is_on_by_default(
    pack: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    text = (pack / "tests/fixtures/cuda_backend/example/before.py").read_text().replace("want: ", "")
    (tmp_path / "net.py").write_text(text)
    assert ["ACME102"] == codes(environment, tmp_path)
    (tmp_path / "net.py").write_text(text.replace("from acme", "from other"))
    assert [] == codes(environment, tmp_path)
