"""Inline PTX: NVIDIA's GPUs execute it, other backends expand it to operations."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import tile
import tile.language as tl
from tests.conformance import ptx_floats, ptx_integers
from tests.conformance.ptx_kernels import kernel
from tests.conformance.running import Device, assert_close
from tests.frontend.building import module_of
from tile.ir.types import F16, F32, I8, I32, U8, U16, U32, Pointer

BATCH = 12  # instructions in a kernel


@pytest.mark.parametrize("family", ptx_integers.GROUPS)
def test_integers(device: Device, family: str) -> None:
    """Integer instructions agree with Python's integers."""
    every = ptx_integers.GROUPS[family]
    for first in range(0, len(every), BATCH):
        cases = every[first : first + BATCH]
        inputs, results, expected = ptx_integers.arrays(cases)
        device.run(kernel(cases), (1, 1, 1), [*inputs, *results])
        for case, result, right in zip(cases, results, expected, strict=True):
            np.testing.assert_array_equal(result, right, err_msg=case.opcode)


@pytest.mark.parametrize("family", ptx_floats.GROUPS)
def test_floats(device: Device, family: str) -> None:
    """Float instructions agree with NumPy."""
    every = ptx_floats.GROUPS[family]
    for first in range(0, len(every), BATCH):
        cases = every[first : first + BATCH]
        inputs, results, expected = ptx_floats.arrays(cases)
        device.run(kernel(cases), (1, 1, 1), [*inputs, *results])
        for case, result, right in zip(cases, results, expected, strict=True):
            if case.packed is not None and case.result == "b32":
                result, right = _halves(case, result), _halves(case, right)
            assert_close(result, right, case.ulp, case.opcode)


def _halves(case: ptx_floats.Case, packed: ptx_floats.Array) -> ptx_floats.Array:
    """The floats in a register, of which a NaN is like another."""
    narrow = case.packed if np.dtype(case.packed).itemsize == 2 else np.float16
    halves: ptx_floats.Array = packed.view(narrow)
    return halves


# -- the function of the language


@tile.jit
def statements(x_ptr, y_ptr, z_ptr):
    i = tl.arange(0, 64)
    y, z = tl.inline_asm_elementwise(
        """{
            .reg .pred p, q;            // a comment
            .reg .b32 t<2>;
            setp.gt.and.s32 p|q, $2, $3, 1;
            sub.s32 t0, $2, $3;         /* another
                                           one */
            {
                .reg .b16 t0, hi;       // not the t0 outside
                mov.b32 {t0, hi}, $2;
                mov.b32 t1, {hi, t0};
            }
            mov.u32 $1, -7;
            selp.b32 $0, t0, 0xFFFFFFFF, p;
            @q prmt.b32 $1, t1, t1, 0x0123U;
            @!q mov.b32 $1, 0f3F800000;
        }""",
        "=r,=r,r,r",
        [tl.load(x_ptr + i), 10],
        (tl.int32, tl.uint32),
        is_pure=True,
        pack=1,
    )
    tl.store(y_ptr + i, y)
    tl.store(z_ptr + i, z)


def test_statements(device: Device) -> None:
    """Predicates, scopes, vectors, immediates and comments."""
    x = np.arange(-20, 44, dtype=np.int32) * 65537
    y, z = np.zeros_like(x), np.zeros(64, np.uint32)
    module = module_of(statements, Pointer(I32), Pointer(I32), Pointer(U32))
    device.run(module, (1, 1, 1), [x, y, z])
    np.testing.assert_array_equal(y, np.where(x > 10, x - 10, -1))
    turned = (x.view(np.uint32) >> 16 | x.view(np.uint32) << 16).byteswap()
    np.testing.assert_array_equal(z, np.where(x > 10, 0x3F800000, turned))


