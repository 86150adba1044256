"""docs/programs.md: the whole programs on which `tpulint fix` was tried, from docs/data/programs.toml."""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

DATA, PAGE = Path("docs", "data", "programs.toml"), Path("docs", "programs.md")
RESULTS = ("same", "close", "differs", "fails")

#: An entry of the data: what its keys mean is said at the top of that file.
Entry = Mapping[str, Any]


def read(root: Path) -> dict[str, list[Entry]]:
    """The tables of the data of a checkout, by name.

    Raises:
        OSError: the file cannot be read.
        tomllib.TOMLDecodeError: it is not TOML.
    """
    return tomllib.loads((root / DATA).read_text(encoding="utf-8"))


def render(root: Path) -> str:
    """The page of a checkout; raises as `read` does."""
    data = read(root)
    own = [(f"`{entry['name']}`", entry["about"]) for entry in data["own"]]
    parts = [
        _HEAD,
        _table(
            ("result", "meaning", "number of programs", "number of rows in the table of public programs"),
            _counts(data["program"]),
            right=(2, 3),
        ),
        _OWN.format(programs=len(own)),
        _table(("program", "what it contains"), own),
        _ON_A_GPU,
        _PUBLIC.format(
            programs=sum(map(_programs, data["program"])),
            repositories=len({entry["repository"] for entry in data["program"]}),
        ),
        _table(
            ("repository", "program", "lines compared", "result", "difference from the original", "notes"),
            (_public(entry) for entry in sorted(data["program"], key=_repository)),
            right=(2,),
        ),
        _READ.format(repositories=", ".join(entry["repository"] for entry in data["read"])),
        _LIBRARIES,
        _table(
            ("program", "what it contains", "result", "difference from the original"),
            [(e["program"], e["about"], e["result"], e.get("deviation", "")) for e in data["library"]],
        ),
        _ROUNDS,
        _table(
            (
                "number of programs",
                "right at first",
                "right now",
                "wrong at first, without an error",
                "what the programs are about",
                "notes",
            ),
            (_round(entry) for entry in data["round"]),
            right=(0, 1, 2, 3),
        ),
    ]
    return "\n".join(parts)


def _programs(entry: Entry) -> int:
    return int(entry.get("programs", 1))


def _repository(entry: Entry) -> str:
    return str(entry["repository"]).lower()


def _counts(entries: Sequence[Entry]) -> Iterable[tuple[str, ...]]:
    listed = Counter(entry["result"] for entry in entries)
    programs = Counter[str]()
    for entry in entries:
        programs[entry["result"]] += _programs(entry)
    for result in RESULTS:
        yield f"`{result}`", _MEANINGS[result], str(programs[result]), str(listed[result])


def _public(entry: Entry) -> tuple[str, ...]:
    repository, lines = entry["repository"], entry.get("lines", "")
    link = f"[{repository}](https://github.com/{repository}/tree/{entry['commit']})"
    notes = [": ".join(entry[key] for key in ("execution", "note") if key in entry)]
    if "changes" in entry:
        notes.append(f"changes to the original: {entry['changes']}")
    deviation = entry.get("deviation", "")
    if "shift" in entry:
        deviation += f" (shift: {entry['shift']})"
    compared = " or ".join(map(str, lines)) if isinstance(lines, list) else str(lines)
    return link, entry["program"], compared, entry["result"], deviation, "; ".join(filter(None, notes))


def _round(entry: Entry) -> tuple[str, ...]:
    counts = ("programs", "right_at_first", "right_now", "wrong_without_error")
    return *(str(entry.get(key, "")) for key in counts), entry["subjects"], entry.get("note", "")


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[int] = ()) -> str:
    rule = ("---:" if column in right else "---" for column in range(len(heads)))
    lines = (heads, tuple(rule), *rows)
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


_MEANINGS = {
    "same": "The original and the fixed program print the same lines, except for names of devices and for"
    " times.",
    "close": "Printed values differ only by rounding: by at most 1e-4, or by no more than the *shift*, which"
    " is explained below. In a few programs, values differ by more, and the notes say why this difference is"
    " rounding, too.",
    "differs": "Printed values differ by more than rounding. The notes give the cause if it is known.",
    "fails": "The fixed program raises an error, does not end, or computes everything on the CPU without"
    " torchax.",
}

_HEAD = """\
<!-- Written by `python -m tpulint.dev render-docs` from docs/data/programs.toml. -->

# Whole programs

This page lists the programs on which `tpulint fix --unsafe-fixes` was tried.
Each program was run twice, before and after `fix`, and the two outputs were compared:

- The *original* is the program before `fix`.
  It runs in PyTorch on the CPU, with an emulation that makes `cuda` mean the CPU.
- The *fixed program* is a copy of the original after `fix`.
  It runs on torchax with JAX's CPU backend.
  The fixed program was not edited after `fix`.

No TPU was used.

[how-it-works.md](how-it-works.md) explains how `fix` changes a program.
[compatibility.md](compatibility.md) lists features that do not work yet.
[program-speed.md](program-speed.md) shows how long the programs take.

The programs of public repositories had these results:
"""

_OWN = """\
## Programs of this repository

The folder [fixtures/programs](../fixtures/programs) has {programs} programs in the style of usual GPU
programs.
`tpulint verify-rules` does the following with each program:

1. It runs the original in plain PyTorch on the CPU.
2. It fixes a copy of the program, and runs the copy on torchax.
3. It compares the loss of every step, the parameters and buffers at the end, and the printed lines.

If all tensors of the fixed program stay in CPU memory, the program counts as failed.
All {programs} programs are verified.
"""

