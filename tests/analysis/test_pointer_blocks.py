"""Proven blocks have the elements that pointers and masks select, for random forms of both."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tile
import tile.language as tl
from tests.sampling import examples
from tile import backends
from tile.backends.base import Options, Target
from tile.ir.builder import Builder
from tile.ir.core import Value
from tile.ir.effects import constant_of
from tile.ir.module import Module
from tile.ir.ops import descriptor, memory
from tile.ir.passes import run_pipeline
from tile.ir.types import I32
from tile.runtime.arguments.storage_view import StorageView

BM, BK = 8, 16
STRIDE = 96  # of the array, of which a kernel sees a part
HEIGHT = 80
FIRST = 24 * STRIDE + 32  # where that starts, in elements


@tile.jit
def copied(
    x_ptr, y_ptr, M, N, S, T, D, ROWS: tl.constexpr, COLUMNS: tl.constexpr, IN_ROWS: tl.constexpr,
    IN_COLUMNS: tl.constexpr, MORE: tl.constexpr, WIDE: tl.constexpr, COLUMNS_FIRST: tl.constexpr,
    OUTER: tl.constexpr, BM: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    """Copy blocks of rows and columns to y, one after the other."""
    row = tl.program_id(0) * BM
    if "offset" in ROWS:
        row += 4
    if "before" in ROWS:
        row -= 8
    if "argument" in ROWS:
        row += T
    if "scaled" in ROWS:
        row = tl.program_id(0) * T
    i = tl.arange(0, BM)
    if "gaps" in ROWS:
        i = 2 * i
    rows = row + i
    if "modulo" in ROWS:
        tl.assume(M % BM == 0)
        rows %= M
    if "clamped" in ROWS:
        rows = tl.minimum(rows, M - 1)
    j = tl.arange(0, BK)
    if WIDE:
        rows, j = rows.to(tl.int64), j.to(tl.int64)
    if COLUMNS_FIRST:
        pointers = x_ptr + rows[None, :] * S + j[:, None]
    else:
        pointers = x_ptr + rows[:, None] * S + j[None, :]
    if OUTER == "stride":
        pointers += tl.program_id(1) * D
    if OUTER == "rows":
        pointers += tl.program_id(1) * S
    if OUTER == "both":
        pointers += tl.program_id(1) * D + tl.program_id(1) // 2 * S
    program = tl.program_id(1) * tl.num_programs(0) + tl.program_id(0)
    for k in range(0, N, BK):
        columns = k + j
        at = pointers
        if "indexed" in COLUMNS:
            at = pointers + k
        if "after" in COLUMNS:
            at += 4
        if "shifted" in COLUMNS:
            columns += 4
        in_rows, in_columns = tl.full((BM,), True, tl.int1), tl.full((BK,), True, tl.int1)
        if "below" in IN_ROWS:
            in_rows = rows < M
        if "up to" in IN_ROWS:
            in_rows = rows <= M
        if "last" in IN_ROWS:
            in_rows = rows <= M - 1
        if "fewer" in IN_ROWS:
            in_rows = M - 1 > rows
        if "from zero" in IN_ROWS:
            in_rows = in_rows & (rows >= 0)
        if "from one" in IN_ROWS:
            in_rows = in_rows & (rows > 0)
        if "within" in IN_COLUMNS:
            in_columns = columns < N
        if "rest" in IN_COLUMNS:
            in_columns = j < N - k
        if "all but one" in IN_COLUMNS:
            in_columns = columns + 1 < N
        if "unmoved" in IN_COLUMNS:
            in_columns = j < N
        if "few" in IN_COLUMNS:
            in_columns = in_columns & (j < 9)
        if COLUMNS_FIRST:
            inside = in_rows[None, :] & in_columns[:, None]
        else:
            inside = in_rows[:, None] & in_columns[None, :]
        if MORE == "scalar":
            inside = inside & (k < T)
        if MORE == "rows before columns":
            before = rows[None, :] < columns[:, None]
            inside = inside & (before if COLUMNS_FIRST else tl.trans(before))
        x = tl.load(at, mask=inside, other=1.0 if MORE == "ones" else 0.0)
        place = y_ptr + (program * tl.cdiv(N, BK) + k // BK) * BM * BK
        if COLUMNS_FIRST:
            x = tl.trans(x)
        tl.store(place + tl.arange(0, BM)[:, None] * BK + tl.arange(0, BK)[None, :], x)
        if "carried" in COLUMNS:
            pointers += BK
        if "slow" in COLUMNS:
            pointers += BK // 2
        if "varying" in COLUMNS:
            pointers += k


FORMS = {
    "ROWS": ("", "", "offset", "before", "argument", "scaled", "gaps", "modulo", "clamped"),
    "COLUMNS": (
        "indexed", "carried", "carried", "indexed after", "indexed after shifted", "slow",
        "varying", "carried shifted", "",
    ),
    "IN_ROWS": ("", "below", "below", "up to", "last", "fewer", "below from zero", "from one"),
    "IN_COLUMNS": ("", "within", "rest", "within", "rest few", "all but one", "unmoved"),
    "MORE": ("", "", "", "", "scalar", "rows before columns", "ones"),
    "WIDE": (False, False, True),
    "COLUMNS_FIRST": (False, True),
    "OUTER": ("", "", "stride", "rows", "both"),
}  # fmt: skip


def module_of(constants: dict[str, Any]) -> Module:
    """The kernel's TILE IR, in which loads and stores of proven blocks are stated."""
    types = {"x_ptr": "*fp16:16", "y_ptr": "*fp16:16", "S": "i32:8", "D": "i32:8"}
    types |= dict.fromkeys("MNT", "i32")
    compiled = tile.compile(copied, types, constants, {}, "interp")
    module = compiled.artifact.module
    assert module is not None
    module = module.clone()
    run_pipeline(module, "find-blocks{pointer_blocks=true,without_dots=true,simplify=false}")
    return module


