"""Fixes leave files with tests alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpulint.engine.files_with_tests import is_test, left_alone
from tpulint.engine.fix import fix
from tpulint.settings import Settings

TEST = "import torch\n\n\ndef test_sum():\n    assert torch.ones(2).cuda().sum() == 2\n"
PROGRAM = "import torch\n\nprint(torch.ones(2).cuda())\n"


@pytest.mark.parametrize(
    ("relative", "text", "expected"),
    [
        ("tests/test_a.py", TEST, True),
        ("test_a.py", TEST, True),
        ("pkg/a_test.py", TEST, True),
        ("pkg/test/helper.py", "import pytest\n", True),
        ("tests/conftest.py", PROGRAM, True),
        ("tests/data.py", PROGRAM, False),
        ("test_model.py", PROGRAM, False),
        ("test_net.py", TEST + 'if __name__ == "__main__":\n    test_sum()\n', False),
        ("tests/test_a.py", TEST + 'if __name__ == "__main__":\n    unittest.main()\n', True),
        ("a.py", TEST, False),
        ("testing/a.py", TEST, False),
    ],
)
def test_a_file_holds_tests_by_its_name_and_content(relative: str, text: str, expected: bool) -> None:
    assert expected == is_test(relative, text.encode())


def test_a_helper_beside_tests_in_their_folder_is_left_alone_with_them() -> None:
    contents = {
        "tests/test_a.py": TEST,
        "tests/helper.py": PROGRAM,
        "tests/data/made.py": PROGRAM,
        "tests/run.py": PROGRAM + 'if __name__ == "__main__":\n    run()\n',
        "test_b.py": TEST,
        "b.py": PROGRAM,
    }
    found = left_alone({name: text.encode() for name, text in contents.items()})
    assert {"tests/test_a.py", "tests/helper.py", "test_b.py"} == found


def _project(folder: Path) -> list[Path]:
    paths = [folder / "main.py", folder / "tests" / "test_main.py"]
    paths[1].parent.mkdir()
    for path, text in zip(paths, (PROGRAM, TEST), strict=True):
        path.write_text(text)
    return paths


def test_a_file_with_tests_is_left_alone_and_named(tmp_path: Path) -> None:
    main, test = _project(tmp_path)
    result = fix([main, test], Settings(root=tmp_path), cache=False, unsafe=True)
    assert [str(main)] == [one.path for one in result.changes]
    assert (str(test),) == result.tests
    assert str(test) in {finding.path for finding in result.remaining}


def test_a_file_with_tests_is_fixed_on_request(tmp_path: Path) -> None:
    main, test = _project(tmp_path)
    for settings, named in (
        (Settings(root=tmp_path, include_tests=True), ()),
        (Settings(root=tmp_path), (str(test),)),
    ):
        result = fix([main, test], settings, cache=False, unsafe=True, named=named)
        assert {str(main), str(test)} == {one.path for one in result.changes}
        assert () == result.tests
