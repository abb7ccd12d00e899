"""Which loops are pipelined, which of their loads, and how."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tile.analysis.alias import Alias
from tile.analysis.axis_info import AxisInfoResult, axis_info
from tile.ir.core import Function, Operation, Value
from tile.ir.effects import constant_of, is_pure
from tile.ir.opdef import Effect
from tile.ir.ops import control, debug, memory
from tile.ir.ops.memory import CacheModifier
from tile.ir.types import Tile
from tile.simt.group_layouts import run_axis
from tile.simt.layout_rules import layout_of
from tile.simt.layouts.layout import LinearLayout
from tile.simt.layouts.shared_layout import shared_layout
from tile.simt.pipeline_loops.arrivals import barrier_bytes, box_of
from tile.simt.pipeline_loops.buffers import copy_layout, copy_vector, store_layout
from tile.simt.pipeline_loops.doubled import to_double
from tile.simt.pipeline_loops.factors import factors, wanted_layout
from tile.simt.pipeline_loops.loads import registers
from tile.simt.pipeline_loops.readers import Reader, in_pieces, readers
from tile.simt.pipeline_loops.rings import Buffered
from tile.simt.pipeline_loops.room import Factor, Room, Served, aligned, factor_bytes
from tile.simt.pipeline_loops.rounds import Rounds
from tile.simt.pipeline_loops.slices import DOTS, slice_of

# The part of a thread's registers that tiles loaded ahead may take: one in so many.
REGISTER_SHARE = 3


@dataclass(frozen=True)
class Choice:
    """What becomes of the loads of a loop.

    Some are copied to shared memory `stages` - 1 rounds ahead; others are loaded one round ahead,
    and then stored to one of `places` stages there, or carried in registers. The factors `doubled`,
    which the round makes, are stored to one of two places.
    """

    loop: Operation
    stages: int
    copied: tuple[Buffered, ...]
    places: int
    stored: tuple[Buffered, ...]
    carried: tuple[Operation, ...]
    doubled: tuple[Factor, ...] = ()

    @property
    def buffered(self) -> list[Operation]:
        """The loads that go through shared memory."""
        return [each.load for each in (*self.copied, *self.stored)]

    @property
    def ahead(self) -> list[Operation]:
        """The loads that are done one round ahead, into registers."""
        return [*self.carried, *[each.load for each in self.stored]]

    @property
    def bytes(self) -> int:
        """What that takes of it."""
        rings = (self.copied, self.stages), (self.stored, self.places)
        own = 2 * sum(map(factor_bytes, self.doubled)) + barrier_bytes(self.copied, self.stages)
        return own + sum(
            aligned(stages * each.bytes, each.alignment) for ring, stages in rings for each in ring
        )

    @property
    def served(self) -> set[Served]:
        """The conversions and factors that come to be reads of its buffers."""
        return {*_served(self.buffered), *self.doubled}


class Selection:
    """The choices in one function. `aliases` are those of its module, found when asked for."""

    def __init__(
        self,
        function: Function,
        aliases: Callable[[], Mapping[str, Alias]],
        room: Room,
        num_stages: int,
    ) -> None:
        self.function = function
        self.aliases = aliases
        self.room = room
        self.target = room.target
        self.num_stages = num_stages

    @cached_property
    def axes(self) -> AxisInfoResult:
        return axis_info(self.function)

    def choices(self) -> list[Choice]:
        """The loops to pipeline, those around others first."""
        loops = [op for op in self.function.walk() if op.defn is control.for_]
        found = []
        for loop in reversed(loops):
            choice = self.choice(loop, loop["num_stages"] or self.num_stages)
            if choice is None:
                self.room.take(loop, 0)
            else:
                found.append(choice)
                self.room.take(loop, choice.bytes, choice.served)
        self.room.finish(self.function)
        return found[::-1]

    def choice(self, loop: Operation, stages: int) -> Choice | None:
        """What becomes of a loop with so many stages; None if it stays as it is."""
        if stages < 2 or not Rounds.can_tell(loop, stages - 1):
            return None
        loads = [op for op in loop.regions[0] if _is_candidate(op)]
        factors = {load for load in loads if _feeds_dot(load.result)}
        wanted = loads if loop["num_stages"] else [load for load in loads if load in factors]
        wanted = self.undisturbed(loop, wanted) if wanted else []
        wanted = [load for load in wanted if slice_of(loop, load.inputs) is not None]
        copied = _present(self.copied(load) for load in wanted if load in factors)
        found = self.filled(loop, stages, wanted, copied, served=wanted)
        if found is not None and found.bytes > self.room.left(loop, found.served):
            # What was to go through a buffer of its own does not, and takes room when it is used.
            copies = [each.load for each in copied]
            found = self.filled(loop, stages, wanted, copied, served=copies)
        return found

    def filled(
        self,
        loop: Operation,
        stages: int,
        wanted: Sequence[Operation],
        copied: Sequence[Buffered],
        served: Sequence[Operation],
    ) -> Choice | None:
        """What becomes of a loop with the most that there is room for if some loads are `served`.

        Conversions of these come to be reads of buffers.
        """
        room = self.room.left(loop, _served(served)) - barrier_bytes(copied, stages)
        stages = min(stages, _stages(copied, room))
        if stages < 2:
            copied = []
        done = {each.load for each in copied}
        early = self.affordable([load for load in wanted if load not in done])
        stored = _present(self.stored(load) for load in early)
        room = self.room.left(loop, _served([*served, *early]))
        room -= stages * sum(each.bytes for each in copied) + barrier_bytes(copied, stages)
        places = min(2, _stages(stored, room))
        if places < 1:
            stored = []
        done |= {each.load for each in stored}
        carried = [load for load in early if load not in done]
        if not done and not carried:
            return None
        choice = Choice(loop, stages, tuple(copied), places, tuple(stored), tuple(carried))
        return replace(choice, doubled=self.doubled(choice))

    def doubled(self, choice: Choice) -> tuple[Factor, ...]:
        """The factors that have two places, so that products go on into the next round."""
        if not choice.copied:
            return ()
        copied, stored = ([each.load for each in ring] for ring in (choice.copied, choice.stored))
        found = to_double(choice.loop, copied, stored)
        wider = replace(choice, doubled=tuple(found))
        fits = wider.bytes <= self.room.left(choice.loop, wider.served)
        return wider.doubled if fits else ()

    def undisturbed(
        self, where: Operation | Function, loads: Sequence[Operation]
    ) -> list[Operation]:
        """The loads that read the same if they are done earlier, in a loop or a whole function."""
        writers: list[Operation] = []
        for op in where.walk():
            if _orders_loads(op):
                return []
            if Effect.WRITE in op.defn.effect:
                writers.append(op)
        if not writers:
            return list(loads)
        share = self.aliases()[self.function.name].share
        return [load for load in loads if not any(share(load["ptr"], op["ptr"]) for op in writers)]

    def copied(self, load: Operation) -> Buffered | None:
        """A load as it is done by asynchronous copies; None if it cannot be."""
        return self.boxed(load) or self.copied_by_threads(load)

    def boxed(self, load: Operation) -> Buffered | None:
        """A load of a box that products read, as it is done by bulk copies; None if it cannot be.

        These do not wait for what threads write to global memory, or see others write, unless they
        are told; so such kernels do without.
        """
        tile = load.result.type
        if not self.target.bulk_copies or box_of(load) is None or not _is_zero(load["other"]):
            return None
        if tile.rank != 2 or not self.undisturbed(self.function, [load]):
            return None
        layout = wanted_layout(load.result, along=1)
        return None if layout is None else Buffered(load, layout, bulk=True)

    def copied_by_threads(self, load: Operation) -> Buffered | None:
        """A load as threads begin copies of vectors; None if it cannot be."""
        if not self.target.copy_bytes or not _is_zero(load["other"]):
            return None
        tile, mask, source = load.result.type, load["mask"], layout_of(load.result)
        assert isinstance(tile, Tile)
        masked = None if mask is None else self.axes.of(mask)
        pointers = self.axes.of(load["ptr"])
        itemsize = tile.of.itemsize
        vectors = copy_vector(source, pointers, masked, itemsize, self.target.copy_bytes)
        if vectors is None:
            return None
        factor = wanted_layout(load.result, vectors[0])
        if factor is not None:
            return Buffered(load, factor)
        found = readers(load.result)
        wanted = self.wanted(found) or (source,)
        loads = self.target.matrix_loads and not self.in_pieces(found[:1])
        banks = self.target.banks
        layout = copy_layout(source, wanted, itemsize * 8, vectors, banks, loads)
        return Buffered(load, layout)

    def wanted(self, found: Sequence[Reader]) -> tuple[LinearLayout, ...]:
        """The layouts as which readers read: whole tiles, or pieces of them."""
        return tuple([in_pieces(reader, self.target) or reader.layout for reader in found])

    def in_pieces(self, found: Sequence[Reader]) -> bool:
        """Whether one of the readers reads pieces."""
        return any(in_pieces(reader, self.target) is not None for reader in found)

    def stored(self, load: Operation) -> Buffered | None:
        """A load whose tile takes its way through shared memory; None if it need not."""
        source, target, found = layout_of(load.result), self.target, readers(load.result)
        factor = wanted_layout(load.result, run_axis(source)) if factors(load.result) else None
        if factor is not None:
            return Buffered(load, factor)
        bits = load.result.type.element.itemsize * 8
        how = target.shuffles, target.banks, target.matrix_loads
        layouts = [store_layout(source, reader.layout, bits, *how) for reader in found]
        if self.in_pieces(found) or not (target.matrix_loads or layouts == [None] * len(layouts)):
            layout = shared_layout(source, self.wanted(found), bits, target.banks)
            return Buffered(load, layout)
        return next((Buffered(load, layout) for layout in layouts if layout is not None), None)

    def affordable(self, loads: Sequence[Operation]) -> list[Operation]:
        """The first of the loads, as many as there are registers for."""
        left = self.target.registers // REGISTER_SHARE
        found = []
        for load in loads:
            left -= registers(load.result)
            if left < 0:
                break
            found.append(load)
        return found


def _present(found: Iterable[Buffered | None]) -> list[Buffered]:
    return [each for each in found if each is not None]


def _stages(buffered: Sequence[Buffered], room: int) -> int:
    """How many stages of buffers there is room for; plenty, if there are no buffers."""
    one = sum(each.bytes for each in buffered)
    return room // one if one else room


def _served(loads: Iterable[Operation]) -> set[Served]:
    """The conversions and factors that come to be reads of the buffers of loads."""
    served: set[Served] = set()
    for load in loads:
        served.update(reader.conversion for reader in readers(load.result))
        served.update((factor.product, factor.index) for factor in factors(load.result))
    return served


def _is_candidate(op: Operation) -> bool:
    """Whether an operation is a load of a tile that may be done early."""
    return (
        op.defn is memory.load
        and isinstance(op.result.type, Tile)
        and not op["volatile"]
        and op["cache"] is not CacheModifier.CV
    )


def _feeds_dot(value: Value) -> bool:
    """Whether a value goes into a product of its block as a factor, by pure operations on it."""
    waiting, seen = [value], {value}
    while waiting:
        value = waiting.pop()
        for user, position in value.uses:
            if user.block is not value.block:
                continue
            if user.defn in DOTS:
                if position < 2:
                    return True
            elif is_pure(user) and not user.regions:
                fresh = [result for result in user.results if result not in seen]
                seen.update(fresh)
                waiting.extend(fresh)
    return False


def _orders_loads(op: Operation) -> bool:
    """Whether loads behind an operation must not be done before it."""
    if Effect.SYNC in op.defn.effect or op.attributes.get("volatile"):
        return True
    if op.defn in (memory.atomic_rmw, memory.atomic_cas):
        return bool(op["order"].acquires)
    return op.defn is debug.device_assert


def _is_zero(other: Value | None) -> bool:
    """Whether a load gives all bits zero, or anything, where its mask is false."""
    if other is None:
        return True
    filled = constant_of(other)
    if filled is None and other.op is not None and other.op.name == "splat":
        filled = constant_of(other.op.inputs[0])
    return filled is not None and repr(filled) in ("0", "0.0", "False")
