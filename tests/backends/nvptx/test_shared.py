"""Shared memory: places, vectors, counts, asynchronous copies, barriers, stages."""

from __future__ import annotations

from itertools import product

import pytest

import tile
from tests.backends.nvptx.assembling import ARCHITECTURES, check, compiled
from tests.backends.nvptx.test_memory import layout
from tests.sampling import sample
from tests.simt.kernels import transpose
from tile.backends.nvptx.target import architecture
from tile.errors import OutOfResourcesError
from tile.ir.types import ALL, F16, F32, I8, Pointer, Scalar


def offsets(count: int) -> str:
    bits = ",".join(f"[{1 << b}]" for b in range(count.bit_length() - 1))
    return f"#linear{{offset = [{bits}] -> dim0 = {count}}}"


def exchanging(element: Scalar | Pointer, vector: int, masked: bool) -> str:
    """A kernel that sends a fragment of 16 through shared memory."""
    mask = ", %m" if masked else ""
    vectors = 16 // vector
    return f"""
    kernel @exchange(%x: ptr<{element}>, %o: ptr<{element}>, %n: i32) {{
      %i = layout_index {{layout = {layout(16)}}} : frag<16xi32>
      %xf = frag_splat %x {{count = 16}} : frag<16xptr<{element}>>
      %p = addptr %xf, %i {{stride = {element.itemsize}}} : frag<16xptr<{element}>>
      %v = load %p : frag<16x{element}>
      %m0 = local_alloc {{offset = 1024}} : shared<2048x{element}, {offsets(2048)}>
      %s = frag_shuffle %i {{registers = ({", ".join(str(v * vector) for v in range(vectors))}{"," if vectors == 1 else ""})}} : frag<{vectors}xi32>
      %nf = frag_splat %n {{count = {vectors}}} : frag<{vectors}xi32>
      %m = cmp %s, %nf {{predicate = lt}} : frag<{vectors}xi1>
      shared_store %m0, %s, %v{mask} {{vector = {vector}}}
      barrier
      %w = shared_load %m0, %s {{vector = {vector}}} : frag<16x{element}>
      %of = frag_splat %o {{count = 16}} : frag<16xptr<{element}>>
      %q = addptr %of, %i {{stride = {element.itemsize}}} : frag<16xptr<{element}>>
      store %q, %w
      return
    }}
    """


@pytest.mark.parametrize(("element", "arch"), sample([*ALL, Pointer(F32)], ARCHITECTURES), ids=str)
def test_vectors(element: Scalar | Pointer, arch: str) -> None:
    for vector, masked in product((1, 2, 4, 8, 16), (False, True)):
        if vector * element.itemsize <= 16:
            ptx = check(exchanging(element, vector, masked), arch)
            assert "bar.sync" in ptx or "barrier.sync" in ptx


def test_registers_are_offsets_of_one_address() -> None:
    ptx = check(exchanging(F32, 4, False), "sm_90a")
    for at in (1024, 1040, 1056, 1072):
        assert f"+{at}]" in ptx


COPY = """
kernel @copy(%x: ptr<f32>, %o: ptr<f32>, %n: i32) {{
  %i = layout_index {{layout = {layout}}} : frag<4xi32>
  %xf = frag_splat %x {{count = 4}} : frag<4xptr<f32>>
  %p = addptr %xf, %i {{stride = 4}} : frag<4xptr<f32>>
  %m0 = local_alloc {{offset = 0}} : shared<512xf32, {offsets}, stages = 3>
  %s = frag_shuffle %i {{registers = ({picked})}} : frag<{vectors}xi32>
  %nf = frag_splat %n {{count = {vectors}}} : frag<{vectors}xi32>
  %m = cmp %s, %nf {{predicate = lt}} : frag<{vectors}xi1>
  %zero = const {{value = 0}} : i32
  %one = const {{value = 1}} : i32
  %first = local_subview %m0, %zero {{stage_offset = 4}} : shared<512xf32, {offsets}>
  shared_cp_async %first, %s, %p, %m {{vector = {vector}}}
  cp_async_commit_group
  %end = for %k = %zero to %n step %one iter(%turn = %zero) : i32 {{
    %next = local_subview %m0, %turn {{stage_offset = 1}} : shared<512xf32, {offsets}>
    shared_cp_async %next, %s, %p {{vector = {vector}}}
    cp_async_commit_group
    cp_async_wait_group {{pending = 1}}
    barrier
    %this = local_subview %m0, %turn : shared<512xf32, {offsets}>
    %w = shared_load %this, %s {{vector = {vector}}} : frag<4xf32>
    %of = frag_splat %o {{count = 4}} : frag<4xptr<f32>>
    %q = addptr %of, %i {{stride = 4}} : frag<4xptr<f32>>
    store %q, %w
    barrier
    %t = add %turn, %one : i32
    yield %t
  }}
  return
}}
"""


