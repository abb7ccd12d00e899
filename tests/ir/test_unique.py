"""There is one object for each type, however it is made."""

from __future__ import annotations

import copy
import pickle

import pytest

from tile.errors import TypeRuleError
from tile.ir.declare import OPS
from tile.ir.descriptor_type import Descriptor
from tile.ir.ops import arith, shape
from tile.ir.shared_type import Shared
from tile.ir.types import F16, F32, I1, I32, Fragment, Pointer, Tile, Type
from tile.simt.layouts.blocked import blocked

LAYOUT = blocked((16, 16), (1, 4), (8, 4), (1, 1))
TYPES = [
    F32,
    Pointer(Pointer(F16)),
    Tile((16, 16), F32),
    Tile((16, 16), Pointer(F32), LAYOUT),
    Fragment(4, F32),
    Shared((16, 16), F16, LAYOUT, stages=2),
    Descriptor((64, 64), F16),
]


@pytest.mark.parametrize("ty", TYPES, ids=str)
def test_copies_are_the_type(ty: Type) -> None:
    assert pickle.loads(pickle.dumps(ty)) is copy.deepcopy(ty) is copy.copy(ty) is ty


def test_arguments_are_those_of_the_fields() -> None:
    assert Tile((4,), F32) is Tile(dims=(4,), of=F32) is Tile((4,), of=F32, layout=None)
    assert Pointer(F32) is Pointer(F32, 1) is Pointer(F32, address_space="global")
    assert Tile((4,), F32) is not Tile((4,), I32)


def test_what_is_wrong_is_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(TypeRuleError, match="positive"):
            Tile((0,), F32)
        with pytest.raises(TypeRuleError, match="address space"):
            Pointer(F32, 3)


def test_inference_tells_types_and_attributes_apart() -> None:
    x, y = Tile((4, 8), F32), Tile((8,), F32)
    for _ in range(2):
        assert arith.add.infer((x, x), {}, ()) == (x,)
        assert arith.add.infer((y, y), {}, ()) == (y,)
        with pytest.raises(TypeRuleError, match="operands of one type"):
            arith.add.infer((x, y), {}, ())
        for order, dims in (((1, 0), (8, 4)), ((0, 1), (4, 8))):
            assert shape.trans.infer((x,), {"order": order}, ()) == (Tile(dims, F32),)
        assert arith.const.infer((), {"value": 1, "result": I32}, ()) == (I32,)
        for value, result in ((True, I32), (1.0, I32), (1, I1), (1, F32)):
            with pytest.raises(TypeRuleError, match="a constant of type"):
                arith.const.infer((), {"value": value, "result": result}, ())


def test_rules_see_the_types_without_layouts() -> None:
    plain, laid_out = Tile((16, 16), F32), Tile((16, 16), F32, LAYOUT)
    assert arith.add.infer((laid_out, plain), {}, ()) == (plain,)


def test_only_constants_take_numbers_of_several_kinds() -> None:
    assert [defn.name for defn in OPS if not defn.tells_apart] == ["const"]
