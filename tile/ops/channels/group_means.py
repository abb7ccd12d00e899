"""The means that the gradient of a group's elements has, from sums of channels.

    mean(g) = sum(weight * sum(dy)) / total
    mean(g * normal) = sum(weight * sum(dy * normal)) / total

Outer sums are over the channels of a group, inner ones over the elements of a channel.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.channels.views import ELEMENTS
from tile.ops.core.call import Call, Operand
from tile.ops.core.call_plans import launch


@tile.jit
def group_means_kernel(
    sums_ptr,
    by_normal_ptr,
    weight_ptr,
    by_mean_ptr,
    by_variance_ptr,
    groups,
    per_group,
    total,
    BLOCK: tl.constexpr,
):
    """Store the means of g and of g * normal for each group, from the sums of each channel."""
    group = tl.program_id(0).to(tl.int64)
    n, lane = group // groups, tl.arange(0, BLOCK)
    first = group % groups * per_group
    sums = tl.zeros((BLOCK,), sums_ptr.dtype.element_ty)
    by_normal = sums
    for start in range(0, per_group, BLOCK):
        inside = start + lane < per_group
        channel = first + start + lane
        weight = tl.load(weight_ptr + channel, mask=inside, other=0.0)
        at = n * groups * per_group + channel
        sums += weight * tl.load(sums_ptr + at, mask=inside, other=0.0)
        by_normal += weight * tl.load(by_normal_ptr + at, mask=inside, other=0.0)
    tl.store(by_mean_ptr + group, tl.sum(sums, axis=0) / total)
    tl.store(by_variance_ptr + group, tl.sum(by_normal, axis=0) / total)


def group_means(
    call: Call, sums: Operand, by_normal: Operand, weight: Any, per_group: int, total: int
) -> tuple[Operand, Operand]:
    """Return the means of g and of g * normal of each group, from sums of channels.

    sums, by_normal: of dy and dy * normal, batch x channels; total: the elements of a group.
    """
    batches, channels = sums.shape
    groups = channels // per_group
    first, second = (call.new((batches, groups), sums.dtype) for _ in range(2))
    launch(group_means_kernel, (batches * groups,), dependent=True)(
        *(sums.value, by_normal.value, weight, first.value, second.value),
        *(groups, per_group, total),
        BLOCK=min(ELEMENTS, tile.next_power_of_2(per_group)),
    )
    return first, second
