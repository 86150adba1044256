"""What `fix` keeps, what it refuses, and what is left when it is killed."""

from __future__ import annotations

import ast
import os
import random
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tpulint import plan
from tpulint.engine.change import Change
from tpulint.finding import Applicability, Finding
from tpulint.rules_api import Context, Rule

if TYPE_CHECKING:
    from tests.robustness.conftest import Command

GOOD = b"import torch\n\nx = torch.zeros(2).cuda()\n"
FIXED = GOOD.replace(b".cuda()", b'.to("jax")')
MOVES = ("--select", "TPU101,TPU102", "--unsafe-fixes")

#: Layouts that are hard to parse: before and after.
LAYOUTS = {
    "statements on one line": ("a = 1; x.cuda(); b = 2", 'a = 1; x.to("jax"); b = 2'),
    "one-line if": ("if x is not None: x.cuda()", 'if x is not None: x.to("jax")'),
    "one-line function": ("def f(a): return a.cuda()", 'def f(a): return a.to("jax")'),
    "decorated": (
        "@torch.no_grad()\n@torch.no_grad()\ndef f():\n    return x.cuda()",
        '@torch.no_grad()\n@torch.no_grad()\ndef f():\n    return x.to("jax")',
    ),
    "backslashes": ("y = \\\n    x.cuda() \\\n    .float()", 'y = \\\n    x.to("jax") \\\n    .float()'),
    "chain in parentheses": (
        "y = (\n    x\n    .reshape(-1)  # one\n    .cuda()  # two\n)",
        'y = (\n    x\n    .reshape(-1)  # one\n    .to("jax")  # two\n)',
    ),
    "comment in the call": (
        "y = x.cuda(  # why\n    non_blocking=True,  # keep\n)",
        'y = x.to(  # why\n    "jax",\n    non_blocking=True,  # keep\n)',
    ),
    "trailing comma": ('y = torch.zeros(2, device="cuda",)', 'y = torch.zeros(2, device="jax",)'),
    "an argument a line": (
        'y = torch.zeros(\n    2,\n    device="cuda",  # why\n)',
        'y = torch.zeros(\n    2,\n    device="jax",  # why\n)',
    ),
    "walrus": ("if (q := x.cuda()) is not None: pass", 'if (q := x.to("jax")) is not None: pass'),
    "comprehension": ("y = [a.cuda() for a in (x, x)]", 'y = [a.to("jax") for a in (x, x)]'),
    "lambda": ("f = lambda a: a.cuda()", 'f = lambda a: a.to("jax")'),
    "blanks everywhere": ("y = x . cuda ( )", 'y = x . to ( "jax")'),
    "method in parentheses": ("y = (x.cuda)()", 'y = (x.to)("jax")'),
    "called on a result": ("y = net.cuda()(x.cuda())", 'y = net.to("jax")(x.to("jax"))'),
    "twice": ("y = x.cuda().cuda()", 'y = x.to("jax").to("jax")'),
    "nested": ("y = x[x.cuda()].cuda()[0].cuda()", 'y = x[x.to("jax")].to("jax")[0].to("jax")'),
    "starred": ('print(*[x.cuda()], **{"a": x.cuda()})', 'print(*[x.to("jax")], **{"a": x.to("jax")})'),
    "match": ("match x.cuda():\n    case _: x.cuda()", 'match x.to("jax"):\n    case _: x.to("jax")'),
    "try": ("try: x.cuda()\nfinally: x.cuda()", 'try: x.to("jax")\nfinally: x.to("jax")'),
    "commas first": ("y = {'a': x.cuda()\n    , 'b': 1 }", "y = {'a': x.to('jax')\n    , 'b': 1 }"),
    "a text that looks like it": (
        "y = 'x.cuda()'; x.cuda()  # x.cuda()",
        "y = 'x.cuda()'; x.to('jax')  # x.cuda()",
    ),
    "in an f-string": (
        'y = f"{x.cuda()} x.cuda()"; x.cuda()',
        "y = f\"{x.to('jax')} x.cuda()\"; x.to('jax')",
    ),
    "in nested f-strings": (
        "y = f\"{x.cuda()} {f'{x.cuda().sum():>{10}}'}\"",
        "y = f\"{x.to('jax')} {f'{x.cuda().sum():>{10}}'}\"",
    ),
    "in an f-string of several lines": (
        'y = f"""\nx.cuda()\n{x.cuda()}\n"""\nx.cuda()',
        'y = f"""\nx.cuda()\n{x.to(\'jax\')}\n"""\nx.to("jax")',
    ),
    "arguments that nobody knows": ("x.cuda(*a)\nx.cuda(**b)", "x.cuda(*a)\nx.cuda(**b)"),
}
BEFORE = "import torch\n\nx = torch.zeros(2)\nnet = torch.nn.Linear(2, 2)\n"


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("end", ["\n", ""])
def test_fix_preserves_layout_and_is_idempotent(tpulint: Command, folder: Path, name: str, end: str) -> None:
    before, after = LAYOUTS[name]
    file = folder / "layout.py"
    file.write_text(BEFORE + before + end)
    outcome = tpulint("fix", *MOVES)
    assert "" == outcome.err
    # Quotes are a matter of taste, of which other tests speak.
    assert (BEFORE + after + end).replace('"', "'") == file.read_text().replace('"', "'")
    tpulint("fix", *MOVES)
    assert (BEFORE + after + end).replace('"', "'") == file.read_text().replace('"', "'")


