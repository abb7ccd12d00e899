"""Products of groups that go on while threads do something else.

Three things are done to a loop whose products are all in its own block. Products that need nothing
of what the round computes begin one after the other. A wait comes just before what has been
computed is used, and leaves the products that have begun since. And a product whose result the
round only hands on to the next one, which adds to it, need not be done in it: it is done when the
next round's first products have begun and a wait has left only these. What it has read may be
overwritten then.

    for .. iter(%acc = %z) {                  for .. iter(%acc = %z) {
      %r = group_dot %k, %q, %z                 %r = group_dot %k, %q, %z
      %s = group_wait %r {pending = 0}          %t = group_dot %v, %o, %z
      %p = exp2 %s                              %a = group_wait %acc {pending = 2}
                                                // copies to where the last round's factors were
                                                %s = group_wait %r {pending = 1}
                                                %p = exp2 %s
      %t = group_dot %v, %o, %z
      %u = group_wait %t {pending = 0}          %u = group_wait %t {pending = 0}
      %m = mul %p, %u                           %m = mul %p, %u
      %w = group_dot %m, %q, %acc               %w = group_dot %m, %q, %a
      %x = group_wait %w {pending = 0}          yield %w
      yield %x                                }
    }                                         %x = group_wait %y {pending = 0}

The accumulators of a product that is under way around a loop can only be added to there: the
assembler of the one machine that has such products serialises them all if it finds another use
behind a wait that leaves younger ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tile.ir.core import Block, Operation, Value
from tile.ir.ops import control
from tile.simt.expose_factors import stored_factors
from tile.simt.layout_rules import LayoutBuilder
from tile.simt.ops import group
from tile.simt.pipeline_loops.factors import factors_in
from tile.simt.pipeline_loops.occupancy import keeps_company
from tile.simt.pipeline_loops.rings import Buffered
from tile.simt.pipeline_loops.room import Factor, Room

_GROUP = frozenset({group.group_dot, group.group_wait})


@dataclass(frozen=True)
class Running:
    """The products of a loop, in order.

    `early` are those that need nothing of what a round computes, and begin first; none if all stay
    where they are. `kept` are those whose factors stay where they are for a round, whatever else
    uses shared memory in it.
    """

    loop: Operation
    products: tuple[Operation, ...]
    early: tuple[Operation, ...]
    kept: frozenset[Operation]


def running(
    loop: Operation, copied: Collection[Buffered], room: Room, doubled: Collection[Factor] = ()
) -> Running | None:
    """The products of a loop, if some can go on and it is no loss; else None.

    `copied` are the loads that become rings of buffers, and `doubled` factors with two places.
    """
    read = (f for each in copied for f in factors_in(each.load.result, each.layout))
    served = {(factor.product, factor.index) for factor in read}
    products = _products(loop)
    if only_carried(loop, served | {*doubled}):
        return Running(loop, products, (), frozenset(products))
    kept = frozenset(op for op in products if _stays(op, served))
    early = tuple(op for op in products if op in kept and _is_early(op, served))
    if not early or not keeps_company(products, room.loops[loop], room.target):
        return None
    return Running(loop, products, early, kept)


def only_carried(loop: Operation, served: Collection[Factor]) -> bool:
    """Whether a round only adds to what it hands on, with factors `served` in buffers that stay."""
    products = _products(loop)
    return bool(products) and all(_is_late(op) and _stays(op, served) for op in products)


def _products(loop: Operation) -> tuple[Operation, ...]:
    """The products of a loop, each with its wait; none if there are others inside of the body."""
    (body,) = loop.regions
    products = tuple(op for op in body if op.defn is group.group_dot)
    inside = sum(op.defn in _GROUP for op in loop.walk())
    calls = any(op.defn is control.call for op in loop.walk())
    return () if calls or inside != 2 * len(products) else products


def _stays(product: Operation, served: Collection[Factor]) -> bool:
    """Whether the factors of a product are in registers, or in buffers that stay for a round."""
    stored = (i for i in stored_factors(product) if product.inputs[i].block is product.block)
    return all((product, i) in served for i in stored)


def _is_early(product: Operation, served: Collection[Factor]) -> bool:
    """Whether a product can begin when the loop's copies are there."""
    body, acc = product.block, product.inputs[2]
    there = (
        (product, i) in served or value.block is not body or value.owner is body
        for i, value in enumerate(product.inputs[:2])
    )
    return all(there) and (acc.owner is body or acc.block is not body)


