"""Branches, loops, calls, places in the source, prints and assertions."""

from __future__ import annotations

import re

import pytest

import tile
from tests.backends.nvptx.assembling import ARCHITECTURES, accept, check, compiled
from tests.simt.kernels import matmul

LOOPS = """
kernel @loops(%o: ptr<i32>, %l: {ty}, %u: {ty}, %s: {ty}, %c: i1) {{
  %k = const {{value = {step}}} : {ty}
  %lo = const {{value = 1}} : {ty}
  %hi = const {{value = 100}} : {ty}
  %zero = const {{value = 0}} : i32
  %f = const {{value = 0.0}} : frag<2xf32>
  %a, %x = for %i = %l to %u step %s iter(%n = %zero, %v = %f) : i32, frag<2xf32> {{
    %m = cast %i {{to = i32}} : i32
    %p = add %n, %m : i32
    %w = add %v, %v : frag<2xf32>
    yield %p, %w
  }}
  %b = for %i = %l to %u step %k iter(%n = %a) : i32 {{
    %m = cast %i {{to = i32}} : i32
    %p = if %c : i32 {{
      %q = add %n, %m : i32
      yield %q
    }} else {{
      yield %n
    }}
    yield %p
  }}
  %d = for %i = %lo to %hi step %k iter(%n = %b) : i32 {{
    %e = for %j = %lo to %hi step %lo iter(%g = %n) : i32 {{
      %m = cast %j {{to = i32}} : i32
      %p = mul %g, %m : i32
      yield %p
    }}
    yield %e
  }}
  for %i = %l to %u step %s {{
    store %o, %d
    yield
  }}
  store %o, %d
  return
}}
"""


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("ty", ["i8", "u8", "i32", "u32", "i64", "u64"])
def test_loops(ty: str, arch: str) -> None:
    for step in (1, 3) if ty[0] == "u" else (1, 3, -1, -2):
        check(LOOPS.format(ty=ty, step=step), arch)


def test_loops_carry_bytes_in_packed_registers() -> None:
    text = """
    kernel @ahead(%p: ptr<u8>, %o: ptr<u8>, %n: i32) {
      %zero = const {value = 0} : i32
      %one = const {value = 1} : i32
      %i = layout_index {layout = #linear{register = [[1],[2],[4]], lane = [[0],[0],[0],[0],[0]], warp = [] -> dim0 = 8}} : frag<8xi32>
      %q = frag_splat %p {count = 8} : frag<8xptr<u8>>
      %r = frag_splat %o {count = 8} : frag<8xptr<u8>>
      %from = addptr %q, %i {stride = 1} : frag<8xptr<u8>>
      %to = addptr %r, %i {stride = 1} : frag<8xptr<u8>>
      %first = load %from : frag<8xu8>
      %last = for %k = %zero to %n step %one iter(%x = %first) : frag<8xu8> {
        %next = load %from : frag<8xu8>
        store %to, %x
        yield %next
      }
      return
    }
    """
    for arch in ARCHITECTURES:
        emitted, ptx = compiled(text, arch)
        accept(ptx, arch)
        phis = re.findall(r"= phi (\w+)", emitted.text)
        assert phis and "i8" not in phis


