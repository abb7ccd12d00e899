"""Products of groups of warps: every instruction, factors in every order, several at once."""

from __future__ import annotations

import pytest

from tests.backends.nvptx.assembling import assemble, compiled
from tile.backends.nvptx.target import architecture
from tile.simt.layouts.factors import factor_layout
from tile.simt.layouts.fragments import MatrixShape, Operand, matrix_layout

ARCH = "sm_90a"
SHAPES = architecture(ARCH).simt.group_shapes


def kernel(
    shape: MatrixShape, m: int, n: int, k: int, *, along: tuple[int | None, int], ty: str = "f16"
) -> str:
    """A loop of products, of which one goes on around it; a left factor along None is held."""
    right = factor_layout((k, n), 16, along[1], k if along[1] == 0 else shape.n)
    acc = matrix_layout((m, n), shape, Operand.ACCUMULATOR, (1, 1))
    count = acc.in_size("register")
    size = m * k * 2
    left = "%a = const {value = 1.0} : frag<" + f"{m * k // 128}x{ty}>"
    if along[0] is not None:
        layout = factor_layout((m, k), 16, along[0], k if along[0] == 1 else shape.m)
        left = f"%a = alloc {{at = 0}} : shared<{m}x{k}x{ty}, {layout}>"
    return f"""
kernel @k(%out: ptr<f32>, %n: i32) {{
  {left}
  %b = alloc {{at = {size}}} : shared<{k}x{n}x{ty}, {right}, stages = 3>
  %z = const {{value = 0.0}} : frag<{count}xf32>
  %zero = const {{value = 0}} : i32
  %one = const {{value = 1}} : i32
  group_fence
  barrier
  %v = for %i = %zero to %n step %one iter(%acc = %z) : frag<{count}xf32> {{
    %s = slot %b, %i {{shift = 1}} : shared<{k}x{n}x{ty}, {right}>
    %r = group_dot %a, %s, %acc {{shape = {tuple(shape)}, groups = (1, 1)}} : frag<{count}xf32>
    %w = group_wait %r {{pending = 1}} : frag<{count}xf32>
    yield %w
  }}
  %y = group_wait %v {{pending = 0}} : frag<{count}xf32>
  %at = linear_index {{layout = {acc}}} : frag<{count}xi32>
  %to = fill %out {{count = {count}}} : frag<{count}xptr<f32>>
  %q = addptr %to, %at {{stride = 4}} : frag<{count}xptr<f32>>
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


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_width(shape: MatrixShape) -> None:
    along = (1, 1) if shape.n >= 16 else (1, 0)
    ptx = check(kernel(shape, 64, shape.n, 64, along=along))
    assert ptx.count(f"wgmma.mma_async.sync.aligned.m64n{shape.n}k16.f32.f16.f16") == 4


@pytest.mark.parametrize("ty", ["f16", "bf16"])
@pytest.mark.parametrize("along", [(0, 0), (0, 1), (1, 0), (1, 1), (None, 0), (None, 1)])
def test_factors_along_either_axis(along: tuple[int | None, int], ty: str) -> None:
    """Several pieces of rows and of columns, and narrow rows."""
    ptx = check(kernel(MatrixShape(64, 32, 16, 16), 128, 64, 32, along=along, ty=ty))
    flags = [str(int(along[0] == 0))] if along[0] is not None else []
    flags.append(str(int(along[1] == 1)))
    assert ptx.count(f"p, 1, 1, {', '.join(flags)};") == 2 * 2 * 2
    assert ptx.count(f"k16.f32.{ty}.{ty} ") == 2 * 2 * 2
    assert ptx.count("wgmma.commit_group.sync.aligned;") == 1


def test_descriptors() -> None:
    """Strips of 64 columns, 64 rows of 128 bytes each, vectors reordered in 128 bytes."""
    ptx = check(kernel(MatrixShape(64, 128, 16, 16), 64, 128, 64, along=(1, 1)))
    left = 1 << 62 | 64 << 32 | 1 << 16
    right = 1 << 62 | 64 << 32 | 512 << 16 | 64 * 64 * 2 // 16
    for constant in (left, right):
        assert f", {constant};" in ptx
    # Sixteen steps of k are 32 bytes of a row, or 16 rows of 128 bytes.
    for step in (2, 128):
        assert f", {step};" in ptx
