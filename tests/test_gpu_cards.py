"""`benchmarks/gpu_cards.py`: files of several cards become one table."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent


def row(case: str, ratio: tuple[float, float, float]) -> dict[str, Any]:
    rates = {"tile": 100.0 * ratio[0], "triton": 100.0, "torch": None}
    notes = {"tile": "128 4", "triton": "64 2"}
    ratios = {"triton": ratio}
    return {
        "case": case,
        "unit": "GB/s",
        "rates": rates,
        "ratios": ratios,
        "notes": notes,
        "how": "graph",
    }


def write(path: Path, identity: str, *rows: dict[str, Any]) -> str:
    names = dict.fromkeys(("name", "driver", "torch", "triton", "commit", "date"), "1")
    path.write_text(json.dumps({**names, "identity": identity, "rows": rows}))
    return str(path)


def merge(*files: str) -> list[str]:
    command = [sys.executable, "benchmarks/gpu_cards.py", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_cards_become_one_table(tmp_path: Path) -> None:
    files = [
        write(tmp_path / "a1.json", "a", row("add", (1.0, 0.99, 1.01))),
        write(tmp_path / "a2.json", "a", row("sum", (0.9, 0.89, 0.91))),
        write(tmp_path / "b.json", "b", row("add", (0.98, 0.97, 0.99)), row("sum", (0.8, 0.7, 1))),
        write(tmp_path / "c.json", "c", row("add", (1.1, 1.0, 1.2)), row("sum", (0.95, 0.9, 0.98))),
    ]
    printed = merge(*files)
    add, total = (line for line in printed if line.startswith(("| add", "| sum")))
    assert add == (
        "| add | GB/s | 100.0 | 100.0 |  | 1.00 |  | 0.970 to 1.200 |  | graph | 128 4 | 64 2 | 3 |"
    )
    assert "| 90.0 | 100.0 |  | 0.90 |  | 0.700 to 1.000 |" in total
    assert printed[0].startswith("4 files of 1: 1, driver 1")
    assert "behind in sum" in printed[-2], "on cards a and c"
    assert printed[-1] == "to torch: no ratio"
