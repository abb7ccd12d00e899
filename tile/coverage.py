"""Coverage of a report: which launches it covers, and for what each was checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tile.checks import Check, Checks, choose, spelled

# The most kernels that a line names; further ones are only counted.
MAX_NAMED = 8


@dataclass(frozen=True)
class Launched:
    """Launches of one kernel on one target, with the checks that ran (none: unchecked)."""

    kernel: str
    target: str
    checks: Checks


@dataclass
class Coverage:
    """Counts of launches, by kernel, target and checks."""

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
        matching = [(key, count) for key, count in self.counts.items() if key.checks == checks]
        words = [
            f"{count:,} launch{'es' * (count != 1)} of `{key.kernel}` on {key.target}"
            for key, count in matching[:MAX_NAMED]
        ]
        rest = sum(count for _, count in matching[MAX_NAMED:])
        if rest:
            words.append(f"{rest:,} of {len(matching) - MAX_NAMED} more")
        return ", ".join(words)

    def as_list(self) -> list[dict[str, Any]]:
        """Return the data for JSON."""
        return [
            {
                "kernel": key.kernel,
                "target": key.target,
                "checks": [check.value for check in Check if check in key.checks],
                "launches": count,
            }
            for key, count in self.counts.items()
        ]

    @classmethod
    def of(cls, entries: Iterable[Mapping[str, Any]]) -> Coverage:
        """Return the coverage that `as_list` wrote."""
        coverage = cls()
        for entry in entries:
            launched = Launched(entry["kernel"], entry["target"], choose(entry["checks"]))
            coverage.add(launched, entry["launches"])
        return coverage
