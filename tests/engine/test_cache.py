"""The cache gives back what was put, and nothing else."""

from __future__ import annotations

import os
import pickle
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tpulint.engine.cache import FileCache, MemoryCache
from tpulint.engine.desk import Desk
from tpulint.engine.edits import edits_of
from tpulint.engine.run import analyse, analyse_units, as_units
from tpulint.finding import FileError, Finding
from tpulint.fixture import cases
from tpulint.model.tracing.reach import link
from tpulint.settings import Settings

ROOT = Path(__file__).parents[2]

SCRIPT = 'import torch\n\nx = torch.zeros(2, device="cuda")\n'


def _found(folder: Path, *, cache: bool = True) -> list[Finding]:
    (folder / "script.py").write_text(SCRIPT)
    return analyse([folder / "script.py"], Settings(root=folder), jobs=1, cache=cache).findings


def test_findings_from_the_cache_equal_fresh_ones(tmp_path: Path) -> None:
    fresh = _found(tmp_path, cache=False)
    assert _found(tmp_path) == fresh
    assert _found(tmp_path) == fresh
    assert fresh != []


def test_cached_values_are_read_back_equal(tmp_path: Path) -> None:
    values = {"one": FileError("a.py", "unreadable")}
    FileCache(tmp_path).put(values)
    assert FileCache(tmp_path).get(["one", "two"]) == values


def test_findings_with_fixes_are_kept(tmp_path: Path) -> None:
    for finding in (fresh := _found(tmp_path, cache=False)):
        FileCache(tmp_path).put({finding.message: finding})
    assert any(finding.fix is not None and finding.fix.imports for finding in fresh)
    assert FileCache(tmp_path).get([finding.message for finding in fresh]) == {
        finding.message: finding for finding in fresh
    }


def test_results_of_every_fixture_are_read_back_equal(tmp_path: Path) -> None:
    units = {
        path: unit
        for case in cases(ROOT / "fixtures")
        if case.has_code
        for path, unit in as_units({str(case.folder / n): t.encode() for n, t in case.before.items()}).items()
    }
    desk = Desk()
    summaries = {path: desk.summarise(unit) for path, unit in units.items()}
    project = link(summary.facts for summary in summaries.values() if summary.facts is not None)
    verdicts = {f"verdict {path}": desk.judge(unit, project) for path, unit in units.items()}
    FileCache(tmp_path).put({**summaries, **verdicts})
    assert FileCache(tmp_path).get(summaries) == summaries
    assert FileCache(tmp_path).get(verdicts) == verdicts


