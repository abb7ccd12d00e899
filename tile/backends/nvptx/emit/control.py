"""Structured control flow as blocks of LLVM's, with a phi for every register that is carried."""

from __future__ import annotations

from collections.abc import Sequence

from tile.backends.nvptx.emit.body import Body, Registers, Rule, types_of
from tile.backends.nvptx.emit.carried import Carried
from tile.backends.nvptx.emit.moving import Moving, started
from tile.backends.nvptx.emit.turns import Turns
from tile.backends.nvptx.emit.types import count_of, is_literal, is_signed, llvm_type
from tile.ir.core import Block, Operation, Value
from tile.ir.effects import may_hang_silently
from tile.ir.opdef import OpDef
from tile.ir.ops import control
from tile.ir.types import Scalar
from tile.simt import ops


def flat(body: Body, values: Sequence[Value]) -> Registers:
    """The registers of values, in order."""
    return [register for value in values for register in body.of(value)]


def assign(body: Body, values: Sequence[Value], registers: Registers) -> None:
    """Say which registers the values have."""
    at = 0
    for value in values:
        count = count_of(value.type)
        body.values[value] = registers[at : at + count]
        at += count


def ending(block: Block) -> Operation:
    """What ends a block."""
    assert block.last is not None
    return block.last


class Phis:
    """The phis of a loop's first block, whose second values are known at the loop's end."""

    def __init__(self, body: Body, types: list[str], first: Registers, before: str) -> None:
        self.body = body
        self.types = types
        self.first = first
        self.before = before
        self.names = [body.name() for _ in first]
        self._at = len(body.lines)
        body.lines += [""] * len(first)

    def close(self, again: Registers) -> None:
        """Fill in the values that come from the block that is being written."""
        latch = self.body.block
        lines = zip(self.names, self.types, self.first, again, strict=True)
        for number, (name, ty, first, second) in enumerate(lines):
            self.body.lines[self._at + number] = (
                f"  {name} = phi {ty} [ {first}, %{self.before} ], [ {second}, %{latch} ]"
            )


# -- for


def for_(body: Body, op: Operation) -> None:
    """The test is at the end, and once before.

    In front of the loop the last count but one is computed, saturated: comparing with that, the
    count needs no look past the end, where it might wrap.

            br lower < upper, loop, done
        loop:
            i = phi lower, next
            ...
            next = i + step
            br i < upper - step, loop, done
        done:
    """
    lower, upper, step = (body.scalar(value) for value in op.inputs[:3])
    inits = op.inputs[3:]
    count: Scalar = op.inputs[0].type.element  # type: ignore[assignment]
    ty = llvm_type(count)
    carried, moving, turns = Carried.by(op), Moving.by(body, op), Turns.by(op)
    types = [ty, *carried.types(inits)]
    first = [lower]
    for number, value in enumerate(inits):
        moves = number in moving.pointers
        first += started(body, value) if moves else carried.registers(body, number, value)
    loop, done = body.label("loop"), body.label("done")
    test = _Test(body, count, lower, upper, step)
    before = body.block
    entered = test.enters
    if entered == "true":
        body.jump(loop)
    else:
        body.branch(entered, loop, done)
    body.start(loop)
    phis = Phis(body, [*types, *turns.types], [*first, *turns.first], before)
    region = op.regions[0]
    with body.inside():
        assign(body, region.args[:1], phis.names[:1])
        carried.assign(body, region.args[1:], phis.names[1:])
        stages = phis.names[len(first) :]
        turns.assign(body, stages)
        keep(body, op)
        with moving.round(body, region):
            body.emit(region)
        yielded = carried.flat(body, ending(region).inputs)
        following = body.new(f"add {ty} {phis.names[0]}, {step}")
        more = test.more(phis.names[0])
        phis.close([following, *yielded, *turns.next(body, stages)])
        latch = body.block
        body.branch(more, loop, done, _hint(body, op))
    body.start(done)
    if entered != "true":
        body.locate(op)
        ends = zip(types[1:], first[1:], yielded, strict=True)
        yielded = [a if a == b else body.phi(ty, [(a, before), (b, latch)]) for ty, a, b in ends]
    carried.assign(body, op.results, yielded)


class _Test:
    """Whether a loop goes on."""

    def __init__(self, body: Body, ty: Scalar, lower: str, upper: str, step: str) -> None:
        self.body = body
        self.ty = llvm_type(ty)
        self.sign = "s" if is_signed(ty) else "u"
        self.up = ""  # whether the step is positive, where that is not known
        known = is_literal(step)
        below = known and int(step) < 0
        self.kinds: tuple[str, ...] = ("gt",) if below else ("lt",)
        if not known and is_signed(ty):
            self.kinds = ("lt", "gt")
            self.up = body.new(f"icmp sgt {self.ty} {step}, 0")
        if known and is_literal(lower) and is_literal(upper):
            enters = int(lower) > int(upper) if below else int(lower) < int(upper)
            self.enters = "true" if enters else "false"
        else:
            self.enters = self._compare(lower, upper)
        self.last = self._before(ty, upper, step)

    def more(self, count: str) -> str:
        """Whether there is a count behind this one."""
        return self._compare(count, self.last)

    def _compare(self, x: str, y: str) -> str:
        found = [self.body.new(f"icmp {self.sign}{kind} {self.ty} {x}, {y}") for kind in self.kinds]
        if len(found) == 1:
            return found[0]
        return self.body.new(f"select i1 {self.up}, i1 {found[0]}, i1 {found[1]}")

    def _before(self, ty: Scalar, upper: str, step: str) -> str:
        """The end less one step, within the type."""
        if is_literal(upper) and is_literal(step):
            return str(min(max(int(upper) - int(step), ty.min_value), ty.max_value))
        if step in ("1", "-1"):  # cannot leave the type once the loop was entered
            return self.body.new(f"sub {self.ty} {upper}, {step}")
        name = f"@llvm.{self.sign}sub.sat.{self.ty}"
        return self.body.call(name, self.ty, (self.ty, upper), (self.ty, step))


