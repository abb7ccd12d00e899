"""The text of programs, which needs a package but no device."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

pytest.importorskip("pyopencl")

import tile
import tile.language as tl
from tests.simt.kernels import KERNELS
from tile.backends.base import Options, Target
from tile.backends.opencl import BACKEND
from tile.backends.opencl.compiler import emit_module
from tile.backends.opencl.emit.module import Names
from tile.backends.opencl.target import NAMED
from tile.backends.opencl.tuning import SIMD_CPU
from tile.errors import BackendError, OutOfResourcesError, UnsupportedError
from tile.ir.parser import parse_module


def emitted(text: str, target: str = "opencl:generic", **options: int) -> str:
    """The OpenCL C of a TILE module in text."""
    artifact = BACKEND.compile(parse_module(text), Target.parse(target), Options(**options))
    source = artifact.stages["opencl"]
    assert isinstance(source, str)
    return source


SCALE = """
kernel @scale(%x: ptr<{0}>, %n: i32) {{
  %pid = program_id {{axis = 0}} : i32
  %p = addptr %x, %pid {{stride = {1}}} : ptr<{0}>
  %v = load %p : {0}
  %w = add %v, %v : {0}
  store %p, %w
  return
}}
"""


def test_clusters_change_nothing() -> None:
    made = [KERNELS["softmax"].compile("opencl:generic", num_ctas=size) for size in (1, 4)]
    assert made[0].asm["opencl"] == made[1].asm["opencl"]


@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize("kernel", ["softmax", "matmul_f16", "sorting"])
def test_every_class_of_devices_has_a_text(kernel: str, name: str) -> None:
    compiled = KERNELS[kernel].compile(f"opencl:{name}", num_warps=4)
    source = compiled.asm["opencl"]
    assert isinstance(source, str)
    size = NAMED[name].warp * 4
    assert f"reqd_work_group_size({size}, 1, 1)" in source
    can, shuffles = NAMED[name], kernel != "matmul_f16"
    assert ("sub_group_shuffle" in source) == (can.subgroups and shuffles)
    assert ("lane_shuffle_xor" in source) == (can.assembly >= 70 and shuffles)
    assert ("half" in source.replace("_half", "").replace("(half *)", "")) <= NAMED[name].fp16 or (
        kernel == "matmul_f16"
    )


@tile.jit
def scores(q_ptr, k_ptr, o_ptr, n, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):
    rows, columns, inner = tl.arange(0, M), tl.arange(0, N), tl.arange(0, D)
    q = tl.load(q_ptr + rows[:, None] * D + inner)
    total = tl.zeros((M, N), tl.float32)
    for i in range(n):
        k = tl.load(k_ptr + (i * N + columns)[:, None] * D + inner)
        total += tl.dot(q, tl.trans(k))
    tl.store(o_ptr + rows[:, None] * N + columns, total)


def test_transposed_views_of_buffers_have_no_text() -> None:
    types = dict.fromkeys(("q_ptr", "k_ptr", "o_ptr"), "*fp32:16")
    sizes = {"M": 32, "N": 64, "D": 64}
    compiled = tile.compile(scores, {**types, "n": "i32"}, sizes, target="opencl:generic")
    source, threads = compiled.asm["opencl"], compiled.asm["thread"]
    assert isinstance(source, str) and isinstance(threads, str)
    assert source.count("(__local float *)") == threads.count("local_alloc")
    assert "local_trans" in threads


# What a class is built for, how many work-items a warp of it has, and words of its own.
SPELLED = {
    "generic": ("CL1.2", 32, {"f32_to_f16", "mem_fence(", "double"}),
    "amd": ("CL2.0", 64, {"half w", "atomic_work_item_fence(", "double"}),
    "intel": (
        "CL3.0",
        16,
        {"half w", "atomic_work_item_fence(", "double", "sub_group_shuffle_xor"},
    ),
    "nvidia": ("CL1.2", 32, {"f32_to_f16", "mem_fence(", "double", "lane_shuffle_xor"}),
    "arm": ("CL1.2", 32, {"half w", "mem_fence("}),
    "apple": ("CL1.2", 32, {"f32_to_f16", "mem_fence("}),
}
EXCHANGE = """
kernel @exchange(%x: ptr<f32>) {
  %v = load %x : f32
  %c = splat %v {shape = (64)} : tile<64xf32>
  %i = arange {start = 0, end = 64} : tile<64xi32>
  %f = cast %i {to = f32} : tile<64xf32>
  %d = mul %c, %f : tile<64xf32>
  %s = reduce %d {axis = -1, kind = max} : f32
  %o = atomic_rmw %x, %s {kind = add, order = acq_rel} : f32
  return
}
"""


@pytest.mark.parametrize("name", NAMED)
def test_what_classes_spell(name: str) -> None:
    standard, warp, words = SPELLED[name]
    assert NAMED[name].build_options[0] == f"-cl-std={standard}"
    assert NAMED[name].warp == warp
    texts = [emitted(SCALE.format("f16", 2), f"opencl:{name}"), emitted(EXCHANGE, f"opencl:{name}")]
    try:
        texts.append(emitted(SCALE.format("f64", 8), f"opencl:{name}"))
    except UnsupportedError as error:
        assert "does not support f64" in error.message
    every = set().union(*(words for _, _, words in SPELLED.values()))
    used = {word for word in every if any(word in text for text in texts)}
    assert used == words


def test_statements_follow_their_python_line() -> None:
    source = KERNELS["softmax"].compile("opencl:generic").asm["opencl"]
    assert isinstance(source, str)
    assert "// kernels.py" in source
    assert "powers = tl.exp(x - tl.max(x, axis=0))" in source
    assert "powers[r] = exp(" in source
    unrolled = KERNELS["softmax"].compile("opencl:amd").asm["opencl"]
    assert isinstance(unrolled, str)
    assert "powers_0 = exp(" in unrolled


def test_narrow_floats_are_bits_where_the_device_has_no_half() -> None:
    without, native = (emitted(SCALE.format("f16", 2), f"opencl:{n}") for n in ("generic", "amd"))
    assert "float v1 = f16_to_f32(v);" in without
    assert "ushort w = f32_to_f16(v2);" in without
    assert "cl_khr_fp16" not in without
    assert "half w = v + v;" in native


@pytest.mark.parametrize(("to", "kind"), [("i64", "long"), ("i32", "int"), ("u8", "uchar")])
def test_a_nan_is_no_integer(to: str, kind: str) -> None:
    """Each runtime has some types to which it converts a NaN as something else than 0."""
    text = SCALE.format("f32", 4)
    there = text.replace(
        "%w = add %v, %v", f"%k = cast %v {{to = {to}}} : {to}\n  %w = cast %k {{to = f32}}"
    )
    assert f"(isnan(v) ? 0 : convert_{kind}_sat(v))" in emitted(there, "opencl:generic")


def test_what_a_device_lacks_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match="'apple' does not support f64"):
        emitted(SCALE.format("f64", 8), "opencl:apple")
    atomic = SCALE.replace("%w = add %v, %v", "%w = atomic_rmw %p, %v {{kind = add}}")
    assert "atom_add" in emitted(atomic.format("i64", 8))
    with pytest.raises(UnsupportedError, match="no atomic operations on 64 bits"):
        emitted(atomic.format("i64", 8), "opencl:apple")
    clock = SCALE.replace("%w = add %v, %v", "%w = global_timer")
    assert "globaltimer" in emitted(clock.format("i64", 8), "opencl:nvidia")
    with pytest.raises(UnsupportedError, match="'amd' has no clock that kernels can read; NVIDIA"):
        emitted(clock.format("i64", 8), "opencl:amd")


def test_more_work_items_than_a_work_group_has() -> None:
    with pytest.raises(OutOfResourcesError, match="num_warps = 8 fits"):
        emitted(SCALE.format("f32", 4), "opencl:apple", num_warps=16)


def test_unknown_classes_of_devices(runtime: None) -> None:
    with pytest.raises(BackendError, match="as targets, generic, amd, intel, nvidia, arm, apple"):
        emitted(SCALE.format("f32", 4), "opencl:vax")


# The lowering makes the constant masks, after canonicalization has erased stores with such a mask.
MASKED_OFF = """
kernel @masked_off(%x: ptr<i32>, %n: i32) {
  %i = arange {start = 0, end = 1024} : tile<1024xi32>
  %p = splat %x {shape = (1024)} : tile<1024xptr<i32>>
  %q = addptr %p, %i {stride = 4} : tile<1024xptr<i32>>
  %v = splat %n {shape = (1024)} : tile<1024xi32>
  %c = cmp %i, %v {predicate = lt} : tile<1024xi1>
  %f = const {value = false} : tile<1024x2xi1>
  %m, %o = split %f : tile<1024xi1>, tile<1024xi1>
  %w = select %m, %c, %o : tile<1024xi1>
  store %q, %v, %m
  store %q, %v, %w
  return
}
"""


def test_a_store_with_a_false_mask_leaves_no_loop() -> None:
    text = emitted(MASKED_OFF)
    assert text.endswith("uint thread = get_local_id(0);\n}\n"), text


def test_names_never_collide() -> None:
    names = Names()
    assert names.new("x") == "x"
    assert names.registers("x", 2) == ["x1_0", "x1_1"]
    assert names.new("x1_0") == "x1_01"
    assert names.registers("x", 2) == ["x2_0", "x2_1"]
    taken = [
        names.new(hint) for hint in ("float4", "half", "exp", "if", "3d", "", "é", "f32_to_f16")
    ]
    assert len(set(taken)) == len(taken)
    assert not {"float4", "half", "exp", "if", "f32_to_f16"} & set(taken)
    assert all(name.isidentifier() and name.isascii() for name in taken)


INDICES = """
kernel @indices(%x: ptr<i32>) {
  %i = layout_index {layout = #linear{register = [[4],[8]], lane = [[0],[0],[0],[0],[0]],
    warp = [[1],[2]] -> dim0 = 16}} : frag<4xi32>
  %wide = const {value = 32} : frag<4xi32>
  %at = mul %i, %wide : frag<4xi32>
  %p = frag_splat %x {count = 4} : frag<4xptr<i32>>
  %q = addptr %p, %at {stride = 4} : frag<4xptr<i32>>
  store %q, %at
  %many = frag_shuffle %i {registers = (0, 0, 1, 1, 2, 2, 3, 3)} : frag<8xi32>
  %r = frag_splat %x {count = 8} : frag<8xptr<i32>>
  store %r, %many
  return
}
"""


def test_sums_of_indices_are_operands() -> None:
    """A register's part of an index is added before the index is multiplied."""
    text, _ = emit_module(parse_module(INDICES), NAMED["generic"], Options())
    assert "(i + 4) * 32" in text


