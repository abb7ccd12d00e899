"""Analysis rules of operations of the LAID_OUT level.

A layout conversion preserves axis info and ranges: these describe elements, whoever holds them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tile.analysis import axis_rules, range_rules
from tile.analysis.axis_value import AxisInfo
from tile.analysis.interval import Interval
from tile.analysis.ranges import Ranges
from tile.ir.core import Operation
from tile.simt import ops


def _same_axes(op: Operation, facts: Sequence[AxisInfo | None], ranges: Ranges) -> AxisInfo:
    (fact,) = facts
    assert fact is not None
    return fact


def _same_range(op: Operation, facts: Sequence[Interval]) -> Interval:
    return facts[0]


axis_rules.RULES[ops.layout.convert_layout] = _same_axes
range_rules.RULES[ops.layout.convert_layout] = _same_range