@pytest.mark.parametrize("vector", [8, 1])
def test_loops_carry_loaded_halves_as_loads_have_them(vector: int) -> None:
    """A phi for each of a vector would unpack them, and so wait for the load, an iteration early.

    To pack elements that were loaded one by one would wait for them.
    """
    text = """
    kernel @ahead(%p: ptr<f16>, %o: ptr<f16>, %n: i32) {
      %zero = const {value = 0} : i32
      %one = const {value = 1} : i32
      %i = layout_index {layout = #linear{register = [[1],[2],[4]], lane = [[0],[0],[0],[0],[0]], warp = [] -> dim0 = 8}} : frag<8xi32>
      %q = frag_splat %p {count = 8} : frag<8xptr<f16>>
      %r = frag_splat %o {count = 8} : frag<8xptr<f16>>
      %from = addptr %q, %i {stride = 2} : frag<8xptr<f16>>
      %to = addptr %r, %i {stride = 2} : frag<8xptr<f16>>
      %first = load %from {vector = 8} : frag<8xf16>
      %last, %sum = for %k = %zero to %n step %one iter(%x = %first, %s = %first) : frag<8xf16>, frag<8xf16> {
        %next = load %from {vector = 8} : frag<8xf16>
        %t = add %s, %x : frag<8xf16>
        yield %next, %t
      }
      store %to, %sum
      return
    }
    """.replace("vector = 8", f"vector = {vector}")
    for arch in ARCHITECTURES:
        emitted, ptx = compiled(text, arch)
        accept(ptx, arch)
        phis = re.findall(r"= phi ([^\[]+) \[", emitted.text)
        carried = 4 if vector > 1 else 8
        loop = phis[1 : 1 + carried + 8]  # behind the counter: the load, and what is computed
        assert ("half" in loop[:carried]) == (vector == 1)
        assert loop[carried:] == ["half"] * 8


def test_loops_carry_operands_of_mma_in_packed_registers() -> None:
    """Those of a slice that ldmatrix loads, and the next iteration multiplies."""
    types = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16:16")
    types |= dict.fromkeys("MNK", "i32:16")
    sizes = {"BM": 64, "BN": 64, "BK": 32}
    kernel = tile.compile(matmul, types, sizes, {"num_warps": 4}, "nvptx:sm_80")
    assert "phi float" in kernel.asm["llvm"]
    assert "phi half" not in kernel.asm["llvm"]


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_while_and_branches(arch: str) -> None:
    text = """
    kernel @collatz(%x: ptr<i32>, %o: ptr<i32>) {
      %one = const {value = 1} : i32
      %two = const {value = 2} : i32
      %zero = const {value = 0} : i32
      %first = load %x : i32
      %n, %k = while iter(%v = %first, %c = %zero) : i32, i32 {
        %more = cmp %v, %one {predicate = gt} : i1
        condition %more
      } do {
        %odd = and %v, %one : i32
        %is = cmp %odd, %one {predicate = eq} : i1
        %next = if %is : i32 {
          %u = add %v, %one : i32
          yield %u
        } else {
          %h = div %v, %two : i32
          yield %h
        }
        if %is {
          store %o, %next
          yield
        } else {
          yield
        }
        %count = add %c, %one : i32
        yield %next, %count
      }
      store %o, %k
      return
    }
    """
    check(text, arch)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_functions_are_called(arch: str) -> None:
    text = """
    func noinline @scale(%x: frag<4xf16>, %c: i1, %k: i64, %p: ptr<f16>) -> (frag<4xf16>, i1, u8) {
      %y = add %x, %x : frag<4xf16>
      %l = not %c : i1
      %b = cast %k {to = u8} : u8
      return %y, %l, %b
    }
    func noinline @show(%p: ptr<f16>, %x: f16) {
      store %p, %x
      return
    }
    func noinline @one(%x: f8e4m3) -> (f8e4m3) {
      return %x
    }
    kernel @calls(%p: ptr<f16>, %q: ptr<f8e4m3>, %c: i1, %k: i64) {
      %v = load %p : f16
      %f = frag_splat %v {count = 4} : frag<4xf16>
      %a, %m, %b = call %f, %c, %k, %p {callee = @scale} : frag<4xf16>, i1, u8
      %e = frag_extract %a {register = 1} : f16
      call %p, %e {callee = @show}
      %x = load %q : f8e4m3
      %y = call %x {callee = @one} : f8e4m3
      %z = select %m, %x, %y : f8e4m3
      store %q, %z
      return
    }
    """
    ptx = check(text, arch)
    assert ptx.count("call.uni") == 3


