"""Time and memory of tpulint on timm, beside a bare `ast.parse` and the other linters, in one run.

`make benchmark`, or `make benchmark BENCHMARK=--quick` to leave out TorchFix and Fixit, which take minutes.
`make benchmark BENCHMARK=--growth` shows how the cost of `check` grows with the size of a project.
`make benchmark BENCHMARK=--longest` checks the 200 longest functions of several packages, each as a file of
its own, and fails if one of them takes more than a second of processor time.
Every program gets the same tree and says nothing; ratios are to one process that parses the same files, and
runs before each run of a program.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import os
import shutil
import statistics
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpulint.engine.run import analyse_units, as_units
from tpulint.settings import Settings

ROOT = Path(__file__).parents[2]
WORK = ROOT / ".benchmark"
SUBJECT = "timm==1.0.31"
LARGE = "transformers==5.23.0"
#: One file in so many, spread over the project.
SHARES = (8, 4, 2, 1)
#: Packages with long functions.
LONGEST = ("transformers==5.23.0", "diffusers==0.42.1", "peft==0.21.2", "monai==1.6.1")
#: How many functions, and the seconds of processor time that one may take.
FUNCTIONS, SECONDS = 200, 1.0
PEERS = {"ruff": "ruff==0.17.6", "torchfix": "torchfix==0.7.0", "fixit": "fixit==2.2.1"}
TPULINT = str(Path(sys.executable).parent / "tpulint")
CHECK = (TPULINT, "check", "--isolated", "--exit-zero", "--quiet")
# Each tree is dropped before the next is made, which is the cheapest way to parse a folder.
PARSE = """
import ast, pathlib, sys
for path in map(pathlib.Path, sys.argv[1:]):
    for file in [path] if path.is_file() else sorted(path.rglob("*.py")):
        ast.parse(file.read_bytes())
"""


@dataclass(frozen=True, slots=True)
class Run:
    """One execution: seconds by the clock and of processor time, megabytes of the largest process."""

    wall: float
    cpu: float
    largest: float


@dataclass(frozen=True, slots=True)
class Program:
    """What is measured; `before` runs ahead of each execution and is not."""

    name: str
    command: Sequence[str]
    repeats: int = 5
    before: Callable[[], object] = lambda: None


def execute(command: Sequence[str]) -> Run:
    """Run a command to its end, whatever its exit code says."""
    start = time.perf_counter()
    with subprocess.Popen(
        command, cwd=WORK, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
    if "0 files clean" in errors:
        sys.exit(f"{' '.join(command)} found no files: its figures would mean nothing")
    if process.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)} exited {process.returncode}:\n{errors}")
    return Run(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def together(command: Sequence[str]) -> float:
    """The most megabytes that a command and all its processes held at one time, sampled.

    A run of its own, since looking costs time. What processes share is counted for each of them unless
    the system tells proportional sizes, so this errs on the high side.
    """
    peak = 0.0
    with subprocess.Popen(command, cwd=WORK, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(_held, _family(process.pid))))
            time.sleep(0.02)
    return peak


def _family(pid: int) -> set[int]:
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status = (entry / "stat").read_text()
                parents[int(entry.name)] = int(status.rpartition(")")[2].split()[1])
            except OSError:
                continue
    family = {pid}
    for _ in range(4):
        family |= {child for child, parent in parents.items() if parent in family}
    return family


def _held(pid: int) -> float:
    try:
        for line in Path("/proc", str(pid), "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    try:
        pages = int(Path("/proc", str(pid), "statm").read_text().split()[1])
    except (OSError, ValueError):
        return 0.0
    return pages * os.sysconf("SC_PAGESIZE") / 1024 / 1024


def subject(requirement: str) -> Path:
    """The unpacked sources of a package at one version."""
    folder = WORK / requirement.replace("==", "-")
    if not folder.is_dir():
        downloads = WORK / "downloads"
        pip(sys.executable, "download", "--no-deps", "--dest", str(downloads), requirement)
        (wheel,) = downloads.glob(f"{requirement.replace('==', '-')}-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(folder)
    # A project of its own: Fixit would otherwise obey this repository's .gitignore and read nothing.
    (folder / "pyproject.toml").touch()
    return folder


def peer(name: str) -> str:
    """The command of another linter, installed in an environment of its own."""
    folder = WORK / f"venv-{PEERS[name].replace('==', '-')}"
    command = folder / "bin" / name
    if not command.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        pip(str(folder / "bin" / "python"), "install", PEERS[name])
    return str(command)


def pip(python: str, *arguments: str) -> None:
    """Run pip without its chatter."""
    subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)


def programs(tree: Path, *, quick: bool) -> list[Program]:
    """What is compared, the yardstick first."""
    cache = WORK / ".tpulint_cache"
    one = str(tree / "timm" / "models" / "vision_transformer.py")
    listed = [
        Program("ast.parse, one process", [sys.executable, "-c", PARSE, str(tree)]),
        Program("tpulint, no cache", [*CHECK, "--no-cache", str(tree)]),
        Program("tpulint, no cache, -j 1", [*CHECK, "--no-cache", "-j", "1", str(tree)], repeats=3),
        Program(
            "tpulint, filling the cache",
            [*CHECK, str(tree)],
            3,
            lambda: shutil.rmtree(cache, ignore_errors=True),
        ),
        Program("tpulint, from the cache", [*CHECK, str(tree)]),
        Program("tpulint, one file", [*CHECK, "--no-cache", one]),
        Program("tpulint --version", [TPULINT, "--version"]),
        Program("ruff", [peer("ruff"), "check", "--isolated", "--no-cache", "--quiet", str(tree)]),
    ]
    if not quick:
        listed += [
            Program("TorchFix", [peer("torchfix"), "--select", "ALL", str(tree)], repeats=1),
            Program("Fixit", [peer("fixit"), "lint", str(tree)], repeats=1),
        ]
    return listed


@dataclass(frozen=True, slots=True)
class Measured:
    """What came of a program: medians of its runs, of the ratios of each to a yardstick that ran just before,
    and the most megabytes that it held with all its processes.
    """

    run: Run
    wall_ratio: float
    cpu_ratio: float
    memory: float

    def __str__(self) -> str:
        return (
            f"{self.run.wall:8.2f} {self.wall_ratio:7.2f} {self.run.cpu:8.2f} "
            f"{self.cpu_ratio:7.2f} {self.run.largest:11.0f} {self.memory:8.0f}"
        )


def measured(program: Program, yardstick: Sequence[str]) -> Measured:
    """Run a program several times, each time behind the yardstick, as a shared machine slows both."""
    rows = []
    for _ in range(program.repeats):
        beside = execute(yardstick)
        program.before()
        run = execute(program.command)
        rows.append((run.wall, run.cpu, run.largest, run.wall / beside.wall, run.cpu / beside.cpu))
    wall, cpu, largest, by_wall, by_cpu = (statistics.median(column) for column in zip(*rows, strict=True))
    program.before()
    memory = together(program.command) if program.repeats > 1 else float("nan")
    return Measured(Run(wall, cpu, largest), by_wall, by_cpu, memory)


FIGURES = f"{'wall s':>8} {'ratio':>7} {'CPU s':>8} {'ratio':>7} {'largest MB':>11} {'all MB':>8}"


def compare(requirement: str, *, quick: bool) -> None:
    """All programs on one project."""
    tree = subject(requirement)
    files = sorted(tree.rglob("*.py"))
    print(f"{requirement}: {len(files)} files, {_lines(files)} lines; {_machine()}; ", end="")
    print(f"{', '.join(PEERS.values())}\n")
    print(f"{'':28} {FIGURES}")
    listed = programs(tree, quick=quick)
    for program in listed:
        print(f"{program.name:28} {measured(program, listed[0].command)}", flush=True)


def growth(requirement: str) -> None:
    """`check` without its cache on larger and larger shares of one project's files."""
    tree = subject(requirement)
    print(f"{requirement}; {_machine()}; ratios are to ast.parse of the same files in one process\n")
    print(f"{'files':>7} {'lines':>9} {FIGURES} {'lines/s':>9}")
    files = sorted(tree.rglob("*.py"))
    for share in SHARES:
        chosen = files[::share]
        names = [str(path) for path in chosen]
        check = Program("check", [*CHECK, "--no-cache", *names], repeats=3)
        found, lines = measured(check, [sys.executable, "-c", PARSE, *names]), _lines(chosen)
        print(f"{len(chosen):7} {lines:9} {found} {lines / found.run.wall:9.0f}", flush=True)


