"""wgmma: every instruction, operands of either major order, several in flight."""

from __future__ import annotations

import re

import pytest

from tests.backends.nvptx.assembling import assemble, compiled
from tile.backends.nvptx.target import architecture
from tile.simt.hopper.wgmma_layouts import operand_layout_in_shared
from tile.simt.layouts.mma_fragments import MmaShape, Operand, matrix_layout

ARCH = "sm_90a"
SHAPES = architecture(ARCH).simt.wgmma_shapes


ITEMSIZE = {"f16": 2, "bf16": 2, "f32": 4}  # of others, 1


def kernel(
    shape: MmaShape,
    m: int,
    n: int,
    k: int,
    *,
    along: tuple[int | None, int],
    types: tuple[str, str, str] = ("f16", "f16", "f32"),
) -> str:
    """A loop with one wgmma in flight across iterations; an `a` operand along None is in registers."""
    ty, other, into = types
    itemsize = ITEMSIZE.get(ty, 1)
    right = operand_layout_in_shared(
        (k, n), 8 * itemsize, along[1], k if along[1] == 0 else shape.n
    )
    acc = matrix_layout((m, n), shape, Operand.ACCUMULATOR, (1, 1))
    count = acc.in_size("register")
    size = m * k * itemsize
    one = "1" if ty in ("i8", "u8") else "1.0"
    zero = "0" if into == "i32" else "0.0"
    left = f"%a = const {{value = {one}}} : frag<{m * k // 128}x{ty}>"
    if along[0] is not None:
        layout = operand_layout_in_shared(
            (m, k), 8 * itemsize, along[0], k if along[0] == 1 else shape.m
        )
        left = f"%a = local_alloc {{offset = 0}} : shared<{m}x{k}x{ty}, {layout}>"
    how = f"shape = {tuple(shape)}, warpgroups = (1, 1), input_precision = tf32"
    return f"""
kernel @k(%out: ptr<{into}>, %n: i32) {{
  {left}
  %b = local_alloc {{offset = {size}}} : shared<{k}x{n}x{other}, {right}, stages = 3>
  %z = const {{value = {zero}}} : frag<{count}x{into}>
  %zero = const {{value = 0}} : i32
  %one = const {{value = 1}} : i32
  fence_proxy_async
  barrier
  %v = for %i = %zero to %n step %one iter(%acc = %z) : frag<{count}x{into}> {{
    %s = local_subview %b, %i {{stage_offset = 1}} : shared<{k}x{n}x{other}, {right}>
    %r = wgmma %a, %s, %acc {{{how}}} : frag<{count}x{into}>
    %w = wgmma_wait %r {{pending = 1}} : frag<{count}x{into}>
    yield %w
  }}
  %y = wgmma_wait %v {{pending = 0}} : frag<{count}x{into}>
  %at = layout_index {{layout = {acc}}} : frag<{count}xi32>
  %to = frag_splat %out {{count = {count}}} : frag<{count}xptr<{into}>>
  %q = addptr %to, %at {{stride = {ITEMSIZE.get(into, 4)}}} : frag<{count}xptr<{into}>>
  store %q, %y
  return
}}
"""


def check(text: str) -> str:
    _, ptx = compiled(text, ARCH)
    said = assemble(ptx, ARCH)
    assert "C75" not in said, said
    assert "0 bytes spill stores" in said
    return ptx


# What is multiplied into what, by the bits of the operands, and how PTX spells it.
KINDS = {
    16: ((("f16", "f16", "f32"), "f32.f16.f16"),),
    32: ((("f32", "f32", "f32"), "f32.tf32.tf32"),),
    8: ((("i8", "i8", "i32"), "s32.s8.s8"),),
}
NARROW = (
    (("u8", "u8", "i32"), "s32.u8.u8"),
    *(
        ((f"f8{a}", f"f8{b}", "f32"), f"f32.{a}.{b}")
        for a in ("e4m3", "e5m2")
        for b in ("e4m3", "e5m2")
    ),
)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_width(shape: MmaShape) -> None:
    along = (1, 1) if shape.n >= 16 and shape.bits == 16 else (1, 0)
    ((types, name),) = KINDS[shape.bits]
    ptx = check(kernel(shape, 64, shape.n, 64, along=along, types=types))
    statement = f"wgmma.mma_async.sync.aligned.m64n{shape.n}k{shape.k}.{name} "
    assert ptx.count(statement) == 64 // shape.k


