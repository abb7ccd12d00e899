"""Random expressions mean what a C compiler says: types, conversions, precedence, literals.

The same text is compiled by `cc` as a loop over elements and by `triton_c` as tiles. Signed overflow
wraps in both (-fwrapv). What C leaves undefined is not generated: shifts by more than the width,
division by zero or of the least integer by -1, and floats that do not fit the integer they become.
"""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.sampling import examples
from tile import triton_c

COUNT = 16
# Variables by their C type; `bool` is _Bool for the C compiler.
TYPES = {
    "c": ("char", np.int8),
    "u": ("unsigned char", np.uint8),
    "s": ("short", np.int16),
    "t": ("unsigned short", np.uint16),
    "i": ("int", np.int32),
    "n": ("unsigned", np.uint32),
    "l": ("long", np.int64),
    "m": ("unsigned long", np.uint64),
    "f": ("float", np.float32),
    "d": ("double", np.float64),
}
INTEGERS = "cusitnlm"
RESULTS = {"long": np.int64, "double": np.float64}
LITERALS = ["0", "1", "7", "0x1F", "017", "40u", "3l", "2147483648", "5ul", "true"]
REALS = ["0.5", "1.5f", "2e3", ".25f"]

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler `cc`")


def integers(depth: int) -> st.SearchStrategy[str]:
    """Expressions of an integer type."""
    leaves = st.sampled_from([*INTEGERS, *LITERALS])
    if not depth:
        return leaves
    inner = st.deferred(lambda: integers(depth - 1))
    real = st.deferred(lambda: reals(depth - 1))
    operator = st.sampled_from(["+", "-", "*", "&", "|", "^", "<", "<=", "==", "!=", ">", ">="])
    logical = st.sampled_from(["&&", "||"])
    either = st.one_of(inner, real)
    return st.one_of(
        leaves,
        st.builds("{0} {1} {2}".format, inner, operator, inner),
        st.builds("({0} {1} {2})".format, inner, operator, inner),
        st.builds("({0} {1} {2})".format, real, st.sampled_from(["<", ">=", "==", "!="]), either),
        st.builds("(({0}) {1} ({2}))".format, either, logical, either),
        st.builds("(({0}) / ((({1}) & 7) + 1))".format, inner, inner),
        st.builds("(({0}) % ((({1}) & 7) + 1))".format, inner, inner),
        st.builds("(({0}) {1} (({2}) & 7))".format, inner, st.sampled_from(["<<", ">>"]), inner),
        st.builds("{0}({1})".format, st.sampled_from("+-~!"), inner),
        st.builds("(({0}) ? {1} : {2})".format, either, inner, inner),
        st.builds("({0})({1})".format, st.sampled_from([TYPES[v][0] for v in INTEGERS]), inner),
    )


def reals(depth: int) -> st.SearchStrategy[str]:
    """Expressions of a floating-point type, and of integers next to them."""
    leaves = st.sampled_from(["f", "d", *REALS])
    if not depth:
        return leaves
    inner = st.deferred(lambda: reals(depth - 1))
    whole = st.deferred(lambda: integers(depth - 1))
    operator = st.sampled_from("+-*/")
    return st.one_of(
        leaves,
        st.builds("({0} {1} ({2}))".format, inner, operator, st.one_of(inner, whole)),
        st.builds("(({0}) {1} {2})".format, whole, st.sampled_from("+-*"), inner),
        st.builds("(({0}) ? {1} : {2})".format, whole, inner, inner),
        st.builds("(float)({0})".format, st.one_of(inner, whole)),
        st.builds("-({0})".format, inner),
    )


def values() -> dict[str, np.ndarray]:
    """Random values of the variables: small ones, the least and the greatest."""
    rng = np.random.default_rng(0)
    arrays = {}
    for name, (_, dtype) in TYPES.items():
        if np.dtype(dtype).kind == "f":
            arrays[name] = (rng.standard_normal(COUNT) * 100).astype(dtype)
        else:
            info = np.iinfo(dtype)
            numbers = rng.integers(info.min, info.max, COUNT, dtype, endpoint=True)
            numbers[:4] = [0, 1, info.max, info.min]
            arrays[name] = numbers
    return arrays


def by_c_compiler(
    expressions: list[tuple[str, str]], arrays: dict[str, np.ndarray]
) -> list[np.ndarray]:
    """Return what `cc` computes, for (type of the result, expression) pairs."""
    parameters = ", ".join(f"const {ty}* {name}_" for name, (ty, _) in TYPES.items())
    variables = " ".join(f"{ty} {name} = {name}_[k];" for name, (ty, _) in TYPES.items())
    lines = ["#include <stdbool.h>"]
    for number, (ty, expression) in enumerate(expressions):
        lines.append(
            f"void f{number}({parameters}, {ty}* out) {{ for (int k = 0; k < {COUNT}; k++) {{ "
            f"{variables} out[k] = {expression}; }} }}"
        )
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder) / "e.c", Path(folder) / "e.so"
        source.write_text("\n".join(lines))
        options = ["-O0", "-w", "-fwrapv", "-ffp-contract=off", "-fsigned-char", "-shared", "-fPIC"]
        subprocess.run(["cc", *options, "-o", library, source], check=True)
        loaded = ctypes.CDLL(str(library))
        results = []
        for number, (ty, _) in enumerate(expressions):
            out = np.zeros(COUNT, RESULTS[ty])
            pointers = [a.ctypes.data_as(ctypes.c_void_p) for a in (*arrays.values(), out)]
            loaded[f"f{number}"](*pointers)
            results.append(out)
    return results


def by_triton_c(
    expressions: list[tuple[str, str]], arrays: dict[str, np.ndarray]
) -> list[np.ndarray]:
    """The same by a kernel for each expression."""
    parameters = ", ".join(f"{ty}* {name}_" for name, (ty, _) in TYPES.items())
    variables = " ".join(
        f"{ty} {name}[{COUNT}] = *({name}_ + k_);" for name, (ty, _) in TYPES.items()
    )
    results = []
    for ty, expression in expressions:
        text = (
            f"kernel void f({parameters}, {ty}* out) {{ int k_[{COUNT}] = 0 ... {COUNT}; "
            f"{variables} {ty} r[{COUNT}] = {expression}; *(out + k_) = r; }}"
        )
        out = np.zeros(COUNT, RESULTS[ty])
        triton_c.compile(text).f[(1,)](*arrays.values(), out)
        results.append(out)
    return results


@needs_cc
@examples(6)
@given(
    st.lists(
        st.one_of(st.tuples(st.just("long"), integers(3)), st.tuples(st.just("double"), reals(3))),
        min_size=1,
        max_size=12,
    )
)
def test_expressions_mean_what_a_c_compiler_says(expressions):
    arrays = values()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        mine = by_triton_c(expressions, arrays)
    for (ty, text), computed, right in zip(
        expressions, mine, by_c_compiler(expressions, arrays), strict=True
    ):
        np.testing.assert_array_equal(computed, right, err_msg=f"{ty} r = {text}")
