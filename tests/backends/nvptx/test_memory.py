"""Accesses to global memory: widths, masks, hints, atomics."""

from __future__ import annotations

import itertools
import re
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tile
import tile.language as tl
from tests.backends.nvptx.assembling import ARCHITECTURES, assemble, check, compiled
from tests.sampling import sample
from tile.backends.nvptx.target import architecture
from tile.ir.ops.memory import CAS_ELEMENTS, RMW_ELEMENTS, Order, RMWKind, Scope
from tile.ir.types import ALL, BF16, F16, F32, F64, INTEGERS, Pointer, Scalar

LANES = "lane = [[{0}],[{1}],[{2}],[{3}],[{4}]], warp = [[{5}],[{6}]]"


def layout(registers: int) -> str:
    """Registers in a row, then lanes and warps."""
    bits = registers.bit_length() - 1
    own = ",".join(f"[{1 << b}]" for b in range(bits))
    lanes = LANES.format(*[1 << (bits + b) for b in range(7)])
    return f"#linear{{register = [{own}], {lanes} -> dim0 = {registers << 7}}}"


def copying(
    element: Scalar | Pointer,
    count: int,
    vector: int,
    masked: bool,
    hints: str = "",
    other: str = ", %z",
) -> str:
    """A kernel that copies fragments in vectors."""
    mask = ", %m" if masked else ""
    other = f", %m{other}" if masked else ""
    store_hints = hints.replace(", volatile = true", "").replace("cache = ca", "cache = wb")
    store_hints = store_hints.replace(", invariant = true", "")
    return f"""
    kernel @copy(%x: ptr<{element}>, %o: ptr<{element}>, %n: i32) {{
      %i = layout_index {{layout = {layout(count)}}} : frag<{count}xi32>
      %xf = frag_splat %x {{count = {count}}} : frag<{count}xptr<{element}>>
      %p = addptr %xf, %i {{stride = {element.itemsize}}} : frag<{count}xptr<{element}>>
      %nf = frag_splat %n {{count = {count}}} : frag<{count}xi32>
      %m = cmp %i, %nf {{predicate = lt}} : frag<{count}xi1>
      %first = load %x : {element}
      %z = frag_splat %first {{count = {count}}} : frag<{count}x{element}>
      %v = load %p{other} {{vector = {vector}{hints}}} : frag<{count}x{element}>
      %of = frag_splat %o {{count = {count}}} : frag<{count}xptr<{element}>>
      %q = addptr %of, %i {{stride = {element.itemsize}}} : frag<{count}xptr<{element}>>
      store %q, %v{mask} {{vector = {vector}{store_hints}}}
      return
    }}
    """


@pytest.mark.parametrize(("element", "arch"), sample([*ALL, Pointer(F32)], ARCHITECTURES), ids=str)
def test_vectors_of_every_width(element: Scalar | Pointer, arch: str) -> None:
    for vector, masked in product((1, 2, 4, 8, 16), (False, True)):
        if vector * element.itemsize > 16:
            continue
        ptx = check(copying(element, 16, vector, masked), arch)
        size = vector * element.itemsize
        if size == 16:
            assert re.search(r"ld.global.(v4.b32|v2.b64)", ptx)
            assert re.search(r"st.global.(v4.b32|v2.b64)", ptx)
        assert ("@%p1 ld.global" in ptx) == masked


def test_a_masked_load_keeps_the_other_value() -> None:
    ptx = check(copying(F32, 4, 4, True), "sm_90a")
    assert "bra" not in ptx