@pytest.mark.parametrize("ty", ["f16", "bf16"])
@pytest.mark.parametrize("along", [(0, 0), (0, 1), (1, 0), (1, 1), (None, 0), (None, 1)])
def test_operands_of_either_major_order(along: tuple[int | None, int], ty: str) -> None:
    """Several tiles of rows and of columns, and narrow rows."""
    shape, types = MmaShape(64, 32, 16, 16), (ty, ty, "f32")
    ptx = check(kernel(shape, 128, 64, 32, along=along, types=types))
    flags = [str(int(along[0] == 0))] if along[0] is not None else []
    flags.append(str(int(along[1] == 1)))
    assert ptx.count(f"p, 1, 1, {', '.join(flags)};") == 2 * 2 * 2
    assert ptx.count(f"k16.f32.{ty}.{ty} ") == 2 * 2 * 2
    # With a fence for each tile ptxas would wait for all but the last one in `wait_group 1`.
    assert ptx.count("wgmma.fence.sync.aligned;") == 1
    assert ptx.count("wgmma.commit_group.sync.aligned;") == 1


@pytest.mark.parametrize("left", [1, None], ids=["shared", "held"])
@pytest.mark.parametrize(("types", "name"), [*KINDS[8], *NARROW, *KINDS[32]], ids=str)
def test_elements_along_k_alone(types: tuple[str, str, str], name: str, left: int | None) -> None:
    """No order of theirs is told; integers have no signs either."""
    bits = 32 if types[0] == "f32" else 8
    shape = MmaShape(64, 32, 256 // bits, bits)
    ptx = check(kernel(shape, 128, 64, 4 * shape.k, along=(left, 0), types=types))
    statements = [line for line in ptx.split(";") if f"k{shape.k}.{name} " in line]
    assert len(statements) == 2 * 2 * 4
    flags = "p" if types[2] == "i32" else "p, 1, 1"
    assert all(statement.endswith(f"db, {flags}") for statement in statements)


@pytest.mark.parametrize("left", [1, None], ids=["shared", "held"])
def test_sums_of_f16_are_two_in_a_register(left: int | None) -> None:
    """They stay packed around the loop: nothing in it unpacks them."""
    types = ("f16", "f16", "f16")
    ptx = check(kernel(MmaShape(64, 64, 16, 16), 64, 64, 64, along=(left, 1), types=types))
    assert ptx.count("m64n64k16.f16.f16.f16 {") == 4
    loop = ptx[ptx.index("wgmma.fence") : ptx.index("wgmma.wait_group.sync.aligned 0;")]
    assert "mov.b32" not in loop and "prmt" not in loop


def test_parts_that_matter_take_instructions_and_registers() -> None:
    """Columns past 40 of 64 have no use, and elements along k past 24 of 64 are zero."""
    text = kernel(MmaShape(64, 64, 16, 16), 128, 64, 64, along=(1, 1))
    ptx = check(text.replace("= tf32}", "= tf32, columns = 40, depth = 24}"))
    statements = re.findall(r"m64n40k16\S+ {([^}]*)}", ptx)
    assert len(statements) == 2 * 2
    assert [len(names.split(",")) for names in statements] == [20] * 4
    loop = ptx[: ptx.index("wgmma.wait_group.sync.aligned 0;")]
    assert loop.count("0f00000000") <= 40


def test_descriptors() -> None:
    """Strips of 64 columns, 64 rows of 128 bytes each, vectors reordered in 128 bytes."""
    ptx = check(kernel(MmaShape(64, 128, 16, 16), 64, 128, 64, along=(1, 1)))
    left = 1 << 62 | 64 << 32 | 1 << 16
    right = 1 << 62 | 64 << 32 | 512 << 16 | 64 * 64 * 2 // 16
    for constant in (left, right):
        assert f", {constant};" in ptx
    # Sixteen steps of k are 32 bytes of a row, or 16 rows of 128 bytes.
    for step in (2, 128):
        assert f", {step};" in ptx


def test_addresses_in_a_cluster() -> None:
    """They have the program's number above the bits that descriptors have for them."""
    text = kernel(MmaShape(64, 128, 16, 16), 64, 128, 64, along=(1, 1))
    alone, clustered = (compiled(text, ARCH, num_ctas=size)[1] for size in (1, 2))
    assert "bfe.u32" not in alone and re.search(r"bfe.u32\s+\S+ \S+ 4, 14;", clustered)


def test_a_sum_that_begins_with_nothing() -> None:
    """The first instruction ignores the accumulators, so that nothing clears them."""
    text = kernel(MmaShape(64, 32, 16, 16), 64, 32, 32, along=(1, 1))
    from_zero = text.replace("wgmma %a, %s, %acc", "wgmma %a, %s, %z")
    ptx = check(from_zero)
    assert ptx.count("z, 1, 1, 0, 1;") == ptx.count("p, 1, 1, 0, 1;") == 1
    assert "z, 1, 1" not in check(text)


def waiting_first(text: str) -> str:
    """Return a kernel whose wgmma stays in flight until the next iteration issues its own."""
    wait = re.search(r" *%w = wgmma_wait %r \{pending = 1\} : (frag<\d+xf32>)\n *yield %w", text)
    assert wait is not None
    text = text.replace(wait[0], "    yield %r").replace("%s, %acc {", "%s, %w {")
    before = "    %r = wgmma "
    return text.replace(before, f"    %w = wgmma_wait %acc {{pending = 0}} : {wait[1]}\n{before}")


def test_f32_registers_are_written_step_by_step() -> None:
    """Each step along k waits for the same step of the previous iteration, and rounds its numbers."""
    text = kernel(MmaShape(64, 64, 8, 32), 64, 64, 32, along=(None, 0), types=("f32",) * 3)
    ptx = check(waiting_first(text))
    assert re.findall(r"wgmma\.wait_group\.sync\.aligned (\d)", ptx) == ["3"] * 4 + ["0"]
    assert ptx.count("wgmma.commit_group") == 4
    assert ptx.count("0f3a000000") == 16


def test_f32_registers_of_several_tiles_are_written_after_a_wait() -> None:
    text = kernel(MmaShape(64, 64, 8, 32), 128, 64, 32, along=(None, 0), types=("f32",) * 3)
    ptx = check(waiting_first(text))
    assert re.findall(r"wgmma\.wait_group\.sync\.aligned (\d)", ptx) == ["0"] * 2
    assert ptx.index("wgmma.wait_group") < ptx.index("0f3a000000") < ptx.index("wgmma.mma_async")


def test_wgmmas_of_one_operand_alternate() -> None:
    """A narrow one takes as long as its `a` takes to read, while a wide one multiplies."""
    text = kernel(MmaShape(64, 16, 16, 16), 64, 16, 32, along=(1, 1))
    wide = kernel(MmaShape(64, 128, 16, 16), 64, 128, 32, along=(1, 1))
    second = re.search(r"%b = local_alloc .*", wide)
    assert second is not None
    other = second[0].replace("%b", "%b2").replace(f"offset = {64 * 32 * 2}", "offset = 8192")
    lines = {line.split(" = ")[0].strip(): line for line in wide.splitlines() if " = " in line}
    loop, subview, issue, wait = (lines[name] for name in ("%v", "%s", "%r", "%w"))
    text = (
        text.replace("%z = const", f"{other}\n{lines['%z'].replace('%z', '%z2')}\n%z = const")
        .replace("%v = for", "%v, %v2 = for")
        .replace("iter(%acc = %z)", "iter(%acc = %z, %acc2 = %z2)")
        .replace(" {\n    %s =", f", {loop.split(' : ')[1]}\n    %s =")
        .replace("pending = 1", "pending = 2")
        .replace("    %w =", f"{_second(subview)}\n{_second(issue)}\n    %w =")
        .replace(
            "    yield %w",
            f"{_second(wait).replace('pending = 1', 'pending = 2')}\n    yield %w, %w2",
        )
    )
    ptx = check(text)
    assert re.findall(r"m64n(\d+)k16|(commit)", ptx) == [
        *[(n, "") for n in ("16", "128", "16")],
        ("", "commit"),
        ("128", ""),
        ("", "commit"),
    ]
    assert ptx.count("wgmma.fence.sync.aligned;") == 1


def _second(line: str) -> str:
    """Return the line of another buffer and accumulator."""
    return re.sub(r"%(b|s|r|w|acc)\b", r"%\g<1>2", line)
