"""Words that messages, help and pages must not use in their odd senses, with what to write instead.

They are words of a private dialect: an engineer who knows PyTorch and not tpulint has to read a sentence with
them twice.
"""

from __future__ import annotations

import re

#: A pattern of the words to avoid, and what to write instead.
INSTEAD = {
    r"kinds?": "type, inferred type",
    r"handed|hands (it|them|on|over|back)|handing": "passed, forwarded",
    r"told|tells|is told of": "reported, known, prints",
    r"marked|the marks?": "decorated",
    r"(the|a|at|this|each|some|many|other|its|their) places?": "location, call site, device, line",
    r"reads? out|read out": "`.item()` read, scalar read",
    r"companions?|the folders? that (is|are|comes?)": "the runtime",
    r"regions?|moved function": "loss computation, outlined function",
    r"takers?|savers?|keepers?": "loss consumer, checkpoint function, stateful attribute",
    r"doors?": "an API that takes a device",
    r"settled": "already differentiable, the same in every trace",
    r"judged?|judges|desk|verdicts?": "check, worker, result",
    r"mend(s|ed|ing)?|amend(s|ed|ing)?": "fixed, patched",
    r"(for|the) want of": "out of memory, without",
    r"others? silently|another silently": "silently gives different results",
    r"who doubts|those who": "to see why a line was reported, run ...",
    r"in torchax alone|torchax alone|of torch alone": "PyTorch semantics that torchax does not implement",
    r"do(es)? not do (its|their) work": "is a no-op, or wrong, under torchax",
    r"(of|from|with|by|for) what (is|are|was|it|they|a|the|\w+s)": "a noun",
    r"what (modules|it|they|programs|functions) (leave|give|make|hold|read|write)s?": "a noun",
    r"otherwise than|computes? otherwise|others? than torch": "differently from, different results",
    r"so it is with|such as it is|is come to|come upon": "a plain statement",
    r"pictures?": "image",
    r"without dimensions": "zero-dimensional",
    r"reckon(s|ed|ing)?|beforehand|likewise|thereof|whereof|for good": "a plain word",
}
_CODE = re.compile(r"```.*?```|``.*?``|`[^`]*`|<!--.*?-->|\]\([^)]*\)|<[^>]+>", re.DOTALL)


def odd_words(text: str) -> list[str]:
    """The odd words of a text, each with what to write instead; code, links and comments are skipped."""
    prose = " ".join(_CODE.sub(" ", text).split())
    found = []
    for pattern, instead in INSTEAD.items():
        for match in re.finditer(rf"(?<![\w-])(?:{pattern})(?![\w-])", prose, re.IGNORECASE):
            around = prose[max(match.start() - 40, 0) : match.end() + 30]
            found.append(f"`{match.group()}` in `{around}`: {instead}")
    return found