def test_all_layouts_in_one_file_are_fixed_together(tpulint: Command, folder: Path) -> None:
    pairs = [pair for name, pair in LAYOUTS.items() if name != "arguments that nobody knows"]
    file = folder / "layout.py"
    file.write_text(BEFORE + "\n".join(before for before, _ in pairs))
    assert "" == tpulint("fix", *MOVES).err
    after = BEFORE + "\n".join(after for _, after in pairs)
    assert after.replace('"', "'") == file.read_text().replace('"', "'")


def test_a_finding_in_a_nested_f_string_is_located_at_the_outer_string(
    tpulint: Command, folder: Path
) -> None:
    (folder / "text.py").write_text(BEFORE + "y = f\"a {f'{x.cuda():>{10}}'}\"\n")
    outcome = tpulint("check", "--select", "TPU101", "--output-format", "json")
    ((name, code, row, column),) = outcome.places
    assert ("text.py", "TPU101", 5) == (name, code, row)
    assert column in (5, 13)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755, 0o777, 0o666])
def test_the_mode_of_a_file_survives(tpulint: Command, folder: Path, mode: int) -> None:
    (folder / "script.py").write_bytes(GOOD)
    (folder / "script.py").chmod(mode)
    tpulint("fix", *MOVES)
    assert (FIXED, mode) == (
        (folder / "script.py").read_bytes(),
        stat.S_IMODE((folder / "script.py").stat().st_mode),
    )


