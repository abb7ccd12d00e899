"""wgmma: its results, and every way to use one too early."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.backends.interp.simulator.kernels import run
from tile.errors import (
    DivergenceError,
    RaceError,
    TileError,
    UndefinedReadError,
    UnsupportedError,
    WgmmaInFlightError,
)
from tile.ir import semantics
from tile.ir.types import F8E4M3, SCALARS
from tile.simt.hopper.wgmma_layouts import operand_layout_in_shared

RIGHT = operand_layout_in_shared((16, 16), 16, 1, 16)
LEFT = operand_layout_in_shared((64, 16), 16, 1, 16)
assert RIGHT is not None and LEFT is not None

# The a operand is all ones; the b operand is the argument, in the order of the buffer.
FRAME = f"""
#b = {RIGHT}
#a = {LEFT}
#two = #linear{{register = [], lane = [[2],[4],[8],[16],[32]], warp = [[64],[128]] -> dim0 = 256}}
#line = #linear{{register = [[1]], lane = [[2],[4],[8],[16],[32]], warp = [[64],[128]] -> dim0 = 256}}
#acc = #linear{{register = [[0,1],[8,0],[0,8]], lane = [[0,2],[0,4],[1,0],[2,0],[4,0]], warp = [[16,0],[32,0]] -> dim0 = 64, dim1 = 16}}
kernel @k(%in: ptr<f16>, %out: ptr<f32>, %n: i32) {{
  %i = layout_index {{layout = #line}} : frag<2xi32>
  %from = frag_splat %in {{count = 2}} : frag<2xptr<f16>>
  %p = addptr %from, %i {{stride = 2}} : frag<2xptr<f16>>
  %x = load %p : frag<2xf16>
  %o = layout_index {{layout = #two}} : frag<1xi32>
  %at = layout_index {{layout = #acc}} : frag<8xi32>
  %to = frag_splat %out {{count = 8}} : frag<8xptr<f32>>
  %q = addptr %to, %at {{stride = 4}} : frag<8xptr<f32>>
  %a = const {{value = 1.0}} : frag<8xf16>
  %z = const {{value = 0.0}} : frag<8xf32>
  %zero = const {{value = 0}} : i32
  %one = const {{value = 1}} : i32
BODY
  return
}}
"""
ALLOC = "%m = local_alloc {offset = 0} : shared<16x16xf16, #b>\n"
STORE = "shared_store %m, %o, %x {vector = 2}\n"
FENCE = "fence_proxy_async\n"
BARRIER = "barrier\n"
HOW = "{shape = (64, 16, 16, 16), warpgroups = (1, 1)} : frag<8xf32>\n"
DOT = "%r = wgmma %a, %m, %z " + HOW
WAIT = "%s = wgmma_wait %r {pending = 0} : frag<8xf32>\n"
OUT = "store %q, %s\n"
READY = ALLOC + STORE + FENCE + BARRIER


def result(body: str, target: str = "wgmma", warps: int = 4, n: int = 3) -> np.ndarray:
    """Return what a kernel stores."""
    out = np.zeros((64, 16), np.float32)
    run(FRAME.replace("BODY", body), _operand(), out, np.int32(n), target=target, warps=warps)
    return out


def _operand() -> np.ndarray:
    return np.random.default_rng(0).integers(-8, 8, 256).astype(np.float16)


def wgmma_result() -> np.ndarray:
    """Return the result of one wgmma."""
    assert RIGHT is not None
    right = _operand()[RIGHT.invert().table()["offset"].reshape(16, 16)]
    return np.broadcast_to(right.astype(np.float32).sum(axis=0), (64, 16))


def fails(error: type[TileError], body: str, text: str, **options: object) -> None:
    with pytest.raises(error, match=re.escape(text)) as caught:
        result(body, **options)
    assert caught.value.loc is not None


def test_operand_that_threads_stored() -> None:
    np.testing.assert_array_equal(result(READY + DOT + WAIT + OUT), wgmma_result())


def test_accumulate_into_a_wgmma_in_flight() -> None:
    second = f"%t = wgmma %a, %m, %r {HOW}"
    body = READY + DOT + second + WAIT.replace("%r", "%t") + OUT
    np.testing.assert_array_equal(result(body), 2 * wgmma_result())


def test_a_operand_in_shared_memory() -> None:
    body = (
        READY.replace(FENCE + BARRIER, "")
        + "%l = local_alloc {offset = 1024} : shared<64x16xf16, #a>\n"
        + "%ol = layout_index {layout = #linear{register = [], lane = [[8],[16],[32],[64],[128]], "
        + "warp = [[256],[512]] -> dim0 = 1024}} : frag<1xi32>\n"
        + "shared_store %l, %ol, %a {vector = 8}\n"
        + FENCE
        + BARRIER
        + DOT.replace("%a", "%l")
        + WAIT
        + OUT
    )
    np.testing.assert_array_equal(result(body), wgmma_result())


def test_no_fence_after_the_store() -> None:
    for fence in ("", FENCE):
        body = ALLOC + fence + STORE + BARRIER + DOT + WAIT + OUT
        fails(RaceError, body, "with no fence_proxy_async by that thread")


def test_no_barrier_after_the_store() -> None:
    body = ALLOC + STORE + FENCE + DOT + WAIT + OUT
    fails(RaceError, body, "reads shared memory that another thread wrote")


def test_operand_never_stored() -> None:
    fails(UndefinedReadError, ALLOC + DOT + WAIT + OUT, "that was never written")


def test_store_over_an_operand_in_flight() -> None:
    body = READY + DOT + BARRIER + STORE + WAIT + OUT
    fails(WgmmaInFlightError, body, "writes shared memory that a wgmma in flight still reads")


def test_store_after_the_wait_needs_a_barrier() -> None:
    fails(RaceError, READY + DOT + WAIT + STORE + OUT, "that another thread read")
    np.testing.assert_array_equal(
        result(READY + DOT + WAIT + BARRIER + STORE + OUT), wgmma_result()
    )


def test_wait_that_leaves_the_wgmma_in_flight() -> None:
    left = WAIT.replace("pending = 0", "pending = 1")
    fails(WgmmaInFlightError, READY + DOT + left + OUT, "`store` uses a wgmma accumulator")
    body = READY + DOT + left + BARRIER + STORE + OUT.replace("%s", "%z")
    fails(WgmmaInFlightError, body, "writes shared memory that a wgmma in flight still reads")


def test_wait_for_all_but_the_last_wgmma() -> None:
    second = f"%t = wgmma %a, %m, %z {HOW}"
    left = WAIT.replace("pending = 0", "pending = 1")
    np.testing.assert_array_equal(result(READY + DOT + second + left + OUT), wgmma_result())
    # The first wgmma has completed, not the second.
    body = READY + DOT + second + left.replace("%r", "%t") + OUT
    fails(WgmmaInFlightError, body, "uses a wgmma accumulator")


def test_no_wait() -> None:
    fails(WgmmaInFlightError, READY + DOT + OUT.replace("%s", "%r"), "`store` uses")


def test_operand_from_an_accumulator_in_flight() -> None:
    body = READY + DOT + "%c = cast %r {to = f16} : frag<8xf16>\n" + WAIT + OUT
    fails(WgmmaInFlightError, body, "`cast` uses")


LOOP = """
  %v = for %i2 = %zero to %n step %one iter(%acc = %z) : frag<8xf32> {
    %r = wgmma %a, %m, %acc {shape = (64, 16, 16, 16), warpgroups = (1, 1)} : frag<8xf32>
    %w = wgmma_wait %r {pending = 1} : frag<8xf32>
    yield %w
  }
"""


def test_wgmma_in_flight_across_iterations() -> None:
    body = READY + LOOP + WAIT.replace("%r", "%v") + OUT
    np.testing.assert_array_equal(result(body, n=5), 5 * wgmma_result())
    np.testing.assert_array_equal(result(body, n=0), 0 * wgmma_result())


def test_no_wait_after_a_loop() -> None:
    fails(WgmmaInFlightError, READY + LOOP + OUT.replace("%s", "%v"), "`store` uses")


def test_use_inside_a_loop() -> None:
    used = "%h = mul %acc, %acc : frag<8xf32>\n    %r = wgmma"
    fails(WgmmaInFlightError, READY + LOOP.replace("%r = wgmma", used), "`mul` uses")


COMPUTED = LOOP.replace("%r = wgmma %a", "%h = mul %a, %a : frag<8xf16>\n    %r = wgmma %h")
CARRIED = """
  %v, %l = for %i2 = %zero to %n step %one iter(%acc = %z, %h = %a) : frag<8xf32>, frag<8xf16> {
    %r = wgmma %h, %m, %acc {shape = (64, 16, 16, 16), warpgroups = (1, 1)} : frag<8xf32>
    %w = wgmma_wait %r {pending = 1} : frag<8xf32>
    %g = mul %h, %a : frag<8xf16>
    yield %w, %g
  }
"""


@pytest.mark.parametrize(("loop", "writer"), [(COMPUTED, "mul"), (CARRIED, "yield")])
def test_registers_of_an_operand_in_flight(loop: str, writer: str) -> None:
    """The next iteration computes the operand anew, which takes the same registers."""
    end = WAIT.replace("%r", "%v") + OUT
    message = f"`{writer}` writes registers that a wgmma reads"
    fails(WgmmaInFlightError, READY + loop + end, message)
    complete = READY + loop.replace("pending = 1", "pending = 0") + end
    np.testing.assert_array_equal(result(complete, n=5), 5 * wgmma_result())


def test_registers_of_an_operand_after_a_later_wgmma() -> None:
    """A wait for all but the last wgmma completes the one before it."""
    later = f"%u = wgmma %a, %m, %z {HOW}"
    loop = COMPUTED.replace("    %w", f"    {later}\n    %w")
    np.testing.assert_array_equal(
        result(READY + loop + WAIT.replace("%r", "%v") + OUT, n=5), 5 * wgmma_result()
    )


def test_use_after_a_branch() -> None:
    body = (
        READY
        + "%c = cmp %n, %one {predicate = lt} : i1\n%s = if %c : frag<8xf32> {\n"
        + DOT
        + "yield %r\n} else {\nyield %z\n}\n"
    )
    fails(WgmmaInFlightError, body + OUT, "`store` uses")


def test_some_threads_of_a_warpgroup() -> None:
    body = (
        READY
        + "%t = thread_id : i32\n%c = cmp %t, %one {predicate = lt} : i1\nif %c {\n"
        + DOT
        + WAIT
        + "yield\n} else {\nyield\n}\n"
    )
    fails(DivergenceError, body, "executes `wgmma` with only some threads of a program")


@pytest.mark.parametrize(
    ("body", "text", "options"),
    [
        (READY + DOT + WAIT, "target mma has no wgmma", {"target": "mma"}),
        (
            READY.replace("offset = 0", "offset = 256") + DOT + WAIT,
            "wgmma accepts no buffer at byte 256",
            {},
        ),
        (
            READY.replace("#b", "#linear{offset = [[0,1],[0,2],[0,4],[0,8],[1,0],[2,0],[4,0],[8,0]] -> dim0 = 16, dim1 = 16}")
            + DOT
            + WAIT,
            "wgmma accepts no shared<16x16xf16",
            {},
        ),
    ],
)  # fmt: skip
def test_unsupported_wgmma(body: str, text: str, options: dict[str, object]) -> None:
    fails(UnsupportedError, body, text, **options)


def other(element: str, along: int, into: str | None = None) -> str:
    """Return a kernel that multiplies ones by an operand of 8 or 32 bits, contiguous along an axis."""
    bits = 32 if element == "f32" else 8
    k = 256 // bits
    layout = operand_layout_in_shared((k, 16), bits, along, k if along == 0 else 16)
    each = k * 16 // 128
    bases = [f"[{1 << bit}]" for bit in range(9)][: (k * 16).bit_length() - 1]
    register, rest = bases[: each.bit_length() - 1], bases[each.bit_length() - 1 :]
    line = f"register = [{','.join(register)}], lane = [{','.join(rest[:5])}], warp = [{','.join(rest[5:])}]"
    acc = into or ("i32" if element in ("i8", "u8") else "f32")
    one, zero = ("1", "0") if acc == "i32" else ("1.0", "0.0")
    how = f"shape = (64, 16, {k}, {bits}), warpgroups = (1, 1), input_precision = tf32"
    return f"""
#b = {layout}
#line = #linear{{{line} -> dim0 = {k * 16}}}
#acc = #linear{{register = [[0,1],[8,0],[0,8]], lane = [[0,2],[0,4],[1,0],[2,0],[4,0]], warp = [[16,0],[32,0]] -> dim0 = 64, dim1 = 16}}
kernel @k(%in: ptr<{element}>, %out: ptr<{acc}>) {{
  %i = layout_index {{layout = #line}} : frag<{each}xi32>
  %from = frag_splat %in {{count = {each}}} : frag<{each}xptr<{element}>>
  %p = addptr %from, %i {{stride = {bits // 8}}} : frag<{each}xptr<{element}>>
  %x = load %p : frag<{each}x{element}>
  %at = layout_index {{layout = #acc}} : frag<8xi32>
  %to = frag_splat %out {{count = 8}} : frag<8xptr<{acc}>>
  %q = addptr %to, %at {{stride = {2 if acc == "f16" else 4}}} : frag<8xptr<{acc}>>
  %a = const {{value = {one}}} : frag<{k // 2}x{element}>
  %z = const {{value = {zero}}} : frag<8x{acc}>
  %m = local_alloc {{offset = 0}} : shared<{k}x16x{element}, #b>
  shared_store %m, %i, %x {{vector = 1}}
  fence_proxy_async
  barrier
  %r = wgmma %a, %m, %z {{{how}}} : frag<8x{acc}>
  %s = wgmma_wait %r {{pending = 0}} : frag<8x{acc}>
  store %q, %s
  return
}}
"""


@pytest.mark.parametrize("element", ["i8", "u8", "f8e4m3", "f8e5m2", "f32"])
def test_other_element_types(element: str) -> None:
    dtype = semantics.numpy_dtype(SCALARS[element])
    rows = 8 if element == "f32" else 32
    layout = operand_layout_in_shared((rows, 16), 8 * dtype.itemsize, 0, rows)
    assert layout is not None
    numbers = np.random.default_rng(1).integers(0, 15, rows * 16)
    if element == "f32":
        numbers = numbers + 0.75 + 2.0**-9  # bits beyond 10 of the mantissa are ignored
    operand = numbers.astype(dtype)
    acc = np.int32 if element in ("i8", "u8") else np.float32
    out = np.zeros((64, 16), acc)
    run(other(element, 0), operand, out, target="wgmma", warps=4)
    whole = operand[layout.invert().table()["offset"].reshape(rows, 16)]
    if element == "f32":
        whole = semantics.truncate_mantissa(whole, 10)
    np.testing.assert_array_equal(out, np.broadcast_to(whole.astype(acc).sum(axis=0), (64, 16)))


def test_accumulators_of_8_bit_floats_have_few_bits() -> None:
    """Adding 1/64 to 448 loses the bits beyond 13; adding 31 times 1/64 keeps some."""
    operand = np.full(512, 2.0**-6, semantics.numpy_dtype(F8E4M3))
    layout = operand_layout_in_shared((32, 16), 8, 0, 32)
    assert layout is not None
    operand[layout.invert().table()["offset"].reshape(32, 16)[5]] = 448
    out = np.zeros((64, 16), np.float32)
    run(other("f8e4m3", 0), operand, out, target="wgmma", warps=4)
    assert set(out.ravel()) == {448 + 31 / 64 - 31 / 64 % (1 / 32)}


def test_other_element_types_must_be_k_major() -> None:
    with pytest.raises(UnsupportedError, match="wgmma accepts no shared<8x16xf32"):
        run(
            other("f32", 1),
            np.zeros(128, np.float32),
            np.zeros((64, 16), np.float32),
            target="wgmma",
            warps=4,
        )


def test_unsupported_accumulator_types() -> None:
    out = np.zeros((64, 16), np.float16)
    dtype = semantics.numpy_dtype(F8E4M3)
    with pytest.raises(UnsupportedError, match=r"no wgmma .* of f8e4m3 into f16"):
        run(other("f8e4m3", 0, into="f16"), np.zeros(512, dtype), out, target="wgmma", warps=4)
