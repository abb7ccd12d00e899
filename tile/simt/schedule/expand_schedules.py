"""Software pipelining: rebuild the bodies of loops as the schedules of their operations say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tile.errors import PassError
from tile.ir.core import Block, Operation, Value
from tile.ir.effects import constant_of, iterations
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import control, memory
from tile.ir.passes import module_pass
from tile.simt.ops import wgmma
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.schedule.async_ops import (
    COUNTED_WAITS,
    IssueOrder,
    check_early,
    count_issued_since,
    guard,
)
from tile.simt.schedule.backward_slice import (
    BackwardSlice,
    backward_slice,
    copy_shifted,
    operands_of,
)
from tile.simt.schedule.deferred_ops import DeferredOps, expand_deferred_waits, is_carried_wait
from tile.simt.schedule.trip_count import TripCount
from tile.transforms.dce import remove_dead
from tile.transforms.region_utils import add_loop_carried
from tile.transforms.unroll import unroll_fully

# Operations that waits count: a loop does them in each iteration.
COUNTED = frozenset(COUNTED_WAITS.values())


@module_pass("expand-schedules", before=Level.LAID_OUT)
def expand_schedules(module: Module) -> None:
    """Rebuild loops whose operations have a `schedule`: (stage, order).

    The stage says in which iteration of the new loop an operation runs, relative to the one that it
    belongs to: with stage -2 it runs two iterations early. The order is its position in the new
    body: operations with a smaller one come first, those with equal ones as they stand in the text,
    early ones before others. An operation without a schedule has (0, 0); if it is pure, it is
    computed wherever its result is needed.

        for .. iter(%k = %0) {                    local_cp_async %m0, %p0, %exists0
          %s = local_subview %m, %k               cp_async_commit_group
          local_cp_async %s, %p                   for .. iter(%k = %0) {
            {schedule = (-1, 0)}                    cp_async_wait_group {pending = 0}
          cp_async_commit_group                     %t = local_subview %m, %k {stage_offset = 1}
            {schedule = (-1, 0)}                    local_cp_async %t, %q, %exists
          cp_async_wait_group {pending = 0}         cp_async_commit_group
            {schedule = (0, -1)}                    %s = local_subview %m, %k
          %x = local_load %s                        %x = local_load %s
          ..                                        ..
          %n = add %k, 1                            %n = add %k, 1
          yield %n                                  yield %n
        }                                         }

    The text is a program with the same results before and after, unless the schedule moves an
    operation across a conflicting access to memory, which is not checked. Early operations run
    before the loop for its first iterations, and do nothing for iterations that do not exist
    (`async_ops`). What they need is computed once more, some iterations ahead: `%q` is `%p` an
    iteration later. Their results are loop-carried. Stages of multi-buffers and mbarriers, which
    are named by an iteration and an offset, get a larger offset.

    Operations of stage 1 run an iteration later, and once more after the loop; the first iteration
    is peeled (`deferred_ops`). A wait for what the loop only carries needs no peeled iteration
    either. Waits that count what is in flight get the counts of the new order (`async_ops`).

    A loop of as many iterations as its earliest operations are early is unrolled, without what is
    in front of it. So is a loop of one iteration, which `canonicalize` keeps if it has dots.
    """
    for function in module:
        loops = [op for op in function.walk() if op.defn is control.for_]
        scheduled = [loop for loop in loops if any(op.schedule for op in loop.regions[0])]
        short = list(filter(_is_short, loops))
        for loop in scheduled:
            _Expansion(loop).run()
        for loop in reversed(short):  # those inside first
            numbers = iterations(loop)
            if numbers is not None:  # as before, unless an iteration was peeled
                unroll_fully(loop, numbers)
        if scheduled or short:
            remove_dead(function)


def _is_short(loop: Operation) -> bool:
    """Return True if early operations of all iterations of a loop are in front of it."""
    numbers = iterations(loop)
    return numbers is not None and len(numbers) <= max(1, -min(map(_stage, loop.regions[0])))


def _stage(op: Operation) -> int:
    return (op.schedule or (0, 0))[0]


def _order(op: Operation) -> int:
    return (op.schedule or (0, 0))[1]


@dataclass
class _Group:
    """Operations that are done the same number of iterations early, from one backward slice."""

    distance: int
    ops: list[Operation] = field(default_factory=list)


def _groups(body: Block) -> list[_Group]:
    """Return the groups of early operations, in order.

    Those of one stage and order are a group, with those that use their results.
    """
    groups: dict[tuple[int, int], _Group] = {}  # by order and stage
    group_of: dict[Operation, _Group] = {}
    for op in (op for op in body if _stage(op) < 0):
        check_early(op)
        used = [group_of[value.op] for value in op.inputs if value.op in group_of]
        used = [group for group in used if group.distance == -_stage(op)]
        own = _order(op), _stage(op)
        group = used[0] if used else groups.setdefault(own, _Group(-_stage(op)))
        group.ops.append(op)
        group_of[op] = group
    for group in groups.values():
        group.ops.sort(key=_order)
    return [groups[key] for key in sorted(groups, key=lambda key: key[0])]


class _Expansion:
    """The expansion of one loop."""

    def __init__(self, loop: Operation) -> None:
        self.loop = loop
        self.block = loop.block
        (self.body,) = loop.regions
        assert self.body.last is not None
        self.end: Operation = self.body.last
        self.groups = _groups(self.body)
        self.early = {op for group in self.groups for op in group.ops}
        self.deferred = sorted((op for op in self.body if _stage(op) > 0), key=_order)
        self.waits = [op for op in self.deferred if is_carried_wait(op, self.deferred)]
        self.order: dict[Operation, int] = {}  # of other operations, in the order of the new body
        self.issues = IssueOrder(self.body)

    def run(self) -> None:
        distance = max(abs(_stage(op)) for op in self.body)
        if not TripCount.is_computable(self.loop, distance):
            raise PassError(
                f"this loop cannot compute if an iteration {distance} later exists",
                loc=self.loop.loc,
            )
        self._arrange()
        # Found before anything is inserted: the operation before which each early one goes.
        anchors = {op: self._anchor(_order(op)) for op in (*self.early, *self.deferred)}
        completed = expand_deferred_waits(self.loop, self.waits, anchors)
        aheads: list[_Ahead] = []
        for group in self.groups:
            aheads.append(_Ahead(self, group, anchors))
            aheads[-1].build()
        for ahead in aheads:
            ahead.erase()
        self._count_issues()
        ops = [op for op in self.deferred if op not in self.waits]
        if ops:
            DeferredOps(self.loop, ops).expand(anchors)
        self._count_values(completed)
        for op in self.body:
            op.schedule = None
        self.loop.attributes["num_stages"] = 1

    # -- the operations of this iteration

    def _arrange(self) -> None:
        """Bring operations into their order, early and deferred ones last, after what they need."""
        moved = {*self.early, *self.deferred}
        arranged: dict[Operation, int] = {}

        def place(op: Operation, order: int) -> None:
            if op.block is self.body and op not in arranged and op is not self.end:
                for value in (value for nested in op.walk() for value in nested.inputs):
                    if value.op is not None and value.op is not op:
                        place(value.op, order)
                arranged[op] = order

        for op in sorted(self.body, key=lambda op: (op in moved, _order(op))):
            place(op, _order(op))
        if [*arranged, self.end] != list(self.body):
            for op in arranged:
                op.move_before(self.end)
        self.order = {op: order for op, order in arranged.items() if op not in moved}

    def _anchor(self, order: int) -> Operation:
        """Return the operation before which early ones of an order go."""
        return next((op for op, own in self.order.items() if own >= order), self.end)

    # -- waits

    def _count_issues(self) -> None:
        """Set how many younger operations waits leave in flight that wait for all older ones."""
        for op in self.body:
            completes = COUNTED_WAITS.get(op.defn)
            if completes is not None and not op.results:
                op.attributes["pending"] = self.issues.pending(op, completes, self.body)

    def _count_values(self, completed: Mapping[Operation, Value]) -> None:
        """Set how many younger operations waits leave in flight that wait for a value.

        completed: waits for values that were issued in the iteration before.
        """
        blocks = [self.body] if self.loop.block is self.block else [self.body, self.loop.block]
        for block in blocks:
            for op in block or ():
                completes = COUNTED_WAITS.get(op.defn)
                if completes is not None and op.results:
                    value = completed.get(op, op.inputs[0])
                    op.attributes["pending"] = count_issued_since(op, value, completes)


class _Ahead:
    """A group of early operations, in front of the loop and in it."""

    def __init__(
        self, expansion: _Expansion, group: _Group, anchors: dict[Operation, Operation]
    ) -> None:
        self.expansion = expansion
        self.loop, self.body = expansion.loop, expansion.body
        self.group = group
        self.anchors = anchors
        self.trip_count = TripCount(self.loop)
        self.sources = self._sources()
        inits = self.loop.inputs[3:]
        self.carried = [inits[position] for position in self.sources.carried]
        # Loads that addresses are computed from come first, with what they need.
        self.early, first = self.sources.loads, {*self.sources.loads}
        for op in reversed(self.sources.ops):
            if op in first:
                first.update(value.op for value in op.inputs if value.op is not None)
        in_order = sorted(self.sources.ops, key=lambda op: op not in first)
        self.sources = replace(self.sources, ops=tuple(in_order))
        # The group, and what nothing else needs.
        self.inside = {*group.ops}
        for op in reversed(in_order):
            if all(user in self.inside for value in op.results for user in value.users):
                self.inside.add(op)
        # Results that operations of later stages use.
        self.crossing = [
            value
            for op in group.ops
            for value in op.results
            if any(user not in self.inside for user in value.users)
        ]

    def _sources(self) -> BackwardSlice:
        ops = self.group.ops
        operands = [value for op in ops for value in operands_of(op, self.body)]
        needed = [value for value in operands if value.op not in ops]
        sources = backward_slice(self.loop, needed, [op for op in ops if op.defn is memory.load])
        if sources is None:
            op = self.group.ops[0]
            raise PassError(
                f"{op.name} depends on what can only be computed in its own iteration", loc=op.loc
            )
        return sources

    def erase(self) -> None:
        """Erase what runs early now; what is to go in front of it goes to what follows."""
        for op in reversed([op for op in self.body if op in self.inside]):
            following = op.next
            assert following is not None
            self.anchors |= {key: following for key, at in self.anchors.items() if at is op}
            op.erase()

    def build(self) -> None:
        trip_count, distance = self.trip_count, self.group.distance
        before, issues = LayoutBuilder.before(self.loop), self.expansion.issues
        ahead: list[dict[Value, Value]] = []
        present: list[Value | None] = []

        def advance_to(number: int) -> None:
            present.append(trip_count.exists(before, trip_count.lower, number))
            index = trip_count.index_after(before, trip_count.lower, number)
            ahead.append(self._advance(before, index, present[-1]))

        # The early loads of all iterations are issued before the first copy waits for its own. Then
        # the copies of one iteration follow those of another, as the loop will wait for them.
        for number in range(distance if self.early else 0):
            advance_to(number)
        for number in range(distance):
            if not self.early:
                advance_to(number)
            for op in self.group.ops:
                if op not in self.early:
                    self._copy(op, before, ahead[number], present[number], number, self._init)
                    issues.before.append((op.defn, issues.early(op, number)))
        inits = [mapping[value] for mapping in ahead for value in self.crossing]
        count, width = len(inits), len(self.crossing)

        def advance(args: list[Value]) -> Sequence[Value]:
            self.carried = args[count:]
            mapping = self._in_loop()
            return [*args[width:count], *[mapping[value] for value in self.crossing], *self.carried]

        args = add_loop_carried(self.loop, [*inits, *self.carried], advance)
        for value, arg in zip(self.crossing, args, strict=False):
            value.replace_by(arg)

    def _in_loop(self) -> dict[Value, Value]:
        """Build the group in the loop, for the iteration `distance` later."""
        distance, trip_count = self.group.distance, self.trip_count
        build = LayoutBuilder(self.body, self.anchors[self.group.ops[0]], self.loop.loc)
        induction = self.body.args[0]
        exists = trip_count.exists(build, induction, distance)
        later = trip_count.index_after(build, induction, distance)
        inside = None
        is_absent = exists is not None and constant_of(exists) is False  # all are in front
        if exists is not None and not is_absent and self._may_branch():
            inside, exists = self._branch(build, exists), None
        mapping = self._advance(inside or build, later, exists)
        for op in self.group.ops:
            if op in self.early or (is_absent and not op.results and op.defn not in COUNTED):
                continue
            at = LayoutBuilder(self.body, self.anchors[op], self.loop.loc)
            if inside is not None and op.defn not in COUNTED:
                at = inside
            new = self._copy(op, at, mapping, exists, distance)
            self.expansion.issues.positions[new] = self.expansion.issues.early(op, distance)
        return mapping

    def _may_branch(self) -> bool:
        """Return True if the last iterations branch around what they would issue.

        That is many instructions where addresses are computed from loads. The loop carries nothing
        that depends on them, and wgmmas run while threads wait for the loads in the branch.
        """
        one = len({self.anchors[op] for op in self.group.ops}) == 1
        is_async = any(op.defn is wgmma.wgmma for op in self.body)
        carries = self.crossing or self.sources.carried
        return bool(self.early) and one and is_async and not carries

    def _branch(self, build: LayoutBuilder, exists: Value) -> LayoutBuilder:
        """Return a builder for operations that run if an iteration exists."""
        blocks = Block(), Block()
        ends = [LayoutBuilder(block, None, self.loop.loc).op(control.yield_) for block in blocks]
        build.op(control.if_, exists, regions=blocks)
        return LayoutBuilder(blocks[0], ends[0], self.loop.loc)

    def _advance(
        self, build: LayoutBuilder, index: Value, exists: Value | None
    ) -> dict[Value, Value]:
        """Compute what the group needs in the iteration of an induction variable."""

        def load(op: Operation, mapping: dict[Value, Value]) -> None:
            self._copy(op, build, mapping, exists, self.group.distance)

        mapping = self.sources.clone_at(build, index, self.carried, load)
        self.carried = self.sources.next_carried(mapping)
        return mapping

    def _init(self, iteration: Value) -> Value:
        """Return an iteration's number as it is in the first one."""
        if iteration.owner is self.body and iteration.index > 0:
            return self.loop.inputs[2 + iteration.index]
        raise PassError(f"{iteration} is not a loop-carried count of iterations", loc=self.loop.loc)

    def _copy(
        self,
        op: Operation,
        build: LayoutBuilder,
        mapping: dict[Value, Value],
        exists: Value | None,
        distance: int,
        count: Callable[[Value], Value] = lambda value: value,
    ) -> Operation:
        """Copy an operation for a later iteration; return the copy."""
        new = copy_shifted(op, self.body, build, mapping, distance, count)
        guard(new, exists, LayoutBuilder.before(new))
        return new
