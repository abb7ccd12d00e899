"""Canonicalization of branches and loops: constant conditions, and values passed unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tile.ir.core import Operation, Value
from tile.ir.descriptor_type import Descriptor
from tile.ir.effects import constant_of, iterations
from tile.ir.op_definition import Trait
from tile.ir.ops import arith, control, shape
from tile.ir.rewriter import Rewriter
from tile.ir.types import Tile
from tile.transforms.canonicalize.arith import is_number
from tile.transforms.canonicalize.patterns import CANONICAL, constant
from tile.transforms.region_utils import first_carried, splice, without_results


def _drop(op: Operation, rewriter: Rewriter, replacements: Mapping[int, Value]) -> bool:
    """Remove results, and add all affected operations to the worklist."""
    if not replacements:
        return False
    values = [value for region in op.regions for value in (*region.args, *region.yielded)]
    affected = [user for value in (*values, *op.results) for user in value.users]
    affected.extend(value.op for value in (*values, *op.inputs) if value.op is not None)
    rewriter.push(without_results(op, replacements))
    for other in affected:
        rewriter.push(other)
    return True


@CANONICAL.simplification(control.if_)
def if_with_constant_condition(op: Operation, _: Rewriter) -> Sequence[Value] | None:
    truth = constant_of(op.inputs[0])
    return None if truth is None else splice(op.regions[0 if truth else 1], op, ())


@CANONICAL.pattern(control.if_)
def condition_inside_its_branch(op: Operation, rewriter: Rewriter) -> bool:
    """Inside the branches the condition is a constant."""
    condition = op.inputs[0]
    if len(condition.uses) < 2:
        return False
    changed = False
    for region, truth in zip(op.regions, (True, False), strict=True):
        inside = [(user, at) for user, at in condition.uses if region.encloses(user)]
        if inside:
            assert region.first is not None
            replacement = constant(region.first, rewriter, truth, condition.type)
            for user, position in inside:
                rewriter.set_operand(user, position, replacement)
            changed = True
    return changed


@CANONICAL.pattern(control.if_)
def equal_results(op: Operation, rewriter: Rewriter) -> bool:
    """Remove results that are the same value or constant in both branches, or unused."""
    replacements: dict[int, Value] = {}
    pairs = zip(*(region.yielded for region in op.regions), strict=True)
    for index, (then, orelse) in enumerate(pairs):
        number = constant_of(then)
        if then is orelse:
            replacements[index] = then
        elif number is not None and is_number(orelse, number):
            replacements[index] = constant(op, rewriter, number, then.type)
        elif not op.results[index].uses:
            replacements[index] = then
    return _drop(op, rewriter, replacements)


@CANONICAL.simplification(control.if_)
def if_to_select(op: Operation, rewriter: Rewriter) -> Sequence[Value] | None:
    """An `if` whose branches have only constants and a `yield` is a select."""
    constants = [inner for region in op.regions for inner in region if not inner.defn.terminator]
    if not op.results or any(inner.defn is not arith.const for inner in constants):
        return None
    if any(isinstance(value.type, Descriptor) for value in op.results):
        return None  # select is not defined on descriptors
    for inner in constants:
        inner.move_before(op)
    values = []
    for then, orelse in zip(*(region.yielded for region in op.regions), strict=True):
        condition = op.inputs[0]
        if isinstance(then.type, Tile):
            condition = rewriter.build(op, shape.splat, condition, shape=then.type.shape)
        values.append(rewriter.build(op, arith.select, condition, then, orelse))
    return values


@CANONICAL.simplification(control.for_)
def for_with_at_most_one_iteration(op: Operation, _: Rewriter) -> Sequence[Value] | None:
    """Replace a loop with zero iterations by its initial values, one with one by its body.

    A loop of one iteration that has dots stays, as loads of loops become async copies.
    """
    inits, numbers = op.inputs[3:], iterations(op)
    if op.inputs[0] is op.inputs[1] or numbers == range(0):
        return inits
    if numbers is None or len(numbers) > 1:
        return None
    if any(inner.has_trait(Trait.DOT) for inner in op.regions[0]):
        return None
    return splice(op.regions[0], op, [op.inputs[0], *inits])


@CANONICAL.simplification(control.while_)
def while_with_false_condition(op: Operation, _: Rewriter) -> Sequence[Value] | None:
    """Replace a loop whose condition is false by its test region, which runs once."""
    test = op.regions[0]
    if constant_of(test.yielded[0]) is not False:
        return None
    inits = op.inputs
    splice(test, op, inits)
    return inits


@CANONICAL.pattern(control.for_, control.while_)
def redundant_carried_values(op: Operation, rewriter: Rewriter) -> bool:
    """Remove carried values that every iteration passes on unchanged, or that are unused."""
    replacements: dict[int, Value] = {}
    first, body = first_carried(op), op.regions[-1]
    inits = op.inputs[len(op.defn.operands) :]
    for index, (init, following) in enumerate(zip(inits, body.yielded, strict=True)):
        arguments = [region.args[first + index] for region in op.regions]
        used = any(value.uses for value in (*arguments, op.results[index]))
        if following is init or following is arguments[-1] or not used:
            replacements[index] = init
    return _drop(op, rewriter, replacements)
