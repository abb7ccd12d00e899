"""Waits that a schedule moves to the next iteration, so that what they wait for goes on until then.

A wait returns the value that it takes, complete. So it may as well be done in the next iteration,
on the value as the loop carries it, and after the loop for the last one:

    for .. iter(%a = %z) {                    for .. iter(%a = %z) {
      %r = wgmma %x, %y, %a                     %s = wgmma_wait %a {pending = 0}
      %s = wgmma_wait %r                        %r = wgmma %x, %y, %s
        {schedule = (1, 0)}                     yield %r
      yield %s                                }
    }
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from tile.ir.core import Operation, Value
from tile.ir.ops import control
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.schedule.async_ops import COUNTED_WAITS, ENDS


def expand_deferred_waits(
    loop: Operation, waits: Sequence[Operation], anchors: Mapping[Operation, Operation]
) -> dict[Operation, Value]:
    """Move waits of stage 1 to the next iteration, in front of their anchors.

    They complete in the order of what they wait for. So of those with one anchor, only the last one
    stays in the loop. Returns the new waits, and the loop-carried values that they wait for.
    """
    (body,) = loop.regions
    last: dict[Operation, Operation] = {}
    for wait in waits:
        other = last.get(anchors[wait])
        if other is None or _issue(loop, other).is_before(_issue(loop, wait)):
            last[anchors[wait]] = wait
    moved: dict[Operation, Value] = {}
    for wait in waits:
        (value,), anchor = wait.inputs, anchors[wait]
        ((_, index),) = wait.result.uses
        wait.result.replace_by(value)
        _complete_after(loop, index, wait)
        if last[anchor] is wait:
            # The accumulator as it is at the anchor: carried, or already accumulated to again.
            carried = body.args[1 + index]
            here = value if _issue(loop, wait).is_before(anchor) else carried
            moved[_wait_before(anchor, wait, here)] = carried
    for wait in waits:
        wait.erase()
    return moved


def is_carried_wait(op: Operation, deferred: Container[Operation]) -> bool:
    """Return True if an operation is a wait whose result the loop only carries on.

    It waits for an operation of its own iteration, which is not `deferred`.
    """
    if op.defn not in COUNTED_WAITS or len(op.results) != 1:
        return False
    issue = op.inputs[0].op
    only_carried = [user.defn for user in op.result.users] == [control.yield_]
    return only_carried and issue is not None and issue.block is op.block and issue not in deferred


def _issue(loop: Operation, wait: Operation) -> Operation:
    issue = wait.inputs[0].op
    assert issue is not None and issue.block is loop.regions[0]
    return issue


def _wait_before(anchor: Operation, wait: Operation, value: Value) -> Operation:
    """Wait for a value in front of an anchor, and let what follows use the completed value."""
    uses = list(value.uses)
    build = LayoutBuilder.before(anchor)
    with build.at(wait.loc):
        completed = build.op(wait.defn, value, pending=0)
    completed.result.name = value.name
    for user, index in uses:
        if user is not wait and completed.is_before(user):
            user.set_operand(index, completed.result)
    return completed


def _complete_after(loop: Operation, index: int, wait: Operation) -> None:
    """Wait after the loop for what its last iteration leaves in flight, if nobody does.

    Operations that end other async operations of the loop come first.
    """
    result, following = loop.results[index], loop.next
    if all(user.defn is wait.defn for user in result.users):
        return
    while following is not None and following.defn in ENDS:
        following = following.next
    assert following is not None
    uses = list(result.uses)
    completed = LayoutBuilder.before(following)(wait.defn, result, pending=0)
    completed.name = result.name
    for user, position in uses:
        user.set_operand(position, completed)
