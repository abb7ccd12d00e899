"""The rows of `gpu.py`'s table, and the file that holds those of one card."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from intervals import interval, ratios

PEERS = ("tile", "triton", "torch")
OTHERS = PEERS[1:]
HEADER = (
    *("case", "unit", *PEERS, "to triton", "to torch", "95 %, triton", "95 %, torch"),
    *("timed by", "tiles", "triton's tiles"),
)


@dataclass(frozen=True)
class Row:
    """The measurements of a case: rates in its unit, None if a peer has none.

    `ratios` has this project's speed relative to a peer's: the median of pairs of samples and the
    95 % interval of that median.
    """

    case: str
    unit: str
    rates: dict[str, float | None]
    ratios: dict[str, tuple[float, float, float]]
    notes: dict[str, str]
    how: str = ""

    @classmethod
    def of(
        cls,
        case: str,
        unit: str,
        times: dict[str, list[float]],
        amount: float,
        notes: dict[str, str],
        how: str,
    ) -> Row:
        """Return the row of a case from paired samples of seconds; a rate is `amount` a second."""
        rates = {
            peer: amount / statistics.median(times[peer]) if peer in times else None
            for peer in PEERS
        }
        pairs = {
            peer: ratios(times["tile"], times[peer])
            for peer in OTHERS
            if peer in times and "tile" in times
        }
        compared = {peer: (statistics.median(its), *interval(its)) for peer, its in pairs.items()}
        return cls(case, unit, rates, compared, notes, how)

    def ratio(self, peer: str) -> float | None:
        return self.ratios[peer][0] if peer in self.ratios else None

    def cells(self) -> list[str]:
        rates = (_cell(self.rates[peer], 1) for peer in PEERS)
        medians = (_cell(self.ratio(peer), 2) for peer in OTHERS)
        bounds = (bounds_cell(self.ratios[p][1:]) if p in self.ratios else "" for p in OTHERS)
        notes = (self.notes.get(peer, "") for peer in ("tile", "triton"))
        return [self.case, self.unit, *rates, *medians, *bounds, self.how, *notes]


def _cell(number: float | None, digits: int) -> str:
    return "" if number is None else f"{number:.{digits}f}"


def bounds_cell(bounds: Sequence[float]) -> str:
    return " to ".join(f"{bound:.3f}" for bound in bounds)


def markdown(table: Sequence[Sequence[str]]) -> str:
    """Return a table whose first row is its header."""
    rows = [table[0], ["---"] * len(table[0]), *table[1:]]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


@dataclass(frozen=True)
class Card:
    """The rows of one card, and where they come from."""

    name: str
    identity: str
    driver: str
    torch: str
    triton: str
    commit: str
    date: str
    rows: tuple[Row, ...]

    @classmethod
    def read(cls, path: Path) -> Card:
        """Read a file that `write` wrote."""
        stored: dict[str, Any] = json.loads(path.read_text("utf-8"))
        rows = []
        for row in stored.pop("rows"):
            row["ratios"] = {peer: tuple(its) for peer, its in row["ratios"].items()}
            rows.append(Row(**row))
        return cls(**stored, rows=tuple(rows))

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self), indent=1) + "\n", "utf-8")
