"""Functions, and structured control flow as LLVM blocks.

There is a phi for every loop-carried register.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tile.codegen.llvm.function_builder import FunctionBuilder, Registers, Rule, types_of
from tile.codegen.llvm.types import is_literal, llvm_type
from tile.ir.core import Function, Operation, Value
from tile.ir.op_definition import OpDef
from tile.ir.ops import control
from tile.ir.types import I1, Scalar, count_of


def assign(builder: FunctionBuilder, values: Sequence[Value], registers: Registers) -> None:
    """Set the registers of values from one list."""
    at = 0
    for value in values:
        count = count_of(value.type)
        builder.values[value] = registers[at : at + count]
        at += count


class Phis:
    """The phis of a loop's first block, whose second operands are known at the end of the loop."""

    def __init__(
        self, builder: FunctionBuilder, types: list[str], first: Registers, before: str
    ) -> None:
        self.builder = builder
        self.types = types
        self.first = first
        self.before = before
        self.names = [builder.name() for _ in first]
        self._at = len(builder.lines)
        builder.lines += [""] * len(first)

    def close(self, backedge: Registers) -> None:
        """Write the phis, with the values that come from the current block."""
        latch = self.builder.block
        lines = zip(self.names, self.types, self.first, backedge, strict=True)
        for number, (name, ty, first, second) in enumerate(lines):
            self.builder.lines[self._at + number] = (
                f"  {name} = phi {ty} [ {first}, %{self.before} ], [ {second}, %{latch} ]"
            )


# -- for


class CarriedValues:
    """The phis of a `for`: of the values that it carries, and others that a target needs."""

    def __init__(self, builder: FunctionBuilder) -> None:
        self.builder = builder

    def types(self, values: Sequence[Value]) -> list[str]:
        """Return the types of the phis of the loop's values, in order."""
        return types_of(values)

    def flat(self, values: Sequence[Value]) -> Registers:
        """Return the registers of values as these phis take them, in order."""
        return self.builder.flat(values)

    def assign(self, values: Sequence[Value], registers: Registers) -> None:
        """Set the registers of values from those of these phis."""
        assign(self.builder, values, registers)

    def further(self) -> list[tuple[str, str]]:
        """Return type and first value of each further phi."""
        return []

    def begin(self, registers: Registers) -> None:
        """Emit the start of an iteration; `registers` are those of the further phis."""

    def following(self, registers: Registers) -> Registers:
        """Return the values of the further phis in the next iteration."""
        return []


def for_(
    builder: FunctionBuilder,
    op: Operation,
    carried: CarriedValues | None = None,
    metadata: str = "",
) -> None:
    """Emit a loop with its test at the end, and once more before it.

    The last value of the counter but one, saturated, is computed before the loop: comparing with it
    needs no value past the end, which might wrap.

            br lower < upper, loop, done
        loop:
            i = phi lower, next
            ...
            next = i + step
            br i < upper - step, loop, done
        done:

    `carried` is how the loop carries values, and `metadata` is that of the branch back.
    """
    lower, upper, step = (builder.scalar(value) for value in op.inputs[:3])
    inits = op.inputs[3:]
    count: Scalar = op.inputs[0].type.element  # type: ignore[assignment]
    ty = llvm_type(count)
    carried = carried or CarriedValues(builder)
    types = [ty, *carried.types(inits)]
    first = [lower, *carried.flat(inits)]
    loop, done = builder.label("loop"), builder.label("done")
    test = _Test(builder, count, lower, upper, step)
    before = builder.block
    entered = test.enters
    if entered == "true":
        builder.jump(loop)
    else:
        builder.branch(entered, loop, done)
    builder.start_block(loop)
    further = carried.further()
    all_types = [*types, *[ty for ty, _ in further]]
    phis = Phis(builder, all_types, [*first, *[value for _, value in further]], before)
    region = op.regions[0]
    with builder.dominance_scope():
        assign(builder, region.args[:1], phis.names[:1])
        carried.assign(region.args[1:], phis.names[1:])
        others = phis.names[len(first) :]
        carried.begin(others)
        builder.emit(region)
        yielded = carried.flat(region.yielded)
        following = builder.new(f"add {ty} {phis.names[0]}, {step}")
        more = test.more(phis.names[0])
        phis.close([following, *yielded, *carried.following(others)])
        latch = builder.block
        builder.branch(more, loop, done, metadata)
    builder.start_block(done)
    if entered != "true":
        builder.locate(op)
        ends = zip(types[1:], first[1:], yielded, strict=True)
        yielded = [a if a == b else builder.phi(ty, [(a, before), (b, latch)]) for ty, a, b in ends]
    carried.assign(op.results, yielded)


