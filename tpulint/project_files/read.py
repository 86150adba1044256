"""The parts of a file by its kind."""

from __future__ import annotations

import configparser
import re
from collections.abc import Callable, Iterator, Sequence

from tpulint.finding import Span
from tpulint.project_files import dockerfile, notebook, packages, setup_py, shell, structured
from tpulint.project_files.kinds import FileKind
from tpulint.project_files.lines import whole_lines
from tpulint.project_files.parts import Part, Variable

#: Words without which a file has nothing to report, so that it is not taken apart.
_TELLING = re.compile(
    r"cuda|nvidia|nccl|\bgpus?\b|gpu[-_:]|[-_:]gpu|cu\d\d|cudnn|torch|jax|xla|tensorflow|tpu|deepspeed|accelerate|"
    r"flash|xformers|apex|triton|bitsandbytes|cupy|faiss|onnxruntime|nvcc|horovod|rapids|cudf|libtpu",
    re.IGNORECASE,
)


def parts_of(kind: FileKind, text: str) -> Sequence[Part]:
    """The parts of a file; none of one that its reader does not understand."""
    if not _TELLING.search(text):
        return []
    return list(_READERS[kind](text))


def _variables(text: str) -> Iterator[Part]:
    for match in re.finditer(r"^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)=([^\n\r]*)", text, re.MULTILINE):
        value = _without_comment(match[2])
        start = match.start(2)
        quoted = value[:1] in ("'", '"') and value[-1:] == value[:1] and len(value) > 1
        span = Span(start + quoted, start + len(value) - quoted)
        line = whole_lines(text, match.start(), match.end())
        yield Variable(Span(match.start(1), start + len(value)), line, match[1], value.strip("'\""), span)


def _without_comment(line: str) -> str:
    return re.split(r"\s#", line, maxsplit=1)[0].rstrip()


def _setup_cfg(text: str) -> Iterator[Part]:
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error:
        return
    options = [parser.get("options", "install_requires", fallback="")]
    if parser.has_section("options.extras_require"):
        options += [value for _, value in parser.items("options.extras_require")]
    lines = [line for option in options for line in option.splitlines()]
    wanted = {_without_comment(line).strip() for line in lines} - {""}
    start = 0
    for line in text.splitlines(keepends=True):
        content = _without_comment(line)
        if content.strip() in wanted and line[:1] in " \t":
            found = packages.requirement(content, start, Span(start, start + len(line)))
            yield from [found] if found else []
        start += len(line)


_READERS: dict[FileKind, Callable[[str], Iterator[Part]]] = {
    FileKind.REQUIREMENTS: packages.of_lines,
    FileKind.PYPROJECT: structured.of_pyproject,
    FileKind.SETUP_CFG: _setup_cfg,
    FileKind.SETUP_PY: setup_py.parts,
    FileKind.NOTEBOOK: notebook.parts,
    FileKind.CONDA: structured.of_conda,
    FileKind.DOCKERFILE: dockerfile.parts,
    FileKind.SHELL: shell.parts,
    FileKind.VARIABLES: _variables,
    FileKind.YAML: structured.of_yaml,
    FileKind.TOML: structured.of_toml,
}
