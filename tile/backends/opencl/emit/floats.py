"""Convert floats to and from f32, in which floats that are held as bits are computed."""

from __future__ import annotations

from tile.backends.opencl.emit.body import FunctionBuilder
from tile.backends.opencl.emit.types import is_bits
from tile.ir.types import F16, F32, F64, Pointer, Scalar


def wide(builder: FunctionBuilder, ty: Scalar | Pointer, x: str) -> str:
    """Extend a float of up to 32 bits to f32; return an f64 unchanged."""
    if ty is F32 or ty is F64:
        return x
    if ty is F16 and not is_bits(ty, builder.source.device.fp16):
        return f"(float){x}"
    return f"{builder.use(f'{ty}_to_f32')}({x})"


def narrow(builder: FunctionBuilder, ty: Scalar | Pointer, x: str) -> str:
    """Round an f32 to nearest even; return an f64 unchanged."""
    if ty is F32 or ty is F64:
        return x
    if ty is F16 and not is_bits(ty, builder.source.device.fp16):
        return f"convert_half_rte({x})"
    return f"{builder.use(f'f32_to_{ty}')}({x})"


def plain(x: str) -> str:
    """Return an operand in a form that can follow a minus sign."""
    return f"({x})" if x.startswith("-") else x