@pytest.mark.parametrize("arch", ARCHITECTURES[1:])
@pytest.mark.parametrize("vector", [1, 2, 4])
def test_asynchronous_copies(vector: int, arch: str) -> None:
    picked = "0, 1, 2, 3" if vector == 1 else "0, 2" if vector == 2 else "0,"
    text = COPY.format(
        layout=layout(4), offsets=offsets(512), picked=picked, vector=vector, vectors=4 // vector
    )
    ptx = check(text, arch)
    cache = "cg" if vector == 4 else "ca"
    assert f"cp.async.{cache}.shared.global" in ptx
    assert "cp.async.commit_group" in ptx
    assert "cp.async.wait_group 1" in ptx


HINTED = """
kernel @copy(%x: ptr<f32>, %n: i32, %who: i1) {{
  %i = layout_index {{layout = {layout}}} : frag<4xi32>
  %xf = frag_splat %x {{count = 4}} : frag<4xptr<f32>>
  %p = addptr %xf, %i {{stride = 4}} : frag<4xptr<f32>>
  %m = local_alloc {{offset = 0}} : shared<512xf32, {offsets}>
  %s = frag_shuffle %i {{registers = ({picked})}} : frag<{vectors}xi32>
  %nf = frag_splat %n {{count = {vectors}}} : frag<{vectors}xi32>
  %c = cmp %s, %nf {{predicate = lt}} : frag<{vectors}xi1>
  shared_cp_async %m, %s, %p, {operands} {{vector = {vector}, {hints}}}
  cp_async_commit_group
  cp_async_wait_group {{pending = 0}}
  return
}}
"""


@pytest.mark.parametrize("arch", ARCHITECTURES[1:])
@pytest.mark.parametrize(
    ("vector", "hints", "expected"),
    [
        (4, "cache = ca", "cp.async.ca.shared.global "),
        (4, "cache = cg", "cp.async.cg.shared.global "),
        (1, "cache = cg", "cp.async.ca.shared.global "),
        (4, "eviction = evict_first", "cp.async.cg.shared.global "),
        (1, "eviction = evict_last", "cp.async.ca.shared.global "),
    ],
)
def test_hints_of_copies(vector: int, hints: str, expected: str, arch: str) -> None:
    picked = "0, 1, 2, 3" if vector == 1 else "0,"
    for operands in ("_, _", "%c, _", "_, %who", "%c, %who"):
        text = HINTED.format(
            layout=layout(4), offsets=offsets(512), picked=picked, vector=vector,
            vectors=4 // vector, hints=hints, operands=operands,
        )  # fmt: skip
        ptx = check(text, arch)
        copies = [line.strip() for line in ptx.splitlines() if "cp.async.c" in line and "[" in line]
        assert len(copies) == 4 // vector
        assert all(expected in line for line in copies)
        assert all(line.startswith("@%p") == ("%who" in operands) for line in copies)
        assert "createpolicy" not in ptx  # see `shared_cp_async`


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_counts(arch: str) -> None:
    text = f"""
    kernel @count(%x: ptr<i32>, %c: i1) {{
      %m = local_alloc {{offset = 0}} : shared<512xi32, {offsets(512)}>
      %i = layout_index {{layout = {layout(4)}}} : frag<4xi32>
      %b = frag_splat %c {{count = 4}} : frag<4xi1>
      shared_atomic_inc %m, %i
      shared_atomic_inc %m, %i, %b
      return
    }}
    """
    assert "red.shared.add.u32" in check(text, arch)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_ordered_increments_find_equal_lanes_by_ballots(arch: str) -> None:
    text = f"""
    kernel @count(%x: ptr<i32>) {{
      %m = local_alloc {{offset = 0}} : shared<512xi32, {offsets(512)}>
      %i = layout_index {{layout = {layout(4)}}} : frag<4xi32>
      %r = shared_ordered_inc %m, %i {{bits = 5}} : frag<4xi32>
      return
    }}
    """
    assert check(text, arch).count("vote.sync.ballot.b32") == 4 * 5