POWERS = """
kernel @powers(%x: ptr<f32>) {
  %i = layout_index {layout = #linear{register = [[1],[2],[4]], lane = [[8],[16],[32],[64],[128]],
    warp = [[256],[512]] -> dim0 = 1024}} : frag<8xi32>
  %p = frag_splat %x {count = 8} : frag<8xptr<f32>>
  %q = addptr %p, %i {stride = 4} : frag<8xptr<f32>>
  %b = load %q : frag<8xf32>
  %c = exp %b : frag<8xf32>
  store %q, %c
  return
}
"""


@pytest.mark.parametrize(
    ("unrolled", "variables", "arrays"),
    [(8, 40, False), (8, 39, True), (4, 40, True), (64, 40, False), (64, 39, True)],
)
def test_functions_of_many_variables_have_arrays(
    unrolled: int, variables: int, arrays: bool
) -> None:
    tuning = replace(SIMD_CPU, unrolled=unrolled, variables=variables)
    can = replace(NAMED["generic"], tuning=tuning)
    text, _ = emit_module(parse_module(POWERS), can, Options())
    assert ("float b[8];" in text) == arrays
    assert ("b_7 = " in text) != arrays


def test_a_kernel_that_would_be_copied_stays_whole() -> None:
    module = parse_module(POWERS)
    inlining, _ = emit_module(module, replace(NAMED["generic"], inlines_kernels=True), Options())
    assert "returns_twice)) void prevent_inlining(void) {}" in inlining
    assert "  if (get_work_dim() == 0) prevent_inlining();\n" in inlining
    for can in NAMED.values():
        assert "prevent_inlining" not in emit_module(module, can, Options())[0]


