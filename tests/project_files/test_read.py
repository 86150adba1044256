"""The parts that readers find in files around the code."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tpulint.project_files.kinds import FileKind, kind_of
from tpulint.project_files.parts import (
    Address,
    Command,
    Directive,
    Image,
    Part,
    Requirement,
    Setting,
    Variable,
)
from tpulint.project_files.read import parts_of

NAMES = {
    "requirements.txt": FileKind.REQUIREMENTS,
    "dev-requirements.txt": FileKind.REQUIREMENTS,
    "requirements/gpu.txt": FileKind.REQUIREMENTS,
    "pyproject.toml": FileKind.PYPROJECT,
    "setup.cfg": FileKind.SETUP_CFG,
    "setup.py": FileKind.SETUP_PY,
    "a.ipynb": FileKind.NOTEBOOK,
    "environment.yml": FileKind.CONDA,
    "docker/Dockerfile": FileKind.DOCKERFILE,
    "Dockerfile.gpu": FileKind.DOCKERFILE,
    "train.slurm": FileKind.SHELL,
    ".env": FileKind.VARIABLES,
    ".env.local": FileKind.VARIABLES,
    "configs/a.yaml": FileKind.YAML,
    "config.toml": FileKind.TOML,
    "notes.txt": None,
    "train.py": None,
    "Makefile": None,
    "profile": None,
}


@pytest.mark.parametrize(("name", "kind"), NAMES.items())
def test_the_name_of_a_file_decides_its_kind(name: str, kind: FileKind | None) -> None:
    assert kind == kind_of(f"/project/{name}")


def found(kind: FileKind, text: str, wanted: type[Part]) -> list[Any]:
    return [part for part in parts_of(kind, text) if isinstance(part, wanted)]


def texts(kind: FileKind, text: str, wanted: type[Part]) -> list[str]:
    return [text[part.span.start : part.span.end] for part in found(kind, text, wanted)]


def removals(kind: FileKind, text: str, wanted: type[Part]) -> list[str | None]:
    spans = [part.removal for part in found(kind, text, wanted)]
    return [None if span is None else text[span.start : span.end] for span in spans]


def test_a_requirement_has_name_extras_and_version() -> None:
    (one,) = found(FileKind.REQUIREMENTS, "JAX[cuda12] == 0.4.30 ; python_version > '3.8'\n", Requirement)
    assert ("jax", frozenset({"cuda12"}), "==0.4.30") == (one.name, one.extras, one.version)


def test_lines_of_requirements_that_are_none_are_left_out() -> None:
    text = "# torch\n-r torch.txt\n-e git+https://example.com/torch\n./torch\ntorch @ https://example.com/t.whl\n??\n"
    assert ["torch @ https://example.com/t.whl"] == texts(FileKind.REQUIREMENTS, text, Requirement)


def test_a_requirement_with_hashes_over_several_lines_is_not_removed() -> None:
    text = "nvidia-nccl-cu12==2 \\\n    --hash=sha256:abc\ntorch\n"
    assert [None, "torch\n"] == removals(FileKind.REQUIREMENTS, text, Requirement)


SCRIPT = """#!/bin/bash
#SBATCH --gres=gpu:8
set -e
export CUDA_VISIBLE_DEVICES=0,1 # two
A=1 CUDA_VISIBLE_DEVICES="0" torchrun --nproc_per_node 8 \\
    train.py "a b" | tee log
