"""Operations, and waits, that a schedule moves to the next iteration.

The loop begins with its second iteration. What is not deferred of the first one comes in front of
it, and what is deferred of the last one after it, if there is an iteration at all:

    %r = for %i = %a to %n step %c            %r = if %any {
           iter(%s = %z) {                      %x0 = f %a
      %x = f %i                                 %s1, %x1 = for %i = %b to %n step %c
      %t = g %s, %x {schedule = (1, 1)}                      iter(%s = %z, %p = %x0) {
      yield %t                                    %x = f %i
    }                                             %t = g %s, %p
                                                  yield %t, %x
                                                }
                                                %u = g %s1, %x1
                                                yield %u
                                              } else {
                                                yield %z
                                              }

What deferred operations need of their own iteration is loop-carried. A stage of a multi-buffer is
named by the count of iterations, so it is the stage before in the next one. What they compute for
the next iteration, others that follow them may use there, if they themselves do not.

A *wait* needs no peeled iteration. It returns the value that it takes, complete. So it may as well
be done in the next iteration, on the value as the loop carries it, and after the loop for the last
one:

    for .. iter(%a = %z) {                    for .. iter(%a = %z) {
      %r = wgmma %x, %y, %a                     %s = wgmma_wait %a {pending = 0}
      %s = wgmma_wait %r                        %r = wgmma %x, %y, %s
        {schedule = (1, 0)}                     yield %r
      yield %s                                }
    }
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

from tile.errors import PassError
from tile.ir.core import Operation, Value, clone
from tile.ir.ops import arith, control
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.schedule.async_ops import COUNTED_WAITS, ENDS
from tile.simt.schedule.backward_slice import copy_shifted, operands_of
from tile.simt.schedule.trip_count import TripCount
from tile.transforms.region_utils import add_loop_carried, branch_around


def expand_deferred_waits(
    loop: Operation, waits: Sequence[Operation], anchors: Mapping[Operation, Operation]
) -> dict[Operation, Value]:
    """Move waits of stage 1 to the next iteration, in front of their anchors.

    They complete in the order of what they wait for. So of those with one anchor, only the last one
    stays in the loop. Returns the new waits, and the loop-carried values that they wait for.
    """
    (body,) = loop.regions
    position = {op: number for number, op in enumerate(body)}
    waits = sorted(waits, key=lambda wait: position[_issue(wait)])
    last = {anchors[wait]: wait for wait in waits}
    moved: dict[Operation, Value] = {}
    for wait in waits:
        (value,), anchor = wait.inputs, anchors[wait]
        ((_, index),) = wait.result.uses
        wait.result.replace_by(value)
        _complete_after(loop, index, wait)
        if last[anchor] is wait:
            # The accumulator as it is at the anchor: carried, or already accumulated to again.
            carried = body.args[1 + index]
            here = value if position[_issue(wait)] < position[anchor] else carried
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


def _issue(wait: Operation) -> Operation:
    issue = wait.inputs[0].op
    assert issue is not None
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


class DeferredOps:
    """The expansion of the deferred operations of a loop."""

    def __init__(self, loop: Operation, ops: Sequence[Operation]) -> None:
        self.loop = loop
        (self.body,) = loop.regions
        self.ops = ops
        # Positions of carried values that deferred operations compute: theirs alone.
        self.own = {
            position for position, value in enumerate(self.body.yielded) if value.op in self.ops
        }
        operands = [value for op in ops for value in operands_of(op, self.body)]
        # Those of them that only later operations of the new body need, which follow.
        self.passed = {
            position for position in self.own if self.body.args[1 + position] not in operands
        }
        self.crossing = list(dict.fromkeys(filter(self._is_of_iteration, operands)))
        self._check()

    def _is_of_iteration(self, value: Value) -> bool:
        if value.owner is self.body:
            return value.index - 1 not in self.own
        return value.op is not None and value.block is self.body and value.op not in self.ops

    def _check(self) -> None:
        for op in self.ops:
            if not (op.schedule is not None and op.schedule[0] == 1 and not op.regions):
                raise PassError(f"{op.name} cannot be done in a later iteration", loc=op.loc)
        values = [value for op in self.ops for value in op.results]
        values += [self.body.args[1 + position] for position in self.own - self.passed]
        for value in values:
            for user in {*value.users} - {*self.ops}:
                if user is not self.body.last or value.op is None:
                    raise PassError(
                        f"{user.name} needs %{value.name}, which a later iteration computes",
                        loc=user.loc,
                    )

    def expand(self, anchors: Mapping[Operation, Operation]) -> None:
        """Rebuild the loop.

        anchors: the operations of the body in front of which deferred operations go.
        """
        loop, trip_count = self.loop, TripCount(self.loop)
        before = LayoutBuilder.before(loop)
        exists = trip_count.exists(before, trip_count.lower, 0)
        start = self._second_index(before, trip_count)
        if exists is not None:
            branch_around(loop, exists)
        outer_uses = [list(value.uses) for value in loop.results]
        inits = loop.inputs[3:]
        first = self._first_iteration(LayoutBuilder.before(loop), trip_count.lower, inits)
        carried = [
            init if position in self.own else first.get(value, value)
            for position, (init, value) in enumerate(zip(inits, self.body.yielded, strict=True))
        ]
        loop.set_operands([start, *loop.inputs[1:3], *carried])
        args = add_loop_carried(
            loop, [first[value] for value in self.crossing], lambda args: self.crossing
        )
        values = self._last_iteration(LayoutBuilder.after(loop))
        self._in_loop(dict(zip(self.crossing, args, strict=True)), anchors)
        for uses, value in zip(outer_uses, values, strict=True):
            for user, index in uses:
                user.set_operand(index, value)

    def _first_iteration(
        self, build: LayoutBuilder, lower: Value, inits: Sequence[Value]
    ) -> dict[Value, Value]:
        """Build what is not deferred of the first iteration."""
        mapping = dict(zip(self.body.args, [lower, *inits], strict=True))
        for op in self.body:
            if op not in self.ops and not op.defn.terminator:
                build.block.insert(clone(op, mapping), build.anchor)
        return mapping

    def _second_index(self, build: LayoutBuilder, trip_count: TripCount) -> Value:
        """Return where the loop starts: at its end if there is no second iteration."""
        lower, upper = trip_count.lower, trip_count.upper
        exists = trip_count.exists(build, lower, 1)
        start = trip_count.index_after(build, lower, 1)
        return start if exists is None else build(arith.select, exists, start, upper)

    def _last_iteration(self, build: LayoutBuilder) -> list[Value]:
        """Build what is deferred of the last iteration; return the results of the loop."""
        results = self.loop.results
        mapping = dict(zip(self.body.args[1:], results, strict=True))
        mapping |= zip(self.crossing, results[len(results) - len(self.crossing) :], strict=True)
        for op in self.ops:
            copy_shifted(op, self.body, build, mapping, -1, lambda count: mapping[count])
        own = self.body.yielded
        return [
            mapping[own[position]] if position in self.own else results[position]
            for position in range(len(results) - len(self.crossing))
        ]

    def _in_loop(self, mapping: dict[Value, Value], anchors: Mapping[Operation, Operation]) -> None:
        """Build the deferred operations where they run, on values of the iteration before."""
        for op in self.ops:
            copy_shifted(op, self.body, LayoutBuilder.before(anchors[op]), mapping, -1)
        for position in self.passed:
            self._pass_on(position, mapping[self.body.yielded[position]])
        for op in reversed(self.ops):
            for value in op.results:
                value.replace_by(mapping[value])
            op.erase()

    def _pass_on(self, position: int, value: Value) -> None:
        """Let operations use a carried value as a deferred operation computes it in the body."""
        arg, op = self.body.args[1 + position], value.op
        for user in (user.within(self.body) for user in arg.users):
            if op is not None and user.is_before(op):
                raise PassError(
                    f"{user.name} needs %{arg.name}, which is computed later in its iteration",
                    loc=user.loc,
                )
        arg.replace_by(value)
