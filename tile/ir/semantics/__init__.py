"""Reference semantics of pure operations, on NumPy arrays.

Constant folding, the interpreter and every backend's tests compute with these functions. An array
of dtype bool, intN, uintN, float16, bfloat16, float8_e4m3fn, float8_e5m2, float32 or float64 holds
values of i1, iN, uN, f16, bf16, f8e4m3, f8e5m2, f32 or f64, and int64 holds pointers. Axis 0 is the
*program axis*: one entry for each program, or a single one for all programs. The tile's axes follow
and are counted from the right.

A function returns exactly the dtype of its operation's result type and never writes to its
operands; its result may share memory with them. The caller holds `quiet()` around the calls.
"""

from tile.ir.numpy_dtypes import Array, Dtype, numpy_dtype, quiet, scalar_of
from tile.ir.semantics.arith import (
    absolute,
    add,
    and_,
    cmp,
    div,
    maximum,
    minimum,
    mul,
    mulhi,
    neg,
    not_,
    or_,
    rem,
    select,
    shl,
    shr,
    sub,
    xor,
)
from tile.ir.semantics.cast import bitcast, cast, constant, conversion, narrow, printable, widen
from tile.ir.semantics.dot import dot, round_to_tf32, truncate_mantissa
from tile.ir.semantics.erf import erf_f32, erf_f64
from tile.ir.semantics.math import elementwise, fma, rsqrt
from tile.ir.semantics.reduce import Combine, argreduce, reduce, reduce_region, scan, scan_region
from tile.ir.semantics.shape import (
    arange,
    flip,
    gather,
    histogram,
    join,
    permute,
    rank,
    reshape,
    scatter,
    sort,
    split,
    table,
)

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
    "cast",
    "cmp",
    "constant",
    "conversion",
    "div",
    "dot",
    "elementwise",
    "erf_f32",
    "erf_f64",
    "flip",
    "fma",
    "gather",
    "histogram",
    "join",
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
    "printable",
    "quiet",
    "rank",
    "reduce",
    "reduce_region",
    "rem",
    "reshape",
    "round_to_tf32",
    "rsqrt",
    "scalar_of",
    "scan",
    "scan_region",
    "scatter",
    "select",
    "shl",
    "shr",
    "sort",
    "split",
    "sub",
    "table",
    "truncate_mantissa",
    "widen",
    "xor",
]
