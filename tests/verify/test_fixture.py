"""How fixture folders are read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpulint.fixture import Want, cases, strip_wants, wants

TEXT = '''\
x = f(1)  # want: TPU101 "a \\"b\\" \\\\d"
s = "# want: TPU999 \\"no\\""
y = g()  # type: ignore  # want: TPU102 "one", TPU103 "two"
z = h()\t # want: TPU104
"""
# want: TPU999 "in a string"
"""
'''


def test_want_comments_are_read_at_the_end_of_a_line() -> None:
    assert wants(TEXT) == (
        Want("before.py", 1, "TPU101", 'a "b" \\\\d'),
        Want("before.py", 3, "TPU102", "one"),
        Want("before.py", 3, "TPU103", "two"),
        Want("before.py", 4, "TPU104", ""),
    )


def test_stripping_want_comments_keeps_line_numbers_and_other_text() -> None:
    assert strip_wants(TEXT) == (
        'x = f(1)\ns = "# want: TPU999 \\"no\\""\ny = g()  # type: ignore\nz = h()\n'
        '"""\n# want: TPU999 "in a string"\n"""\n'
    )
    assert strip_wants('x = 1  # want: TPU101 "a"\r\n\x0cy = 2 # want: TPU101') == "x = 1\r\n\x0cy = 2"
    assert strip_wants("a = 1  # no want\n") == "a = 1  # no want\n"


def test_want_comments_before_a_syntax_error_are_read() -> None:
    assert [want.row for want in wants('x = 1  # want: TPU101 "a"\ny = (\n')] == [1]


@pytest.mark.parametrize("comment", ["# want:", "# want: nonsense", '# want: TPU101 "open'])
def test_a_malformed_want_comment_is_an_error(comment: str) -> None:
    with pytest.raises(ValueError, match=r"case\.py:1"):
        wants(f"x = 1  {comment}\n", "case.py")


def test_cases_are_folders_with_before_files(tmp_path: Path) -> None:
    for name, text in {
        "b_rule/one/before.py": "x = 1\r\n",
        "b_rule/one/after.py": "x = 2\n",
        "b_rule/one/picture.png": "",
        "a_rule/two/before/main.py": "import part\n",
        "a_rule/two/before/inner/part.py": "",
        "a_rule/two/before/table.csv": "",
        "a_rule/two/run.py": "",
        "a_rule/notes/readme.txt": "",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    two, one = cases(tmp_path)
    assert (two.rule, two.name, dict(two.before)) == (
        "a_rule",
        "two",
        {"main.py": "import part\n", "inner/part.py": ""},
    )
    assert (two.after, two.run) == (None, tmp_path / "a_rule/two/run.py")
    assert [path.name for path in two.data] == ["table.csv"]
    assert (one.rule, one.name, one.before, one.after, one.run) == (
        "b_rule",
        "one",
        {"before.py": "x = 1\r\n"},
        {"before.py": "x = 2\n"},
        None,
    )
    assert [path.name for path in one.data] == ["picture.png"]
