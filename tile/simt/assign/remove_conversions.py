"""Remove layout conversions, or make them cheaper.

*Folding*: redundant conversions, chains and duplicates are removed, whatever they cost, and
conversions are hoisted out of loops.

*Backward rematerialization*: a value is computed again in the layout where it is needed, and its
operands are converted instead, where that costs less: they may be narrower, as before an extension,
or smaller, as before a broadcast. Constants and indices need no conversion.

*Loop-carried values and results of branches* get the layout with the least to convert; in the end,
loops carry values in a second layout, too, if they can be computed in it.

    %r = for ... iter(%a = %x) : #a {         %y = convert_layout %x : #b
      %b = convert_layout %a : #b             %r = for ... iter(%b = %y) : #b {
      %c = add %b, %b : #b                      %c = add %b, %b : #b
      %d = convert_layout %c : #a               yield %c
      yield %d                                }
    }                                         %s = convert_layout %r : #a

*Sinking*: the operations after a conversion are done in the layout before it, as long as each is
the only user of the one before, and the conversion moves to where there is least to convert: below
a truncation or a reduction, or where another conversion follows.

*Second layouts*: a loop that carries indices, such as rows of its next block, often uses them in
several layouts, for the addresses of tiles, of vectors, and for masks. They are computed in each:

    for .. iter(%a = %x) : #a {               %y = convert_layout %x : #b
      %m = cmp %a, %n : #a                    for .. iter(%a = %x, %b = %y) : #a, #b {
      %c = convert_layout %m : #b               %c = cmp %b, %o : #b
      ..                                        ..
      %s = add %a, %t : #a                      %s = add %a, %t : #a
                                                %r = add %b, %u : #b
      yield %s                                  yield %s, %r
    }                                         }
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tile.ir.builder import Builder
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.module import Module
from tile.ir.op_definition import Level, Trait
from tile.ir.ops import control, reduce, shape
from tile.ir.passes import module_pass
from tile.ir.types import Tile, with_layout
from tile.simt.assign.layout_cost import RematerializationPlan, conversion_cost, op_cost, set_layout
from tile.simt.layouts.dims import REGISTER
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops.layout import convert_layout
from tile.simt.ops.layout_inference import (
    LayoutBuilder,
    is_flexible,
    layout_of,
    operand_layout,
    result_layout,
    tile_type,
)
from tile.simt.target import GENERIC, SimtTarget
from tile.simt.tuning import TuningConstants
from tile.transforms.dce import remove_dead
from tile.transforms.region_utils import (
    CONTROL_FLOW_OPS,
    CarriedTile,
    Use,
    add_loop_carried,
    carried_tiles,
    conversion_loc,
    used_value,
)


def conversions(function: Function) -> list[Operation]:
    """Return the conversions of a function, in program order."""
    return [op for op in function.walk() if op.defn is convert_layout]


def fold(function: Function) -> None:
    """Fold chains of conversions, and remove those to the layout that a value has already.

    A chain becomes one conversion:

        %b = convert_layout %a : #b               %c = convert_layout %a : #c
        %c = convert_layout %b : #c
    """
    for op in conversions(function):
        source = op.inputs[0].op
        while source is not None and source.defn is convert_layout:
            op.set_operand(0, source.inputs[0])
            source = op.inputs[0].op
        if layout_of(op.inputs[0]) == layout_of(op.result):
            op.replace_by([op.inputs[0]])
    for op in reversed(conversions(function)):
        if not op.result.uses:
            op.erase()


def hoist(function: Function) -> None:
    """Hoist conversions of loop-invariant values out of loops."""
    for op in conversions(function):
        at = op
        defining = op.inputs[0].block
        for outer in op.ancestors():
            if any(region is defining for region in outer.regions):
                break
            if outer.has_trait(Trait.LOOP):
                at = outer
        if at is not op:
            op.move_before(at)


def merge(function: Function) -> None:
    """Merge equal conversions."""
    _merge(function.body, {})


def _merge(block: Block, converted: dict[tuple[Value, LinearLayout], Value]) -> None:
    for op in block:
        if op.defn is convert_layout:
            key = op.inputs[0], layout_of(op.result)
            if key in converted:
                op.replace_by([converted[key]])
            else:
                converted[key] = op.result
        for region in op.regions:
            _merge(region, dict(converted))


def rematerialize_backward(function: Function, tuning: TuningConstants) -> bool:
    """Replace conversions of values that are cheaper to recompute; return True if there was one."""
    changed = False
    for op in reversed(conversions(function)):
        if not op.result.uses:
            continue
        value, layout = op.inputs[0], layout_of(op.result)
        assert op.block is not None
        plan = RematerializationPlan(tuning, op.block, op)
        converted = conversion_cost(tile_type(value), layout_of(value), layout, tuning)
        if plan.cost(value, layout) < converted:
            op.replace_by([plan.make(value, layout)])
            changed = True
    return changed


def relayout_carried(function: Function, tuning: TuningConstants) -> bool:
    """Carry values in the layouts with the least to convert; return True if any changed."""
    changed = False
    for op in list(function.walk()):
        if op.defn in CONTROL_FLOW_OPS:
            for group in carried_tiles(op):
                changed |= _move(op, group, tuning)
    return changed


def _move(op: Operation, group: CarriedTile, tuning: TuningConstants) -> bool:
    own = layout_of(group.result)
    candidates = dict.fromkeys([own, *_candidates(group)])
    if len(candidates) == 1:
        return False
    best = min(candidates, key=lambda layout: _cost(op, group, layout, tuning))
    if best == own:
        return False
    _relocate(op, group, best)
    return True


def _candidates(group: CarriedTile) -> list[LinearLayout]:
    """Return the layouts from which and to which a carried value is converted."""
    handed = [value.op for value in (*group.inits, *group.yields)]
    sources = [op.inputs[0] for op in handed if op is not None and _converts(op)]
    results = [user.result for value in group.values for user in value.users if _converts(user)]
    return [layout_of(value) for value in (*sources, *results)]


def _converts(op: Operation) -> bool:
    return op.defn is convert_layout


def _cost(
    op: Operation, group: CarriedTile, layout: LinearLayout, tuning: TuningConstants
) -> float:
    """Return the cost of the conversions if a value is carried in a layout."""
    iterations = tuning.loop_weight if op.has_trait(Trait.LOOP) else 1
    available = frozenset((value, layout) for value in group.values)
    arriving = [
        (use, RematerializationPlan(tuning, _block(use), available=available))
        for use in (*group.starts, *group.ends)
    ]
    total = 0.0
    for use, plan in arriving:
        cost = plan.cost(used_value(use), layout)
        total += cost * iterations if use in group.ends else cost
    # The operations that compute the next value are then done in that layout, too.
    rematerialized = {
        value.op for _, plan in arriving for (value, _), done in plan.chosen.items() if done
    }

    def leaving(value: Value) -> float:
        """Return the cost to use a value that has the layout."""
        layouts = {
            layout_of(user.result) if _converts(user) else layout_of(value)
            for user in value.users
            if user not in rematerialized
        }
        return sum(conversion_cost(tile_type(value), layout, other, tuning) for other in layouts)

    return total + iterations * sum(map(leaving, group.arguments)) + leaving(group.result)


def _block(use: Use) -> Block:
    block = use[0].block
    assert block is not None
    return block


def _relocate(op: Operation, group: CarriedTile, layout: LinearLayout) -> None:
    """Carry a value in another layout, with conversions to and from it."""
    own = group.result.type
    for user, index in (*group.starts, *group.ends):
        value = used_value((user, index))
        b = LayoutBuilder(_block((user, index)), user, conversion_loc(value, [user]))
        user.set_operand(index, b.convert(value, layout))
    for value in group.values:
        users = list(value.uses)
        value.type = with_layout(own, layout)
        if users:
            following = op.next if value is group.result else value.block.first
            loc = conversion_loc(value, [user for user, _ in users])
            back = LayoutBuilder(value.block, following, loc)(convert_layout, value, result=own)
            for user, index in users:
                user.set_operand(index, back)


_REDUCTIONS = frozenset({reduce.reduce, reduce.arg_reduce, reduce.reduce_region})


def sink_conversions(
    converts: Iterable[Operation], tuning: TuningConstants, *, below_reductions: bool = True
) -> bool:
    """Sink conversions below operations where that costs less; return True if one moved."""
    changed = False
    for op in converts:
        path = _best(op, tuning, below_reductions)
        if path:
            _move_before(op, path, tuning)
            changed = True
    return changed


@dataclass(frozen=True)
class _Step:
    """An operation to be done in another layout, and the layout of its result then."""

    op: Operation
    taken: LinearLayout
    result: LinearLayout


def _best(convert: Operation, tuning: TuningConstants, below_reductions: bool) -> list[_Step]:
    """Return the operations that are cheaper to do before a conversion."""

    def conversion(value: Value, source: LinearLayout, result: LinearLayout) -> int:
        return conversion_cost(tile_type(value), source, result, tuning)

    source = convert.inputs[0]
    before = conversion(source, layout_of(source), layout_of(convert.result))
    plan = RematerializationPlan(tuning, source.block, convert)
    steps: list[_Step] = []
    best, least, spent = 0, float(before), 0.0
    value, layout = convert.result, layout_of(source)
    while len(steps) < tuning.crossed_ops and (user := _only_user(value)) is not None:
        if user.defn is convert_layout:
            # The two conversions merge.
            end = layout_of(user.result)
            saved = conversion(value, layout_of(value), end)
            if spent + conversion(value, layout, end) - saved < least:
                best = len(steps)
            break
        if not _movable(user, value) or (user.defn in _REDUCTIONS and not below_reductions):
            break
        result = result_layout(user, layout)
        others = [v for v in user.inputs if v is not value and isinstance(v.type, Tile)]
        spent += sum(plan.cost(v, layout) - _saved(v, layout, tuning) for v in others)
        spent += op_cost(user, layout, tuning) - op_cost(user, layout_of(value), tuning)
        steps.append(_Step(user, layout, result))
        value, layout = user.results[0], result
        total = spent + sum(
            conversion(v, result, layout_of(v)) for v in user.results if isinstance(v.type, Tile)
        )
        if total < least:
            best, least = len(steps), total
        if len(user.results) > 1 or not isinstance(value.type, Tile):
            break
    return steps[:best]


def _saved(value: Value, layout: LinearLayout, tuning: TuningConstants) -> int:
    """Return the cost of the conversion that gives a value for one use, if from `layout`."""
    op = value.op
    if op is None or op.defn is not convert_layout or len(value.uses) > 1:
        return 0
    source = layout_of(op.inputs[0])
    if source != layout:
        return 0
    return conversion_cost(tile_type(value), source, layout_of(value), tuning)


def _only_user(value: Value) -> Operation | None:
    users = {*value.users}
    return users.pop() if len(users) == 1 else None


def _movable(op: Operation, value: Value) -> bool:
    """Return True if an operation can be done in the value's layout before its conversion."""
    if op.block is not value.block or op.defn is shape.broadcast:
        return False
    return op.defn in _REDUCTIONS or is_flexible(op)