def test_a_kernel_takes_every_type() -> None:
    names = "i1 i8 u8 i16 u16 i32 u32 i64 u64 f8e4m3 f8e5m2 f16 bf16 f32 f64".split()
    parameters = ", ".join(f"%x{i}: {n}, %p{i}: ptr<{n}>" for i, n in enumerate(names))
    stores = "\n".join(f"store %p{i}, %x{i}" for i in range(len(names)))
    check(f"kernel @every({parameters}) {{\n{stores}\nreturn\n}}", "sm_90a")


def test_lines_of_the_source_reach_the_assembler() -> None:
    text = """
    kernel @lines(%x: ptr<f32>) {
      %v = load %x : f32
      %w = add %v, %v : f32
      store %x, %w
      return
    }
    """
    ptx = check(text, "sm_90a")
    assert ".loc\t1 4 " in ptx
    assert ", debug" not in ptx


def test_warps_and_registers_are_promised() -> None:
    text = "kernel @k(%x: ptr<f32>) {\nbarrier\nreturn\n}"
    ptx = check(text, "sm_90a", num_warps=8, maxnreg=64)
    assert ".reqntid 256" in ptx
    assert ".maxnreg 64" in ptx
    assert "bar.warp.sync" in check(text, "sm_90a", num_warps=1)


def test_one_program_of_a_multiprocessor_has_all_registers() -> None:
    """Two programs with more than half of its shared memory each are not co-resident."""
    assert ".minnctapersm 1" in check(shared_text(bits=15), "sm_90a")
    assert ".minnctapersm" not in check(shared_text(bits=14), "sm_90a")
    assert ".minnctapersm" not in check(shared_text(bits=15), "sm_90a", maxnreg=64)


def test_a_kernel_that_spills_has_all_registers() -> None:
    text = """
    #a = #linear{{register = {registers}, lane = {lanes}, warp = [] -> dim0 = {extent}}}
    kernel @k(%x: ptr<f32>) {{
      %i = layout_index {{layout = #a}} : frag<{count}xi32>
      %p = frag_splat %x {{count = {count}}} : frag<{count}xptr<f32>>
      %q = addptr %p, %i {{stride = 4}} : frag<{count}xptr<f32>>
      %v = load %q : frag<{count}xf32>
      store %q, %v
      return
    }}
    """
    for bits, alone in ((7, False), (8, True)):
        bases = [[1 << bit] for bit in range(bits + 5)]
        sizes = {"count": 1 << bits, "extent": 32 << bits}
        ptx = check(text.format(lanes=bases[:5], registers=bases[5:], **sizes), "sm_90a")
        assert (".minnctapersm 1" in ptx) is alone


@pytest.mark.parametrize(
    ("warps", "count", "programs"),
    [
        (8, 32, 5),
        (16, 32, 3),
        (4, 32, 9),
        (8, 16, None),
        (16, 16, None),
        (8, 256, 2),
        (16, 256, None),
    ],
)
def test_programs_that_read_rows_again(warps: int, count: int, programs: int | None) -> None:
    """Programs have 72 KB of loads in flight; a thread loads `count` elements of f16."""
    text = f"""
    kernel @k(%x: frag<{count}xptr<f16>>, %o: ptr<f16>, %n: i32) {{
      %zero = const {{value = 0}} : i32
      %one = const {{value = 1}} : i32
      %t = const {{value = 0.0}} : f16
      %r = for %i = %zero to %n step %one iter(%a = %t) : f16 {{
        %v = load %x {{eviction = PRIORITY}} : frag<{count}xf16>
        %s = frag_extract %v {{register = 0}} : f16
        %b = add %a, %s : f16
        yield %b
      }}
      store %o, %r
      return
    }}
    """
    ptx = check(text.replace("PRIORITY", "evict_last"), "sm_90a", num_warps=warps)
    assert re.findall(r"minnctapersm (\d+)", ptx) == ([] if programs is None else [str(programs)])
    assert "minnctapersm" not in check(text.replace("PRIORITY", "evict_first"), "sm_90a")