def test_fix_of_a_symlink_changes_its_target_and_keeps_the_link(tpulint: Command, folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    (folder / "project").mkdir()
    (folder / "elsewhere" / "real.txt").write_bytes(GOOD)
    (folder / "project" / "link.py").symlink_to("../elsewhere/real.txt")
    tpulint("fix", *MOVES, "project")
    assert "../elsewhere/real.txt" == os.readlink(folder / "project" / "link.py")
    assert FIXED == (folder / "elsewhere" / "real.txt").read_bytes()
    assert ["link.py", "real.txt"] == sorted(p.name for p in folder.rglob("*") if not p.is_dir())


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everything")
def test_a_file_without_write_permission_is_an_error(tpulint: Command, folder: Path) -> None:
    (folder / "good.py").write_bytes(GOOD)
    (folder / "locked.py").write_bytes(GOOD)
    (folder / "locked.py").chmod(0o444)
    outcome = tpulint("fix", *MOVES)
    assert (2, "error: locked.py: cannot be written: Permission denied\n") == (outcome.code, outcome.err)
    assert (GOOD, FIXED) == ((folder / "locked.py").read_bytes(), (folder / "good.py").read_bytes())


def test_a_file_that_os_access_denies_to_write_is_an_error(
    tpulint: Command, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "good.py").write_bytes(GOOD)
    (folder / "locked.py").write_bytes(GOOD)
    monkeypatch.setattr(os, "access", lambda path, _: Path(path).name != "locked.py")
    outcome = tpulint("fix", *MOVES)
    assert (2, "error: locked.py: cannot be written: Permission denied\n") == (outcome.code, outcome.err)
    assert (GOOD, FIXED) == ((folder / "locked.py").read_bytes(), (folder / "good.py").read_bytes())


@pytest.mark.parametrize("call", ["fsync", "chmod", "replace"])
def test_a_failed_write_leaves_the_file_unchanged_and_no_temporary_file(
    tpulint: Command, folder: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    (folder / "good.py").write_bytes(GOOD)
    monkeypatch.setattr(os, call, full)
    outcome = tpulint("fix", *MOVES)
    assert (2, "error: good.py: cannot be written: No space left on device\n") == (outcome.code, outcome.err)
    assert [folder / "good.py"] == list(folder.iterdir())
    assert GOOD == (folder / "good.py").read_bytes()


def test_a_file_changed_since_it_was_read_is_not_overwritten(folder: Path) -> None:
    (folder / "good.py").write_bytes(GOOD + b"mine = 1\n")
    change = Change(str(folder / "good.py"), GOOD.decode(), FIXED.decode(), GOOD, FIXED)
    with pytest.raises(OSError, match="changed meanwhile"):
        change.write()
    assert GOOD + b"mine = 1\n" == (folder / "good.py").read_bytes()
    assert [folder / "good.py"] == list(folder.iterdir())


def test_a_diff_writes_nothing(tpulint: Command, folder: Path) -> None:
    (folder / "good.py").write_bytes(GOOD)
    before = (folder / "good.py").stat()
    assert 1 == tpulint("fix", *MOVES, "--diff").code
    assert before == (folder / "good.py").stat()
    assert [folder / "good.py"] == list(folder.iterdir())


# rules made up for the test


def rule(code: str, *replacements: tuple[str, str], imports: str | None = None) -> Rule:
    """A rule that wants each name replaced by an expression."""
    table = dict(replacements)
    made = Rule(code, f"rule {code}", module=__name__, fix=Applicability.SAFE)

    @made.on(ast.Module)
    def names(node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for name in ast.walk(node):
            if isinstance(name, ast.Name) and name.id in table:
                edits: list[plan.Change] = [ctx.rewrite.replace(name, table[name.id])]
                if imports is not None:
                    edits += ctx.rewrite.imports(imports) or ()
                yield ctx.finding(
                    name, f"`{name.id}` is out", ctx.rewrite.fix(f"use {table[name.id]}", *edits)
                )

    return made


Register = Callable[..., None]


def test_a_fix_that_breaks_the_file_is_an_internal_error_and_the_file_stays(
    tpulint: Command, folder: Path, only_rules: Register
) -> None:
    only_rules(rule("TPU901", ("a", "(")), rule("TPU902", ("b", "int")))
    (folder / "broken.py").write_text("a = 1\n")
    (folder / "good.py").write_text("b(1)\n")
    outcome = tpulint("fix")
    assert 2 == outcome.code
    assert outcome.err.startswith("error: broken.py: internal error: a fix of TPU901 breaks the file (")
    assert outcome.err.endswith("it stays as it was\n")
    assert ("a = 1\n", "int(1)\n") == ((folder / "broken.py").read_text(), (folder / "good.py").read_text())


@pytest.mark.parametrize(
    ("text", "content"),
    [("a\nfrom __future__ import annotations\n", "int"), ("a\n", "(yield)"), ("a\n", "(await int)")],
)
def test_a_fix_that_parses_and_does_not_compile_is_an_internal_error(
    tpulint: Command, folder: Path, only_rules: Register, text: str, content: str
) -> None:
    made = rule("TPU901", ("a", content))
    if "future" in text:
        text = text.partition("\n")[2] + "a\n"
        made = rule("TPU901", ("a", "int\nfrom __future__ import division"))
    only_rules(made)
    (folder / "broken.py").write_text(text)
    outcome = tpulint("fix")
    assert 2 == outcome.code
    assert outcome.err.startswith("error: broken.py: internal error: a fix of TPU901 breaks the file (")
    assert text == (folder / "broken.py").read_text()


def test_a_fix_that_names_something_undefined_is_an_internal_error(
    tpulint: Command, folder: Path, only_rules: Register
) -> None:
    only_rules(rule("TPU901", ("a", "nowhere")))
    (folder / "undefined.py").write_text("def f(a):\n    return a\n")
    outcome = tpulint("fix")
    told = "internal error: a fix of TPU901 uses `nowhere` undefined; the file stays as it was"
    assert (2, f"error: undefined.py: {told}\n") == (outcome.code, outcome.err)
    assert "def f(a):\n    return a\n" == (folder / "undefined.py").read_text()


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_fixes_that_undo_each_other_are_reported_and_the_file_is_kept(
    tpulint: Command, folder: Path, only_rules: Register, jobs: str
) -> None:
    only_rules(rule("TPU901", ("a", "b")), rule("TPU902", ("b", "a")), rule("TPU903", ("c", "int")))
    (folder / "endless.py").write_text("a = b = 1\n")
    (folder / "good.py").write_text("c(1)\n")
    outcome = tpulint("fix", "-j", jobs)
    told = "internal error: the fixes of TPU901, TPU902 do not settle; the file stays as it was"
    assert (2, f"error: endless.py: {told}\n") == (outcome.code, outcome.err)
    assert ("a = b = 1\n", "int(1)\n") == (
        (folder / "endless.py").read_text(),
        (folder / "good.py").read_text(),
    )


def test_a_fix_that_grows_without_end_is_reported(
    tpulint: Command, folder: Path, only_rules: Register
) -> None:
    only_rules(rule("TPU901", ("int", "(int)")))
    (folder / "growing.py").write_text("x = int\n")
    outcome = tpulint("fix")
    assert 2 == outcome.code
    assert "do not settle" in outcome.err
    assert "x = int\n" == (folder / "growing.py").read_text()


def test_colliding_fixes_settle_in_several_rounds(
    tpulint: Command, folder: Path, only_rules: Register
) -> None:
    only_rules(
        rule("TPU901", ("a", "(b, b)")), rule("TPU902", ("b", "(c, c)")), rule("TPU903", ("a", "never"))
    )
    (folder / "good.py").write_text("c = 1\nx = [a, a, b]\n")
    assert 0 == tpulint("fix").code
    assert "c = 1\nx = [((c, c), (c, c)), ((c, c), (c, c)), (c, c)]\n" == (folder / "good.py").read_text()


def test_an_import_that_several_fixes_share_is_added_once(
    tpulint: Command, folder: Path, only_rules: Register
) -> None:
    only_rules(
        rule("TPU901", ("a", "jax.x"), imports="import jax"),
        rule("TPU902", ("b", "jax.y"), imports="import jax"),
        rule("TPU903", ("c", "numpy.z"), imports="import numpy"),
    )
    (folder / "good.py").write_text("import torch\n\nx = [a, b, a, c, torch]\n")
    assert 0 == tpulint("fix").code
    assert "import jax\nimport numpy\nimport torch\n\nx = [jax.x, jax.y, jax.x, numpy.z, torch]\n" == (
        (folder / "good.py").read_text()
    )


def test_a_rule_that_raises_is_an_error_of_its_file_which_is_not_fixed(
    tpulint: Command, folder: Path, only_rules: Register
) -> None:
    failing = Rule("TPU901", "fails", module=__name__, fix=None)

    @failing.on(ast.Module)
    def fail_on_some(node: ast.Module, ctx: Context) -> Iterator[Finding]:
        if any(isinstance(statement, ast.Raise) for statement in node.body):
            raise ValueError("one\ntwo")
        yield from ()

    only_rules(failing, rule("TPU902", ("b", "int")))
    (folder / "bad.py").write_text("b\nraise\n")
    (folder / "good.py").write_text("b\n")
    outcome = tpulint("check", "--output-format", "concise")
    assert 2 == outcome.code
    assert ["bad.py:1:1: TPU902 test-fix: `b` is out", "good.py:1:1: TPU902 test-fix: `b` is out [fix]"] == (
        outcome.out.splitlines()
    )
    assert 1 == len(outcome.err.splitlines())
    assert outcome.err.startswith("error: bad.py: internal error: rule TPU901 failed: ValueError: one two")
    assert 2 == tpulint("fix").code
    assert ("b\nraise\n", "int\n") == ((folder / "bad.py").read_text(), (folder / "good.py").read_text())


def test_a_file_is_kept_if_a_rule_raises_on_the_fixed_text(
    tpulint: Command, folder: Path, only_rules: Register
) -> None:
    failing = Rule("TPU901", "fails", module=__name__, fix=None)

    @failing.on(ast.Module)
    def fail_on_fixed(node: ast.Module, ctx: Context) -> Iterator[Finding]:
        if "int" in ctx.source.text:
            raise ValueError("surprised")
        yield from ()

    only_rules(failing, rule("TPU902", ("b", "int")))
    (folder / "bad.py").write_text("b\n")
    outcome = tpulint("fix")
    assert 2 == outcome.code
    assert outcome.err.startswith("error: bad.py: internal error: rule TPU901 failed")
    assert "b\n" == (folder / "bad.py").read_text()


def test_remaining_findings_have_their_location_in_the_fixed_file(
    tpulint: Command, folder: Path, only_rules: Register
) -> None:
    stays = Rule("TPU901", "stays", module=__name__, fix=None)

    @stays.on(ast.Module)
    def stay(node: ast.Module, ctx: Context) -> Iterator[Finding]:
        for name in ast.walk(node):
            if isinstance(name, ast.Name) and name.id == "stays":
                yield ctx.finding(name, "`stays` is here")

    only_rules(stays, rule("TPU902", ("old", "int")))
    (folder / "good.py").write_text("import torch\nimport old\n\nold(stays)\n")
    outcome = tpulint("fix", "--output-format", "json")
    assert [("good.py", "TPU901", 3, 5)] == outcome.places
    assert outcome.places == tpulint("check", "--output-format", "json").places


# kills


def test_killing_fix_leaves_each_file_either_old_or_new(folder: Path) -> None:
    names = [f"m{number}.py" for number in range(120)]
    generator = random.Random(7)
    command = [
        sys.executable,
        "-m",
        "tpulint",
        "fix",
        "--isolated",
        "--no-cache",
        "-q",
        "--select",
        "TPU101",
        "--unsafe-fixes",
        ".",
    ]
    caught = 0
    for attempt in range(8):
        for name in names:
            (folder / name).write_bytes(GOOD)
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as process:
            if attempt:
                while process.poll() is None and (folder / names[0]).read_bytes() == GOOD:
                    time.sleep(0.001)
                time.sleep(generator.random() * 0.03)
            else:
                time.sleep(0.3)
            process.send_signal(signal.SIGKILL)
            process.wait(timeout=30)
        contents = {(folder / name).read_bytes() for name in names}
        assert contents <= {GOOD, FIXED}
        caught += len(contents) == 2
    rubbish = {path.name for path in folder.iterdir()} - set(names)
    assert all(name.startswith(".tpulint-") and not name.endswith(".py") for name in rubbish)
    assert 0 == subprocess.run(command, cwd=folder, check=False, timeout=60).returncode
    assert {FIXED} == {(folder / name).read_bytes() for name in names}
    assert caught > 0, "no kill fell between the first write and the last; the test shows nothing"
