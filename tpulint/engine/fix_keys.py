"""Names for fixes that stay the same from one run over the same files to the next."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from tpulint.finding import Finding

#: In place of an offset: the fixes of all rounds after the first, whose places depend on other fixes.
LATER = -2
_ANYWHERE = -1


@dataclass(frozen=True, slots=True, order=True)
class FixKey:
    """A fix, or all fixes of a rule in a file, or all of a file.

    Args:
        path: the file.
        code: the code of the rule, "" for all rules.
        start: the offset of the finding in the file as it was, or `LATER`.
    """

    path: str
    code: str = ""
    start: int = _ANYWHERE

    @property
    def of_file(self) -> FixKey:
        """All fixes of the file."""
        return FixKey(self.path)

    @property
    def itself(self) -> FixKey:
        """This fix only."""
        return self

    @property
    def of_rule(self) -> FixKey:
        """All fixes of the rule in the file."""
        return replace(self, start=_ANYWHERE)

    def covers(self, key: FixKey) -> bool:
        """Whether a fix is this one, or one of these."""
        return self in (key, key.of_rule, key.of_file)


class LeftOut:
    """Fixes that are not applied."""

    def __init__(self, keys: Collection[FixKey] = ()) -> None:
        self._keys = frozenset(keys)
        # Where some fixes of a rule are left out, it is not known which of the later ones these are.
        self._partly = frozenset(key.of_rule for key in keys if key.code)

    def has(self, finding: Finding, *, is_first_round: bool) -> bool:
        """Whether the fix of a finding is left out."""
        if not self._keys:
            return False
        key = key_of(finding, is_first_round=is_first_round)
        if not {key, key.of_rule, key.of_file}.isdisjoint(self._keys):
            return True
        return not is_first_round and key.of_rule in self._partly


def key_of(finding: Finding, *, is_first_round: bool) -> FixKey:
    """The key of the fix of a finding."""
    return FixKey(finding.path, finding.code, finding.span.start if is_first_round else LATER)
