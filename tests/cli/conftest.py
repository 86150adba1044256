"""An engine and a registry that say what a test tells them to, so that these tests are about the surface."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tpulint.cli import run
from tpulint.engine import edits, files, inquiry, project_files, workers
from tpulint.finding import Applicability, FileError, Finding, Fix, Location, Severity, Span
from tpulint.plan import Kind, Rewrite
from tpulint.settings import Settings

#: Modules that import the registry: they do so before it is a fake.
REAL = (edits, files, inquiry, project_files, workers)


@dataclass
class Outcome:
    """What a command line came to."""

    code: int
    out: str
    err: str


@dataclass
class FakeChange:
    """A change that remembers whether it was written."""

    path: str
    before: str = "a\n"
    after: str = "b\n"
    original: bytes = b"a\n"
    error: OSError | None = None
    written: bool = False

    @property
    def data(self) -> bytes:
        return self.after.encode()

    def write(self) -> None:
        if self.error:
            raise self.error
        self.written = True


@dataclass
class Engine:
    """What the fake engine will say, and what it was asked."""

    findings: list[Finding] = field(default_factory=list)
    errors: list[FileError] = field(default_factory=list)
    changes: list[FakeChange] = field(default_factory=list)
    applied: dict[str, dict[str, int]] = field(default_factory=dict)
    tests: tuple[str, ...] = ()
    failure: BaseException | None = None
    files: tuple[Path, ...] = ()
    settings: Settings = field(default_factory=Settings)
    options: dict[str, Any] = field(default_factory=dict)

    def _asked(self, files: Sequence[Path], settings: Settings, options: dict[str, Any]) -> None:
        if self.failure is not None:
            raise self.failure
        self.files, self.settings, self.options = tuple(files), settings, options

    def analyse(self, files: Sequence[Path], settings: Settings, **options: Any) -> Any:
        self._asked(files, settings, options)
        return SimpleNamespace(findings=self.findings, errors=self.errors, files=len(files))

    def fix(self, files: Sequence[Path], settings: Settings, **options: Any) -> Any:
        self._asked(files, settings, options)
        return SimpleNamespace(
            changes=self.changes,
            applied=self.applied,
            remaining=self.findings,
            errors=self.errors,
            tests=self.tests,
        )


RULES = tuple(
    SimpleNamespace(
        code=code,
        name=name,
        summary=f"{name.replace('-', ' ')} found",
        doc=f"{name} found.\n\n## What it does\nFlags `{name}`.\n",
        family=family,
        family_title=family.replace("_", " "),
        former=former,
        fixable=fixable,
        targets={"torchax"},
        optional=code.startswith("UPG"),
        severity=Severity.BLOCKS,
        url=f"https://example.org/{name}.md",
    )
    for code, name, family, fixable, former in [
        ("TPU101", "hardcoded-cuda-device", "placement", Applicability.SAFE, ("cuda-literal",)),
        ("TPU301", "item-in-traced-code", "trace_hazards", Applicability.DISPLAY, ()),
        ("TPU302", "tensor-dependent-branch", "trace_hazards", None, ()),
        ("UPG101", "removed-function", "torch_upgrade", None, ()),
    ]
)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    fake = Engine()
    modules: dict[str, dict[str, Any]] = {
        "tpulint.engine.run": {"analyse": fake.analyse},
        "tpulint.engine.fix": {"fix": fake.fix},
        "tpulint.engine.files": {"contents_of": lambda _: ({}, [])},
        "tpulint.engine.project_files": {
            "analyse": lambda *_: SimpleNamespace(findings=[], errors=[]),
        },
        "tpulint.registry": {
            "rules": lambda: RULES,
            "former_names": lambda: {"cuda-literal": "hardcoded-cuda-device"},
            "RegistryError": KeyError,
        },
    }
    for name, contents in modules.items():
        module = ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
        # `import a.b` also sets the attribute `b` of `a`, which `from a import b` would find first.
        monkeypatch.setattr(name, module, raising=False)
    return fake


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two files, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    (tmp_path / "a.py").write_text("a\n")
    (tmp_path / "b.py").write_text("b\n")
    return tmp_path


@pytest.fixture
def tpulint(
    engine: Engine, project: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    def command(*arguments: str, stdin: bytes = b"") -> Outcome:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = run(arguments)
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return command


@pytest.fixture
def finding(project: Path) -> Finding:
    return Finding(
        path=str(project / "a.py"),
        location=Location(1, 1),
        end_location=Location(1, 2),
        code="TPU301",
        name="item-in-traced-code",
        message="waits for the device",
        span=Span(0, 1),
        source_line="a",
        fix=Fix(
            "use b",
            (Rewrite((("body", 0), ("value", -1)), Kind.REPLACE, ("b",)),),
            Applicability.UNSAFE,
        ),
    )