if nvidia-smi; then echo 'cuda'; fi
cat <<EOF > .env
CUDA_VISIBLE_DEVICES=0
EOF
for d in 0 1; do (CUDA_VISIBLE_DEVICES=$d python train.py &); done
"""


def test_commands_of_a_script_are_taken_apart() -> None:
    commands = [[word.text for word in one.words] for one in found(FileKind.SHELL, SCRIPT, Command)]
    assert ["torchrun", "--nproc_per_node", "8", "train.py", "a b"] in commands
    assert ["nvidia-smi"] in commands
    assert ["echo", "cuda"] in commands
    assert ["python", "train.py"] in commands
    assert [] == [words for words in commands if "EOF" in words]


def test_variables_of_a_script_have_values_and_can_be_removed() -> None:
    values = [(one.name, one.value) for one in found(FileKind.SHELL, SCRIPT, Variable)]
    cuda = [value for name, value in values if name == "CUDA_VISIBLE_DEVICES"]
    assert ["0,1", "0", "$d"] == cuda
    assert [
        "export CUDA_VISIBLE_DEVICES=0,1 # two\n",
        "A=1 ",
        'CUDA_VISIBLE_DEVICES="0" ',
        "CUDA_VISIBLE_DEVICES=$d ",
    ] == removals(FileKind.SHELL, SCRIPT, Variable)


def test_the_only_command_of_a_block_is_not_removed() -> None:
    text = "if x; then\n  export CUDA_HOME=/a\nfi\nf() {\n  CUDA_PATH=1\n  # end\n}\n"
    text += "if x; then\n  A=1\n  B=2\nfi\n"
    assert [None, None, "  A=1\n", "  B=2\n"] == removals(FileKind.SHELL, text, Variable)


def test_lines_for_a_batch_system_are_found() -> None:
    assert ["--gres=gpu:8"] == [one.option for one in found(FileKind.SHELL, SCRIPT, Directive)]


def test_an_option_of_a_command_has_a_value_in_both_forms() -> None:
    for text in ("torchrun --n=8 a", "torchrun --n 8 a"):
        (command,) = found(FileKind.SHELL, text, Command)
        _, value, span = command.option("--n")
        assert ("8", "8") == (value, text[span.start : span.end])


DOCKERFILE = """# cuda
FROM --platform=linux/amd64 nvidia/cuda:12.1.0-base AS base
ENV NVIDIA_VISIBLE_DEVICES=all \\
    LOG="a b"
ENV CUDA_HOME /usr/local/cuda
RUN apt-get update && \\
    # a comment within
    pip install "torch==2.4.0+cu121" \\
      --index-url https://download.pytorch.org/whl/cu121 && \\
    nvidia-smi
