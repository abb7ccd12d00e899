"""Emit arithmetic by instructions that only PTX has; `tile/codegen/llvm/arith.py` has the rest."""

from __future__ import annotations

from tile.backends.nvptx.emit.float_bounds import lower_bound
from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import assemble
from tile.backends.nvptx.emit.vectors import (
    as_integers,
    elements,
    from_integers,
    pack,
    unpack,
    vector,
)
from tile.backends.nvptx.target import Architecture
from tile.codegen.llvm import arith as llvm
from tile.codegen.llvm.arith import each, element_of, function, suffix
from tile.codegen.llvm.function_builder import Rule
from tile.codegen.llvm.types import is_integer, llvm_type
from tile.ir.core import Operation
from tile.ir.effects import constant_of
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, math, memory
from tile.ir.types import F32, F64, Scalar


def after_loads(rule: Rule) -> Rule:
    """Return a rule for what ptxas expands to branches, which keeps earlier loads before it.

    LLVM places a load next to its first use. ptxas moves no load from behind a branch, so there it
    would start when all loads that the branch depends on have ended. LLVM moves no load across
    inline PTX with effects, which here is empty.
    """

    def emit(builder: FunctionBuilder, op: Operation) -> None:
        if _follows_load(op):
            assemble(builder, "", [], [], memory=True)
        rule(builder, op)

    return emit


def _follows_load(op: Operation) -> bool:
    """Return True if there is a load in the block after the last such operation before `op`."""
    before = op.prev
    while before is not None and before.defn not in BRANCHING:
        if before.defn is memory.load:
            return True
        before = before.prev
    return False


division_rn = after_loads(llvm.division_rn)


def division(builder: FunctionBuilder, op: Operation) -> None:
    """Divide: integers toward zero, f32 within 2 units in the last place, as `div` allows."""
    element = element_of(op)
    if is_integer(element):
        return llvm.integer_division(builder, op, element)
    if element is F64:
        return division_rn(builder, op)
    if element is F32 and constant_of(op.inputs[0]) == 1:
        return _reciprocal(builder, op)

    text = "div.full.f32 $0, $1, $2;"
    if lower_bound(op.inputs[1]) >= _LEAST_DIVISOR:
        text = f"{{ .reg .pred p; .reg .f32 x, y; {' '.join(_QUOTIENT)} }}"

    def divide(x: str, y: str) -> str:
        return assemble(builder, text, ["float"], [("float", x), ("float", y)])[0]

    return each(builder, op, divide)


# The least number of which a fourth is not subnormal: instructions that flush subnormal numbers
# have the reciprocals of all fourths of greater ones.
_LEAST_DIVISOR = 2.0**-124
# Quotients by such numbers, in 5 instructions. `div.full.f32` takes 8, as it scales subnormal
# divisors, too.
_QUOTIENT = (
    "setp.gt.f32 p, $2, 0f7E800000;",
    "mov.f32 x, $1;",
    "mov.f32 y, $2;",
    "@p mul.f32 x, x, 0f3E800000;",
    "@p mul.f32 y, y, 0f3E800000;",
    "rcp.approx.ftz.f32 y, y;",
    "mul.f32 $0, x, y;",
)
# Reciprocals, in 3 instructions; `rcp.approx.f32` takes 7.
_FOURTHS = ("mul.f32 y, $1, 0f3E800000;", "rcp.approx.ftz.f32 y, y;", "mul.f32 $0, y, 0f3E800000;")


def _reciprocal(builder: FunctionBuilder, op: Operation) -> None:
    """Emit 1 / x of f32 by an instruction within 1 unit in the last place, 1 / sqrt(x) within 2."""
    x = op.inputs[1]
    kind = "rcp"
    if x.op is not None and x.op.defn is math.sqrt:
        (x,), kind = x.op.inputs, "rsqrt"
    text = f"{kind}.approx.f32 $0, $1;"
    if lower_bound(x) >= _LEAST_DIVISOR:
        text = f"{{ .reg .f32 y; {' '.join(_FOURTHS)} }}"
        if kind == "rsqrt":
            text = "rsqrt.approx.ftz.f32 $0, $1;"
    registers = builder.of(x)
    results = {y: assemble(builder, text, ["float"], [("float", y)])[0] for y in registers}
    builder.set(op, [results[y] for y in registers])


def negate(builder: FunctionBuilder, op: Operation) -> None:
    """Negate; f32 by PTX, which becomes a modifier of the instruction that takes the result.

    Where the operand was loaded, LLVM would invert its sign bit, which takes an instruction.
    """
    if element_of(op) is not F32:
        return llvm.negate(builder, op)
    return _modify(builder, op, "neg.f32 $0, $1;")


def magnitude(builder: FunctionBuilder, op: Operation) -> None:
    """Return the absolute value; of f32 by PTX, as `negate` does."""
    if element_of(op) is not F32:
        return llvm.magnitude(builder, op)
    return _modify(builder, op, "abs.f32 $0, $1;")


def _modify(builder: FunctionBuilder, op: Operation, text: str) -> None:
    each(builder, op, lambda x: assemble(builder, text, ["float"], [("float", x)])[0])


