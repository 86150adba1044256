"""Tests the runtime with several versions of torch, torchax and JAX: `make matrix`.

For each combination it makes a virtual environment in `.matrix`, and runs the tests of patch targets and the
parity suite there.
It writes the results to `runtime/matrix.json`, the table of the README, and the versions that `enable()`
accepts.

    python runtime/matrix.py [NAME]...    run some combinations, by default those without a result
    python runtime/matrix.py --list       print the names of the combinations
    python runtime/matrix.py --render     write the table and the versions from the results on record
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent
SOURCE = ROOT / "src" / "torchax_compat"
RESULTS, README = ROOT / "matrix.json", ROOT / "README.md"
VERSIONS, SIGNATURES = SOURCE / "patches" / "versions.json", SOURCE / "patches" / "signatures.json"
ENVIRONMENTS = ROOT.parent / ".matrix"
_NIGHTLY = "0.0.14.dev20261026"
_PYTEST = ("-q", "-c", str(ROOT.parent / "pyproject.toml"), "-p", "no:cacheprovider", "-n", "2")
_TESTS = ("tests/patches", "tests/parity")
_BEGIN, _END = "<!-- matrix -->\n", "<!-- end of matrix -->\n"
#: Tests that failed, or could not be collected.
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
_COUNTS = re.compile(r"(\d+) (passed|failed|error|xfailed|skipped)")


@dataclass(frozen=True, slots=True)
class Combination:
    """Versions that are tested together, with a version of Python that JAX has releases for."""

    torch: str
    torchax: str
    jax: str
    python: str = "3.11"

    @property
    def name(self) -> str:
        """How the combination is called in `.matrix` and on the command line."""
        return f"torch-{self.torch}-torchax-{self.torchax}-jax-{self.jax}"


COMBINATIONS = (
    *(Combination("2.13.0", _NIGHTLY, jax) for jax in ("0.10.0", "0.10.1", "0.10.2")),
    *(Combination("2.13.0", torchax, "0.10.2") for torchax in ("0.0.12", "0.0.13")),
    *(Combination(torch, _NIGHTLY, "0.10.2") for torch in ("2.11.0", "2.12.1", "2.14.1")),
    *(Combination("2.14.1", _NIGHTLY, jax, python="3.12") for jax in ("0.11.2", "0.12.0.1")),
)


def main(arguments: Sequence[str]) -> int:
    """Run the command; 1 if a combination failed."""
    if "--list" in arguments:
        print("\n".join(one.name for one in COMBINATIONS))
        return 0
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.is_file() else {}
    wanted = [one for one in COMBINATIONS if one.name in arguments] or [
        one for one in COMBINATIONS if one.name not in results
    ]
    for one in [] if "--render" in arguments else wanted:
        print(one.name, flush=True)
        results[one.name] = tested(one)
        print(f"  {results[one.name]['outcome']}", flush=True)
        RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    render(results)
    return int(any(results[one.name]["outcome"] != "works" for one in wanted if one.name in results))


def tested(one: Combination) -> dict[str, object]:
    """Install a combination and run the tests with it.

    Returns:
        The outcome in words, the tests that failed, the counts of pytest, and the seconds that it took.
    """
    python = _environment(one)
    if isinstance(python, str):
        return {"outcome": "not installed", "reason": python, "failed": [], "counts": {}, "seconds": 0}
    began = time.monotonic()
    # The versions and their signatures are on record while the tests run, and stay if these pass.
    before = {path: path.read_text(encoding="utf-8") for path in (SIGNATURES, VERSIONS)}
    accepted = {"torch": [one.torch], "torchax": [one.torchax], "jax": [one.jax]}
    VERSIONS.write_text(json.dumps(accepted), encoding="utf-8")
    _run(python, "-m", "torchax_compat.patches.record")
    ended = _run(python, "-m", "pytest", *_PYTEST, *_TESTS)
    VERSIONS.write_text(before[VERSIONS], encoding="utf-8")
    if ended.returncode:
        SIGNATURES.write_text(before[SIGNATURES], encoding="utf-8")
    (ENVIRONMENTS / f"{one.name}.log").write_text(ended.stdout + ended.stderr, encoding="utf-8")
    failed = sorted(set(_FAILED.findall(ended.stdout)))
    counts = {word: int(number) for number, word in _COUNTS.findall(ended.stdout.rpartition("\n=")[2])}
    if not counts:
        counts = {word: int(number) for number, word in _COUNTS.findall(ended.stdout[-400:])}
    outcome = "works" if ended.returncode == 0 else "fails"
    reason = "" if failed or not ended.returncode else (ended.stdout + ended.stderr).strip()[-300:]
    seconds = round(time.monotonic() - began)
    return {"outcome": outcome, "reason": reason, "failed": failed, "counts": counts, "seconds": seconds}


def _run(python: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with the runtime on its path."""
    settings = {"PYTHONPATH": str(ROOT / "src"), "JAX_PLATFORMS": "cpu"}
    return subprocess.run(
        [str(python), *arguments],
        cwd=ROOT,
        env={**os.environ, **settings},
        capture_output=True,
        text=True,
        check=False,
    )