def loaded_by_descriptors(module: Module) -> int:
    """Replace loads of stated blocks by those of descriptors; return their number."""
    count = 0
    for op in list(module.walk()):
        pointers = op["ptr"].op if op.defn is memory.load else None
        if pointers is not None and pointers.defn is descriptor.descriptor_pointers:
            _, base, *numbers = pointers.inputs
            build = Builder.before(op)
            # 2^31 is not a signed number, as extents of descriptors are in the interpreter.
            most = build.constant(I32.max_value, I32)
            numbers = [most if constant_of(n) == I32.min_value else n for n in numbers]
            block = op.result.type.shape
            sizes, start = numbers[: -len(block)], numbers[-len(block) :]
            made: Value = build(descriptor.make_tensor_descriptor, base, *sizes, block=block)
            op.replace_by([build(descriptor.descriptor_load, made, *start)])
            count += 1
    return count


def run(module: Module, sizes: dict[str, int], programs: int) -> np.ndarray:
    """Return what the kernel copies from the middle of an array, as integers."""
    backend = backends.get("interp")
    artifact = backend.compile(module, Target("interp"), Options())
    whole = np.arange(1, 1 + HEIGHT * STRIDE, dtype=np.int16).view(np.float16)
    x = whole[FIRST:].view(StorageView)
    x.storage_span = (-FIRST * x.itemsize, x.nbytes)
    y = np.zeros(2 * programs * -(-sizes["N"] // BK) * BM * BK, np.float16)
    arguments: list[Any] = [x, y, *[np.int32(sizes[name]) for name in "MNSTD"]]
    backend.load(artifact).launch((programs, 2, 1), arguments)
    return y.view(np.int16)


@examples(50)
@given(data=st.data())
def test_blocks_have_the_elements_that_are_selected(data: Any) -> None:
    constants = {name: data.draw(st.sampled_from(values)) for name, values in FORMS.items()}
    by_pointers = module_of({**constants, "BM": BM, "BK": BK})
    by_descriptors = by_pointers.clone()
    if loaded_by_descriptors(by_descriptors):
        rows = st.sampled_from((8, 16)) if constants["ROWS"] == "modulo" else st.integers(1, 20)
        sizes = {"M": data.draw(rows), "N": data.draw(st.integers(1, 40)), "S": STRIDE}
        sizes |= {"T": data.draw(st.integers(-8, 8)), "D": 2 * STRIDE + 8}
        programs = data.draw(st.integers(1, 3))
        expected = run(by_pointers, sizes, programs)
        np.testing.assert_array_equal(run(by_descriptors, sizes, programs), expected)


PROVEN = [
    ("", "indexed", "below", "within", "stride"),
    ("offset", "carried", "last", "rest", ""),
    ("before", "carried", "below from zero", "", "rows"),
    ("modulo", "indexed", "", "", "stride"),
]


@pytest.mark.parametrize("forms", PROVEN, ids="-".join)
@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("columns_first", [False, True])
def test_forms_that_are_proven(forms: tuple[str, ...], wide: bool, columns_first: bool) -> None:
    names = ("ROWS", "COLUMNS", "IN_ROWS", "IN_COLUMNS", "OUTER")
    rest = {"MORE": "", "WIDE": wide, "COLUMNS_FIRST": columns_first, "BM": BM, "BK": BK}
    assert loaded_by_descriptors(module_of({**dict(zip(names, forms, strict=True)), **rest})) == 1


@tile.jit
def added(x_ptr, y_ptr, M, N, S, MASK: tl.constexpr, ORDER: tl.constexpr, BK: tl.constexpr):
    """Add up vectors of a program's row, through a dot, as find-blocks asks for."""
    row = tl.program_id(0) * S
    total = tl.zeros((16, BK), tl.float32)
    for k in range(0, N, BK):
        columns = k + tl.arange(0, BK)
        at = x_ptr + row + columns
        if ORDER == "sum first":
            at = x_ptr + (row + columns)
        if MASK == "whole rows":
            x = tl.load(at, mask=columns < N, other=0.0)
        elif MASK == "all rows":
            x = tl.load(at, mask=row + columns < M, other=0.0)
        elif MASK == "few":
            x = tl.load(at, mask=tl.arange(0, BK) < 9, other=0.0)
        else:
            x = tl.load(at)
        total = tl.dot(
            tl.full((16, 16), 1.0, tl.float16), (x[None, :] + tl.zeros((16, BK), tl.float16)), total
        )
    place = y_ptr + tl.program_id(0) * 16 * BK
    tl.store(place + tl.arange(0, 16)[:, None] * BK + tl.arange(0, BK)[None, :], total)


@pytest.mark.parametrize(
    ("mask", "proven"), [("", True), ("whole rows", True), ("all rows", False), ("few", False)]
)
@pytest.mark.parametrize("order", ["", "sum first"])
def test_vectors(mask: str, order: str, proven: bool) -> None:
    """A vector in a row is a block of one row; that of the rows as one array has no known start."""
    types = {"x_ptr": "*fp16:16", "y_ptr": "*fp32:16", "S": "i32:8", "M": "i32", "N": "i32"}
    constants = {"MASK": mask, "ORDER": order, "BK": BK}
    module = tile.compile(added, types, constants, {}, "interp").artifact.module
    assert module is not None
    by_pointers, stated = module.clone(), module.clone()
    run_pipeline(stated, "find-blocks{pointer_blocks=true,simplify=false}")
    assert loaded_by_descriptors(stated) == proven
    results = []
    for each in (by_pointers, stated):
        backend = backends.get("interp")
        artifact = backend.compile(each, Target("interp"), Options())
        x, y = np.arange(8 * STRIDE, dtype=np.float16), np.zeros((4, 16, BK), np.float32)
        sizes = [np.int32(number) for number in (8 * STRIDE, 40, STRIDE)]
        backend.load(artifact).launch((4, 1, 1), [x, y, *sizes])
        results.append(y)
    np.testing.assert_array_equal(results[0], results[1])