SYNCHRONIZING = """
func noinline @meets(%x: ptr<i32>) {
  barrier
  return
}
func noinline @only_calls(%x: ptr<i32>) {
  call %x {callee = @meets}
  return
}
func noinline @stores(%x: ptr<i32>) {
  %c = const {value = 1} : i32
  store %x, %c
  return
}
kernel @conditions(%x: ptr<i32>, %n: i1) {
  if %n {
    call %x {callee = @CALLED}
    yield
  }
  return
}
"""


def test_functions_with_barriers_are_inlined_where_calls_of_them_are_wrong() -> None:
    module = parse_module(SYNCHRONIZING.replace("CALLED", "only_calls"))
    for inlined in (False, True):
        device = replace(NAMED["generic"], inlined_barriers=inlined)
        text = emit_module(module, device, Options())[0]
        always = re.findall(r"always_inline\)\)\nvoid (\w+)\(", text)
        assert always == (["meets", "only_calls"] if inlined else [])
        never = re.findall(r"noinline\)\)\nvoid (\w+)\(", text)
        assert never == (["stores"] if inlined else ["meets", "only_calls", "stores"])


HEADER = r"  for \(\w+ \w+ = .*;; INCREMENT\) {\n    barrier\(.*\);\n    if \(!.*\) break;\n"
LOOPS = """
kernel @loops(%x: ptr<i32>, %n: i32, %m: i32) {
  %zero = const {value = 0} : i32
  %one = const {value = 1} : i32
  for %k = %zero to %n step STEP {
    barrier
    yield
  }
  while {
    %seen = load %x : i32
    %more = cmp %seen, %n {predicate = lt} : i1
    condition %more
  } do {
    barrier
    yield
  }
  for %i = %zero to %n step %one {
    store %x, %i
    yield
  }
  return
}
"""