@pytest.mark.parametrize("element", [*ALL, Pointer(F32)], ids=str)
def test_a_masked_load_alone_writes_no_register(element: Scalar | Pointer) -> None:
    """One that is written under a mask alone is taken to be in use since the kernel began."""
    ptx = check(copying(element, 16, 16 // element.itemsize, True, other=""), "sm_90a")
    loads = list(re.finditer(r"@%p\d+\s+ld\.global\S*\s+\{?([^}\[]*?)\}?, \[", ptx))
    assert len(loads) == element.itemsize
    for found in loads:
        for register in found[1].split(", "):
            assert re.search(rf"mov\.[bu]\d+\s+{register},", ptx[: found.start()]), (register, ptx)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(
    "hints",
    [
        *[f", cache = {name}" for name in ("ca", "cg", "cs")],
        *[f", eviction = {name}" for name in ("evict_first", "evict_last")],
        ", volatile = true",
    ],
)
def test_hints(hints: str, masked: bool, arch: str) -> None:
    ptx = check(copying(F32, 4, 4, masked, hints), arch)
    word = hints.split("=")[1].strip().replace("true", "volatile")
    assert word in ptx


@pytest.mark.parametrize("eviction", ["evict_first", "evict_last"])
@pytest.mark.parametrize(("cache", "first"), [("", "L1::{}"), (", cache = cg", "cg")])
@pytest.mark.parametrize("masked", [False, True])
def test_evictions_reach_both_caches(cache: str, first: str, eviction: str, masked: bool) -> None:
    """By one policy for all accesses; the first cache can go by only one of the two hints."""
    ptx = check(copying(F32, 8, 4, masked, f"{cache}, eviction = {eviction}"), "sm_90a")
    assert ptx.count(f"createpolicy.fractional.L2::{eviction}.b64") == 1
    middle = first.format(eviction)
    for kind in ("ld", "st"):
        assert ptx.count(f"{kind}.global.{middle}.L2::cache_hint.v4.b32") == 2


INVARIANT = {  # hints of a load, and its spelling before sm_80 and from there on
    "": ("ld.global.nc.v4.b32", "ld.global.nc.v4.b32"),
    ", cache = cg": ("ld.global.cg.nc.v4.b32", "ld.global.cg.nc.v4.b32"),
    ", eviction = evict_first": (
        "ld.global.nc.L1::evict_first.v4.b32",
        "ld.global.nc.L1::evict_first.L2::cache_hint.v4.b32",
    ),
    ", cache = ca, eviction = evict_last": (
        "ld.global.nc.L1::evict_last.v4.b32",
        "ld.global.ca.nc.L2::cache_hint.v4.b32",
    ),
}


@pytest.mark.parametrize("arch", ["sm_75", "sm_90a"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("hints", INVARIANT)
def test_invariant_loads_are_not_coherent(hints: str, masked: bool, arch: str) -> None:
    ptx = check(copying(F32, 4, 4, masked, f"{hints}, invariant = true"), arch)
    assert INVARIANT[hints][arch == "sm_90a"] in ptx
    assert ptx.count(".nc") == 1


@pytest.mark.parametrize("element", [*ALL, Pointer(F32)], ids=str)
def test_invariant_loads_of_every_element(element: Scalar | Pointer) -> None:
    for count, vector in ((1, 1), (4, 1), (8, min(8, 16 // element.itemsize))):
        for masked in (False, True):
            ptx = check(copying(element, count, vector, masked, ", invariant = true"), "sm_90a")
            assert ptx.count("ld.global.nc") == count // vector


@pytest.mark.parametrize(("kind", "arch"), sample(RMWKind, ARCHITECTURES, 2))
def test_atomics(kind: RMWKind, arch: str) -> None:
    for element, masked in product(RMW_ELEMENTS[kind], (False, True)):
        check(atomic(f"atomic_rmw %p, %v{{}} {{{{kind = {kind}}}}}", element, masked), arch)


@pytest.mark.parametrize("element", [F32, F64], ids=str)
def test_extremes_of_floats_are_those_of_integers(element: Scalar) -> None:
    """Only a NaN in memory takes a loop: by it alone, programs would wait for each other."""
    for kind, names in ((RMWKind.MAX, ("max.s", "min.u")), (RMWKind.MIN, ("min.s", "max.u"))):
        ptx = check(
            atomic(f"atomic_rmw %p, %v{{}} {{{{kind = {kind}}}}}", element, False), "sm_90a"
        )
        assert [ptx.count(f".{name}{element.bits} ") for name in names] == [3, 3]
        assert ptx.count(f"cas.b{element.bits} ") == 3


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_compare_and_swap(arch: str) -> None:
    for element, masked in product(CAS_ELEMENTS, (False, True)):
        check(atomic("atomic_cas %p, %v, %v{}", element, masked), arch)


@pytest.mark.parametrize(("order", "scope"), list(product(Order, Scope)))
def test_order_and_scope_reach_the_instruction(order: Order, scope: Scope) -> None:
    attributes = f"kind = add, order = {order}, scope = {scope}"
    text = atomic(f"atomic_rmw %p, %v{{}} {{{{{attributes}}}}}", F32, True)
    assert f"atom.{order}.{scope}.global.add.f32" in check(text, "sm_90a")


def atomic(operation: str, element: Scalar, masked: bool) -> str:
    """A kernel that does an atomic operation on two registers and on a scalar."""
    scalar = operation.replace("%p", "%x").replace("%v", "%s")
    return f"""
    kernel @atomic(%x: ptr<{element}>, %o: ptr<{element}>, %c: i1) {{
      %i = layout_index {{layout = {layout(2)}}} : frag<2xi32>
      %xf = frag_splat %x {{count = 2}} : frag<2xptr<{element}>>
      %p = addptr %xf, %i {{stride = {element.itemsize}}} : frag<2xptr<{element}>>
      %of = frag_splat %o {{count = 2}} : frag<2xptr<{element}>>
      %q = addptr %of, %i {{stride = {element.itemsize}}} : frag<2xptr<{element}>>
      %v = load %p : frag<2x{element}>
      %m = frag_splat %c {{count = 2}} : frag<2xi1>
      %r = {operation.format(", %m" if masked else "")} : frag<2x{element}>
      %s = load %x : {element}
      %t = {scalar.format(", %c" if masked else "")} : {element}
      store %q, %r
      store %o, %t
      return
    }}
    """


def sums(element: Scalar, vector: int, order: Order, masked: bool = False) -> str:
    """Return a kernel that adds sixteen registers to memory without using the old values."""
    mask = ", %m" if masked else ""
    attributes = f"kind = add, order = {order}, vector = {vector}"
    return f"""
    kernel @sums(%x: ptr<{element}>, %c: i1) {{
      %i = layout_index {{layout = {layout(16)}}} : frag<16xi32>
      %xf = frag_splat %x {{count = 16}} : frag<16xptr<{element}>>
      %p = addptr %xf, %i {{stride = {element.itemsize}}} : frag<16xptr<{element}>>
      %v = load %p : frag<16x{element}>
      %m = frag_splat %c {{count = 16}} : frag<16xi1>
      %r = atomic_rmw %p, %v{mask} {{{attributes}}} : frag<16x{element}>
      return
    }}
    """


@pytest.mark.parametrize(
    ("element", "vector", "arch", "name"),
    [
        (F32, 4, "sm_90a", "add.v4.f32"),
        (F32, 2, "sm_90a", "add.v2.f32"),
        (F32, 1, "sm_75", "add.f32"),
        (F16, 8, "sm_90a", "add.noftz.v4.f16x2"),
        (F16, 2, "sm_75", "add.noftz.f16x2"),
        (BF16, 4, "sm_90a", "add.noftz.v2.bf16x2"),
        (BF16, 2, "sm_90a", "add.noftz.bf16x2"),
        (BF16, 1, "sm_90a", "add.noftz.bf16"),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_sums_that_nobody_reads(
    element: Scalar, vector: int, arch: str, name: str, masked: bool
) -> None:
    assert vector <= max(1, architecture(arch).simt.vector_atomic_width(element))
    ptx = check(sums(element, vector, Order.RELAXED, masked), arch)
    assert ptx.count(f"red.relaxed.gpu.global.{name} ") == 16 // vector
    assert ptx.count("@%p") == (16 // vector if masked else 0)
    assert "atom." not in ptx
    assert "fence." not in ptx


@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("vector", [1, 4])
@pytest.mark.parametrize("masked", [False, True])
def test_many_atomic_operations_are_ordered_once(order: Order, vector: int, masked: bool) -> None:
    """Nobody reads these results, which acquires nothing."""
    ptx = check(sums(F32, vector, order, masked), "sm_90a")
    assert ptx.count("fence.acq_rel.gpu") == order.releases
    assert ptx.count("red.relaxed.gpu.global.add.") == 16 // vector
    assert ptx.find("fence.acq_rel.gpu") < ptx.index("red.relaxed")
    guarded = 16 // vector + order.releases if masked else 0
    assert len(re.findall("@%p[0-9]+ (?:fence|red)", ptx)) == guarded


@pytest.mark.parametrize("order", Order)
def test_many_atomic_operations_with_results_are_ordered_once(order: Order) -> None:
    text = sums(F32, 1, order).replace("return", "store %p, %r\n      return")
    ptx = check(text, "sm_90a")
    assert ptx.count("fence.acq_rel.gpu") == order.acquires + order.releases
    assert ptx.count("atom.relaxed.gpu.global.add.") == 16
    first, last = ptx.find("fence.acq_rel.gpu"), ptx.rfind("fence.acq_rel.gpu")
    assert (first < ptx.index("atom.relaxed")) == (order.releases or order is Order.RELAXED)
    assert (last > ptx.index("atom.relaxed")) == order.acquires


def test_one_atomic_operation_orders_by_itself() -> None:
    text = """
    kernel @one(%x: ptr<i32>, %v: i32) {
      %a = atomic_rmw %x, %v {kind = add, order = release} : i32
      %b = atomic_rmw %x, %v {kind = xchg, order = release} : i32
      %c = atomic_rmw %x, %v {kind = add, order = acq_rel} : i32
      return
    }
    """
    ptx = check(text, "sm_80")
    assert "red.release.gpu.global.add.u32" in ptx
    assert "atom.release.gpu.global.exch.b32" in ptx
    assert "atom.acq_rel.gpu.global.add.u32" in ptx
    assert "fence." not in ptx


@pytest.mark.parametrize(
    ("element", "masked", "arch"),
    sample(product(INTEGERS, (False, True)), ARCHITECTURES),
    ids=str,
)
def test_atomic_loads(element: Scalar, masked: bool, arch: str) -> None:
    for order, scope in product((Order.ACQUIRE, Order.RELAXED), Scope):
        attributes = f"{{kind = or, order = {order}, scope = {scope}}}"
        text = f"""
        kernel @loads(%x: ptr<{element}>, %o: ptr<{element}>, %c: i1) {{
          %zero = const {{value = 0}} : {element}
          %r = atomic_rmw %x, %zero{", %c" if masked else ""} {attributes} : {element}
          store %o, %r
          return
        }}
        """
        ptx = check(text, arch)
        assert f"ld.{order}.{scope}.global.b{element.bits}" in ptx
        assert ptx.count("@%p") == masked
        assert "atom." not in ptx and "fence." not in ptx


@pytest.mark.parametrize(
    ("element", "masked", "arch"),
    sample(product(RMW_ELEMENTS[RMWKind.STORE], (False, True)), ARCHITECTURES),
    ids=str,
)
def test_atomic_stores(element: Scalar, masked: bool, arch: str) -> None:
    for order, scope in product((Order.RELEASE, Order.RELAXED), Scope):
        attributes = f"{{kind = store, order = {order}, scope = {scope}}}"
        text = f"""
        kernel @stores(%x: ptr<{element}>, %v: {element}, %c: i1) {{
          %r = atomic_rmw %x, %v{", %c" if masked else ""} {attributes} : {element}
          return
        }}
        """
        ptx = check(text, arch)
        assert f"st.{order}.{scope}.global.b{element.bits}" in ptx
        assert ptx.count("@%p") == masked
        assert "atom." not in ptx and "fence." not in ptx


def test_many_atomic_loads_and_stores_are_ordered_once() -> None:
    def copying(load: Order, store: Order) -> str:
        return f"""
        kernel @copies(%x: ptr<i32>) {{
          %i = layout_index {{layout = {layout(4)}}} : frag<4xi32>
          %xf = frag_splat %x {{count = 4}} : frag<4xptr<i32>>
          %p = addptr %xf, %i {{stride = 4}} : frag<4xptr<i32>>
          %zero = const {{value = 0}} : frag<4xi32>
          %v = atomic_rmw %p, %zero {{kind = or, order = {load}}} : frag<4xi32>
          %r = atomic_rmw %p, %v {{kind = store, order = {store}}} : frag<4xi32>
          return
        }}
        """

    ptx = check(copying(Order.ACQUIRE, Order.RELEASE), "sm_90a")
    words = re.findall(r"(?:fence|ld|st)\.[\w.]*gpu[\w.]*", ptx)
    load, store, fence = (
        "ld.relaxed.gpu.global.b32",
        "st.relaxed.gpu.global.b32",
        "fence.acq_rel.gpu",
    )
    assert words == [*[load] * 4, fence, fence, *[store] * 4]


def test_what_loads_and_stores_cannot_order_stays_a_read_modify_write() -> None:
    text = """
    kernel @one(%x: ptr<i32>, %o: ptr<i32>, %v: i32) {
      %zero = const {value = 0} : i32
      %a = atomic_rmw %x, %zero {kind = or, order = acq_rel} : i32
      %b = atomic_rmw %x, %v {kind = store, order = acq_rel} : i32
      %c = atomic_rmw %x, %v {kind = xchg, order = relaxed} : i32
      %d = atomic_rmw %x, %v {kind = or, order = acquire} : i32
      store %o, %a
      return
    }
    """
    ptx = check(text, "sm_90a")
    for name in ("acq_rel.gpu.global.or", "acq_rel.gpu.global.exch", "relaxed.gpu.global.exch"):
        assert f"atom.{name}.b32" in ptx
    assert "atom.acquire.gpu.global.or.b32" in ptx


PERMUTED = """
kernel @permuted(%x: ptr<i8>, %o: ptr<i8>, %n: i32) {{
  %t = thread_id : i32
  %xf = frag_splat %x {{count = 32}} : frag<32xptr<i8>>
  %i = layout_index {{layout = {layout}}} : frag<32xi32>
  %p = addptr %xf, %i {{stride = 1}} : frag<32xptr<i8>>
  %there = cmp %t, %n {{predicate = lt}} : i1
  %m = frag_splat %there {{count = 32}} : frag<32xi1>
  %v = load %p, %m {{vector = 16}} : frag<32xi8>
  %w = frag_shuffle %v {{registers = {registers}}} : frag<32xi8>
  %of = frag_splat %o {{count = 32}} : frag<32xptr<i8>>
  %q = addptr %of, %i {{stride = 1}} : frag<32xptr<i8>>
  store %q, %w, %m {{vector = 16}}
  return
}}
"""
# What moves bytes in such a kernel: loads, stores, moves of words, and choices of bytes.
ADVANCING = re.compile(
    r"\t(?:@%p\d+ )?(ld|st)\.global\.v4\.b32 .*?\{(.*?)\}"
    r"|\t(mov|prmt)\.b32 \t(%r\d+), ([^;]*?)U?;"
)


def moved(ptx: str) -> tuple[list[int], int]:
    """The numbers of the loaded bytes in the order in which they are stored, and of the `prmt`."""
    words: dict[str, list[int]] = {}
    loaded, stored, chosen = itertools.count(), list[int](), 0
    for access, four, name, result, operands in ADVANCING.findall(ptx):
        if access == "ld":
            words.update({word: [next(loaded) for _ in range(4)] for word in four.split(", ")})
        elif access == "st":
            stored += [byte for word in four.split(", ") for byte in words[word]]
        elif name == "prmt":
            x, y, selector = operands.split(", ")
            eight = [*words[x], *words[y]]
            words[result] = [eight[int(selector, 16) >> 4 * at & 7] for at in range(4)]
            chosen += 1
        elif operands in words:
            words[result] = words[operands]
    return stored, chosen


TRANSPOSED = [row * 4 + column for column in range(4) for row in range(4)]


@given(st.permutations(range(32)))
@example([*TRANSPOSED, *[16 + place for place in TRANSPOSED]])
@example(list(range(32)))
@settings(max_examples=30, deadline=None)
def test_bytes_of_words_are_put_together_from_words(order: list[int]) -> None:
    """A register takes at most three instructions; in a 4 x 4 transposition it takes two."""
    registers = ", ".join(map(str, order))
    text = PERMUTED.format(layout=layout(32), registers=f"({registers})")
    _, ptx = compiled(text, "sm_75")
    stored, chosen = moved(ptx)
    assert stored == order
    assert chosen <= 3 * 8
    assert "u16" not in ptx
    if order[:16] == TRANSPOSED:
        assert chosen == 2 * 8
    if order == sorted(order):
        assert chosen == 0


def test_atomic_accesses_of_kernels_are_loads_and_stores() -> None:
    @tile.jit
    def kernel(flags, numbers, bytes_):
        at = tl.arange(0, 8)
        tl.atomic_poll(flags, 1)
        tl.atomic_store(numbers + at, tl.atomic_load(numbers + 8 + at, at < 5, "relaxed"))
        tl.atomic_store(bytes_, tl.atomic_load(bytes_ + 1), scope="sys")

    types = {"flags": "*i32", "numbers": "*fp32", "bytes_": "*u8"}
    ptx = tile.compile(kernel, types, target="nvptx:sm_90a").asm["ptx"]
    assemble(ptx, "sm_90a")
    for name in ("ld.acquire.gpu.global.b32", "ld.relaxed.gpu.global.b32"):
        assert name in ptx
    for name in (
        "st.release.gpu.global.b32",
        "ld.acquire.gpu.global.b8",
        "st.release.sys.global.b8",
    ):
        assert name in ptx
    assert "atom." not in ptx
