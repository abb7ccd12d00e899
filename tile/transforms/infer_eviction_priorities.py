"""Inference of eviction priorities: keep in caches what a later loop of a program reads again."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import chain

from tile.analysis.uniformity import Variation, uniformity
from tile.ir.core import Block, Operation, Value
from tile.ir.effects import is_pure
from tile.ir.module import Module
from tile.ir.op_definition import Trait
from tile.ir.ops import control, memory
from tile.ir.ops.descriptor import block_pointers_of
from tile.ir.ops.memory import CacheModifier, Eviction
from tile.ir.passes import module_pass
from tile.transforms.cse import Key, expression_key


@module_pass("infer-eviction-priorities")
def infer_eviction_priorities(module: Module) -> None:
    """Set the eviction priority of loads in loops of which a later one reads the same addresses.

    The cache lines of the last loop's loads are evicted first, those of earlier ones last. Lines
    that the last loop stores are evicted first, too, if no loop follows: they would evict what is
    read again. Accesses stay as they are if they have a priority or a cache modifier, if programs
    share what they read, and in loops with dots, whose operands are shared mostly. TorchInductor
    sets the priorities of its looped reductions so.

        %m = for %i = .. {                     %m = for %i = .. {
          %p = addptr %x, %i                     %p = addptr %x, %i
          %v = load %p                           %v = load %p {eviction = evict_last}
          ..                                     ..
        }                                      }
        for %i = .. {                          for %i = .. {
          %p = addptr %x, %i                     %p = addptr %x, %i
          %v = load %p                           %v = load %p {eviction = evict_first}
          store %q, %w                           store %q, %w {eviction = evict_first}
    """
    for function in module:
        blocks = [function.body, *chain.from_iterable(op.regions for op in function.walk())]
        rereads = [readers for block in blocks for readers in _rereads(block)]
        if not rereads:
            continue
        variation = uniformity(function)
        for readers in rereads:
            earlier = dict.fromkeys(chain(*readers[:-1]), Eviction.LAST)
            last = dict.fromkeys([*readers[-1], *_last_stores(readers[-1])], Eviction.FIRST)
            for access, priority in (earlier | last).items():
                if _is_plain(access) and variation[access["ptr"]] is Variation.VARYING:
                    access.attributes["eviction"] = priority


def _rereads(block: Block) -> list[list[list[Operation]]]:
    """Return the loads of the same addresses in several loops of a block, by their loop."""
    loops = [op for op in block if op.defn is control.for_ and not _has_dots(op)]
    if len(loops) < 2:
        return []
    numbers: dict[Key, int] = {}
    readers: dict[Hashable, dict[Operation, list[Operation]]] = {}
    for loop in loops:
        addresses = _Addresses(loop, numbers)
        for op in loop.regions[0]:
            if op.defn is memory.load:
                key = (loop["upper"], loop["step"], addresses.number(op["ptr"]))
                readers.setdefault(key, {}).setdefault(loop, []).append(op)
    return [list(by_loop.values()) for by_loop in readers.values() if len(by_loop) > 1]


def _last_stores(loads: list[Operation]) -> list[Operation]:
    """Return the stores of a loop with these loads, if no other loop of its block follows."""
    body = loads[0].block
    assert body is not None
    assert body.parent is not None
    following = body.parent.next
    while following is not None and following.defn is not control.for_:
        following = following.next
    return [op for op in body if op.defn is memory.store and following is None]


def _has_dots(loop: Operation) -> bool:
    return any(op.has_trait(Trait.DOT) for op in loop.walk())


def _is_plain(access: Operation) -> bool:
    """Return True for an access without hints of the user, which TMA does not execute."""
    plain = access["eviction"] is Eviction.NONE and access["cache"] is CacheModifier.NONE
    volatile = access.defn is memory.load and access["volatile"]
    return plain and not volatile and block_pointers_of(access) is None


class _Addresses:
    """Numbers of values in a loop: equal ones are equal functions of the loop's iteration.

    numbers: those of the expressions in all loops that are compared.
    """

    def __init__(self, loop: Operation, numbers: dict[Key, int]) -> None:
        self.loop = loop
        self.body = loop.regions[0]
        self.numbers = numbers
        self.assigned: dict[Value, Hashable] = {self.body.args[0]: "index"}

    def number(self, value: Value) -> Hashable:
        """Return the number of a value; a value without one stands for itself."""
        if value not in self.assigned:
            key = self._key(value)
            number = value if key is None else self.numbers.setdefault(key, len(self.numbers))
            self.assigned[value] = number
        return self.assigned[value]

    def _key(self, value: Value) -> Key | None:
        if value.owner is self.body:
            return self._carried(value)
        op = value.op
        if op is None or op.block is not self.body or not is_pure(op) or op.regions:
            return None
        return (value.index, *expression_key(op, [self.number(x) for x in op.inputs]))

    def _carried(self, value: Value) -> Key | None:
        """Return the key of a value that each iteration computes from its last one, or None."""
        at = value.index - 1
        step = self.body.yielded[at].op
        if step is None or step.block is not self.body or not is_pure(step) or step.regions:
            return None
        others = [x for x in step.inputs if x is not value]
        if any(x.block is self.body for x in others):
            return None
        operands = ["carried" if x is value else x for x in step.inputs]
        return ("carried", self.loop.inputs[3 + at], *expression_key(step, operands))