class _Test:
    """The test whether a loop has another iteration."""

    def __init__(
        self, builder: FunctionBuilder, ty: Scalar, lower: str, upper: str, step: str
    ) -> None:
        self.builder = builder
        self.ty = llvm_type(ty)
        self.sign = "s" if ty.is_int_signed() else "u"
        self.up = ""  # i1: the step is positive, for a step that is not constant
        constant = is_literal(step)
        downward = constant and int(step) < 0
        self.kinds: tuple[str, ...] = ("gt",) if downward else ("lt",)
        if not constant and ty.is_int_signed():
            self.kinds = ("lt", "gt")
            self.up = builder.new(f"icmp sgt {self.ty} {step}, 0")
        if constant and is_literal(lower) and is_literal(upper):
            enters = int(lower) > int(upper) if downward else int(lower) < int(upper)
            self.enters = "true" if enters else "false"
        else:
            self.enters = self._compare(lower, upper)
        self.last = self._before(ty, upper, step)

    def more(self, count: str) -> str:
        """Return an i1: an iteration follows that of this counter."""
        return self._compare(count, self.last)

    def _compare(self, x: str, y: str) -> str:
        tests = [
            self.builder.new(f"icmp {self.sign}{kind} {self.ty} {x}, {y}") for kind in self.kinds
        ]
        if len(tests) == 1:
            return tests[0]
        return self.builder.new(f"select i1 {self.up}, i1 {tests[0]}, i1 {tests[1]}")

    def _before(self, ty: Scalar, upper: str, step: str) -> str:
        """Return the upper bound minus one step, saturated to the type."""
        if is_literal(upper) and is_literal(step):
            return str(min(max(int(upper) - int(step), ty.min_value), ty.max_value))
        if step in ("1", "-1"):  # cannot wrap once the loop was entered
            return self.builder.new(f"sub {self.ty} {upper}, {step}")
        name = f"@llvm.{self.sign}sub.sat.{self.ty}"
        return self.builder.call(name, self.ty, (self.ty, upper), (self.ty, step))


# -- while, if


def while_(
    builder: FunctionBuilder, op: Operation, begin: Callable[[], None] | None = None
) -> None:
    """Emit a loop whose first block is the test; `begin` emits the start of its second."""
    head, inside, done = (builder.label(name) for name in ("test", "body", "done"))
    before = builder.block
    builder.jump(head)
    builder.start_block(head)
    phis = Phis(builder, types_of(op.inputs), builder.flat(op.inputs), before)
    test, region = op.regions
    assign(builder, test.args, phis.names)
    assign(builder, region.args, phis.names)
    builder.emit(test)
    builder.branch(builder.scalar(test.yielded[0]), inside, done)
    builder.start_block(inside)
    with builder.dominance_scope():
        if begin is not None:
            begin()
        builder.emit(region)
        phis.close(builder.flat(region.yielded))
    builder.jump(head)
    builder.start_block(done)
    assign(builder, op.results, phis.names)


def if_(builder: FunctionBuilder, op: Operation) -> None:
    """Emit two blocks, or one where the second region does nothing."""
    condition = builder.scalar(op.inputs[0])
    then, orelse = op.regions
    first, second, done = (builder.label(name) for name in ("then", "else", "done"))
    before = builder.block
    no_else = orelse.first is orelse.end
    builder.branch(condition, first, done if no_else else second)
    builder.start_block(first)
    with builder.dominance_scope():
        builder.emit(then)
    left, left_end = builder.flat(then.yielded), builder.block
    builder.jump(done)
    if no_else:
        right, right_end = builder.flat(orelse.yielded), before
    else:
        builder.start_block(second)
        with builder.dominance_scope():
            builder.emit(orelse)
        right, right_end = builder.flat(orelse.yielded), builder.block
        builder.jump(done)
    builder.start_block(done)
    builder.locate(op)
    joined = zip(types_of(op.results), left, right, strict=True)
    results = [
        a if a == b else builder.phi(ty, [(a, left_end), (b, right_end)]) for ty, a, b in joined
    ]
    assign(builder, op.results, results)


