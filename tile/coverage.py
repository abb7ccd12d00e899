"""Coverage of a report: which launches it covers, and for what each was checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tile.checks import Check, Checks, choose, spelled

# Kernels that a line names; further ones are counted.
NAMED = 8


@dataclass(frozen=True)
class Launched:
    """Launches of one kernel on one target, with the checks that they did (none: unchecked)."""

    kernel: str
    target: str
    checks: Checks


@dataclass
class Coverage:
    """Counts of launches."""

    counts: dict[Launched, int] = field(default_factory=dict)

    def add(self, launched: Launched, times: int = 1) -> None:
        """Count launches."""
        self.counts[launched] = self.counts.get(launched, 0) + times

    @property
    def checked(self) -> bool:
        """True if a launch was checked for something."""
        return any(launched.checks for launched in self.counts)

    @property
    def unchecked(self) -> bool:
        """True if a launch was checked for nothing."""
        return not all(launched.checks for launched in self.counts)

    def verdict(self) -> str:
        """Return the first line of a report without faults."""
        if not self.checked:
            return "nothing was checked"
        return "no faults, but not all was checked" if self.unchecked else "no faults"

    def lines(self, *, checked: bool = True) -> Iterator[str]:
        """Yield a line for each set of checks that was done, and one for launches without any."""
        if checked and not self.counts:
            yield "no kernel was launched"
        for checks in dict.fromkeys(launched.checks for launched in self.counts):
            if checks and checked:
                yield f"checked for {spelled(checks)}: {self._named(checks)}"
        if self.unchecked:
            yield f"not checked: {self._named(frozenset())}"

    def _named(self, checks: Checks) -> str:
        found = [(one, count) for one, count in self.counts.items() if one.checks == checks]
        words = [
            f"{count:,} launch{'es' * (count != 1)} of `{one.kernel}` on {one.target}"
            for one, count in found[:NAMED]
        ]
        rest = sum(count for _, count in found[NAMED:])
        return ", ".join([*words, *([f"{rest:,} of {len(found) - NAMED} more"] if rest else [])])

    def as_list(self) -> list[dict[str, Any]]:
        """For JSON."""
        return [
            {
                "kernel": one.kernel,
                "target": one.target,
                "checks": [check.value for check in Check if check in one.checks],
                "launches": count,
            }
            for one, count in self.counts.items()
        ]

    @classmethod
    def of(cls, entries: Iterable[Mapping[str, Any]]) -> Coverage:
        """Read what `as_list` gives."""
        coverage = cls()
        for entry in entries:
            launched = Launched(entry["kernel"], entry["target"], choose(entry["checks"]))
            coverage.add(launched, entry["launches"])
        return coverage
