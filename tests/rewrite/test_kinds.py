"""What each type of rewrite does with the layout around its node."""

from __future__ import annotations

import pytest

from tests.rewriting import applied, planned
from tpulint.plan import Kind
from tpulint.source import Source

#: The text, the source of the node, the rewrite and its code, and the text afterwards.
CASES = {
    "parentheses stay": ("x = (a)\n", "a", Kind.REPLACE, ("b",), "x = (b)\n"),
    "bare": ("x = (a)\n", "a", Kind.REPLACE, ("b", "bare"), "x = b\n"),
    "tuple": ("x = (a, b)\n", "(a, b)", Kind.REPLACE, ("c",), "x = c\n"),
    "subscripts": ("x[a, b]\n", "a, b", Kind.REPLACE, ("c, d",), "x[c, d]\n"),
    "f-string": ("f'{a!r:>4}'\n", "a", Kind.REPLACE, ("b",), "f'{b!r:>4}'\n"),
    "statement comment": ("# up\na = 1  # behind\n", "a = 1", Kind.REPLACE, ("b",), "# up\nb  # behind\n"),
    "on a shared line": ("a = 1; b = 2\n", "b = 2", Kind.REPLACE, ("pass",), "a = 1; pass\n"),
    "wrap": ("x = a  # c\n", "a", Kind.WRAP, ("f(", ")"), "x = f(a)  # c\n"),
    "enclose": ("# up\na\n", "a", Kind.WRAP, ("with b:",), "# up\nwith b:\n    a\n"),
    "rename": ("a . b ()\n", "a . b", Kind.RENAME, ("c",), "a . c ()\n"),
    "name argument": ("f(a, b)\n", "b", Kind.NAME_ARGUMENT, ("c",), "f(a, c=b)\n"),
    "delete": ("# up\na\n\n# next\nb\n", "a", Kind.DELETE, (), "# up\n\n# next\nb\n"),
    "delete the last": ("if a:\n\tb\n", "b", Kind.DELETE, (), "if a:\n\tpass\n"),
    "insert before": ("# up\na\n", "a", Kind.INSERT_BEFORE, ("b",), "# up\nb\na\n"),
    "insert above": ("x\n# up\na\n", "a", Kind.INSERT_ABOVE, ("b",), "x\nb\n# up\na\n"),
    "below the header of the file": ("# top\na\n", "a", Kind.INSERT_ABOVE, ("b",), "# top\nb\na\n"),
    "above a shared line": ("x\n# up\na; b\n", "b", Kind.INSERT_ABOVE, ("c",), "x\nc\n# up\na; b\n"),
    "starred subscript": ("x[*a, b]\n", "a", Kind.REPLACE, ("c",), "x[*c, b]\n"),
    "insert after": ("a  # c\n", "a", Kind.INSERT_AFTER, ("b",), "a  # c\nb\n"),
    "no line end": ("a", "a", Kind.INSERT_AFTER, ("b",), "a\nb"),
    "line ends": ("a\r\n", "a", Kind.INSERT_AFTER, ("b",), "a\r\nb\r\n"),
    "carriage returns": ("a\r", "a", Kind.INSERT_AFTER, ("b",), "a\rb\r"),
    "form feed": ("a\n\x0c\nb\n", "b", Kind.REPLACE, ("c",), "a\n\x0c\nc\n"),
    "backslash": ("x = a + \\\n    b\n", "b", Kind.REPLACE, ("c",), "x = a + \\\n    c\n"),
    "tabs": ("if a:\n\tb\n", "b", Kind.INSERT_BEFORE, ("c",), "if a:\n\tc\n\tb\n"),
    "beside": ("a; b\n", "b", Kind.INSERT_BEFORE, ("c",), "a; c; b\n"),
    "compound beside": ("a; b  # c\n", "b", Kind.INSERT_BEFORE, ("if c: d",), "a\nif c: d\nb  # c\n"),
    "behind a header": ("if a: b\n", "b", Kind.INSERT_AFTER, ("c",), "if a: b; c\n"),
    "run": ("# up\na\nb  # b\nc\n", "a", Kind.REPLACE_RUN, ("d", "2"), "# up\nd\nc\n"),
    "split": ("a; b  # c\n", "a", Kind.SPLIT, (), "a\nb  # c\n"),
    "move out": (
        "with a:\n    b\n    # c\n    c\n",
        "with a:\n    b\n    # c\n    c",
        Kind.MOVE_OUT,
        ("1",),
        "with a:\n    b\n# c\nc\n",
    ),
    "decorator": (
        "@a\n# up\ndef f(): pass\n",
        "def f(): pass",
        Kind.ADD_DECORATOR,
        ("b",),
        "@a\n# up\n@b\ndef f(): pass\n",
    ),
    "outermost decorator": (
        "@a\ndef f(): pass\n",
        "def f(): pass",
        Kind.ADD_DECORATOR,
        ("b", "outermost"),
        "@b\n@a\ndef f(): pass\n",
    ),
    "remove decorator": (
        "# up\n@a\n@b\ndef f(): pass\n",
        "a",
        Kind.REMOVE_DECORATOR,
        (),
        "# up\n@b\ndef f(): pass\n",
    ),
    "one of two contexts": ("with a, b: c\n", "b", Kind.UNWRAP, (), "with a: c\n"),
    "the only context": ("with a:\n    b  # b\n    # c\n", "a", Kind.UNWRAP, (), "b  # b\n# c\n"),
    "else": ("if a:\n    b\n", "if a:\n    b", Kind.ADD_ELSE, ("c",), "if a:\n    b\nelse:\n    c\n"),
    "else of elif": (
        "if a: b\nelif c: d\n",
        "if a: b\nelif c: d",
        Kind.ADD_ELSE,
        ("e",),
        "if a: b\nelse:\n    e\n",
    ),
    "choose": ("f(a)\n", "a", Kind.KEEP_IF, ("b",), "f(a if b else a)\n"),
}


@pytest.mark.parametrize(("before", "node", "kind", "code", "after"), CASES.values(), ids=CASES)
def test_a_rewrite_keeps_the_layout(
    before: str, node: str, kind: Kind, code: tuple[str, ...], after: str
) -> None:
    source = Source("file.py", before)
    assert after == applied(source, planned(source, node, kind, *code))
