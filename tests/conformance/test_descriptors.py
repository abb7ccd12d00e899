"""Descriptors: blocks read and written at and beyond the edges of arrays, against padded copies."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from tests.conformance.running import Array, Device, assert_close
from tests.conformance.values import random_array
from tile.ir import semantics
from tile.ir.ops.descriptor import REDUCE_KINDS
from tile.ir.ops.memory import RMW_ELEMENTS, RMWKind
from tile.ir.types import ALL, BF16, F16, F32, I1, I32, Scalar

# Extents and strides of an array, and the block it is read in. Strides leave gaps, in which nothing
# may be written; extents are no multiples of the block.
SHAPES: dict[str, tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]] = {
    "vector": ((37,), (1,), (16,)),
    "matrix": ((13, 21), (32, 1), (8, 16)),
    "aligned": ((16, 32), (48, 1), (8, 32)),
    "batch": ((3, 5, 19), (320, 48, 1), (1, 4, 16)),
    "four": ((2, 3, 4, 17), (400, 128, 32, 1), (2, 1, 2, 16)),
    "five": ((2, 1, 3, 2, 17), (304, 304, 96, 32, 1), (1, 1, 2, 2, 16)),
    "row": ((1, 16), (16, 1), (4, 16)),
    "empty": ((0, 16), (16, 1), (4, 16)),
    "large": ((40, 90), (96, 1), (32, 64)),
}


def memory(
    element: Scalar, extents: tuple[int, ...], strides: tuple[int, ...], seed: int = 0
) -> tuple[Array, Array]:
    """Random memory at an address of 16 bytes, and the array in it."""
    size = 1 + sum(max(0, n - 1) * s for n, s in zip(extents, strides, strict=True))
    raw = random_array(np.random.default_rng(seed), element, size + 64)
    raw = raw[-raw.ctypes.data % 16 // raw.itemsize :][: size + 16]
    return raw, view(raw, extents, strides)


def view(raw: Array, extents: tuple[int, ...], strides: tuple[int, ...]) -> Array:
    """The array at the start of memory; NumPy's own buffers know no floats of 8 bits."""
    bits = raw.view(f"u{raw.itemsize}")
    steps = tuple(s * raw.itemsize for s in strides)
    return np.ndarray(extents, bits.dtype, bits.data, 0, steps).view(raw.dtype)


def described(name: str, pointer: str, element: Scalar, which: str, padding: str) -> str:
    """The text that makes a descriptor, with its sizes as constants behind the pointer's name."""
    extents, strides, block = SHAPES[which]
    lines, operands = [], []
    for index, extent in enumerate(extents):
        lines.append(f"%{name}n{index} = const {{value = {extent}}} : i32")
        operands.append(f"%{name}n{index}")
    for index, stride in enumerate(strides[:-1]):
        lines.append(f"%{name}s{index} = const {{value = {stride}}} : i64")
        operands.append(f"%{name}s{index}")
    ty = desc_type(element, block, padding)
    shape = ", ".join(map(str, block))
    lines.append(
        f"%{name} = make_tensor_descriptor %{pointer}, {', '.join(operands)} "
        f"{{block = ({shape}), padding = {padding}}} : {ty}"
    )
    return "\n      ".join(lines)


def desc_type(element: Scalar, block: tuple[int, ...], padding: str = "zero") -> str:
    suffix = ", nan" if padding == "nan" else ""
    return f"desc<{'x'.join(map(str, block))}x{element}{suffix}>"


def tile_type(element: Scalar, block: tuple[int, ...]) -> str:
    return f"tile<{'x'.join(map(str, block))}x{element}>"


def offsets(count: int) -> tuple[str, str]:
    """The text that loads a program's offsets, and their names."""
    lines = [f"%c{count} = const {{value = {count}}} : i32", f"%first = mul %pid, %c{count} : i32"]
    for axis in range(count):
        lines += [
            f"%k{axis} = const {{value = {axis}}} : i32",
            f"%a{axis} = add %first, %k{axis} : i32",
            f"%p{axis} = addptr %at, %a{axis} {{stride = 4}} : ptr<i32>",
            f"%i{axis} = load %p{axis} : i32",
        ]
    return "\n      ".join(lines), ", ".join(f"%i{axis}" for axis in range(count))


