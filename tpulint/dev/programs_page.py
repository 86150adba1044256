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
        _table(("result", "meaning", "programs", "entries"), _counts(data["program"]), right=(2, 3)),
        _OWN.format(programs=len(own)),
        _table(("program", "features"), own),
        _ON_A_GPU,
        _PUBLIC.format(
            programs=sum(map(_programs, data["program"])),
            repositories=len({entry["repository"] for entry in data["program"]}),
        ),
        _table(
            ("repository", "program", "lines", "result", "deviation", "notes"),
            (_public(entry) for entry in sorted(data["program"], key=_repository)),
            right=(2,),
        ),
        _READ.format(repositories=", ".join(entry["repository"] for entry in data["read"])),
        _LIBRARIES,
        _table(
            ("program", "features", "result", "deviation"),
            [(e["program"], e["about"], e["result"], e.get("deviation", "")) for e in data["library"]],
        ),
        _ROUNDS,
        _table(
            ("programs", "right at first", "right now", "wrong without an error", "subjects", "notes"),
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
        notes.append(f"changed: {entry['changes']}")
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
    "same": "every printed line is equal, except for names of devices and for times",
    "close": "values differ by rounding: by at most 1e-4, or by no more than the original itself changes when"
    " its first weights are shifted by 1e-6, or for a reason in the notes that is rounding",
    "differs": "values differ by more; the notes give the cause where it is known",
    "fails": "the program raises, does not end, or stays on the host",
}

_HEAD = """\
<!-- Written by `python -m tpulint.dev render-docs` from docs/data/programs.toml. -->

# Whole programs

`tpulint fix --unsafe-fixes` was tried on the programs of this page.
Each program was run twice, before and after the fix, and the two outputs were compared:

- The original runs on a CPU build of PyTorch, where `cuda` is emulated by the CPU.
- The fixed copy runs under torchax on JAX's CPU backend, without any edit after the fix.

No TPU was used.

[how-it-works.md](how-it-works.md) explains the changes of the fix, [compatibility.md](compatibility.md) lists
features that do not work yet, and [program-speed.md](program-speed.md) shows how long the programs take.

Results of the programs of public repositories:
"""

_OWN = """\
## Programs of this repository

[fixtures/programs](../fixtures/programs) holds {programs} programs, written as people write them for a GPU.
`tpulint verify` runs each original on plain CPU PyTorch, fixes a copy, runs the copy under torchax, and
compares the loss of every step, the parameters and buffers at the end, and the output.
A program that stays on the host fails.
All {programs} are verified.
"""

_ON_A_GPU = """\
### On a GPU

`python -m tpulint.dev on-gpu` runs each of these programs three times on a GPU: unchanged on CUDA, fixed with
`--keep-gpu` on CUDA, and fixed on torchax, where JAX computes on the GPU.
Matrix products use full precision.
On an H100 with torch 2.11 and JAX 0.11.2:

| program | CUDA, compared with its emulation | with `--keep-gpu`, compared with CUDA | \
torchax, compared with the emulation |
| --- | --- | --- | --- |
| `actor_critic` | equal | equal | equal |
| `classifier` | equal | equal | equal |
| `contrastive` | equal | equal | equal |
| `diffusion` | one value in 4 lines differs in its fourth digit | equal | equal |
| `distributed` | equal | equal | equal |
| `ema` | equal | equal | equal |
| `gan` | loss 8 of 36 differs by 2e-5 | equal | equal |

The other fifteen programs ran without an error, but their output was not compared.
In that run `generate` could not be fixed with `--keep-gpu`, because its fixes did not converge; a test over
all fixtures has checked this since.
With emulated CUDA, all 22 programs that are fixed with `--keep-gpu` print the same lines, compute the same
losses, and end with the same parameters as the originals.

Of 118 fixtures that train, all but four gave the same result on the GPU as on the host.
Three of the four draw random numbers, which a GPU draws differently, and one depends on the order of equal
elements.

### Versions

All results are for torch 2.13, torchax 0.0.14 and JAX 0.10.2, which `tpulint[verify]` installs.

JAX 0.11.2 and 0.12.0.1 were tried with torch 2.11 in Python 3.12, on JAX's CPU backend.
There, the programs of this repository are verified, too (`image_processing` was not run), and so are all
fixtures that train but one.
That one compares random numbers that depend on the memory layout, and torch 2.11 draws them in a different
order.
Three files of the runtime (`torchax_training`) depend on internals of JAX: `autograd/pullbacks.py`,
`host/xla_flags.py` and `operators/convolutions_on_cpu.py`.
"""

_PUBLIC = """\
## Programs of public repositories

{programs} programs of {repositories} repositories, each at the commit that its link leads to.

Before the fix, the originals were changed so that both runs can be compared:

- Seeds are set where there are none.
- Runs are shortened, by the program's own options where it has some.
- Dropout is set to 0, and noise that is drawn on the device is drawn on the host.
- Tokens that a program samples are drawn on the host, in most programs.
- Times are removed from the output.
- Data sets are replaced by synthetic ones of the same form.

Columns:

- *lines*: how many printed lines were compared, for each program of a row.
- *deviation*: of the fixed program from the original.
  With `same`, it is the deviation of losses in full precision, where it was measured.
- *shift*: deviation of the original from itself, when its first weights are shifted by 1e-6.
- *notes*: `call by call` means that the loss computation is not compiled as a whole; the modules and
  functions that it calls are compiled one by one.
  `changed` lists further changes to the original.
"""

_READ = """\
For six more repositories the changes were read, without running the programs: {repositories}.
"""

_LIBRARIES = """\
## Programs that use libraries

Ten programs that use transformers 5.23, accelerate 1.15, timm 1.0, peft 0.21, torchmetrics 1.9 and einops
0.8, with small models and with dropout.
`fix` changes the program, and the libraries stay as they are installed.
"""

_ROUNDS = """\
## Right at first

How many programs were `same` or `close` when they were first tried, before tpulint was changed because of
them, and how many are now.
*wrong without an error*: programs whose results differed at first, while nothing raised.
An empty cell means that the number was not recorded.
The programs of the first rows are those of the public repositories and libraries above.
All others were written for this test, most of them by authors who had not seen the rules.
"""