def shared_text(bits: int) -> str:
    """A kernel with 2**bits elements of f32 in shared memory."""
    bases = [[1 << bit] for bit in range(bits)]
    return f"""
    #s = #linear{{offset = {bases} -> dim0 = {1 << bits}}}
    kernel @k(%x: ptr<f32>) {{
      %s = local_alloc {{offset = 0}} : shared<{1 << bits}xf32, #s>
      %v = load %x : f32
      %t = frag_splat %v {{count = 1}} : frag<1xf32>
      %i = const {{value = 0}} : frag<1xi32>
      shared_store %s, %i, %t
      return
    }}
    """


def test_fusion_is_a_choice() -> None:
    text = """
    kernel @k(%x: ptr<f32>) {
      %v = load %x : f32
      %w = mul %v, %v : f32
      %u = add %w, %v : f32
      store %x, %u
      return
    }
    """
    assert "fma.rn.f32" in check(text, "sm_90a", enable_fp_fusion=True)
    ptx = check(text, "sm_90a", enable_fp_fusion=False)
    assert "mul.rn.f32" in ptx
    assert "add.rn.f32" in ptx


SAY = """
kernel @say(%p: ptr<f32>, %n: i64, %c: i1) {
  %v = load %p : f32
  %f = frag_splat %v {count = 2} : frag<2xf32>
  %h = cast %f {to = f16} : frag<2xf16>
  %b = frag_splat %c {count = 2} : frag<2xi1>
  thread_print %n, %v, %c {prefix = "100% \\"sure\\""}
  thread_print {prefix = "alone"}
  thread_print %f, %h, %b {prefix = "x", hex = true, layouts = (
    #linear{register = [[0,1]], lane = [[1,0],[2,0],[4,0],[0,0],[0,0]], warp = [[0,0],[0,0]] -> dim0 = 8, dim1 = 2},
    #linear{register = [[0,1]], lane = [[1,0],[2,0],[4,0],[0,0],[0,0]], warp = [[0,0],[0,0]] -> dim0 = 8, dim1 = 2},
    #linear{register = [[1]], lane = [[2],[4],[8],[16],[32]], warp = [[64],[128]] -> dim0 = 256})}
  device_assert %c {message = "a \\"claim\\""}
  device_assert %b, %b {message = "another"}
  return
}
"""


def text_of(ptx: str, name: str) -> str:
    """Return the text of a constant of PTX that ends with a zero byte."""
    declared = re.search(rf"\.b8 {name}\[(\d+)\](?: = \{{([^}}]*)\}})?;", ptx)
    assert declared is not None
    return bytes(map(int, (declared[2] or "").split(", "))).rstrip(b"\0").decode()


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_prints_and_assertions(arch: str) -> None:
    text = SAY.replace("(\n    #linear", "(#linear").replace(",\n    #linear", ", #linear")
    emitted, ptx = compiled(text, arch)
    accept(ptx, arch)
    assert [a.message for a in emitted.metadata.assertions] == ['a "claim"', "another"]
    assert emitted.metadata.assertions[0].loc is not None
    assert "vprintf" in ptx
    # All threads of a warp call, so that ptxas still holds values for uniform.
    assert ptx.count("vote.sync.any") == ptx.count("call.uni tile_$_report") == 2
    # A false assertion is reported, and ends the thread. It fails the launch only in launches by
    # others, such as TorchInductor's, which do not set the record.
    report = ptx[ptx.index("_report") :]
    assert report.index("setp") < report.index("__assertfail,") and "exit;" in report
    assert report.count("__assertfail,") == 1
    claims = re.findall(r"\{(\d+), generic\((\w+)\), generic\((\w+)\), generic\(\w+\)\}", ptx)
    assert [int(claim[0]) & 0xFFFFFFFF for claim in claims] == [1, 2]
    lines = [int(claim[0]) >> 32 for claim in claims]
    assert lines == [a.loc.line for a in emitted.metadata.assertions]
    assert [text_of(ptx, claim[1]) for claim in claims] == ['a "claim"', "another"]
    assert {text_of(ptx, claim[2]) for claim in claims} == {emitted.metadata.assertions[0].loc.file}
