"""The figures that `benchmarks/ops.py --record FILE` writes, of which docs/ops.md shows the speed.

A file is a list of rows, one for each problem: the op, the label, the unit, the amount of work, the
rate of this library and of its peer (null without one), the machine and the date. A run replaces
the rows of its problems, and leaves the others; it writes the file after each problem.
"""

from __future__ import annotations

import datetime
import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def machine_of(torch: Any) -> str:
    """Return the GPU and the version of PyTorch, or the processor."""
    if torch is None:
        return platform.processor() or platform.machine()
    return f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}"


class Records:
    """The rows of a file, by op and label."""

    def __init__(self, path: Path, machine: str) -> None:
        self._path, self._machine = path, machine
        rows = json.loads(path.read_text("utf-8")) if path.exists() else []
        self._rows = {(row["op"], row["label"]): row for row in rows}

    def add(self, op: str, label: str, unit: str, work: float, rates: Sequence[float]) -> None:
        """Add the rates of this library and, if it was measured, of its peer; write the file."""
        self._rows[op, label] = {
            "op": op,
            "label": label,
            "unit": unit,
            "work": work,
            "tile": float(f"{rates[0]:.4g}"),
            "peer": float(f"{rates[1]:.4g}") if len(rates) > 1 else None,
            "machine": self._machine,
            "date": datetime.date.today().isoformat(),
        }
        lines = ",\n".join(json.dumps(self._rows[key]) for key in sorted(self._rows))
        self._path.write_text(f"[\n{lines}\n]\n", "utf-8")
