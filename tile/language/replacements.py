"""The names in `tl` of functions that other libraries have under their own, for error messages."""

from __future__ import annotations

from collections.abc import Mapping

from tile.ir.semantics.libdevice import functions
from tile.language._functions import MODULES
from tile.language.math import ELEMENTARY

LIBRARIES = frozenset({"numpy", "torch", "math", "jax", "scipy", "cupy"})
"""Packages whose functions of arrays kernels cannot call."""

# Functions of NumPy and torch whose names in `tl` differ, and names that `tl` had elsewhere.
RENAMED: Mapping[str, str] = {
    "absolute": "tl.abs",
    "arccos": "tl.math.acos",
    "arccosh": "tl.math.acosh",
    "arcsin": "tl.math.asin",
    "arcsinh": "tl.math.asinh",
    "arctan": "tl.math.atan",
    "arctan2": "tl.math.atan2",
    "arctanh": "tl.math.atanh",
    "amax": "tl.max",
    "amin": "tl.min",
    "any": "tl.reduce_or",
    "array": "tl.full or tl.load",
    "astype": "x.to(dtype)",
    "bmm": "tl.dot",
    "clip": "tl.clamp",
    "concatenate": "tl.cat",
    "fabs": "tl.abs",
    "float_power": "tl.math.pow",
    "full_like": "tl.full",
    "libdevice": "tl.extra.libdevice",
    "matmul": "tl.dot",
    "max_pool1d": "tl.max",
    "mean": "tl.sum(x, axis) / n",
    "mm": "tl.dot",
    "multiply": "tl.mul",
    "ones": "tl.full(shape, 1, dtype)",
    "ones_like": "tl.full(x.shape, 1, x.dtype)",
    "power": "tl.math.pow",
    "prod": "tl.reduce",
    "stack": "tl.join",
    "subtract": "tl.sub",
    "tensor": "tl.full or tl.load",
    "transpose": "tl.trans",
    "true_divide": "tl.fdiv",
    "zeros_like": "tl.zeros_like",
}

METHODS: Mapping[str, str] = {
    "astype": "x.to(dtype)",
    "bfloat16": "x.to(tl.bfloat16)",
    "bool": "x != 0",
    "double": "x.to(tl.float64)",
    "float": "x.to(tl.float32)",
    "half": "x.to(tl.float16)",
    "int": "x.to(tl.int32)",
    "long": "x.to(tl.int64)",
    "mean": "tl.sum(x, axis) / n",
    "ndim": "len(x.shape)",
    "permute_dims": "x.permute(dims)",
    "size": "x.shape, or x.numel",
    "transpose": "tl.trans(x)",
    "type_as": "x.to(other.dtype)",
}
"""Methods of arrays of other libraries, and what kernels write for `x.method()`."""


def replacement(name: str) -> str:
    """Return the name in `tl` of a function of another library, or an empty string.

    replacement("sqrt") == "tl.sqrt" and replacement("arctan2") == "tl.math.atan2"
    """
    if name in {one for names in MODULES.values() for one in names.split()}:
        return f"tl.{name}"
    if name in RENAMED:
        return RENAMED[name]
    if name in ELEMENTARY.split():
        return f"tl.math.{name}"
    return f"tl.extra.libdevice.{name}" if name in functions() else ""


def advice(name: str) -> str:
    """Return the end of a message that names the replacement, or an empty string."""
    instead = replacement(name)
    return f"; write {instead}" if instead else ""
