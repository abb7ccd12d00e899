"""Split chains of dots into two slices where a thread lacks registers for the whole.

A slice of a fragment is some of its registers. The operations of a chain are computed on one slice,
then on the other.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from functools import cached_property

from tile.analysis.liveness import liveness
from tile.ir.builder import Builder
from tile.ir.core import Operation, Value
from tile.ir.effects import is_pure, only_reads
from tile.ir.module import Module
from tile.ir.op_definition import Level, OpDef, Trait
from tile.ir.ops import arith, memory
from tile.ir.passes import module_pass
from tile.ir.types import Fragment, count_of
from tile.simt import ops
from tile.simt.schedule.resources import Resources, pressure
from tile.simt.target import GENERIC, SimtTarget

Registers = tuple[int, ...]

# Operations that set all registers to one value.
_FILLED = frozenset({arith.const, ops.thread.frag_splat})


def is_registerwise(op: Operation) -> bool:
    """Return True if each register of the result depends only on that register of the operands."""
    fragments = all(isinstance(value.type, Fragment) for value in (*op.inputs, *op.results))
    return fragments and op.defn.elementwise and op.defn.pure and len(op.results) == 1


def instruction_registers(
    value: Value, extents: tuple[int, int], rows: Sequence[int], columns: Sequence[int]
) -> Registers:
    """Return the registers of an mma operand that belong to the given instruction rows and columns.

    `extents` is the number of instruction rows and columns.
    """
    each = count_of(value.type) // (extents[0] * extents[1])
    starts = [(row * extents[1] + column) * each for row in rows for column in columns]
    return tuple([start + number for start in starts for number in range(each)])


class FragmentSlices:
    """Slices of fragments, made by a builder.

    The results of the operations `apart`, which have no other users, are recomputed for each slice,
    as are the loads among them; for all other values, registers are picked.
    """

    def __init__(self, build: Builder, apart: Container[Operation]) -> None:
        self.build = build
        self.apart = apart
        self._taken: dict[tuple[Value, Registers], Value] = {}

    def of(self, value: Value, registers: Registers) -> Value:
        """Return a fragment of some registers of a fragment, in this order."""
        needed = tuple(sorted({*registers}))
        return self._in_order(self._sorted(value, needed), needed, registers)

    def _in_order(self, fragment: Value, has: Registers, registers: Registers) -> Value:
        """Return some of the registers that a fragment `has`, in an order."""
        if has == registers:
            return fragment
        positions = {register: position for position, register in enumerate(has)}
        return self.pick(fragment, tuple([positions[register] for register in registers]))

    def pick(self, value: Value, registers: Registers) -> Value:
        """Pick the registers from a value that is computed already."""
        op = value.op
        if op is not None and op.defn is ops.thread.frag_shuffle and len(op.inputs) == 1:
            earlier = op["registers"]
            return self.pick(op.inputs[0], tuple([earlier[register] for register in registers]))
        return self.build(ops.thread.frag_shuffle, value, registers=registers)

    def _sorted(self, value: Value, registers: Registers) -> Value:
        if registers == tuple(range(count_of(value.type))):
            return value
        key = value, registers
        if key not in self._taken:
            with self.build.at(value.op.loc if value.op is not None else self.build.loc):
                self._taken[key] = self._made(value, registers)
        return self._taken[key]

    def _made(self, value: Value, registers: Registers) -> Value:
        op = value.op
        if op is None or not (op in self.apart or op.defn in _FILLED):
            return self.pick(value, registers)
        if op.defn in _RULES:
            return _RULES[op.defn](self, op, registers)
        return self._plain(op, registers)

    def _plain(self, op: Operation, registers: Registers) -> Value:
        operands = [None if value is None else self.of(value, registers) for value in op.operands]
        ty = Fragment(len(registers), op.result.type.element)
        return self.build.copy(op, operands, [ty]).result

    def _fill(self, op: Operation, registers: Registers) -> Value:
        return self.build(op.defn, op.inputs[0], count=len(registers))

    def _pick(self, op: Operation, registers: Registers) -> Value:
        if len(op.inputs) > 1:
            return self.pick(op.result, registers)
        chosen = op["registers"]
        return self.of(op.inputs[0], tuple([chosen[register] for register in registers]))

    def _load(self, op: Operation, registers: Registers) -> Value:
        """Load only the vectors that contain the registers."""
        size = op["vector"]
        vectors = tuple(sorted({register // size for register in registers}))
        offsets = self.of(op["offset"], vectors)
        load = self.build(op.defn, op["mem"], offsets, **op.attributes)
        positions = {vector: position * size for position, vector in enumerate(vectors)}
        loaded = tuple([positions[register // size] + register % size for register in registers])
        return load if len(loaded) == count_of(load.type) else self.pick(load, loaded)

    def _multiply(self, op: Operation, registers: Registers) -> Value:
        """Multiply only the instruction columns that contain the registers."""
        rows, columns, depth = op["repeats"]
        each = count_of(op.result.type) // (rows * columns)
        needed = sorted({register // each % columns for register in registers})
        if len(needed) == columns:
            return self.pick(op.result, registers)
        has = instruction_registers(op.result, (rows, columns), range(rows), needed)
        b = self.of(op["b"], instruction_registers(op["b"], (columns, depth), needed, range(depth)))
        attributes = {**op.attributes, "repeats": (rows, len(needed), depth)}
        mma = self.build(op.defn, op["a"], b, self.of(op["acc"], has), **attributes)
        return self._in_order(mma, has, registers)


_RULES: dict[OpDef, Callable[[FragmentSlices, Operation, Registers], Value]] = {
    ops.thread.frag_splat: FragmentSlices._fill,
    ops.thread.frag_shuffle: FragmentSlices._pick,
    ops.thread.shared_load: FragmentSlices._load,
    ops.mma.mma: FragmentSlices._multiply,
}


_MULTIPLY = ops.mma.mma


@module_pass("split-dot-chains", before=Level.THREAD)
def split_dot_chains(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Split dots in a loop into slices where one feeds another and registers are short.

    One half of the columns of the first dot is one half of the k of the second, so that only half
    of the intermediate values is live at a time; sums stay in the order of k. Prefetches for the
    next iteration sink to just before the last dot where that is legal.

        %x = load %p                             %b0 = frag_shuffle %b {registers = (0, 1)}
        %s = mma %a, %b, %z                      %s0 = mma %a, %b0, %z0
        %e = exp2 %s                             %e0 = exp2 %s0
        %d = mma %e, %c, %acc                    %c0 = frag_shuffle %c {registers = (0, 1)}
        yield %d, %x                             %d0 = mma %e0, %c0, %acc
                                                 %b1 = frag_shuffle %b {registers = (2, 3)}
                                                 %s1 = mma %a, %b1, %z0
                                                 %e1 = exp2 %s1
                                                 %c1 = frag_shuffle %c {registers = (2, 3)}
                                                 %x = load %p
                                                 %d = mma %e1, %c1, %d0
                                                 yield %d, %x
    """
    for function in module:
        slices = target.tuning.dot_chain_slices
        loops = [op for op in function.walk() if op.has_trait(Trait.LOOP)]
        bodies = [_Body(op, slices) for op in loops]
        bodies = [each for each in bodies if each.can_be_split()]
        live = liveness(function) if bodies else None
        if live is not None:
            bodies = [
                each
                for each in bodies
                if Resources(target).would_spill(pressure(each.loop, live, target))
            ]
        for each in bodies:
            each.split()