CMD ["torchrun", "train.py"]
"""


def test_a_dockerfile_has_images_variables_and_commands() -> None:
    assert ["nvidia/cuda:12.1.0-base"] == texts(FileKind.DOCKERFILE, DOCKERFILE, Image)
    assert ["torch==2.4.0+cu121"] == [
        text.strip('"') for text in texts(FileKind.DOCKERFILE, DOCKERFILE, Requirement)
    ]
    assert ["https://download.pytorch.org/whl/cu121"] == texts(FileKind.DOCKERFILE, DOCKERFILE, Address)
    assert {"NVIDIA_VISIBLE_DEVICES": "all", "LOG": "a b", "CUDA_HOME": "/usr/local/cuda"} == {
        one.name: one.value for one in found(FileKind.DOCKERFILE, DOCKERFILE, Variable)
    }


def test_what_continues_other_lines_of_a_dockerfile_is_not_removed() -> None:
    assert {None} == set(removals(FileKind.DOCKERFILE, DOCKERFILE, Command))
    assert [None, None, "ENV CUDA_HOME /usr/local/cuda\n"] == removals(
        FileKind.DOCKERFILE, DOCKERFILE, Variable
    )


def test_settings_of_yaml_have_keys_and_quotes_are_no_part_of_them() -> None:
    text = "a:\n  device: 'cuda:0'\n  list: [cuda, cpu]\n"
    assert [(("a", "device"), "cuda:0"), (("a", "list"), "cuda"), (("a", "list"), "cpu")] == [
        (one.keys, one.value) for one in found(FileKind.YAML, text, Setting)
    ]
    assert ["cuda:0", "cuda", "cpu"] == texts(FileKind.YAML, text, Setting)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (FileKind.YAML, "device: {{ cuda }}\n  - [\n"),
        (FileKind.YAML, "&a [*a, cuda]\n"),
        (FileKind.CONDA, "cuda: [\n"),
        (FileKind.PYPROJECT, "[project\ncuda\n"),
        (FileKind.TOML, "cuda = \n"),
        (FileKind.SETUP_CFG, "cuda\n"),
        (FileKind.SHELL, "cuda 'open\n"),
    ],
)
def test_a_file_that_its_reader_does_not_understand_has_no_settings(kind: FileKind, text: str) -> None:
    assert [] == [part for part in parts_of(kind, text) if isinstance(part, Setting) and part.value != "cuda"]


def test_requirements_of_a_project_are_those_of_its_lists() -> None:
    text = (
        '[project]\nname = "torch"\ndependencies = [\n'
        '    "torch==2.4.0+cu121",  # a comment\n    "numpy", "cupy-cuda12x"\n]\n'
        '[tool.other]\nnames = ["nvidia-nccl-cu12"]\n[build-system]\nrequires = ["torch"]\n'
    )
    assert ["torch==2.4.0+cu121", "numpy", "cupy-cuda12x", "torch"] == [
        one.text for one in found(FileKind.PYPROJECT, text, Requirement) if one.removal is None or one.version
    ]


def test_requirements_of_setup_py_are_those_passed_to_setup() -> None:
    text = (
        'from setuptools import setup\nGPU = ["cupy-cuda12x"]\nGPU2 = GPU2 + ["no"]\n'
        "setup(\n    install_requires=['torch', \"é\", 'jax[cuda12]>=0.4'],\n"
        '    extras_require={"gpu": GPU, "all": ["a"] + GPU},\n    keywords=["cuda"], tests_require=read(),\n'
        "    setup_requires=GPU2,\n)\n"
    )
    assert ["torch", "jax[cuda12]>=0.4", "cupy-cuda12x", "a", "no"] == texts(
        FileKind.SETUP_PY, text, Requirement
    )


def test_commands_of_a_notebook_are_those_for_a_shell() -> None:
    source = (
        '!pip install \\"jax[cuda12]\\" \\u00e9 torch\\nx = 1\\n  %conda install cudatoolkit\\n!nvidia-smi -L'
    )
    text = (
        f'{{"cells": [{{"source": "{source}", "cell_type": "code"}}, {{"cell_type": "code", "source": []}}]}}'
    )
    assert ["jax[cuda12]", "torch", "cudatoolkit"] == [
        one.strip('\\"') for one in texts(FileKind.NOTEBOOK, text, Requirement)
    ]
    assert ["nvidia-smi -L"] == texts(FileKind.NOTEBOOK, text, Command)[-1:]
    bash = '{"cells": [{"cell_type": "code", "source": ["%%bash\\n", "A=cuda\\n", "pip install torch"]}]}'
    assert ["torch"] == texts(FileKind.NOTEBOOK, bash, Requirement)
    assert [("A", "cuda")] == [(one.name, one.value) for one in found(FileKind.NOTEBOOK, bash, Variable)]


@pytest.mark.parametrize(
    "text",
    [
        "cuda",
        "[1, 2, 3] cuda",
        '{"cells": 3, "a": "cuda"}',
        '{"cells": [{"cell_type": "code", "source": "!pip install cuda \\ud800"}]}',
        '{"cells": [{"cell_type": "markdown", "source": "!pip install cuda"}]}',
        '{"cells": [{"cell_type": "code", "outputs": [{"text": ["!pip install cuda"]}], "source": ""}]}',
        '{"cells": [{"cell_type": "code", "source": "y = !cuda"}]}',
    ],
)
def test_a_notebook_without_commands_has_none(text: str) -> None:
    assert [] == found(FileKind.NOTEBOOK, text, Command)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from(list(FileKind)))
def test_every_reader_takes_any_text_and_its_spans_lie_in_it(seed: int, kind: FileKind) -> None:
    draw = random.Random(seed)
    pieces = [
        *"\n\n  -=:'\"[]{}()#\\&|;<>$`",
        "cuda",
        "torch",
        "ENV A=b",
        "FROM x",
        "RUN pip install torch",
        "export ",
        '{"cells": [{"cell_type": "code", "source": "!pip install torch"}]}',
        "setup(install_requires=['torch', x])",
    ]
    text = "".join(draw.choice(pieces) for _ in range(draw.randrange(60)))
    for part in parts_of(kind, f"{text}\ncuda\n"):
        for span in (part.span, part.removal):
            assert span is None or 0 <= span.start <= span.end <= len(text) + 6