def remainder(builder: FunctionBuilder, op: Operation) -> None:
    """Compute a remainder; for floats by libdevice, exactly."""
    element = element_of(op)
    if is_integer(element):
        return llvm.integer_division(builder, op, element)
    name, ty = ("__nv_fmod", "double") if element is F64 else ("__nv_fmodf", "float")
    builder.module.libdevice_functions.add(name)

    return each(builder, op, lambda x, y: builder.call(f"@{name}", ty, (ty, x), (ty, y)))


_HIGH = {(32, True): "i", (32, False): "ui", (64, True): "ll", (64, False): "ull"}


def high_half(builder: FunctionBuilder, op: Operation) -> None:
    """Return the high half of a product."""
    element = element_of(op)
    name = f"@llvm.nvvm.mulhi.{_HIGH[element.bits, element.is_int_signed()]}"
    function(builder, op, name, llvm_type(element))


def extremum(builder: FunctionBuilder, op: Operation) -> None:
    """Emit `min` or `max`; those that propagate NaNs are instructions since sm_80, but of f64."""
    element = element_of(op)
    kind = "imum" if op["propagate_nan"] else "num"
    columns = [builder.of(value) for value in op.inputs]
    if element in builder.module.arch.packed_extremes and len(columns[0]) % 2 == 0:
        name, ty = f"@llvm.{op.name}{kind}.v2{suffix(element)}", llvm_type(element)
        results: list[str] = []
        for first in range(0, len(columns[0]), 2):
            pairs = [vector(builder, ty, column[first : first + 2]) for column in columns]
            results += elements(builder, ty, builder.call(name, pairs[0][0], *pairs), 2)
        return builder.set(op, results)
    direct = not is_integer(element) and element is not F64 and op["propagate_nan"]
    if not direct or builder.module.arch.capability < 80:
        return llvm.extremum(builder, op)
    return function(builder, op, f"@llvm.{op.name}{kind}.{suffix(element)}", llvm_type(element))


def select(builder: FunctionBuilder, op: Operation) -> None:
    """Select one of two values; of 16-bit elements by one condition, two at a time.

    Of single ones that were converted from accumulators of a wgmma, ptxas selects before it
    converts, above the wait for the wgmma, and then serializes all of them (C7514, ptxas 13.0).
    Before sm_80, which converts two numbers at once, packing them costs a register and more.
    """
    ty = llvm_type(op.result.type.element)
    conditions, *columns = (builder.of(value) for value in op.inputs)
    packed = builder.module.arch.capability >= 80 and ty in ("half", "bfloat", "i16")
    if not packed or len(conditions) % 2 or len({*conditions}) > 1:
        return llvm.select(builder, op)
    results: list[str] = []
    for first in range(0, len(conditions), 2):
        (pair, x), (_, y) = (vector(builder, ty, column[first : first + 2]) for column in columns)
        chosen = builder.new(f"select i1 {conditions[0]}, {pair} {x}, {pair} {y}")
        results += elements(builder, ty, chosen, 2)
    return builder.set(op, results)


def launder(builder: FunctionBuilder, op: Operation) -> None:
    """Invert those bits that are ones of a number that is 0, which ptxas cannot prove.

    It takes an instruction for each register: elements that are packed in one stay so.
    """
    element = element_of(op)
    values, after = (builder.of(value) for value in op.inputs)
    per_register = _WORD // element.bits
    if per_register > 1 and len(values) % per_register == 0:
        packed = zip(pack(builder, element, values), after[::per_register], strict=True)
        words = [_laundered(builder, word, number) for (_, word), number in packed]
        return builder.set(op, unpack(builder, element, words))
    results = []
    for value, number in zip(values, after, strict=True):
        words = [_laundered(builder, x, number) for x in as_integers(builder, element, value)]
        results.append(from_integers(builder, element, words))
    return builder.set(op, results)


_WORD = 32  # bits of a register


def _laundered(builder: FunctionBuilder, word: str, number: str) -> str:
    """Return a register unchanged: at most 32 bits of a number are ones, so their count >> 6 is 0.

    LLVM computes that once for all registers.
    """
    text = "{ .reg .b32 n; popc.b32 n, $1; shr.u32 $0, n, 6; }"
    zero = assemble(builder, text, ["i32"], [("i32", number)])
    operands = [("i32", word), ("i32", zero[0])]
    return assemble(builder, "xor.b32 $0, $1, $2;", ["i32"], operands)[0]


# Operations of f32 and f64 that ptxas expands to code with branches.
BRANCHING = frozenset({arith.div_rn, math.sqrt_rn})

RULES: dict[OpDef, Rule] = {
    **llvm.RULES,
    arith.neg: negate,
    math.abs_: magnitude,
    arith.div: division,
    arith.div_rn: division_rn,
    math.sqrt_rn: after_loads(llvm.intrinsic),
    arith.rem: remainder,
    arith.mulhi: high_half,
    arith.min_: extremum,
    arith.max_: extremum,
    arith.select: select,
    arith.launder: launder,
}

# Rules that take f32 and f64 only, and rules that take the narrow floats of the architecture.
_WIDE = (division, division_rn, remainder)
_NATIVE = (llvm.arithmetic, llvm.fma, extremum, llvm.compare)


def narrow_floats(arch: Architecture) -> dict[OpDef, tuple[Scalar, ...]]:
    """Return the narrow floats that rules take, by op, where these are not all."""
    return {
        defn: arch.native_floats if rule in _NATIVE else ()
        for defn, rule in RULES.items()
        if rule in _NATIVE + _WIDE
    }