def _environment(one: Combination) -> Path | str:
    """The Python of a virtual environment with the versions; the reason, if they cannot be installed."""
    folder = ENVIRONMENTS / one.name
    python = folder / "bin" / "python"
    if (folder / ".installed").is_file():
        return python
    base = shutil.which(f"python{one.python}")
    if base is None:
        return f"Python {one.python} is not on this machine"
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([base, "-m", "venv", str(folder)], check=True)
    # torch first: with it installed, nothing else asks for another build of it.
    for packages in (
        [f"torch=={one.torch}"],
        [f"jax=={one.jax}", f"jaxlib=={one.jax}", "pytest>=8.4", "pytest-xdist", "hypothesis", "numpy"],
        [f"torchax=={one.torchax}", f"jax=={one.jax}"],
    ):
        ended = subprocess.run(
            [str(python), "-m", "pip", "install", "--quiet", *packages],
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            return ended.stderr.strip().splitlines()[-1][:300] if ended.stderr.strip() else "pip failed"
    (folder / ".installed").touch()
    return python


def render(results: dict[str, dict[str, object]]) -> None:
    """Write the table of the README, and the versions that `enable()` accepts."""
    rows = ["| torch | torchax | JAX | Python | result |", "| --- | --- | --- | --- | --- |"]
    good = []
    for one in COMBINATIONS:
        result = results.get(one.name)
        words = "not run" if result is None else _words(result)
        rows.append(f"| {one.torch} | {one.torchax} | {one.jax} | {one.python} | {words} |")
        if result is not None and result["outcome"] == "works":
            good.append(one)
    text = README.read_text(encoding="utf-8")
    head, _, rest = text.partition(_BEGIN)
    table = "\n".join(rows)
    README.write_text(f"{head}{_BEGIN}{table}\n{_END}{rest.partition(_END)[2]}", encoding="utf-8")
    if good:
        accepted = {
            name: sorted({getattr(one, name) for one in good}) for name in ("torch", "torchax", "jax")
        }
        VERSIONS.write_text(json.dumps(accepted, indent=2) + "\n", encoding="utf-8")


def _words(result: dict[str, object]) -> str:
    failed, counts = result["failed"], result["counts"]
    assert isinstance(failed, list) and isinstance(counts, dict)
    if result["outcome"] == "works":
        return f"works ({counts.get('passed', 0):,} tests)"
    if failed:
        number = counts.get("failed", 0) + counts.get("error", 0)
        first = failed[0].rpartition("[")[2].rpartition("/")[2].rstrip("]")
        return f"refused: {number:,} of {sum(counts.values()):,} tests fail, such as `{first}`"
    return f"{result['outcome']}: {' '.join(str(result['reason']).split())[:120]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
