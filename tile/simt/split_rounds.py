"""Split chains of dots into two slices where a thread lacks registers for the whole."""

from __future__ import annotations

from collections.abc import Container
from functools import cached_property

from tile.analysis.liveness import LOOPS, liveness
from tile.ir.builder import Builder
from tile.ir.core import Module, Operation, Value
from tile.ir.effects import is_pure
from tile.ir.levels import Level
from tile.ir.ops import memory
from tile.ir.passes import module_pass
from tile.simt import ops
from tile.simt.fragment_slices import FragmentSlices, blocks, is_plain
from tile.simt.pressure import is_short, pressure
from tile.simt.target import GENERIC, SimtTarget

PARTS = 2

_MULTIPLY = ops.matrix.matrix_multiply
# Operations that read memory, which dots do not write.
_READING = frozenset({memory.load, ops.thread.shared_load, ops.thread.shared_matrix_load})


@module_pass("split-rounds", before=Level.THREAD)
def split_rounds(module: Module, *, target: SimtTarget = GENERIC) -> None:
    """Split dots in a loop into slices where one feeds another and registers are short.

    One half of the columns of the first dot is one half of the k of the second, so that only half
    of the intermediate values is live at a time; sums stay in the order of k. Prefetches for the
    next iteration sink to just before the last dot where that is legal.

        %x = load %p                             %b0 = pick %b {registers = (0, 1)}
        %s = matrix_multiply %a, %b, %z          %s0 = matrix_multiply %a, %b0, %z0
        %e = exp2 %s                             %e0 = exp2 %s0
        %d = matrix_multiply %e, %c, %acc        %c0 = pick %c {registers = (0, 1)}
        yield %d, %x                             %d0 = matrix_multiply %e0, %c0, %acc
                                                 %b1 = pick %b {registers = (2, 3)}
                                                 %s1 = matrix_multiply %a, %b1, %z0
                                                 %e1 = exp2 %s1
                                                 %c1 = pick %c {registers = (2, 3)}
                                                 %x = load %p
                                                 %d = matrix_multiply %e1, %c1, %d0
                                                 yield %d, %x
    """
    for function in module:
        bodies = [_Body(op) for op in function.walk() if op.defn in LOOPS]
        bodies = [each for each in bodies if each.can_be_split()]
        live = liveness(function) if bodies else None
        if live is not None:
            bodies = [each for each in bodies if is_short(pressure(each.loop, live), target)]
        for each in bodies:
            each.split()


class _Body:
    """A loop body, its dots that are `fed` by other dots, and the operations `between` them."""

    def __init__(self, loop: Operation) -> None:
        self.loop = loop
        self.ops = list(loop.regions[-1])
        self.position = {op: position for position, op in enumerate(self.ops)}
        products = [op for op in self.ops if op.defn is _MULTIPLY]
        self.fed = [op for op in products if op["repeats"][2] % PARTS == 0 and self._is_fed(op)]
        self.between = self._between() if self.fed else set()

    def _is_fed(self, product: Operation) -> bool:
        """Return True if the `a` operand of a dot depends on another dot of this iteration."""
        waiting, seen = [product["a"]], set[Value]()
        while waiting:
            value = waiting.pop()
            op = value.op
            if value in seen or op is None or op not in self.position:
                continue
            if op.defn is _MULTIPLY:
                return True
            seen.add(value)
            if is_plain(op) or op.defn is ops.thread.pick:
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
            if not (is_pure(op) or op.defn in _READING):
                break
            quiet.add(op)
        return quiet

    def can_be_split(self) -> bool:
        """Return True if dots only feed other dots, and their sums are not used before the last."""
        users = [user for op in self.fed for user in op.result.users]
        end = self.position[self.fed[-1]] if self.fed else 0
        late = all(self.position.get(user, 0) > end for user in users)
        return late and any(op.defn is _MULTIPLY for op in self.between)

    def split(self) -> None:
        last = self.fed[-1]
        slices = FragmentSlices(Builder.before(last), self.between)
        loads = self.loads()
        sums = {op: op["acc"] for op in self.fed}
        for part in range(PARTS):
            for op in self.fed:
                sums[op] = _part(op, part, sums[op], slices)
        final = sums[last].op
        assert final is not None and final.block is not None
        for op in loads:
            op.unlink()
            final.block.insert(op, final)
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
    return op.defn in (_MULTIPLY, ops.thread.pick) or is_plain(op)


def _part(op: Operation, part: int, total: Value, slices: FragmentSlices) -> Value:
    """Return the dot of one k-slice, added to the accumulator `total`."""
    m, n, k = op["repeats"]
    steps = range(part * k // PARTS, (part + 1) * k // PARTS)
    a = slices.of(op["a"], blocks(op["a"], (m, k), range(m), steps))
    b = slices.of(op["b"], blocks(op["b"], (n, k), range(n), steps))
    attributes = {**op.attributes, "repeats": (m, n, len(steps))}
    return slices.build(_MULTIPLY, a, b, total, **attributes)