def _move_before(convert: Operation, steps: list[_Step], tuning: TuningConstants) -> None:
    """Do some operations before a conversion, which then follows the last of them."""
    value = convert.inputs[0]
    plan = RematerializationPlan(tuning, value.block, convert)
    converted = convert.result
    for step in steps:
        for other in dict.fromkeys(step.op.inputs):
            if other is not converted and isinstance(other.type, Tile):
                plan.cost(other, step.taken)
        for index, operand in enumerate(step.op.operands):
            if operand is converted:
                step.op.set_operand(index, value)
            elif operand is not None and isinstance(operand.type, Tile):
                step.op.set_operand(index, plan.make(operand, step.taken))
        value = converted = step.op.results[0]
        _set_layouts(step.op, step.result, last=step is steps[-1])
    if not convert.result.uses:
        convert.erase()


def _set_layouts(op: Operation, layout: LinearLayout, *, last: bool) -> None:
    """Give the results of an operation another layout; convert those of the last one back."""
    assert op.block is not None
    b = Builder.after(op)
    for value in op.results:
        if not isinstance(value.type, Tile):
            continue
        ty = value.type
        if len(op.results) == 1:
            set_layout(op, layout)
        else:
            value.type = with_layout(value.type, layout)
        if last:
            users = list(value.uses)
            back = b(convert_layout, value, result=ty)
            for user, index in users:
                user.set_operand(index, back)


