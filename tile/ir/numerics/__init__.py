"""Reference semantics of pure operations, on NumPy arrays.

Constant folding, the interpreter and every backend's tests compute with these functions. An array
of dtype bool, intN, uintN, float16, bfloat16, float8_e4m3fn, float8_e5m2, float32 or float64 holds
values of i1, iN, uN, f16, bf16, f8e4m3, f8e5m2, f32 or f64, and int64 holds pointers. Axis 0 is the
*program axis*: one entry for each program, or a single one for all programs. The tile's axes follow
and are counted from the right.

A function returns exactly the dtype of its operation's result type and never writes to its
operands; its result may share memory with them. The caller holds `quiet()` around the calls.
"""

from tile.ir.dtypes import Array, Dtype, numpy_dtype, scalar_of
from tile.ir.numerics.arith import (
    absolute,
    add,
    and_,
    clamp,
    div,
    maximum,
    minimum,
    mul,
    mulhi,
    neg,
    not_,
    or_,
    rem,
    shl,
    shr,
    sub,
    xor,
)
from tile.ir.numerics.cast import bitcast, cast, constant, conversion
from tile.ir.numerics.combine import Combine, reduce_by, scan_by
from tile.ir.numerics.compare import cmp, select
from tile.ir.numerics.dtypes import (
    quiet,
)
from tile.ir.numerics.fma import fma
from tile.ir.numerics.index import gather, histogram, sort
from tile.ir.numerics.linalg import cut, dot, round_to_tf32
from tile.ir.numerics.math import (
    ceil,
    cos,
    erf,
    exp,
    exp2,
    floor,
    log,
    log2,
    rint,
    rsqrt,
    sin,
    sqrt,
    tanh,
    trunc,
)
from tile.ir.numerics.narrow import narrow, widen
from tile.ir.numerics.reduce import argreduce, reduce, scan
from tile.ir.numerics.shape import (
    arange,
    broadcast_to,
    expand_dims,
    flip,
    join,
    permute,
    reshape,
    splat,
    split,
)
from tile.ir.numerics.ulp import ulp_distance

__all__ = [
    "Array",
    "Combine",
    "Dtype",
    "absolute",
    "add",
    "and_",
    "arange",
    "argreduce",
    "bitcast",
    "broadcast_to",
    "cast",
    "ceil",
    "clamp",
    "cmp",
    "constant",
    "conversion",
    "cos",
    "cut",
    "div",
    "dot",
    "erf",
    "exp",
    "exp2",
    "expand_dims",
    "flip",
    "floor",
    "fma",
    "gather",
    "histogram",
    "join",
    "log",
    "log2",
    "maximum",
    "minimum",
    "mul",
    "mulhi",
    "narrow",
    "neg",
    "not_",
    "numpy_dtype",
    "or_",
    "permute",
    "quiet",
    "reduce",
    "reduce_by",
    "rem",
    "reshape",
    "rint",
    "round_to_tf32",
    "rsqrt",
    "scalar_of",
    "scan",
    "scan_by",
    "select",
    "shl",
    "shr",
    "sin",
    "sort",
    "splat",
    "split",
    "sqrt",
    "sub",
    "tanh",
    "trunc",
    "ulp_distance",
    "widen",
    "xor",
]