_ON_A_GPU = """\
### On a GPU

`python -m tpulint.dev on-gpu` runs each program of this repository three times on a GPU:

- The original runs on CUDA.
- The program that was fixed with `--keep-gpu` runs on CUDA.
- The program that was fixed without `--keep-gpu` runs on torchax, and JAX computes on the GPU.

In all three runs, matrix products use full precision.
The following table compares the printed lines of these runs on an H100, with torch 2.11 and JAX 0.11.2.
*Emulated CUDA* is the run of the original in PyTorch on the CPU.

| program | original on CUDA, compared with emulated CUDA | fixed with `--keep-gpu` on CUDA, compared with \
the original on CUDA | fixed on torchax, compared with emulated CUDA |
| --- | --- | --- | --- |
| `actor_critic` | equal | equal | equal |
| `classifier` | equal | equal | equal |
| `contrastive` | equal | equal | equal |
| `diffusion` | one value in 4 lines differs in its fourth digit | equal | equal |
| `distributed` | equal | equal | equal |
| `ema` | equal | equal | equal |
| `gan` | loss 8 of 36 differs by 2e-5 | equal | equal |

The other fifteen programs ran on the GPU without an error, but their output was not compared.
At that time, `fix --keep-gpu` could not fix the program `generate`, because each round of fixes led to new
findings.
Now, a test over all fixture cases checks that `fix` ends.

All 22 programs were also fixed with `--keep-gpu` and run with emulated CUDA.
They print the same lines as the originals, compute the same losses, and end with the same parameters.

118 fixture cases that train (examples of the rules; see [evidence.md](evidence.md)) were run on the GPU, too.
114 of these cases gave the same result as on the CPU.
Three of the other four cases draw random numbers, and a GPU draws different random numbers than a CPU.
The fourth case depends on the order of equal elements.

### Versions

All results on this page, except those on a GPU, are for torch 2.13, torchax 0.0.14 and JAX 0.10.2.
`pip install 'tpulint[verify]'` installs these versions.

With other versions, the runtime torchax-compat raises `UnsupportedVersion`, unless the table in
[its README](../runtime/README.md#versions) says that they work.
Before the runtime checked versions, JAX 0.11.2 and 0.12.0.1 were tried with torch 2.11 and Python 3.12, on
JAX's CPU backend.
Patches that did not fit were left out then, and these programs were verified nevertheless:

- the programs of this repository, except `image_processing`, which was not run;
- all fixture cases that train, except one that compares random numbers which depend on the memory layout, and
  which torch 2.11 draws in a different order.

Three modules of the runtime (torchax-compat) depend on internals of JAX: `autograd/vjp_functions.py`,
`jit/xla_flags.py` and `ops/convolutions_on_cpu.py`.
"""

_PUBLIC = """\
## Programs of public repositories

The table has {programs} programs of {repositories} repositories, each at the commit that its link leads to.

Before `fix`, the originals were changed so that the outputs of both runs can be compared:

- Programs that set no seed were changed to set one.
- Runs are shorter.
  Options of the program set the length if the program has such options.
- Dropout is set to 0.
- Noise that the program draws on the device is drawn on the CPU instead.
- In most programs, tokens that the program samples on the device are drawn on the CPU, too.
- Times are removed from the output.
- Data sets are replaced by synthetic data sets of the same form.

The columns of the table are:

- *Lines compared* is the number of printed lines that were compared, for each program of a row.
- *Result* is one of the four results at the top of this page.
- *Difference from the original* says how the output of the fixed program differs from the output of the
  original.
  If the result is `same`, this column has the difference of the losses in full precision, if this difference
  was measured.
- *Shift*, in parentheses, says how much the output of the original changes when its first weights are changed
  by 1e-6.
  If the shift is as large as the difference, rounding that grows from step to step explains the difference.
- *Notes* begin with *call by call* if JAX does not compile the loss computation as a whole.
  Python then runs the statements of the loss computation at each call, and JAX separately compiles each
  module and each function that the statements call.
  The reason follows after the colon, if the reason is known.
  *Partly call by call* means that only the part of the program after the colon runs in this way.
  *Changes to the original* are changes in addition to the changes listed above.
"""

_READ = """\
Six more repositories were fixed, and people read the changes without running the programs: {repositories}.
"""

_LIBRARIES = """\
## Programs that use libraries

The ten programs in this table use transformers 5.23, accelerate 1.15, timm 1.0, peft 0.21, torchmetrics 1.9
and einops 0.8.
Their models are small, and use dropout.
`fix` changes only the program.
The installed libraries stay unchanged.
"""

_ROUNDS = """\
## Right at first

Programs were tried in rounds.
After each round, tpulint was improved with the help of the programs that did not work.
The table says how many programs of each round were right (`same` or `close`) when they were first tried, and
how many programs of the round are right now.

- *Wrong at first, without an error* counts the programs whose results differed at first, although no error
  was raised.
- An empty cell in a column of numbers means that the number was not recorded.
- The programs in the first rows are the programs of public repositories and the programs that use libraries,
  which the tables above list.
  The programs in the other rows were written for this test, most of them by authors who had not seen the
  rules.
"""
