"""Verifier errors in IR built in Python, which IR text cannot express."""

from __future__ import annotations

import pytest

from tile.errors import VerificationError
from tile.ir.builder import Builder, create
from tile.ir.core import Block, Function, Operation
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import arith, control, debug
from tile.ir.parser import parse_module
from tile.ir.shared_type import Shared
from tile.ir.types import F32, I1, I32, Fragment, Tile, Type
from tile.ir.verifier import verify
from tile.location import Loc
from tile.simt.layouts.linear_layout import parse_layout

TEXT = """
func @f(%c: i1, %x: f32, %n: i32) -> (f32) {
  %y = add %x, %x : f32
  %r = if %c : f32 {
    %z = mul %y, %x : f32
    yield %z
  } else {
    yield %y
  }
  %s = for %i = %n to %n step %n iter(%a = %r) : f32 {
    %b = add %a, %y : f32
    yield %b
  }
  return %s
}
"""


ROW = parse_layout("#linear{offset = [[1],[2],[4]] -> dim0 = 8}")


def module() -> Module:
    parsed = parse_module(TEXT, "f.tile")
    verify(parsed)
    return parsed


def find(parsed: Module, name: str) -> Operation:
    return next(op for op in parsed.walk() if op.name == name)


def refuse(parsed: Module, message: str, level: Level = Level.TILE) -> VerificationError:
    with pytest.raises(VerificationError, match=message) as refused:
        verify(parsed, level)
    return refused.value


def test_a_value_used_before_it_is_defined() -> None:
    parsed = module()
    add, branch = find(parsed, "add"), find(parsed, "if")
    add.unlink()
    assert branch.block is not None
    branch.block.insert(add, branch.next)
    error = refuse(parsed, "mul uses %y where it is not defined")
    assert error.loc == Loc("f.tile", 5, 9, 12)
    assert error.notes == ["in `%z = mul %y, %x : f32`"]


def test_a_value_used_outside_of_the_region_that_defines_it() -> None:
    parsed = module()
    find(parsed, "return").set_operands([find(parsed, "mul").result])
    refuse(parsed, "return uses %z where it is not defined")


def test_a_value_of_one_arm_used_in_the_other() -> None:
    parsed = module()
    end = find(parsed, "if").regions[1].last
    assert end is not None
    end.set_operands([find(parsed, "mul").result])
    refuse(parsed, "yield uses %z where it is not defined")


def test_a_value_of_another_function() -> None:
    parsed = module()
    other = Function("g", [F32], ["w"], [F32])
    other.body.append(create(control.return_, [find(parsed, "add").result]))
    parsed.add(other)
    refuse(parsed, "return uses %y where it is not defined")


def test_a_use_that_the_value_does_not_know_of() -> None:
    parsed = module()
    add = find(parsed, "add")
    add.inputs[0].uses.clear()
    refuse(parsed, "operand 0 of add is missing from its value's uses")


def test_types_that_were_changed() -> None:
    parsed = module()
    find(parsed, "add").result.type = I32
    refuse(parsed, r"add has results \(f32\), not \(i32\)")


def test_operands_that_were_changed() -> None:
    parsed = module()
    find(parsed, "mul").set_operand(1, parsed["f"].args[2])
    refuse(parsed, "mul takes operands of one type, not f32 and i32")


def test_attributes_that_were_changed() -> None:
    parsed = module()
    find(parsed, "add").attributes["fast"] = True
    refuse(parsed, "add has no attribute `fast`")


def test_carried_values_that_do_not_match() -> None:
    parsed = module()
    end = find(parsed, "for").regions[0].last
    assert end is not None
    end.set_operands([])
    refuse(parsed, r"the body of for yields \(\), but carries \(f32\)")


def test_a_region_that_belongs_elsewhere() -> None:
    parsed = module()
    branch = find(parsed, "if")
    branch.regions[0].parent = None
    refuse(parsed, "region `then` of if belongs to another operation")


def test_an_operation_behind_the_terminator() -> None:
    parsed = module()
    Builder(parsed["f"].body).constant(1.0, F32)
    refuse(
        parsed,
        "`return` is a terminator but not the last operation of its block|does not end with a terminator",
    )


