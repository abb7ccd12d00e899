"""Make one table of the files that `gpu.py --json` wrote on several cards.

    python benchmarks/gpu_cards.py one.json two.json three.json ...
    python benchmarks/gpu_cards.py one.json ... > table.md
    python docs/results/update.py gpu 0 --printed table.md --machine "3 H200, driver 580"

Files of one card are parts of its table. A rate or a ratio is the median of the cards'. Next to a
ratio stand the least lower and the greatest upper bound of the cards' 95 % intervals. A row counts
as behind where the interval lies wholly under 0.99 on more than half of the cards.
"""

from __future__ import annotations

import argparse
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpu_rows import HEADER, OTHERS, PEERS, Card, Row, markdown

BEHIND = 0.99


def by_card(cards: Sequence[Card]) -> list[dict[str, Row]]:
    """Return the rows of each card by case, from all of its files."""
    rows: dict[str, dict[str, Row]] = {}
    for number, card in enumerate(cards):
        one = rows.setdefault(card.identity or f"file {number}", {})
        one.update({row.case: row for row in card.rows})
    return [*rows.values()]


def median_rate(rows: Sequence[Row], peer: str) -> float | None:
    rates = [rate for row in rows if (rate := row.rates[peer]) is not None]
    return statistics.median(rates) if rates else None


def merged(rows: Sequence[Row]) -> Row:
    """Return the row of a case from those of several cards."""
    ratios = {}
    for peer in OTHERS:
        its = [row.ratios[peer] for row in rows if peer in row.ratios]
        if its:
            medians, lows, highs = zip(*its, strict=True)
            ratios[peer] = (statistics.median(medians), min(lows), max(highs))
    notes = {
        peer: Counter(row.notes.get(peer, "") for row in rows).most_common(1)[0][0]
        for peer in PEERS
    }
    rates = {peer: median_rate(rows, peer) for peer in PEERS}
    return Row(rows[0].case, rows[0].unit, rates, ratios, notes, rows[0].how)


@dataclass(frozen=True)
class Table:
    """The rows of all cards, by case."""

    rows: dict[str, list[Row]]

    @classmethod
    def of(cls, cards: Sequence[Card]) -> Table:
        rows: dict[str, list[Row]] = {}
        for one in by_card(cards):
            for case, row in one.items():
                rows.setdefault(case, []).append(row)
        return cls(rows)

    def behind(self, peer: str) -> list[str]:
        """Return the cases that are behind a peer on more than half of the cards."""
        return [
            case
            for case, rows in self.rows.items()
            if sum(peer in row.ratios and row.ratios[peer][2] < BEHIND for row in rows)
            > len(rows) / 2
        ]

    def summary(self, peer: str) -> str:
        """Return the geometric mean of a peer's ratios over all cases, and what is behind it."""
        medians = [merged(rows).ratio(peer) for rows in self.rows.values()]
        ratios = [ratio for ratio in medians if ratio is not None]
        if not ratios:
            return f"to {peer}: no ratio"
        behind = ", ".join(self.behind(peer)) or "none"
        return f"to {peer}: mean {statistics.geometric_mean(ratios):.3f}; behind in {behind}"

    def text(self) -> str:
        """Return the table as Markdown."""
        cells = [[*merged(rows).cells(), str(len(rows))] for rows in self.rows.values()]
        return markdown([[*HEADER, "cards"], *cells])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path, help="files of gpu.py --json")
    cards = [Card.read(path) for path in parser.parse_args().files]
    made = Counter((c.name, c.driver, c.torch, c.triton, c.commit, c.date) for c in cards)
    for (name, driver, of_torch, of_triton, commit, date), count in made.items():
        versions = f"driver {driver}, torch {of_torch}, triton {of_triton}"
        print(f"{count} files of {date}: {name}, {versions}, commit {commit}")
    table = Table.of(cards)
    print(f"\n{table.text()}\n")
    for peer in OTHERS:
        print(table.summary(peer))


if __name__ == "__main__":
    main()
