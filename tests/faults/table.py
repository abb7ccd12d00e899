"""The table of planted bugs: how many of each class are found, and how many twins are silent.

python -m tests.faults.table
"""

from __future__ import annotations

import sys

from tests.faults import assumptions, bounds, overflow, races, several, undefined, waiting
from tests.faults.planted import CASES, ERRORS, Planted

DECLARING = (assumptions, bounds, overflow, races, several, undefined, waiting)

Row = tuple[str, int, int, int]


def rows(cases: list[Planted] | None = None) -> list[Row]:
    """For each class: its planted bugs, those found rightly, and the silent twins."""
    chosen = list(CASES.values()) if cases is None else cases
    table = []
    for kind in ERRORS:
        mine = [case for case in chosen if case.kind == kind]
        detected = sum(not case.faulty() for case in mine)
        silent = sum(not case.sound() for case in mine)
        table.append((kind, len(mine), detected, silent))
    return table


def main() -> int:
    """Print the table; 1 if it shows a fault that is not found or a twin that is not silent."""
    table = rows()
    totals = [sum(column) for column in zip(*(row[1:] for row in table), strict=True)]
    for name, planted, detected, silent in [("class", "planted", "found", "silent twins"), *table]:
        print(f"{name:10} {planted!s:>8} {detected!s:>6} {silent!s:>13}")
    print(f"{'all':10} {totals[0]!s:>8} {totals[1]!s:>6} {totals[2]!s:>13}")
    for case in CASES.values():
        for problem in case.problems():
            print(f"{case.kind} {case.name}: {problem}")
    return int(len(set(totals)) > 1)


if __name__ == "__main__":
    sys.exit(main())