class _Payload:
    """What somebody could plant in the cache of a repository that they hand out."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (str(self.target),)


def test_a_malicious_cache_entry_runs_no_code(tmp_path: Path) -> None:
    FileCache(tmp_path).put({"one": FileError("a.py", "unreadable")})
    connection = sqlite3.connect(tmp_path / "cache.sqlite")
    connection.execute("UPDATE entries SET value = ?", (pickle.dumps(_Payload(tmp_path / "planted")),))
    connection.commit()
    connection.close()
    assert FileCache(tmp_path).get(["one"]) == {}
    assert not (tmp_path / "planted").exists()


def test_a_corrupt_cache_file_is_ignored(tmp_path: Path) -> None:
    fresh = _found(tmp_path, cache=False)
    folder = tmp_path / ".tpulint_cache"
    folder.mkdir(exist_ok=True)
    (folder / "cache.sqlite").write_bytes(b"no database at all" * 100)
    assert _found(tmp_path) == fresh


def test_an_unwritable_cache_is_ignored(tmp_path: Path) -> None:
    fresh = _found(tmp_path, cache=False)
    (tmp_path / ".tpulint_cache").write_text("a file in the folder's place")
    assert _found(tmp_path) == fresh


def test_a_change_in_another_file_invalidates_cached_findings(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path, select=("TPU301",))
    model, jit = tmp_path / "model.py", tmp_path / "jit.py"
    model.write_text("def step(x):\n    return x.sum().item()\n")
    jit.write_text("import torch\n\nfrom model import step\n")
    assert analyse([model, jit], settings, jobs=1).findings == []
    jit.write_text("import torch\n\nfrom model import step\n\nfast = torch.compile(step)\n")
    assert [f.code for f in analyse([model, jit], settings, jobs=1).findings] == ["TPU301"]


def test_device_use_added_to_a_program_invalidates_its_imports(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path, select=("TPU611",))
    step, main = tmp_path / "step.py", tmp_path / "main.py"
    step.write_text("import torch\n\n\ndef update(loss):\n    torch.autograd.backward(loss)\n")
    main.write_text("import torch\n\nimport step\n\nmodel = torch.nn.Linear(2, 2)\n")
    assert analyse([step, main], settings, jobs=1).findings == []
    main.write_text(main.read_text().replace("(2, 2)", "(2, 2).cuda()"))
    assert [f.code for f in analyse([step, main], settings, jobs=1).findings] == ["TPU611"]


def test_an_import_changed_in_a_file_that_imports_it_invalidates_cached_findings(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path, select=("TPU611",))
    helper, device, main = (tmp_path / f"{name}.py" for name in ("helper", "device", "main"))
    helper.write_text(
        "def step(loss, optimizer):\n    optimizer.zero_grad()\n    total = loss * 2\n"
        "    total.backward()\n    optimizer.step()\n"
    )
    device.write_text('import torch\n\nx = torch.ones(3, device=torch.device("cuda"))\n')
    main.write_text("import json\nimport helper\nimport device\n\n\ndef run(l, o):\n    helper.step(l, o)\n")
    assert analyse([helper, device, main], settings, jobs=1).findings == []
    main.write_text(main.read_text().replace("import json", "import torch"))
    fresh = analyse([helper, device, main], settings, jobs=1, cache=False).findings
    assert [("TPU611", 4)] == [(f.code, f.location.row) for f in fresh]
    assert fresh == analyse([helper, device, main], settings, jobs=1).findings


def test_runtime_added_to_each_program_invalidates_its_imports(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path, select=("TPU803",))
    layers, train, sample = (tmp_path / f"{name}.py" for name in ("layers", "train", "sample"))
    layers.write_text("from torch.nn.attention.flex_attention import flex_attention\n")
    script = "import torch\nimport torchax_compat\nimport layers\n\nx = torch.ones(2).cuda()\n"
    train.write_text(script)
    sample.write_text(script.replace("import torchax_compat\n", ""))
    assert [f.code for f in analyse([layers, train, sample], settings, jobs=1).findings] == ["TPU803"]
    sample.write_text(script)
    assert analyse([layers, train, sample], settings, jobs=1).findings == []


def test_a_change_in_an_unrelated_file_keeps_the_findings_of_other_files(tmp_path: Path) -> None:
    settings, cache = Settings(root=tmp_path), Counting()
    texts = {"a.py": SCRIPT, "b.py": "def f(x):\n    return x\n"}

    def judged() -> int:
        before = cache.kept
        analyse_units(
            as_units({str(tmp_path / name): text.encode() for name, text in texts.items()}),
            settings,
            jobs=1,
            cache=cache,
        )
        return cache.kept - before

    assert judged() == 4  # the facts and the findings of both
    assert judged() == 0
    texts["b.py"] += "\n\ndef g(y):\n    return y\n"
    assert judged() == 2


class Counting(MemoryCache):
    """Counts what is put into it."""

    kept = 0

    def put(self, values: Mapping[str, Any]) -> None:
        self.kept += len(values)
        super().put(values)


TRAINER = """import torch


class Trainer:
    def __init__(self):
        self.model = torch.nn.Linear(2, 2).cuda()
        self.seen = []

    def measure(self, x):
        loss = self.model(x).sum()
        self.seen.append(loss.item())
        return loss

    def fit(self, x):
        loss = self.measure(x)
        loss.backward()
"""


def test_an_override_added_in_another_file_invalidates_cached_findings(tmp_path: Path) -> None:
    settings = Settings(root=tmp_path, select=("TPU611",))
    trainer, other = tmp_path / "trainer.py", tmp_path / "other.py"
    trainer.write_text(TRAINER)

    def moved() -> list[str]:
        findings = analyse([trainer, other], settings, jobs=1).findings
        edits = [edit for made in edits_of(findings, {}).values() for edit in made]
        return [edit.content for edit in edits if "def " in edit.content]

    other.write_text("from trainer import Trainer\n\n\nclass Other(Trainer):\n    pass\n")
    assert ["self.model(x).sum()" in text for text in moved()] == [True]
    other.write_text(other.read_text().replace("    pass", "    def measure(self, x):\n        return x"))
    assert ["self.measure(x)" in text for text in moved()] == [True]
