"""Shuffles, registers by numbers, and where a thread is."""

from __future__ import annotations

import pytest

from tests.backends.nvptx.assembling import ARCHITECTURES, Use, around, check, fragment
from tile.backends.nvptx.target import architecture
from tile.ir.declare import OPS
from tile.ir.ops.reduce import ReduceKind
from tile.ir.types import ALL, F16, F32, I32, Pointer

TYPES = (*ALL, Pointer(F32))


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_shuffles(count: int, arch: str) -> None:
    for mask in (1, 16):
        uses = [Use(OPS["shuffle_xor"], (fragment(e, count),), {"mask": mask}) for e in TYPES]
        assert "shfl.sync.bfly.b32" in check(around(uses), arch)
    uses = [Use(OPS["shuffle_idx"], (fragment(e, count), I32)) for e in TYPES]
    uses += [Use(OPS["shuffle_idx"], (e, I32)) for e in TYPES]
    assert "shfl.sync.idx.b32" in check(around(uses), arch)


def test_narrow_registers_share_a_shuffle() -> None:
    ptx = check(around([Use(OPS["shuffle_xor"], (fragment(F16, 8),), {"mask": 2})]), "sm_90a")
    assert ptx.count("shfl.sync") == 4


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_one_condition_selects_two_numbers_of_a_register(element: str, arch: str) -> None:
    """They are rounded, and selected, at once."""
    ones = "".join(f"%{x}1 = frag_splat %{x} {{count = 1}} : frag<1xf32>\n" for x in "abcd")
    text = f"""
    kernel @choose(%o: ptr<{element}>, %up: i1, %a: f32, %b: f32, %c: f32, %d: f32) {{
      {ones}
      %wide = frag_shuffle %a1, %b1, %c1, %d1 {{registers = (0, 1, 2, 3)}} : frag<4xf32>
      %x = cast %wide {{to = {element}}} : frag<4x{element}>
      %y = frag_shuffle %x {{registers = (2, 3, 0, 1)}} : frag<4x{element}>
      %either = frag_splat %up {{count = 4}} : frag<4xi1>
      %z = select %either, %x, %y : frag<4x{element}>
      %p = frag_splat %o {{count = 4}} : frag<4xptr<{element}>>
      store %p, %z {{vector = 4}}
      return
    }}
    """
    ptx = check(text, arch)
    if arch == "sm_75":  # which converts one at a time, and would have to pack them
        assert ptx.count("selp.b16") == 4
    else:
        assert "selp.b16" not in ptx
        assert ptx.count(f"cvt.rn.{element}x2.f32") == ptx.count("selp.b32") == 2


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_registers_by_computed_numbers(count: int) -> None:
    uses = [Use(OPS["frag_gather"], (fragment(e, count), fragment(I32, 4))) for e in TYPES]
    assert ".local" not in check(around(uses), "sm_90a")


def test_a_layout_is_a_few_instructions() -> None:
    """Lanes are swizzled by warps; registers 1 and 2 share no bit with either, 4 does."""
    text = """
    kernel @place(%o: ptr<i32>) {
      %i = layout_index {layout = #linear{register = [[1],[2],[4]],
        lane = [[4],[8],[16],[32],[64]], warp = [[20],[128]] -> dim0 = 256}} : frag<8xi32>
      %s = layout_index {layout = #linear{
        lane = [[4],[8],[16],[32],[64]], warp = [[20],[128]] -> dim0 = 256}} : i32
      %of = frag_splat %o {count = 8} : frag<8xptr<i32>>
      %p = addptr %of, %i {stride = 4} : frag<8xptr<i32>>
      store %p, %i
      store %o, %s
      return
    }
    """
    check(text.replace("\n        lane", " lane"), "sm_90a")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100", "sm_100a"])
def test_all_lanes_at_once(arch: str) -> None:
    reductions = architecture(arch).simt.warp_reductions
    assert len(reductions) == (3 if arch == "sm_100a" else 2)
    for element, kinds in reductions:
        for kind in kinds:
            use = Use(OPS["warp_reduce"], (fragment(element, 2),), {"kind": kind})
            assert check(around([use]), arch).count("redux.sync.") == 2
    assert not architecture("sm_75").simt.warp_reductions


def test_extrema_that_propagate() -> None:
    attributes = {"kind": ReduceKind.MAX, "propagate_nan": True}
    use = Use(OPS["warp_reduce"], (fragment(F32, 2),), attributes)
    assert "redux.sync.max.NaN.f32" in check(around([use]), "sm_100a")


def test_extrema_of_integers_have_no_nan_to_propagate() -> None:
    attributes = {"kind": ReduceKind.MAX, "propagate_nan": True}
    use = Use(OPS["warp_reduce"], (fragment(I32, 2),), attributes)
    assert "redux.sync.max.s32" in check(around([use]), "sm_90a")