@tile.jit
def branches(x_ptr, y_ptr, z_ptr):
    i = tl.arange(0, 64)
    y = tl.inline_asm_elementwise(
        """{
            .reg .pred small, even;
            .reg .b32 t;
            and.b32 t, $1, 1;
            setp.eq.s32 even, t, 0;
            setp.lt.s32 small, $1, 10;
            mov.u32 $0, $1;
            @small bra SMALL;
            @even bra.uni DONE;
            @!even st.global.b32 [$2], $1;
            mul.lo.s32 $0, $0, 5;
            bra DONE;
        SMALL:
            {
                add.s32 $0, $0, 100;
                @even bra INNER;
                neg.s32 $0, $0;
              INNER:
                add.s32 $0, $0, 1000;
            }
        DONE:
            add.s32 $0, $0, 1;
        }""",
        "=r,r,l",
        [tl.load(x_ptr + i), z_ptr + i],
        tl.int32,
        False,
        1,
    )
    tl.store(y_ptr + i, y)


def test_branches(device: Device) -> None:
    """Elements branch one by one, forward; those that have branched away store nothing."""
    x = np.arange(-20, 44, dtype=np.int32)
    y, z = np.zeros_like(x), np.zeros_like(x)
    device.run(module_of(branches, *[Pointer(I32)] * 3), (1, 1, 1), [x, y, z])
    even = x % 2 == 0
    small = np.where(even, x + 1100, 900 - x)
    np.testing.assert_array_equal(y, 1 + np.where(x < 10, small, np.where(even, x, x * 5)))
    np.testing.assert_array_equal(z, np.where((x < 10) | even, 0, x))