def keep_running(found: Running) -> Operation | None:
    """Let products go on while they can; the operation before which copies can begin.

    All products of the round before are done then. None if they are from the start.
    """
    (body,) = found.loop.regions
    _gather(found.early)
    first = found.early or found.products  # that a round begins before it waits for the last one's
    numbers = {op: number for number, op in enumerate(body)}
    late = [op for op in found.products if op in found.kept and _is_late(op)]
    for product in found.products:
        if product in found.kept and product not in late:
            _wait_at_use(product, found, numbers)
    waits = [next(product.result.users) for product in late]
    following = first[-1].next
    while following in waits:
        following = following.next
    assert following is not None
    begun = sum(numbers[op] <= numbers[first[-1]] for op in found.products)
    assert found.loop.block is not None
    after = LayoutBuilder(found.loop.block, found.loop.next, found.loop.loc)
    for product, wait in zip(late, waits, strict=True):
        ((_, index),) = wait.result.uses
        wait.replace_by([product.result])
        _wait(found.loop.results[index], 0, after)
    if not late:
        return None
    last = late[-1]
    has_begun = numbers[last] <= numbers[first[-1]]
    # An accumulator passes through the wait for the last round's products: that of the last one.
    passing = last.result if has_begun else last.inputs[2]
    _wait(passing, begun, LayoutBuilder.before(following))
    return following


def _gather(early: Sequence[Operation]) -> None:
    """Put products behind the first one, with what they are computed from."""
    if len(early) < 2:
        return
    first, *others = early
    body, following = first.block, first.next
    assert body is not None and following is not None
    behind: set[Operation] = set()
    op: Operation | None = following
    while op is not None:
        behind.add(op)
        op = op.next
    for product in others:
        _bring(product, behind, body, following)


def _bring(op: Operation, behind: set[Operation], body: Block, before: Operation) -> None:
    """Put an operation in front of another one, and first what it needs of those behind that."""
    for nested in op.walk():
        for value in nested.inputs:
            if isinstance(value.owner, Operation) and value.owner in behind:
                _bring(value.owner, behind, body, before)
    behind.discard(op)
    op.unlink()
    body.insert(op, before)


def _is_late(product: Operation) -> bool:
    """Whether a round only adds to what the round before handed on, and hands that on."""
    body, (wait,) = product.block, product.result.users
    assert body is not None
    if len(wait.result.uses) != 1:
        return False
    ((end, index),) = wait.result.uses
    if end.defn is not control.yield_ or end.block is not body:
        return False
    return list(body.args[index + 1].uses) == [(product, 2)]


def _wait_at_use(product: Operation, found: Running, numbers: Mapping[Operation, int]) -> None:
    """Wait for a product when the round uses it, and not for those that have begun since."""
    body, (wait,) = product.block, product.result.users
    assert body is not None
    users = (_top(user, body) for user in wait.result.users)
    use = min(users, key=numbers.__getitem__, default=wait)
    since = range(numbers[product] + 1, numbers[use])
    pending = sum(numbers[op] in since for op in found.products)
    done = LayoutBuilder.before(use)(group.group_wait, product.result, pending=pending)
    wait.replace_by([done])


def _wait(value: Value, pending: int, build: LayoutBuilder) -> None:
    """Let a value pass through a wait before anybody uses it."""
    uses = list(value.uses)
    done = build(group.group_wait, value, pending=pending)
    done.name = value.name
    for user, index in uses:
        user.set_operand(index, done)


def _top(op: Operation, body: Block) -> Operation:
    """The operation of a block that is, or has in it, another one."""
    while op.block is not body:
        assert op.parent is not None
        op = op.parent
    return op