# -- calls


def call(builder: FunctionBuilder, op: Operation) -> None:
    """Call with all registers of the operands; several results come as one structure."""
    typed = zip(types_of(op.inputs), builder.flat(op.inputs), strict=True)
    operands = ", ".join([f"{ty} {register}" for ty, register in typed])
    results = types_of(op.results)
    text = f"call {structure(results)} {builder.module.symbol(op['callee'])}({operands})"
    if not results:
        builder.do(text)
        return
    value = builder.new_unique(text)
    registers = [value]
    if len(results) > 1:
        ty = structure(results)
        registers = [builder.new(f"extractvalue {ty} {value}, {i}") for i in range(len(results))]
    assign(builder, op.results, registers)


def structure(types: Sequence[str]) -> str:
    """Return the type of a function's results."""
    if len(types) > 1:
        return "{ " + ", ".join(types) + " }"
    return types[0] if types else "void"


def return_(builder: FunctionBuilder, op: Operation) -> None:
    """Return from the function."""
    types = types_of(op.inputs)
    registers = builder.flat(op.inputs)
    if not types:
        builder.do("ret void")
        return
    value = registers[0]
    if len(types) > 1:
        value = "poison"
        for number, (ty, register) in enumerate(zip(types, registers, strict=True)):
            value = builder.new(
                f"insertvalue {structure(types)} {value}, {ty} {register}, {number}"
            )
    builder.do(f"ret {structure(types)} {value}")


# -- whole functions


def function_text(
    builder: FunctionBuilder,
    kind: str,
    attributes: Sequence[str] = (),
    prologue: Sequence[str] = (),
    parameters: Callable[[], list[str]] = list,
) -> str:
    """Emit a function, and return its text.

    kind: linkage and calling convention, such as `internal`, followed by a space; or nothing.
    prologue: instructions at the start, one of which computes `%thread`.
    parameters: further parameters, known when the body is emitted.
    """
    function, module = builder.function, builder.module
    symbol = module.symbol(function.name)
    builder.scope = module.scope(function, symbol[1:])
    own = _parameters(builder)
    builder.emit(function.body)
    return_(builder, function.body.end)
    debug = suffix = ""
    if builder.scope is not None:
        debug = f" !dbg !{builder.scope}"
        assert function.loc is not None
        location = module.debug_location(function.loc, builder.scope, function.loc.file)
        suffix = f", !dbg !{location}"
    arguments = ", ".join([*own, *parameters()])
    head = f"define {kind}{structure(result_types(function))} {symbol}({arguments})"
    lines = [
        f"{' '.join([head, *attributes])}{debug} {{",
        "entry:",
        *builder.entry_lines,
        *[f"  {text}{suffix}" for text in prologue],
        *builder.prologue,
        *builder.lines,
        "}",
    ]
    return "\n".join(lines)


def _parameters(builder: FunctionBuilder) -> list[str]:
    """Name the parameters, and return them with their types. A kernel takes an i1 as a byte."""
    function = builder.function
    parameters = []
    for value in function.args:
        types = types_of([value])
        names = builder.values[value] = [builder.name() for _ in types]
        for ty, name in zip(types, names, strict=True):
            parameters.append(f"{'i8' if function.kernel and ty == 'i1' else ty} {name}")
    for value in function.args if function.kernel else ():
        if value.type is I1:
            byte = builder.scalar(value)
            builder.values[value] = [builder.new(f"icmp ne i8 {byte}, 0")]
    return parameters


def result_types(function: Function) -> list[str]:
    """Return the types of the registers that a function returns."""
    return types_of(function.body.yielded)


RULES: dict[OpDef, Rule] = {
    control.for_: for_,
    control.while_: while_,
    control.if_: if_,
    control.call: call,
}