def test_the_launch_gives_what_the_buffers_take() -> None:
    text = f"""
    kernel @use(%x: ptr<f32>) {{
      %m = local_alloc {{offset = 256}} : shared<512xf32, {offsets(512)}, stages = 2>
      return
    }}
    """
    emitted, _ = compiled(text, "sm_80")
    assert emitted.metadata.shared_bytes == 256 + 4096


def test_more_than_the_machine_has_is_refused() -> None:
    types = {"x_ptr": "*fp64:16", "y_ptr": "*fp64:16"}
    with pytest.raises(OutOfResourcesError, match=r"131072 bytes.*has 65536 on target sm_75"):
        tile.compile(transpose, types, {"N": 128}, target="nvptx:sm_75")
    tile.compile(transpose, types, {"N": 128}, target="nvptx:sm_80")


MATRICES = """
kernel @load(%x: ptr<ELEMENT>, %o: ptr<ELEMENT>) {
  %m = local_alloc {offset = 1024} : shared<4096xELEMENT, FLAT>
  %s = layout_index {layout = ROWS} : frag<2xi32>
  %w = ldmatrix %m, %s {matrices = COUNT, transposed = FLIPPED} : frag<RESULTxELEMENT>
  %i = layout_index {layout = PLACES} : frag<RESULTxi32>
  %of = frag_splat %o {count = RESULT} : frag<RESULTxptr<ELEMENT>>
  %q = addptr %of, %i {stride = SIZE} : frag<RESULTxptr<ELEMENT>>
  store %q, %w
  STORE
  return
}
"""

STORE = "stmatrix %m, %s, %w {matrices = COUNT, transposed = FLIPPED}"

ROWS = (
    "#linear{register = [[2048]], lane = [[16],[32],[64],[128],[256]], warp = [[512],[1024]] "
    "-> dim0 = 4096}"
)


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("matrices", [1, 2, 4])
@pytest.mark.parametrize(
    ("element", "transposed"), [(F16, False), (F16, True), (F32, False), (I8, False)], ids=str
)
def test_matrices(element: Scalar, transposed: bool, matrices: int, arch: str) -> None:
    result = 2 * matrices * (4 // element.itemsize)
    words = {
        "ELEMENT": element, "FLAT": offsets(4096), "ROWS": ROWS, "COUNT": matrices,
        "FLIPPED": str(transposed).lower(), "RESULT": result, "PLACES": layout(result),
        "SIZE": element.itemsize,
    }  # fmt: skip
    stores = architecture(arch).simt.has_stmatrix
    text = MATRICES.replace("STORE", STORE if stores else "")
    for word, semantics in words.items():
        text = text.replace(word, str(semantics))
    ptx = check(text, arch)
    flipped = ".trans" if transposed else ""
    stored = f"stmatrix.sync.aligned.m8n8.x{matrices}{flipped}.shared.b16"
    assert ptx.count(stored) == (2 if stores else 0)
    assert ptx.count(f"ldmatrix.sync.aligned.m8n8.x{matrices}{flipped}.shared.b16") == 2