@pytest.mark.parametrize(
    ("called", "meets"), [("meets", True), ("only_calls", True), ("stores", False)]
)
def test_a_branch_with_a_barrier_is_a_loop_with_one_before_its_test(
    called: str, meets: bool
) -> None:
    module = parse_module(SYNCHRONIZING.replace("CALLED", called))
    for wanted in (False, True):
        text, _ = emit_module(module, replace(NAMED["generic"], header_barriers=wanted), Options())
        text = re.sub(r" *//.*\n", "", text)
        loop = re.search(HEADER.replace("INCREMENT", "enter = false"), text)
        assert (loop is not None) == (wanted and meets), text
        assert ("  if (n1) {\n" in text) == (loop is None), text


@pytest.mark.parametrize("step", ["%one", "%m"])
@pytest.mark.parametrize("wanted", [False, True])
def test_a_loop_with_a_barrier_has_one_before_its_test(wanted: bool, step: str) -> None:
    module = parse_module(LOOPS.replace("STEP", step))
    text, _ = emit_module(module, replace(NAMED["generic"], header_barriers=wanted), Options())
    text = re.sub(r" *//.*\n", "", text)
    assert len(re.findall(HEADER.replace("INCREMENT", "k .*"), text)) == wanted, text
    assert len(re.findall(r"  while \(true\) {\n    barrier\(.*\);\n", text)) == wanted, text
    assert len(re.findall(r"for \(uint i\d* = .*; .*; .*\) {\n", text)) == 1, text


CALLS = """
func noinline @one(%x: i32) -> (i32, f32) {
  %y = cast %x {to = f32} : f32
  return %x, %y
}
func noinline @two(%x: i32) -> (f32, i32) {
  %a, %b = call %x {callee = @one} : i32, f32
  %c, %d = call %a {callee = @one} : i32, f32
  return %d, %c
}
kernel @calls(%p: ptr<f32>, %x: i32) {
  %a, %b = call %x {callee = @two} : f32, i32
  store %p, %a
  return
}
"""


def test_no_variable_hides_the_type_of_a_structure() -> None:
    text, _ = emit_module(parse_module(CALLS), NAMED["generic"], Options())
    structures = set(re.findall(r"typedef struct {.*} (\w+);", text))
    variables = set(re.findall(r"\b(?:results\w*) (results\w*) = ", text))
    assert len(structures) == 2 and len(variables) >= 2
    assert structures.isdisjoint(variables)


STREAM = """
kernel @stream(%x: ptr<f32> {noalias}, %w: ptr<f32>, %y: ptr<f32> {noalias}, %n: i32, %c: i1) {
  %zero = const {value = 0} : i32
  %one = const {value = 1} : i32
  for %i = %zero to %n step %one {
    %p = addptr %x, %i {stride = 4} : ptr<f32>
    %q = OTHER : ptr<f32>
    %s = addptr %y, %i {stride = 4} : ptr<f32>
    %a = load %p : f32
    %b = load %q : f32
    %d = mul %a, %b : f32
    store %s, %d
    yield
  }
  return
}
"""


def test_pointers_of_invariant_loads_are_const_and_restrict() -> None:
    source = emitted(STREAM.replace("OTHER", "addptr %w, %i {stride = 4}"))
    assert "(const __global float *restrict x, __global float *w, __global float *y," in source
    pointers = re.findall(r"^ *(.*__global float \*[pqs]) = (\w)", source, re.M)
    assert pointers == [
        ("const __global float *p", "x"),
        ("__global float *q", "w"),
        ("__global float *s", "y"),
    ]


def test_no_pointer_drops_const() -> None:
    """A pointer that may point elsewhere, too, is not `const`, nor is what it is made of."""
    source = emitted(STREAM.replace("OTHER", "select %c, %x, %w"))
    assert "(__global float *restrict x, __global float *w, __global float *y," in source
    assert "const" not in source


def test_without_a_promise_nothing_is_restrict() -> None:
    text = STREAM.replace("OTHER", "addptr %w, %i {stride = 4}").replace(" {noalias}", "")
    assert "restrict" not in emitted(text)