def longest(requirements: Sequence[str]) -> None:
    """All rules over the longest functions of some packages, each with its class and imports."""
    functions: list[tuple[int, str, str]] = []
    for requirement in requirements:
        for path in sorted(subject(requirement).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            functions += ((size, f"{path.relative_to(WORK)}:{row}", code) for size, row, code in _alone(text))
    functions.sort(reverse=True)
    print(f"{', '.join(requirements)}; {_machine()}; the {FUNCTIONS} longest functions\n")
    taken = []
    for size, name, code in functions[:FUNCTIONS]:
        start = time.process_time()
        analyse_units(as_units({"/project/main.py": code.encode()}), Settings(root=Path("/project")), jobs=1)
        taken.append((time.process_time() - start, size, name))
    taken[0] = (0.0, *taken[0][1:])  # which loaded the rules
    taken.sort(reverse=True)
    for seconds, size, name in taken[:10]:
        print(f"{seconds:6.2f} s {size:5} lines  {name}")
    print(f"\nmedian {statistics.median(seconds for seconds, *_ in taken):.3f} s")
    if taken[0][0] > SECONDS:
        sys.exit(f"a function takes more than {SECONDS:g} s")


def _alone(text: str) -> Iterator[tuple[int, int, str]]:
    """The functions of a file: how many lines, which row, the code with the imports and the class around."""
    tree = ast.parse(text)
    imports = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    for around in (None, *classes):
        for node in tree.body if around is None else around.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                alone: ast.stmt = node
                if around is not None:
                    alone = ast.ClassDef(around.name, around.bases, around.keywords, [node], [])
                code = ast.unparse(ast.Module([*imports, alone], []))
                yield (node.end_lineno or node.lineno) - node.lineno, node.lineno, code


def _lines(files: Sequence[Path]) -> int:
    return sum(path.read_bytes().count(b"\n") for path in files)


def _machine() -> str:
    return f"{os.cpu_count()} processors; Python {sys.version.split()[0]}"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="leave out TorchFix and Fixit")
    parser.add_argument(
        "--growth",
        metavar="NAME==VERSION",
        nargs="?",
        const=LARGE,
        help=f"check shares of one project instead, by default of {LARGE}",
    )
    parser.add_argument("--longest", action="store_true", help="check the longest functions instead")
    options = parser.parse_args()
    WORK.mkdir(exist_ok=True)
    for package in (
        ROOT / "tpulint",
        ROOT / "rules",
    ):  # as pip does for what it installs, the others among it
        compileall.compile_dir(package, quiet=1)
    if options.growth:
        growth(options.growth)
    elif options.longest:
        longest(LONGEST)
    else:
        compare(SUBJECT, quick=options.quick)


if __name__ == "__main__":
    main()
