"""Tuning constants with the measurements they come from.

A tuning constant chooses among programs that are all correct: a threshold, a cost, a limit of
effort. Constants are the fields of frozen dataclasses, one for each target or engine, declared as

    @dataclass(frozen=True)
    class TuningConstants:
        # Bytes of registers per thread that the hoisted loads of a block may take.
        hoisted_load_bytes: int = constant(32, "docs/results/registers.md#layer-norm")
"""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any

NOT_MEASURED = "not measured"  # an estimate: such a constant is the first to doubt
_SOURCE = "source"


def constant(value: Any, source: str = NOT_MEASURED) -> Any:
    """Return the dataclass field of a constant: its default value, and where that comes from.

    source: a page of `docs/` with the figures, or what was measured, when and by which tool.
    """
    return field(default=value, metadata={_SOURCE: source})


def sources(constants: Any) -> dict[str, str]:
    """Return the source of each constant of a dataclass, or of an instance of one, by name."""
    return {each.name: each.metadata[_SOURCE] for each in fields(constants)}
