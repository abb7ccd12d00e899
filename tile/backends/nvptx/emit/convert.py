"""Conversions, as the table at the top of `tile/ir/numerics/cast.py` says."""

from __future__ import annotations

from collections.abc import Callable

from tile.backends.nvptx.emit.assembler import assemble
from tile.backends.nvptx.emit.body import Body, Rule
from tile.backends.nvptx.emit.elementwise import each
from tile.backends.nvptx.emit.narrow import narrow, wide
from tile.backends.nvptx.emit.types import is_integer, is_signed, literal, llvm_type, number_of
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import arith
from tile.ir.ops.arith import Rounding
from tile.ir.types import BF16, F16, F32, F64, FP8, I1, Kind, Pointer, Scalar

Convert = Callable[[Body, Scalar, Scalar, str], str]


def cast(body: Body, op: Operation) -> None:
    """Convert the value."""
    source, to = number_of(op.inputs[0].type), op["to"]
    if source == to:
        body.set(op, body.of(op.inputs[0]))
        return
    convert = _conversion(source, to, op["rounding"])
    each(body, op, lambda x: convert(body, source, to, x))


def _conversion(source: Scalar, to: Scalar, rounding: Rounding) -> Convert:
    if rounding is Rounding.RTZ:
        return _towards_zero
    if to is I1:
        return _truth
    if source.kind is Kind.FLOAT:
        return _between_floats if to.kind is Kind.FLOAT else _to_integer
    return _to_float if to.kind is Kind.FLOAT else _between_integers


def _truth(body: Body, source: Scalar, to: Scalar, x: str) -> str:
    """Whether it is anything but zero; a NaN is."""
    ty = llvm_type(source)
    if source in FP8:
        x = body.new(f"and i8 {x}, 127")
    elif source is BF16:
        bits = body.new(f"bitcast bfloat {x} to i16")
        x, ty = body.new(f"and i16 {bits}, 32767"), "i16"
    elif not is_integer(source):
        return body.new(f"fcmp une {ty} {x}, {literal(0, source)}")
    return body.new(f"icmp ne {ty} {x}, 0")


def _between_integers(body: Body, source: Scalar, to: Scalar, x: str) -> str:
    before, after = llvm_type(source), llvm_type(to)
    if source.bits == to.bits:
        return x
    if source.bits > to.bits:
        return body.new(f"trunc {before} {x} to {after}")
    return body.new(f"{'sext' if is_signed(source) else 'zext'} {before} {x} to {after}")


# -- between floats


def _between_floats(body: Body, source: Scalar, to: Scalar, x: str) -> str:
    """Each by one rounding; from f64 to fewer than 16 bits of significand by way of f32."""
    if source is F64 and (to is BF16 or to in FP8):
        return narrow(body, to, _round_to_odd(body, x))
    if F64 in (source, to):
        if source in FP8:
            source, x = F32, wide(body, source, x)
        kind = "fptrunc" if source is F64 else "fpext"
        return body.new(f"{kind} {llvm_type(source)} {x} to {llvm_type(to)}")
    return narrow(body, to, wide(body, source, x))


def _round_to_odd(body: Body, x: str) -> str:
    """An f64 as f32, an inexact one as the neighbour whose last bit is 1.

    Rounding that to a narrower float gives what rounding the f64 at once would.
    """
    rounded = body.call("@llvm.nvvm.d2f.rz", "float", ("double", x))
    back = body.new(f"fpext float {rounded} to double")
    inexact = body.new(f"fcmp une double {back}, {x}")
    return _with_last_bit(body, rounded, inexact)


def _with_last_bit(body: Body, x: str, condition: str) -> str:
    bits = body.new(f"bitcast float {x} to i32")
    bits = body.new(f"or i32 {bits}, {body.new(f'zext i1 {condition} to i32')}")
    return body.new(f"bitcast i32 {bits} to float")


def _towards_zero(body: Body, source: Scalar, to: Scalar, x: str) -> str:
    if to in FP8:
        return _fp8_towards_zero(body, source, to, x)
    if source is F64 and to is not F16:
        x = body.call("@llvm.nvvm.d2f.rz", "float", ("double", x))
        if to is F32:
            return x
    if to is BF16:
        return _cut(body, x)
    ty = "double" if source is F64 else "float"
    kind = "f64" if source is F64 else "f32"
    (bits,) = assemble(body, f"cvt.rz.f16.{kind} $0, $1;", ["i16"], [(ty, x)])
    return body.new(f"bitcast i16 {bits} to half")