_MATRIX = frozenset({ops.matrix.matrix_multiply, ops.group.group_dot})


def _hint(body: Body, op: Operation) -> str:
    """Keep the assembler from unrolling loops of matrix instructions, which it does many times."""
    if any(inner.defn in _MATRIX for inner in op.regions[0]):
        return f", !llvm.loop !{body.module.kept_loop()}"
    return ""


def keep(body: Body, loop: Operation) -> None:
    """Put a side effect in a loop that may run forever without one.

    ptxas removes such a loop, although nothing in PTX lets it take for granted that loops end.
    Synchronizing a warp that runs in step costs least of what makes ptxas (13.0) keep one; a
    branch that is never taken does not, as ptxas unswitches the loop. Conditions of loops are equal
    in all threads of a program, so all lanes are there.
    """
    if may_hang_silently(loop):
        body.call("@llvm.nvvm.bar.warp.sync", "void", ("i32", "-1"))


# -- while, if


def while_(body: Body, op: Operation) -> None:
    """The test is the first block of the loop."""
    head, inside, done = (body.label(name) for name in ("test", "body", "done"))
    before = body.block
    body.jump(head)
    body.start(head)
    phis = Phis(body, types_of(op.inputs), flat(body, op.inputs), before)
    test, region = op.regions
    assign(body, test.args, phis.names)
    assign(body, region.args, phis.names)
    body.emit(test)
    body.branch(body.scalar(ending(test).inputs[0]), inside, done)
    body.start(inside)
    with body.inside():
        keep(body, op)
        body.emit(region)
        phis.close(flat(body, ending(region).inputs))
    body.jump(head)
    body.start(done)
    assign(body, op.results, phis.names)


def if_(body: Body, op: Operation) -> None:
    """Two blocks, or one where the second does nothing."""
    condition = body.scalar(op.inputs[0])
    then, orelse = op.regions
    first, second, done = (body.label(name) for name in ("then", "else", "done"))
    before = body.block
    one = orelse.first is ending(orelse)
    body.branch(condition, first, done if one else second)
    body.start(first)
    with body.inside():
        body.emit(then)
    left, left_end = flat(body, ending(then).inputs), body.block
    body.jump(done)
    if one:
        right, right_end = flat(body, ending(orelse).inputs), before
    else:
        body.start(second)
        with body.inside():
            body.emit(orelse)
        right, right_end = flat(body, ending(orelse).inputs), body.block
        body.jump(done)
    body.start(done)
    body.locate(op)
    joined = zip(types_of(op.results), left, right, strict=True)
    found = [a if a == b else body.phi(ty, [(a, left_end), (b, right_end)]) for ty, a, b in joined]
    assign(body, op.results, found)


# -- calls


def call(body: Body, op: Operation) -> None:
    """All registers of the operands; several results come as one structure."""
    types = types_of(op.inputs)
    given = zip(types, flat(body, op.inputs), strict=True)
    operands = ", ".join([f"{ty} {register}" for ty, register in given])
    results = types_of(op.results)
    text = f"call {structure(results)} {body.module.symbol(op['callee'])}({operands})"
    if not results:
        body.do(text)
        return
    found = body.fresh(text)
    registers = [found]
    if len(results) > 1:
        kind = structure(results)
        registers = [body.new(f"extractvalue {kind} {found}, {i}") for i in range(len(results))]
    assign(body, op.results, registers)


def structure(types: Sequence[str]) -> str:
    """The type of a function's results."""
    if len(types) > 1:
        return "{ " + ", ".join(types) + " }"
    return types[0] if types else "void"


def return_(body: Body, op: Operation) -> None:
    """End the function."""
    types = types_of(op.inputs)
    registers = flat(body, op.inputs)
    if not types:
        body.do("ret void")
        return
    value = registers[0]
    if len(types) > 1:
        value = "poison"
        for number, (ty, register) in enumerate(zip(types, registers, strict=True)):
            value = body.new(f"insertvalue {structure(types)} {value}, {ty} {register}, {number}")
    body.do(f"ret {structure(types)} {value}")


RULES: dict[OpDef, Rule] = {
    control.for_: for_,
    control.while_: while_,
    control.if_: if_,
    control.call: call,
}
