"""Floats that are held as bits: to and from f32, in which they are computed."""

from __future__ import annotations

from tile.backends.opencl.emit.body import Body
from tile.backends.opencl.emit.types import is_bits
from tile.ir.types import F16, F32, F64, Pointer, Scalar


def wide(body: Body, ty: Scalar | Pointer, x: str) -> str:
    """A float of up to 32 bits as f32; an f64 as it is."""
    if ty is F32 or ty is F64:
        return x
    if ty is F16 and not is_bits(ty, body.source.device.fp16):
        return f"(float){x}"
    return f"{body.use(f'{ty}_to_f32')}({x})"


def narrow(body: Body, ty: Scalar | Pointer, x: str) -> str:
    """An f32 rounded to nearest even; an f64 as it is."""
    if ty is F32 or ty is F64:
        return x
    if ty is F16 and not is_bits(ty, body.source.device.fp16):
        return f"convert_half_rte({x})"
    return f"{body.use(f'f32_to_{ty}')}({x})"


def plain(x: str) -> str:
    """An operand behind a sign."""
    return f"({x})" if x.startswith("-") else x