@module_pass("remove-conversions", before=Level.LAID_OUT)
def remove_conversions(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Remove layout conversions, and shrink those that remain.

    A conversion of a cheap value is replaced by computing it in the other layout. A conversion
    moves to where elements are fewer or narrower: above an extension or a broadcast, below a
    truncation or a reduction. A loop-carried value gets the layout in which the loop uses it, and a
    loop-invariant one is converted before the loop. Indices are carried in several layouts.

        %c = cast %x {to = f32} : <..., #a>       %y = convert_layout %x : <..., #b>
        %y = convert_layout %c : <..., #b>        %c = cast %y {to = f32} : <..., #b>

        %o = arange {...} : <..., #a>             %o = arange {...} : <..., #b>
        %p = convert_layout %o : <..., #b>
    """
    for function in module:
        for _ in range(target.tuning.conversion_sweeps):  # each may enable rewrites in the next
            if not any(op.defn is convert_layout for op in function.walk()):
                break
            if not _sweep(function, target.tuning):
                break
        if duplicate_carried(function, target.tuning):
            fold(function)
            merge(function)
            remove_dead(function)


def _sweep(function: Function, tuning: TuningConstants) -> bool:
    """Apply every rewrite once; return True if a change may enable more."""
    fold(function)
    hoist(function)
    merge(function)
    changed = relayout_carried(function, tuning)
    changed |= rematerialize_backward(function, tuning)
    changed |= sink_conversions(conversions(function), tuning)
    if changed:
        fold(function)
        merge(function)
    remove_dead(function)
    return changed


Key = tuple[Value, LinearLayout]


def duplicate_carried(function: Function, tuning: TuningConstants) -> bool:
    """Replace conversions in loops by loop-carried values; return True if there was one."""
    loops = [op for op in function.walk() if op.defn is control.for_]
    changed = [_Loop(loop, tuning).run() for loop in loops]
    return any(changed)


class _Loop:
    """A loop, and the loop-carried values that are copies of others in other layouts."""

    def __init__(self, loop: Operation, tuning: TuningConstants) -> None:
        self.loop = loop
        self.tuning = tuning
        (self.body,) = loop.regions
        self.copies: dict[Key, Value] = {}

    def run(self) -> bool:
        """Replace the conversions of the body that cost more; return True if there was one."""
        changed = False
        for op in [op for op in self.body if op.defn is convert_layout]:
            keys = self._carried(op.inputs[0], layout_of(op.result))
            if keys:
                changed |= self._replace(op, keys)
        return changed

    def _carried(self, value: Value, layout: LinearLayout) -> set[Key]:
        """Return what a value would be computed from in a layout, of what the loop carries."""
        keys: set[Key] = set()
        worklist, seen = [(value, layout)], 0
        while worklist and seen < self.tuning.rematerialized_ops:
            value, layout = worklist.pop()
            op = value.op
            if value.block is not self.body or layout_of(value) == layout:
                continue
            seen += 1
            if op is None:
                keys.add((value, layout))
            elif op.defn is convert_layout:
                worklist.append((op.inputs[0], layout))
            elif is_flexible(op):
                taken = operand_layout(op, layout)
                worklist += [(x, taken) for x in op.inputs if isinstance(x.type, Tile)]
        return keys

    def _replace(self, op: Operation, keys: set[Key]) -> bool:
        """Compute the result of a conversion in its layout if that costs less."""
        value, layout = op.inputs[0], layout_of(op.result)
        new = [_Copy(self, key) for key in keys if key not in self.copies]
        plan = self.plan({*self.copies, *keys}, op)
        cost = self.tuning.loop_weight * plan.cost(value, layout) + sum(copy.cost for copy in new)
        conversion = conversion_cost(tile_type(value), layout_of(value), layout, self.tuning)
        if cost >= self.tuning.loop_weight * conversion:
            return False
        for copy in new:
            self.copies[copy.key] = copy.make()
        plan.made.update(self.copies)
        op.replace_by([plan.make(value, layout)])
        return True

    def plan(self, keys: Iterable[Key], instead: Operation | None = None) -> RematerializationPlan:
        """Return a plan for the body, where the loop carries these values."""
        return RematerializationPlan(self.tuning, self.body, instead, frozenset(keys))


class _Copy:
    """A loop-carried value in a second layout, not yet made."""

    def __init__(self, parent: _Loop, key: Key) -> None:
        self.parent = parent
        self.key = key
        value, layout = key
        loop, tuning = parent.loop, parent.tuning
        assert loop.block is not None
        self.yielded = parent.body.yielded[value.index - 1]
        self.init = loop.inputs[2 + value.index]
        self.next = parent.plan([*parent.copies, key])
        self.before = RematerializationPlan(tuning, loop.block)
        self.cost = self.before.cost(self.init, layout)
        self.cost += tuning.loop_weight * self.next.cost(self.yielded, layout)
        registers = tile_type(value).of.bytes_of(1 << layout.in_bits(REGISTER)) // 4
        if registers > tuning.replicated_registers:
            self.cost = float("inf")

    def make(self) -> Value:
        """Add the value to the loop."""
        layout = self.key[1]

        def advance(args: list[Value]) -> list[Value]:
            self.next.made.update({**self.parent.copies, self.key: args[0]})
            return [self.next.make(self.yielded, layout)]

        init = self.before.make(self.init, layout)
        (arg,) = add_loop_carried(self.parent.loop, [init], advance)
        return arg
