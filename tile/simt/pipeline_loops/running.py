"""Products of groups that go on while the loop's next round begins.

A product whose result the round only hands on to the next one need not be done in it. So the wait
behind it leaves as many products as a round begins: those of the round before are done then, and
what they have read may be overwritten.

    for .. iter(%acc = %z) {                  for .. iter(%acc = %z) {
      %r = group_dot %a, %b, %acc               %r = group_dot %a, %b, %acc
      %s = group_wait %r {pending = 0}          %s = group_wait %r {pending = 1}
      yield %s                                  // copies to where the last round's factors were
    }                                           yield %s
                                              }
                                              %t = group_wait %s {pending = 0}
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tile.ir.core import Operation, Value
from tile.ir.ops import control
from tile.simt.expose_factors import stored_factors
from tile.simt.layout_rules import LayoutBuilder
from tile.simt.ops import group
from tile.simt.pipeline_loops.factors import factors
from tile.simt.pipeline_loops.room import Factor

_GROUP = frozenset({group.group_dot, group.group_wait})


def running(
    loop: Operation, copied: Collection[Operation], doubled: Collection[Factor] = ()
) -> list[Operation]:
    """The products of a loop, if all of them may go on into the next round; else none.

    `copied` are the loads that become rings of buffers, and `doubled` factors with two places.
    """
    (body,) = loop.regions
    served = {(f.product, f.index) for load in copied for f in factors(load.result)} | {*doubled}
    products = [op for op in body if op.defn is group.group_dot]
    inside = sum(op.defn in _GROUP for op in loop.walk())
    calls = any(op.defn is control.call for op in loop.walk())
    if calls or inside != 2 * len(products):
        return []
    return products if all(_only_carried(op, served) for op in products) else []


def _only_carried(product: Operation, served: Collection[tuple[Operation, int]]) -> bool:
    """Whether a product adds to what the loop carries, from buffers that stay for a round."""
    body, acc = product.block, product.inputs[2]
    (wait,) = product.result.users
    if wait.defn is not group.group_wait or len(wait.result.uses) != 1:
        return False
    ((end, index),) = wait.result.uses
    if end.defn is not control.yield_ or end.block is not body:
        return False
    if acc.owner is not body or acc.index != index + 1:
        return False
    kept = (i for i in stored_factors(product) if product.inputs[i].block is body)
    return all((product, i) in served for i in kept)


def keep_running(loop: Operation, products: Sequence[Operation]) -> Operation:
    """Let products go on into the next round; the operation behind the waits for the last one's."""
    assert products[-1].block is not None and loop.block is not None
    following = products[-1].next
    assert following is not None
    waits = [next(product.result.users) for product in products]
    while following in waits:
        following = following.next
        assert following is not None
    build = LayoutBuilder.before(following)
    after = LayoutBuilder(loop.block, loop.next, loop.loc)
    for product, wait in zip(products, waits, strict=True):
        ((_, index),) = wait.result.uses
        with build.at(wait.loc):
            left = build(group.group_wait, product.result, pending=len(products))
        left.name = wait.result.name
        wait.replace_by([left])
        _wait_behind(loop.results[index], after)
    return following


def _wait_behind(result: Value, build: LayoutBuilder) -> None:
    """Wait for what a loop gives before anybody uses it."""
    users = list(result.uses)
    done = build(group.group_wait, result, pending=0)
    done.name = result.name
    for user, index in users:
        user.set_operand(index, done)