def test_an_empty_function() -> None:
    refuse(Module([Function("f", [], [])]), "function @f does not end with a terminator")


def test_a_level_that_does_not_know_an_operation() -> None:
    function = Function("f", [I1], ["c"])
    build = Builder(function.body)
    build.op(debug.assume, function.args[0])
    build.op(control.return_)
    verify(Module([function]), Level.TILE)
    refuse(Module([function]), "assume is not legal at the thread level", Level.THREAD)


def test_layouts_are_not_for_the_tile_level() -> None:
    function = Function("f", [Tile((8,), F32, ROW)], ["x"])
    function.body.append(create(control.return_))
    refuse(Module([function]), "has a layout, which is illegal at the tile level")
    verify(Module([function]), Level.LAID_OUT)


@pytest.mark.parametrize(
    ("ty", "message", "level"),
    [
        (Tile((8,), F32), "has no layout, which every tile has", Level.LAID_OUT),
        (Tile((8,), F32), "is a tile, which is illegal at the thread level", Level.THREAD),
        (Fragment(8, F32), "is a fragment, which is illegal at the tile level", Level.TILE),
        (Fragment(8, F32), "is a fragment, which is illegal at the laid-out", Level.LAID_OUT),
        (Shared((8,), F32, ROW), "is in shared memory, which is illegal", Level.TILE),
    ],
)
def test_types_of_another_level(ty: Type, message: str, level: Level) -> None:
    function = Function("f", [ty], ["x"])
    function.body.append(create(control.return_))
    refuse(Module([function]), message, level)


def test_a_clone_is_right_and_apart() -> None:
    """Changing a clone leaves the original alone."""
    parsed = module()
    copy = parsed.clone()
    verify(copy)
    find(copy, "mul").set_operand(1, copy["f"].args[2])
    verify(parsed)
    refuse(copy, "mul takes operands of one type")


def test_erasing_and_replacing_keep_the_uses_right() -> None:
    parsed = module()
    add = find(parsed, "add")
    twice = Builder.before(add)(arith.mul, add.inputs[0], add.inputs[0])
    add.replace_by([twice])
    verify(parsed)
    assert twice.name == "y"
    assert [user.name for user in twice.users] == ["mul", "yield", "add"]


def test_a_region_that_is_erased_is_gone_altogether() -> None:
    """Operations inside of an erased one are in no block, so a worklist does not visit them."""
    parsed = module()
    branch = find(parsed, "if")
    inner = find(parsed, "mul")
    branch.replace_by([find(parsed, "add").result])
    verify(parsed)
    assert inner.block is None
    assert not inner.inputs


def test_walking_survives_removal() -> None:
    parsed = parse_module(
        "func @f(%x: f32) {\n  %a = neg %x : f32\n  %b = neg %x : f32\n  return\n}\n"
    )
    for op in parsed["f"].body:
        if op.results:
            op.erase()
    assert [op.name for op in parsed.walk()] == ["return"]
    verify(parsed)


def test_blocks_know_what_they_enclose() -> None:
    parsed = module()
    branch, inner = find(parsed, "if"), find(parsed, "mul")
    assert branch.regions[0].encloses(inner)
    assert not branch.regions[1].encloses(inner)
    assert parsed["f"].body.encloses(inner)
    assert list(inner.ancestors()) == [branch]
    assert inner.function is parsed["f"]
    assert branch.is_before(find(parsed, "for"))
    assert not find(parsed, "for").is_before(branch)


def test_regions_are_verified_before_what_follows() -> None:
    """The first fault in program order is the one reported."""
    parsed = module()
    find(parsed, "mul").set_operand(1, parsed["f"].args[2])
    find(parsed, "return").set_operands([])
    assert "mul" in refuse(parsed, "mul takes").message


def test_an_if_needs_both_regions_to_end() -> None:
    block, function = Block(), Function("f", [I1], ["c"])
    block.append(create(control.yield_))
    branch = Operation(control.if_, [function.args[0]], {}, [block, Block()], [], None)
    function.body.append(branch)
    function.body.append(create(control.return_))
    refuse(Module([function]), "the second region of if ends with `yield`, not nothing")