def _cut(body: Body, x: str) -> str:
    """The upper half of an f32 as bf16, a NaN as one that stays a NaN."""
    bits = body.new(f"bitcast float {x} to i32")
    high = body.new(f"trunc i32 {body.new(f'lshr i32 {bits}, 16')} to i16")
    missing = body.new(f"fcmp uno float {x}, {x}")
    kept = body.new(f"select i1 {missing}, i16 32704, i16 {high}")
    return body.new(f"bitcast i16 {kept} to bfloat")


def _fp8_towards_zero(body: Body, source: Scalar, to: Scalar, x: str) -> str:
    """The nearest one, and one step down in magnitude where that grew."""
    if source is F64:
        x = body.call("@llvm.nvvm.d2f.rz", "float", ("double", x))
    else:
        x = wide(body, source, x)
    nearest = narrow(body, to, x)
    sizes = [
        body.call("@llvm.fabs.f32", "float", ("float", value))
        for value in (wide(body, to, nearest), x)
    ]
    grew = body.new(f"fcmp ogt float {sizes[0]}, {sizes[1]}")
    return body.new(f"sub i8 {nearest}, {body.new(f'zext i1 {grew} to i8')}")


# -- from floats to integers

# By the bits of the float and of the integer, and its sign. All of these truncate and saturate.
_TRUNCATE = {
    (32, 32, True): "f2i",
    (32, 32, False): "f2ui",
    (32, 64, True): "f2ll",
    (32, 64, False): "f2ull",
    (64, 32, True): "d2i",
    (64, 32, False): "d2ui",
    (64, 64, True): "d2ll",
    (64, 64, False): "d2ull",
}


def _to_integer(body: Body, source: Scalar, to: Scalar, x: str) -> str:
    """Towards zero, saturated; a NaN gives 0."""
    x = wide(body, source, x)
    ty = "double" if source is F64 else "float"
    bits, signed = max(32, to.bits), is_signed(to)
    name = f"@llvm.nvvm.{_TRUNCATE[64 if source is F64 else 32, bits, signed]}.rz"
    wide_ty = f"i{bits}"
    found = body.call(name, wide_ty, (ty, x))
    # The instruction gives 0 for a NaN only where neither side has 64 bits.
    if source is F64 or bits == 64:
        missing = body.new(f"fcmp uno {ty} {x}, {x}")
        found = body.new(f"select i1 {missing}, {wide_ty} 0, {wide_ty} {found}")
    if to.bits == bits:
        return found
    sign = "s" if signed else "u"
    if signed:
        low = (wide_ty, str(to.min_value))
        found = body.call(f"@llvm.smax.{wide_ty}", wide_ty, (wide_ty, found), low)
    high = (wide_ty, str(to.max_value))
    found = body.call(f"@llvm.{sign}min.{wide_ty}", wide_ty, (wide_ty, found), high)
    return body.new(f"trunc {wide_ty} {found} to {llvm_type(to)}")


# -- from integers to floats


def _to_float(body: Body, source: Scalar, to: Scalar, x: str) -> str:
    """One rounding; to bf16 and fp8 by way of an f32 that is exact or rounded to odd."""
    ty = llvm_type(source)
    kind = "sitofp" if is_signed(source) else "uitofp"
    if to in (F16, F32, F64):
        return body.new(f"{kind} {ty} {x} to {llvm_type(to)}")
    if source.bits <= 16:
        return narrow(body, to, body.new(f"{kind} {ty} {x} to float"))
    return narrow(body, to, _integer_to_odd(body, source, x))


_CUT = {(32, True): "i2f", (32, False): "ui2f", (64, True): "ll2f", (64, False): "ull2f"}


def _integer_to_odd(body: Body, source: Scalar, x: str) -> str:
    """An integer as f32, cut off; one that lost bits has a last bit of 1."""
    ty = llvm_type(source)
    signed = is_signed(source)
    cut = body.call(f"@llvm.nvvm.{_CUT[source.bits, signed]}.rz", "float", (ty, x))
    back = body.new(f"{'fptosi' if signed else 'fptoui'} float {cut} to {ty}")
    return _with_last_bit(body, cut, body.new(f"icmp ne {ty} {back}, {x}"))


# -- bits


def bitcast(body: Body, op: Operation) -> None:
    """The same bits as another type."""
    source: Scalar | Pointer = op.inputs[0].type.element
    before, after = llvm_type(source), llvm_type(op["to"])
    if before == after:
        body.set(op, body.of(op.inputs[0]))
        return
    each(body, op, lambda x: body.new(f"bitcast {before} {x} to {after}"))


RULES: dict[OpDef, Rule] = {arith.cast: cast, arith.bitcast: bitcast}