class _Body:
    """A loop body, its dots that are `fed` by other dots, and the operations `between` them."""

    def __init__(self, loop: Operation, slices: int) -> None:
        self.loop = loop
        self.slices = slices
        self.ops = list(loop.regions[-1])
        self.position = {op: position for position, op in enumerate(self.ops)}
        dots = [op for op in self.ops if op.defn is _MULTIPLY]
        self.fed = [op for op in dots if op["repeats"][2] % self.slices == 0 and self._is_fed(op)]
        self.between = self._between() if self.fed else set()

    def _is_fed(self, mma: Operation) -> bool:
        """Return True if the `a` operand of a dot depends on another dot of this iteration."""
        waiting, seen = [mma["a"]], set[Value]()
        while waiting:
            value = waiting.pop()
            op = value.op
            if value in seen or op is None or op not in self.position:
                continue
            if op.defn is _MULTIPLY:
                return True
            seen.add(value)
            if is_registerwise(op) or op.defn is ops.thread.frag_shuffle:
                waiting += op.inputs
        return False

    def _between(self) -> set[Operation]:
        """Return the operations whose results are used only for the `a` operands of these dots."""
        serving = set[Operation]()
        for op in reversed(self.ops[: self.position[self.fed[-1]]]):
            uses = [use for value in op.results for use in value.uses]
            needed = all(user in serving or (user in self.fed and at == 0) for user, at in uses)
            if uses and needed and _serves(op, self.quiet):
                serving.add(op)
        return serving

    @cached_property
    def quiet(self) -> set[Operation]:
        """The operations before the last dot between which and that dot no memory is written."""
        quiet = set[Operation]()
        for op in reversed(self.ops[: self.position[self.fed[-1]]]):
            if not only_reads(op):
                break
            quiet.add(op)
        return quiet

    def can_be_split(self) -> bool:
        """Return True if dots only feed other dots, and their sums are not used before the last."""
        users = [user for op in self.fed for user in op.result.users]
        end = self.position[self.fed[-1]] if self.fed else 0
        is_after = all(self.position.get(user, 0) > end for user in users)
        return is_after and any(op.defn is _MULTIPLY for op in self.between)

    def split(self) -> None:
        last = self.fed[-1]
        slices = FragmentSlices(Builder.before(last), self.between)
        loads = self.loads()
        sums = {op: op["acc"] for op in self.fed}
        for part in range(self.slices):
            for op in self.fed:
                sums[op] = _part(op, (part, self.slices), sums[op], slices)
        final = sums[last].op
        assert final is not None
        for op in loads:
            op.move_before(final)
        for op, total in sums.items():
            op.replace_by([total])
        for op in reversed(self.ops):
            if op in self.between and not op.result.uses:
                op.erase()

    def loads(self) -> list[Operation]:
        """Return loads that are unused before the last dot, and operations only they need."""
        end, moved = self.position[self.fed[-1]], set[Operation]()
        for op in reversed(self.ops[:end]):
            users = [user for value in op.results for user in value.users]
            if op.defn is memory.load and op in self.quiet:
                moves = all(user in moved or self.position.get(user, 0) > end for user in users)
            else:
                moves = is_pure(op) and bool(users) and all(user in moved for user in users)
            if moves:
                moved.add(op)
        return [op for op in self.ops if op in moved]


def _serves(op: Operation, quiet: Container[Operation]) -> bool:
    """Return True if some registers of an operation's result can be computed alone."""
    if op.defn is ops.thread.shared_load:
        return op in quiet
    return op.defn in (_MULTIPLY, ops.thread.frag_shuffle) or is_registerwise(op)


def _part(op: Operation, part: tuple[int, int], total: Value, slices: FragmentSlices) -> Value:
    """Return the dot of k-slice `part`, its number and how many there are, added to `total`."""
    m, n, k = op["repeats"]
    number, count = part
    steps = range(number * k // count, (number + 1) * k // count)
    a = slices.of(op["a"], instruction_registers(op["a"], (m, k), range(m), steps))
    b = slices.of(op["b"], instruction_registers(op["b"], (n, k), range(n), steps))
    attributes = {**op.attributes, "repeats": (m, n, len(steps))}
    return slices.build(_MULTIPLY, a, b, total, **attributes)