def flat(block: tuple[int, ...], element: Scalar) -> str:
    """The text of `%out`, pointers through which a program stores its block one after the other."""
    count, rank = math.prod(block), len(block)
    shape = f"{{shape = ({', '.join(map(str, block))})}}"
    ints = tile_type(I32, block)
    pointers = ints.replace("i32", f"ptr<{element}>")
    lines = [
        f"%n = const {{value = {count}}} : i32",
        "%start = mul %pid, %n : i32",
        f"%line = arange {{start = 0, end = {count}}} : tile<{count}xi32>",
        f"%begin = splat %start {{shape = ({count})}} : tile<{count}xi32>",
        f"%each = add %line, %begin : tile<{count}xi32>",
        f"%whole = reshape %each {shape} : {ints}" if rank > 1 else "",
        f"%ob = splat %o {shape} : {pointers}",
        f"%out = addptr %ob, %{'whole' if rank > 1 else 'each'} "
        f"{{stride = {element.itemsize}}} : {pointers}",
    ]
    return "\n      ".join(filter(None, lines))


def starts(which: str) -> list[tuple[int, ...]]:
    """Offsets of blocks inside, across each end, and far beyond, along every axis."""
    extents, _, block = SHAPES[which]
    axes = [
        sorted({0, b, n - b, n - 1, n, -1, -b, 3})[:: 1 if len(extents) < 3 else 3]
        for n, b in zip(extents, block, strict=True)
    ]
    far = [tuple(limit for _ in extents) for limit in (2**31 - 1, -(2**31), 2**31 - 8)]
    all_starts = list(itertools.product(*axes))
    return [*all_starts[:: max(1, len(all_starts) // 40)], *far]


def block_of(array: Array, start: tuple[int, ...], block: tuple[int, ...], outside: Any) -> Array:
    """A block of an array, element by element."""
    result = np.full(block, outside, array.dtype)
    for index in np.ndindex(block):
        place = tuple(s + i for s, i in zip(start, index, strict=True))
        if all(0 <= p < n for p, n in zip(place, array.shape, strict=True)):
            result[index] = array[place]
    return result


def check_loads(device: Device, element: Scalar, which: str, padding: str) -> None:
    extents, strides, block = SHAPES[which]
    take, names = offsets(len(block))
    text = f"""
    kernel @boxes(%x: ptr<{element}> {{divisible = 16}}, %at: ptr<i32>, %o: ptr<{element}>) {{
      {described("d", "x", element, which, padding)}
      %pid = program_id {{axis = 0}} : i32
      {take}
      %v = descriptor_load %d, {names} : {tile_type(element, block)}
      {flat(block, element)}
      store %out, %v
      return
    }}
    """
    raw, array = memory(element, extents, strides)
    positions = starts(which)
    out = np.zeros((len(positions), *block), raw.dtype)
    at = np.array(positions, np.int32).ravel()
    device.run(text, (len(positions), 1, 1), [raw, at, out.reshape(-1)])
    outside = math.nan if padding == "nan" else 0
    wanted = np.stack([block_of(array, start, block, outside) for start in positions])
    assert_close(out, wanted, 0, which)


@pytest.mark.parametrize("which", SHAPES)
def test_blocks_are_read_within_bounds(device: Device, which: str) -> None:
    check_loads(device, F32, which, "zero")


@pytest.mark.parametrize("element", [ty for ty in ALL if ty is not I1], ids=str)
def test_blocks_of_every_type(device: Device, element: Scalar) -> None:
    check_loads(device, element, "matrix", "zero")


@pytest.mark.parametrize("element", [ty for ty in ALL if ty.is_floating()], ids=str)
def test_blocks_padded_with_nan(device: Device, element: Scalar) -> None:
    check_loads(device, element, "matrix", "nan")


@pytest.mark.parametrize("which", SHAPES)
def test_blocks_are_written_within_bounds(device: Device, which: str) -> None:
    """Each program writes a block of its own array; what lies between rows stays as it was."""
    extents, strides, block = SHAPES[which]
    element = F16
    take, names = offsets(len(block))
    text = f"""
    kernel @boxes(%x: ptr<{element}>, %y: ptr<{element}>, %size: i32, %at: ptr<i32>, %o: ptr<{element}>) {{
      %pid = program_id {{axis = 0}} : i32
      %mine = mul %pid, %size : i32
      %own = addptr %y, %mine {{stride = {element.itemsize}}} : ptr<{element}>
      {described("e", "own", element, which, "zero")}
      {take}
      {flat(block, element).replace("%o ", "%x ")}
      %v = load %out : {tile_type(element, block)}
      descriptor_store %e, %v, {names}
      return
    }}
    """
    positions = starts(which)
    raw, _ = memory(element, extents, strides)
    size = -(-raw.size // 16) * 16
    whole = random_array(np.random.default_rng(3), element, size * len(positions) + 16)
    whole = whole[-whole.ctypes.data % 16 // whole.itemsize :][: size * len(positions)]
    values = random_array(np.random.default_rng(4), element, len(positions) * math.prod(block))
    wanted = whole.copy()
    for number, start in enumerate(positions):
        array = view(wanted[number * size : (number + 1) * size], extents, strides)
        block_values = values.reshape(len(positions), *block)[number]
        for index in np.ndindex(block):
            place = tuple(s + i for s, i in zip(start, index, strict=True))
            if all(0 <= p < n for p, n in zip(place, extents, strict=True)):
                array[place] = block_values[index]
    at = np.array(positions, np.int32).ravel()
    device.run(
        text, (len(positions), 1, 1), [values, whole, np.int32(size), at, np.zeros(1, whole.dtype)]
    )
    assert_close(whole, wanted, 0, which)


COMBINE: dict[RMWKind, Any] = {
    RMWKind.ADD: lambda a, b: a + b,
    RMWKind.MAX: np.maximum,
    RMWKind.MIN: np.minimum,
    RMWKind.AND: np.bitwise_and,
    RMWKind.OR: np.bitwise_or,
    RMWKind.XOR: np.bitwise_xor,
}


def test_one_array_is_written_within_bounds(device: Device) -> None:
    """TMA, which may store it, writes whole 16 bytes: what lies between rows stays as it was."""
    extents, strides, block = SHAPES["large"]
    text = f"""
    kernel @matrix(%x: ptr<f16>, %y: ptr<f16> {{divisible = 16}}) {{
      {described("e", "y", F16, "large", "zero")}
      %pid = program_id {{axis = 0}} : i32
      %row = program_id {{axis = 1}} : i32
      %o = addptr %x, %pid {{stride = 2}} : ptr<f16>
      {flat(block[::-1], F16)}
      %t = load %out : {tile_type(F16, block[::-1])}
      %v = trans %t {{order = (1, 0)}} : {tile_type(F16, block)}
      %rows = const {{value = {block[0]}}} : i32
      %columns = const {{value = {block[1]}}} : i32
      %i = mul %row, %rows : i32
      %j = mul %pid, %columns : i32
      descriptor_store %e, %v, %i, %j
      return
    }}
    """
    raw, _ = memory(F16, extents, strides)
    values = random_array(np.random.default_rng(4), F16, 2 * math.prod(block) + 2)
    wanted = raw.copy()
    array = view(wanted, extents, strides)
    for program in range(2):
        first = program * (1 + math.prod(block))
        columns = slice(program * block[1], (program + 1) * block[1])
        stored = values[first : first + math.prod(block)].reshape(block[::-1]).T
        for row in (0, block[0]):
            part = array[row : row + block[0], columns]
            part[:] = stored[: part.shape[0], : part.shape[1]]
    device.run(text, (2, 2, 1), [values, raw])
    assert_close(raw, wanted, 0, "large")


@pytest.mark.parametrize(
    ("kind", "element"), [(k, e) for k in REDUCE_KINDS for e in RMW_ELEMENTS[k]], ids=str
)
def test_blocks_are_combined_within_bounds(device: Device, kind: RMWKind, element: Scalar) -> None:
    """Programs whose blocks overlap; numbers for which the order does not matter."""
    extents, strides, block = SHAPES["matrix"]
    take, names = offsets(2)
    text = f"""
    kernel @boxes(%x: ptr<{element}>, %y: ptr<{element}>, %at: ptr<i32>) {{
      {described("d", "y", element, "matrix", "zero")}
      %pid = program_id {{axis = 0}} : i32
      {take}
      {flat(block, element).replace("%o ", "%x ")}
      %v = load %out : {tile_type(element, block)}
      descriptor_reduce %d, %v, {names} {{kind = {kind}}}
      return
    }}
    """
    positions = [(0, 0), (5, 3), (-2, 10), (9, -4), (40, 0)]
    dtype = semantics.numpy_dtype(element)
    raw, array = memory(element, extents, strides)
    raw[...] = np.random.default_rng(5).integers(0, 8, raw.size).astype(dtype)
    values = np.random.default_rng(6).integers(0, 8, (len(positions), *block)).astype(dtype)
    before, wanted = raw.copy(), array.copy()
    for start, block_values in zip(positions, values, strict=True):
        for index in np.ndindex(block):
            place = tuple(s + i for s, i in zip(start, index, strict=True))
            if all(0 <= p < n for p, n in zip(place, extents, strict=True)):
                wanted[place] = COMBINE[kind](wanted[place], block_values[index])
    at = np.array(positions, np.int32).ravel()
    device.run(text, (len(positions), 1, 1), [values.reshape(-1), raw, at])
    assert_close(array.copy(), wanted, 0, "the array")
    array[...] = 0
    view(before, extents, strides)[...] = 0
    assert_close(raw, before, 0, "what lies between its rows")


@pytest.mark.parametrize("padding", ["zero", "nan"])
def test_rows_are_gathered_and_scattered(device: Device, padding: str) -> None:
    text = f"""
    kernel @rows(%x: ptr<f32>, %i: ptr<i32>, %y: ptr<f32>) {{
      %m = const {{value = 11}} : i32
      %n = const {{value = 20}} : i32
      %s = const {{value = 24}} : i64
      %d = make_tensor_descriptor %x, %m, %n, %s {{block = (1, 16), padding = {padding}}} : {desc_type(F32, (1, 16), padding)}
      %e = make_tensor_descriptor %y, %m, %n, %s {{block = (1, 16)}} : desc<1x16xf32>
      %l = arange {{start = 0, end = 8}} : tile<8xi32>
      %b = splat %i {{shape = (8)}} : tile<8xptr<i32>>
      %p = addptr %b, %l {{stride = 4}} : tile<8xptr<i32>>
      %rows = load %p : tile<8xi32>
      %c = const {{value = 7}} : i32
      %minus = const {{value = -3}} : i32
      %v = descriptor_gather %d, %rows, %c : tile<8x16xf32>
      descriptor_scatter %e, %v, %rows, %minus
      return
    }}
    """
    rows = np.array([3, -1, 0, 10, 11, 7, -(2**31), 2**31 - 1], np.int32)
    raw, array = memory(F32, (11, 20), (24, 1))
    out, target = memory(F32, (11, 20), (24, 1), seed=1)
    wanted = target.copy()
    for row in rows:
        if 0 <= row < 11:
            line = block_of(array, (int(row), 7), (1, 16), math.nan if padding == "nan" else 0)[0]
            wanted[row, :13] = line[3:]
    device.run(text, (1, 1, 1), [raw, rows, out])
    assert_close(target.copy(), wanted, 0, "the rows")


def test_descriptors_pass_through_control_flow_and_calls(device: Device) -> None:
    """A descriptor that was chosen, carried by loops, handed to a function and given back."""
    text = """
    func noinline @read(%d: desc<8x16xf32>, %i: i32) -> (desc<8x16xf32>, tile<8x16xf32>) {
      %zero = const {value = 0} : i32
      %v = descriptor_load %d, %i, %zero : tile<8x16xf32>
      return %d, %v
    }
    kernel @k(%x: ptr<f32>, %y: ptr<f32>, %m: i32, %n: i32, %s: i64, %o: ptr<f32>, %sizes: ptr<i32>) {
      %pid = program_id {axis = 0} : i32
      %one = const {value = 1} : i32
      %zero = const {value = 0} : i32
      %eight = const {value = 8} : i32
      %d = make_tensor_descriptor %x, %m, %n, %s {block = (8, 16)} : desc<8x16xf32>
      %e = make_tensor_descriptor %y, %n, %m, %s {block = (8, 16)} : desc<8x16xf32>
      %odd = and %pid, %one : i32
      %is = cmp %odd, %one {predicate = eq} : i1
      %f = if %is : desc<8x16xf32> {
        yield %e
      } else {
        yield %d
      }
      %none = const {value = 0.0} : tile<8x16xf32>
      %total, %g = for %i = %zero to %m step %eight iter(%t = %none, %h = %f) : tile<8x16xf32>, desc<8x16xf32> {
        %r, %v = call %h, %i {callee = @read} : desc<8x16xf32>, tile<8x16xf32>
        %u = add %t, %v : tile<8x16xf32>
        yield %u, %r
      }
      %last, %z = while iter(%k = %pid, %w = %g) : i32, desc<8x16xf32> {
        %more = cmp %k, %zero {predicate = gt} : i1
        condition %more
      } do {
        %less = sub %k, %one : i32
        yield %less, %w
      }
      %rows = descriptor_shape %z {axis = 0} : i32
      %wide = descriptor_stride %z {axis = 0} : i64
      %unit = descriptor_stride %z {axis = 1} : i64
      %stride = cast %wide {to = i32} : i32
      %step = cast %unit {to = i32} : i32
      %four = const {value = 4} : i32
      %at = mul %pid, %four : i32
      %p0 = addptr %sizes, %at {stride = 4} : ptr<i32>
      %p1 = addptr %p0, %one {stride = 4} : ptr<i32>
      %two = const {value = 2} : i32
      %p2 = addptr %p0, %two {stride = 4} : ptr<i32>
      store %p0, %rows
      store %p1, %stride
      store %p2, %step
      %og = const {value = 64} : i32
      %columns = const {value = 16} : i64
      %out = make_tensor_descriptor %o, %og, %og, %columns {block = (8, 16)} : desc<8x16xf32>
      %row = mul %pid, %eight : i32
      descriptor_store %out, %total, %row, %zero
      return
    }
    """
    x = random_array(np.random.default_rng(8), F32, 24 * 16, (-2, 2)).reshape(24, 16)
    y = random_array(np.random.default_rng(9), F32, 24 * 16, (-2, 2)).reshape(24, 16)
    out, sizes = np.zeros((64, 64), np.float32), np.zeros((4, 4), np.int32)
    arguments = [x.reshape(-1), y.reshape(-1), np.int32(20), np.int32(13), np.int64(16)]
    device.run(text, (4, 1, 1), [*arguments, out.reshape(-1), sizes.reshape(-1)])
    for pid in range(4):
        array = y[:13, :16] if pid % 2 else x[:20, :13]
        wanted = np.zeros((8, 16), np.float32)
        for i in range(0, 20, 8):
            wanted += block_of(array, (i, 0), (8, 16), 0)
        actual = np.ndarray((8, 16), np.float32, out.reshape(-1)[pid * 128 :].data)
        np.testing.assert_array_equal(actual, wanted)
        assert sizes[pid].tolist() == [13 if pid % 2 else 20, 16, 1, 0]


@pytest.mark.parametrize("element", [F16, BF16], ids=str)
@pytest.mark.parametrize(
    ("m", "n", "k"), [(70, 88, 40), (64, 64, 64), (130, 72, 200), (9, 8, 3), (64, 64, 0)]
)
def test_dots_of_descriptor_blocks(device: Device, element: Scalar, m: int, n: int, k: int) -> None:
    """Operands are read iteration by iteration, from blocks that reach beyond the arrays."""
    text = f"""
    kernel @product(%x: ptr<{element}> {{divisible = 16}}, %y: ptr<{element}> {{divisible = 16}},
                    %z: ptr<{element}> {{divisible = 16}},
                    %m: i32, %n: i32, %k: i32, %s: i64, %t: i64) {{
      %a = make_tensor_descriptor %x, %m, %k, %s {{block = (64, 32)}} : desc<64x32x{element}>
      %b = make_tensor_descriptor %y, %k, %n, %t {{block = (32, 64)}} : desc<32x64x{element}>
      %c = make_tensor_descriptor %z, %m, %n, %t {{block = (64, 64)}} : desc<64x64x{element}>
      %size = const {{value = 64}} : i32
      %i = program_id {{axis = 0}} : i32
      %j = program_id {{axis = 1}} : i32
      %row = mul %i, %size : i32
      %column = mul %j, %size : i32
      %zero = const {{value = 0}} : i32
      %step = const {{value = 32}} : i32
      %none = const {{value = 0.0}} : tile<64x64xf32>
      %sum = for %at = %zero to %k step %step iter(%acc = %none) : tile<64x64xf32> {{
        %u = descriptor_load %a, %row, %at : tile<64x32x{element}>
        %v = descriptor_load %b, %at, %column : tile<32x64x{element}>
        %next = dot %u, %v, %acc : tile<64x64xf32>
        yield %next
      }}
      %w = cast %sum {{to = {element}}} : tile<64x64x{element}>
      descriptor_store %c, %w, %row, %column
      return
    }}
    """
    pitch, wide = -(-max(k, 1) // 8) * 8, -(-n // 8) * 8 + 8
    dtype = semantics.numpy_dtype(element)
    random = np.random.default_rng(11)
    # Small integers, of which no sum is rounded.
    x, y = (
        random.integers(-3, 4, shape).astype(dtype) for shape in ((m, pitch), (max(k, 1), wide))
    )
    out = np.full((m, wide), 7, dtype)
    sizes = [np.int32(m), np.int32(n), np.int32(k), np.int64(pitch), np.int64(wide)]
    device.run(text, (-(-m // 64), -(-n // 64), 1), [x.ravel(), y.ravel(), out.reshape(-1), *sizes])
    wanted = np.full((m, wide), 7, dtype)
    product = x[:, :k].astype(np.float32) @ y[:k, :n].astype(np.float32)
    wanted[:, :n] = product.astype(dtype)
    assert_close(out, wanted, 0, "the product")


def test_descriptor_pointers_are_pointers_as_before(device: Device) -> None:
    """Saying that they are a block changes neither them nor what is read through them."""
    text = """
    kernel @boxed(%x: ptr<f32> {divisible = 16}, %y: ptr<f32>, %m: i32, %n: i32, %s: i64) {
      %i = const {value = 8} : i32
      %j = const {value = 4} : i32
      %base = splat %x {shape = (8, 16)} : tile<8x16xptr<f32>>
      %rows = arange {start = 8, end = 16} : tile<8xi32>
      %columns = arange {start = 4, end = 20} : tile<16xi32>
      %r = expand_dims %rows {axis = -1} : tile<8x1xi32>
      %c = expand_dims %columns {axis = -2} : tile<1x16xi32>
      %rr = broadcast %r {shape = (8, 16)} : tile<8x16xi32>
      %cc = broadcast %c {shape = (8, 16)} : tile<8x16xi32>
      %pitch = cast %s {to = i32} : i32
      %wide = splat %pitch {shape = (8, 16)} : tile<8x16xi32>
      %down = mul %rr, %wide : tile<8x16xi32>
      %at = add %down, %cc : tile<8x16xi32>
      %p = addptr %base, %at {stride = 4} : tile<8x16xptr<f32>>
      %q = descriptor_pointers %p, %x, %m, %n, %s, %i, %j : tile<8x16xptr<f32>>
      %bottom = splat %m {shape = (8, 16)} : tile<8x16xi32>
      %right = splat %n {shape = (8, 16)} : tile<8x16xi32>
      %above = cmp %rr, %bottom {predicate = lt} : tile<8x16xi1>
      %left = cmp %cc, %right {predicate = lt} : tile<8x16xi1>
      %inside = and %above, %left : tile<8x16xi1>
      %zero = const {value = 0.0} : tile<8x16xf32>
      %v = load %q, %inside, %zero : tile<8x16xf32>
      %flat = reshape %v {shape = (128)} : tile<128xf32>
      %o = splat %y {shape = (128)} : tile<128xptr<f32>>
      %k = arange {start = 0, end = 128} : tile<128xi32>
      %z = addptr %o, %k {stride = 4} : tile<128xptr<f32>>
      store %z, %flat
      return
    }
    """
    x = np.random.default_rng(3).standard_normal((13, 24)).astype(np.float32)
    out = np.zeros(128, np.float32)
    sizes = [np.int32(13), np.int32(17), np.int64(24)]
    device.run(text, (1, 1, 1), [x.ravel(), out, *sizes])
    wanted = np.zeros((8, 16), np.float32)
    wanted[:5, :13] = x[8:13, 4:17]
    np.testing.assert_array_equal(out.reshape(8, 16), wanted)