@tile.jit
def bytes_and_floats(x_ptr, y_ptr, z_ptr, N: tl.constexpr, PACK: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    if PACK == 4:
        y, z = tl.inline_asm_elementwise(
            """{
                .reg .b8 t<4>;
                .reg .b32 ones;
                mov.b32 {t0, t1, t2, t3}, $5;
                cvt.rn.f32.s8 $1, t0;
                cvt.rn.f32.s8 $2, t1;
                cvt.rn.f32.s8 $3, t2;
                cvt.rn.f32.s8 $4, t3;
                mov.u32 ones, 0x01010101;
                vadd4.u32.u32.u32 $0, $5, ones, ones;
            }""",
            "=r,=r,=r,=r,=r,r",
            (x,),
            [tl.uint8, tl.float32],
            True,
            PACK,
        )
    else:
        y, z = tl.inline_asm_elementwise(
            "add.s32 $0, $2, 1; cvt.rn.f32.s32 $1, $2;",
            "=r,=f,r",
            (x,),
            [tl.uint8, tl.float32],
            True,
            PACK,
        )
    tl.store(y_ptr + i, y)
    tl.store(z_ptr + i, z)


@pytest.mark.parametrize("count", [1, 2, 64, 1024])
@pytest.mark.parametrize("pack", [1, 4])
def test_narrow_elements(device: Device, count: int, pack: int) -> None:
    """Bytes are extended by their sign to a register, or share it."""
    x = np.arange(count, dtype=np.int8)[::-1].copy()
    y, z = np.zeros(count, np.uint8), np.zeros(count, np.float32)
    types = (Pointer(I8), Pointer(U8), Pointer(F32))
    module = module_of(bytes_and_floats, *types, N=count, PACK=pack)
    device.run(module, (1, 1, 1), [x, y, z])
    np.testing.assert_array_equal(y, (x.view(np.uint8) + np.uint8(1)))
    np.testing.assert_array_equal(z, x.astype(np.float32))


@tile.jit
def broadcasts(x_ptr, y_ptr, n):
    rows, columns = tl.arange(0, 8), tl.arange(0, 16)
    x = tl.load(x_ptr + columns)
    y = tl.inline_asm_elementwise(
        "fma.rn.f16x2 $0, $1, $2, $3;", "=r,r,r,r", [x, rows[:, None].to(tl.float16), x], tl.float16, True, 2
    )  # fmt: skip
    offset = tl.inline_asm_elementwise("mad.lo.s32 $0, $1, 2, $1;", "=r,r", [n], tl.int32, True, 1)
    tl.store(y_ptr + rows[:, None] * 16 + columns + offset, y)


def test_operands_are_broadcast(device: Device) -> None:
    x, y = np.arange(16).astype(np.float16), np.zeros((8, 16), np.float16)
    device.run(
        module_of(broadcasts, Pointer(F16), Pointer(F16), I32), (1, 1, 1), [x, y, np.int32(0)]
    )
    np.testing.assert_array_equal(y, x * np.arange(8)[:, None] + x)


@tile.jit
def opposite(x, y):
    return y - x, x > y


@tile.jit
def referred(x_ptr, y_ptr):
    i = tl.arange(0, 32)
    y, z = tl.inline_asm_elementwise(
        "{ .reg .pred p; sub.s32 $0, $3, $2; setp.gt.s32 p, $2, $3; selp.s32 $1, 1, 0, p; }",
        "=r,=r,r,r",
        [tl.load(x_ptr + i), 3],
        (tl.int32, tl.int32),
        is_pure=False,
        pack=1,
        reference=opposite,
    )
    tl.store(y_ptr + i, y * 2 + z)


def test_references(device: Device) -> None:
    """Backends that do not execute the text use the reference."""
    x, y = np.arange(32, dtype=np.int32), np.zeros(32, np.int32)
    device.run(module_of(referred, Pointer(I32), Pointer(I32)), (1, 1, 1), [x, y])
    np.testing.assert_array_equal(y, (3 - x) * 2 + (x > 3))


@tile.jit
def greatest(a, b):
    return tl.inline_asm_elementwise("max.s32 $0, $1, $2;", "=r,r,r", [a, b], tl.int32, True, 1)


@tile.jit
def combines(x_ptr, y_ptr):
    i = tl.arange(0, 128)
    tl.store(y_ptr, tl.reduce(tl.load(x_ptr + i), 0, greatest))


def test_combine_functions(device: Device) -> None:
    x, y = np.random.default_rng(0).integers(-99, 99, 128).astype(np.int32), np.zeros(1, np.int32)
    device.run(module_of(combines, Pointer(I32), Pointer(I32)), (1, 1, 1), [x, y])
    assert y[0] == x.max()


@tile.jit
def through_pointers(x_ptr, y_ptr):
    i = tl.arange(0, 32)
    tl.inline_asm_elementwise(
        """{
            .reg .pred odd;
            .reg .b32 number;
            .reg .u16 byte;
            setp.ne.u32 odd, $3, 0;
            ld.global.s8 number, [$1];
            .reg .u64 address, there;
            cvta.to.global.u64 address, $1;
            add.s64 there, address, 40;
            @odd ld.global.cg.u8 byte, [there+-8];
            add.s32 $0, number, 1;
            st.global.b32 [$2], $0;
            @odd st.global.u8 [$2], byte;
        }""",
        "=r,l,l,r",
        [x_ptr + i, y_ptr + i, i & 1],
        tl.int32,
        is_pure=False,
        pack=1,
    )


@tile.jit
def atomic_accesses(x_ptr, y_ptr):
    i = tl.arange(0, 32)
    tl.inline_asm_elementwise(
        """{
            .reg .pred odd;
            .reg .b32 number;
            .reg .f32 half;
            setp.ne.u32 odd, $3, 0;
            ld.acquire.gpu.global.b32 number, [$1];
            ld.relaxed.sys.global.f32 half, [$1+4];
            add.f32 half, half, half;
            add.s32 $0, number, 1;
            st.release.gpu.global.b32 [$2], $0;
            @odd st.relaxed.cta.global.f32 [$2], half;
        }""",
        "=r,l,l,r",
        [x_ptr + i * 2, y_ptr + i, i & 1],
        tl.int32,
        is_pure=False,
        pack=1,
    )


def test_atomic_accesses_through_pointers(device: Device) -> None:
    x = np.arange(64, dtype=np.int32)
    x[1::2] = np.arange(32, dtype=np.float32).view(np.int32)
    y = np.zeros(32, np.int32)
    device.run(module_of(atomic_accesses, Pointer(I32), Pointer(I32)), (1, 1, 1), [x, y])
    doubled = (2 * np.arange(32, dtype=np.float32)).view(np.int32)
    np.testing.assert_array_equal(y, np.where(np.arange(32) % 2, doubled, x[::2] + 1))


@tile.jit
def repeated_reductions(x_ptr, y_ptr):
    i = tl.arange(0, 32)
    tl.inline_asm_elementwise(
        """{
            .reg .pred odd;
            .reg .b32 bit, number;
            and.b32 bit, $2, 1;
            setp.ne.u32 odd, bit, 0;
            @odd red.global.or.b32 [$1], $2;
            red.relaxed.gpu.global.and.b32 [$1+4], $2;
            red.release.sys.global.max.s32 [$1+8], $2;
            red.cta.global.min.u32 [$1+12], $2;
            mov.b32 $0, 0;
        }""",
        "=r,l,r",
        [x_ptr + i % 2 * 4, tl.load(y_ptr + i)],
        tl.int32,
        is_pure=False,
        pack=1,
    )


def test_reductions_that_may_be_repeated(device: Device) -> None:
    """However many threads hold an element, memory is the same."""
    y = np.random.default_rng(0).integers(-(1 << 31), 1 << 31, 32).astype(np.int32)
    x = np.array([0, -1, -7, -1] * 2, np.int32)
    device.run(module_of(repeated_reductions, Pointer(I32), Pointer(I32)), (1, 1, 1), [x, y])
    expected = []
    for own in (y[::2], y[1::2]):
        odd = own[own % 2 == 1]
        expected += [np.bitwise_or.reduce(odd, initial=0), np.bitwise_and.reduce(own)]
        expected += [max(own.max(), -7), own.view(np.uint32).min().view(np.int32)]
    np.testing.assert_array_equal(x, expected)


def test_accesses_through_pointers(device: Device) -> None:
    """Loads extend to the register; a guard is a mask."""
    x, y = np.arange(-16, 48, dtype=np.int8), np.zeros(32, np.int32)
    device.run(module_of(through_pointers, Pointer(I8), Pointer(I32)), (1, 1, 1), [x, y])
    expected = x[:32].astype(np.int32) + 1
    odd = np.arange(32) % 2 == 1
    expected = np.where(odd, expected & ~0xFF | x[32:].view(np.uint8), expected)
    np.testing.assert_array_equal(y, expected)


# -- what some GPUs lack


@tile.jit
def four_bits(x_ptr, y_ptr, z_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    packed = tl.inline_asm_elementwise(
        """{
            .reg .b8 pair, low;
            cvt.rn.satfinite.e2m1x2.f32 pair, $1, 0f3F800000;
            cvt.rn.satfinite.e2m1x2.f32 low, 0f40C00000, $1;
            mov.b32 $0, {pair, low, pair, pair};
        }""",
        "=r, f",
        [tl.load(x_ptr + i)],
        tl.uint32,
        True,
        1,
    )
    tl.store(y_ptr + i, packed)
    wide = tl.inline_asm_elementwise(
        """{
            .reg .b8 pair<4>;
            mov.b32 {pair0, pair1, pair2, pair3}, $1;
            cvt.rn.f16x2.e2m1x2 $0, pair0;
        }""",
        "=r,r",
        [packed],
        tl.uint32,
        True,
        1,
    )
    tl.store(z_ptr + i, wide)


def test_floats_of_4_bits(device: Device) -> None:
    """e2m1 has the numbers 0, 0.5, 1, 1.5, 2, 3, 4 and 6, to which ties go by even bits."""
    if device.target.startswith("nvptx"):
        pytest.skip("sm_100a has these conversions, sm_90a not")
    numbers = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]
    middle = [0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0]
    nearest = [0, 2, 2, 4, 4, 6, 6]
    x = np.array([*numbers, *middle, 1e9], np.float32)
    code = np.array([*range(8), *nearest, 7], np.uint32)
    x, code = np.concatenate([x, -x]), np.concatenate([code, code + 8])
    y, z = np.zeros(32, np.uint32), np.zeros(32, np.uint32)
    module = module_of(four_bits, Pointer(F32), Pointer(U32), Pointer(U32), N=32)
    device.run(module, (1, 1, 1), [x, y, z])
    pair = code << 4 | 2
    np.testing.assert_array_equal(y, pair << 24 | pair << 16 | (7 << 4 | code) << 8 | pair)
    halves = z.view(np.float16).reshape(32, 2)
    np.testing.assert_array_equal(halves[:, 0], 1)
    values = np.array(numbers, np.float16)[code & 7]
    np.testing.assert_array_equal(halves[:, 1], np.where(code < 8, values, -values))


@tile.jit
def six_bits(x_ptr, code_ptr, y_ptr, N: tl.constexpr, TO: tl.constexpr, FROM: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    code = tl.inline_asm_elementwise(TO, "=h,f,f", [-x, x], tl.uint16, True, 1)
    tl.store(code_ptr + i, code)
    tl.store(y_ptr + i, tl.inline_asm_elementwise(FROM, "=r,h", [code], tl.uint32, True, 1))


@pytest.mark.parametrize("name", ["e3m2", "e2m3"])
def test_floats_of_6_bits(device: Device, name: str) -> None:
    """All numbers, those halfway between two, which go to the even one, and larger ones."""
    if device.target.startswith("nvptx"):
        pytest.skip("sm_100a has these conversions, sm_90a not")
    dtype = np.dtype(getattr(ml_dtypes, f"float6_{name}fn"))
    numbers = np.arange(32, dtype=np.uint8).view(dtype).astype(np.float32)
    x = np.concatenate([numbers, (numbers[1:] + numbers[:-1]) / 2, [1e9]]).astype(np.float32)
    codes = np.minimum(x, numbers[-1]).astype(dtype).view(np.uint8)
    code, y = np.zeros(64, np.uint16), np.zeros(64, np.uint32)
    texts = {
        "TO": f"cvt.rn.satfinite.{name}x2.f32 $0, $1, $2;",
        "FROM": f"cvt.rn.f16x2.{name}x2 $0, $1;",
    }
    module = module_of(six_bits, Pointer(F32), Pointer(U16), Pointer(U32), N=64, **texts)
    device.run(module, (1, 1, 1), [x, code, y])
    np.testing.assert_array_equal(code & 0xFF, codes)
    np.testing.assert_array_equal(code >> 8, codes | 0x20)
    halves = y.view(np.float16).reshape(64, 2)
    values = codes.view(dtype).astype(np.float16)
    np.testing.assert_array_equal(halves, np.stack([values, -values], axis=1))


@tile.jit
def special_registers(x_ptr):
    x, y, n = tl.inline_asm_elementwise(
        "mov.u32 $0, %ctaid.x; mov.b32 $1, %ctaid.y; mov.u32 $2, %nctaid.x;",
        "=r,=r,=r",
        [],
        (tl.int32, tl.uint32, tl.int32),
        is_pure=True,
        pack=1,
    )
    tl.inline_asm_elementwise("bar.sync 0;", "=r", [], tl.int32, is_pure=False, pack=1)
    at = tl.arange(0, 4)
    tile = tl.inline_asm_elementwise("", "=r,0", [x + at], tl.int32, is_pure=True, pack=1)
    tl.store(x_ptr + (y.to(tl.int32) * n + x) * 4 + at, tile)


def test_special_registers(device: Device) -> None:
    """Programs know their place; text may be empty, or a barrier."""
    x = np.zeros((2, 3, 4), np.int32)
    device.run(module_of(special_registers, Pointer(I32)), (3, 2, 1), [x])
    np.testing.assert_array_equal(x, np.arange(3)[:, None] + np.arange(4) + np.zeros((2, 1, 1)))
