"""Coverage of type rules: every `require` rejects something, in the textual tests or here."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

import tile.ir.ops
import tile.simt.ops
from tests.filecheck import ERROR
from tile.errors import TileError, TypeRuleError
from tile.ir import declare, types
from tile.ir.builder import create
from tile.ir.core import Block, Function, Operation
from tile.ir.descriptor_type import Descriptor
from tile.ir.ops import arith, control, memory
from tile.ir.parser import parse_module
from tile.ir.shared_type import Shared
from tile.ir.types import F32, I32, Pointer, Tile, Type
from tile.ir.verifier import verify
from tile.tools.command import chunks

HERE = Path(__file__).parent
Site = tuple[str, int]


def modules() -> list[ModuleType]:
    families = [
        importlib.import_module(f"{package.__name__}.{info.name}")
        for package in (tile.ir.ops, tile.simt.ops)
        for info in pkgutil.iter_modules(package.__path__)
        if info.name != "layout_inference"  # declares no operation
    ]
    return [*families, declare, types]


def sites() -> Iterator[tuple[Site, str]]:
    """Yield every call of `require`: the lines of its message, and the message's source."""
    for module in modules():
        assert module.__file__ is not None
        source = Path(module.__file__).read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "require":
                message = ast.get_source_segment(source, node.args[1]) or ""
                yield (module.__name__, node.lineno), message


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> set[Site]:
    """Collect the `require` calls that raised while the test ran."""
    hit: set[Site] = set()

    def watching(condition: bool, message: str) -> None:
        if not condition:
            frame = inspect.currentframe()
            assert frame is not None
            caller = frame.f_back
            assert caller is not None
            hit.add((caller.f_globals["__name__"], caller.f_lineno))
            raise TypeRuleError(message)

    for module in modules():
        if hasattr(module, "require"):
            monkeypatch.setattr(module, "require", watching)
    return hit


def cases_from_text() -> Iterator[str]:
    for path in sorted([*HERE.rglob("*.tile"), *(HERE.parent / "simt" / "ops").glob("*.tile")]):
        for chunk in chunks(path.read_text(encoding="utf-8")):
            if any(ERROR.search(line) for line in chunk.splitlines()):
                yield chunk


def refuse_what_text_cannot_say() -> None:
    """Build operations in Python without attributes, regions or operands that text always has."""
    x = Function("f", [F32], ["x"]).args[0]
    with pytest.raises(TypeRuleError, match="add has 0 regions, not 1"):
        create(arith.add, [x, x], {}, [Function("g", [], []).body])
    with pytest.raises(TypeRuleError, match="neg has no attribute `fast`"):
        create(arith.neg, [x], {"fast": True})
    with pytest.raises(TypeRuleError, match="for takes at least 3 operands, not 1"):
        create(control.for_, [x], {}, [Function("g", [], []).body])
    with pytest.raises(TypeRuleError, match="a buffer has at least one stage, not 0"):
        Shared((4,), F32, None, 0)  # type: ignore[arg-type]
    for arguments, message in (
        (("f32",), "a pointer points to a scalar or a pointer, not to 'f32'"),
        ((F32, 3), 'pointers have address space 1, "global", not 3'),
        ((F32, 1, True), "annotate the parameter tl.const"),
    ):
        with pytest.raises(TypeRuleError, match=message):
            Pointer(*arguments)  # type: ignore[arg-type]
    test, body = Block(), Block()
    test.append(Operation(control.condition, [x], {}, [], [], None))
    body.append(create(control.yield_))
    with pytest.raises(TypeRuleError, match=r"the test of while ends with one i1, not \(f32\)"):
        create(control.while_, [], {}, [test, body])


def test_every_guard_refuses_something(refused: set[Site]) -> None:
    for text in cases_from_text():
        with pytest.raises(TileError):
            verify(parse_module(text))
    refuse_what_text_cannot_say()
    untested = {site: message for site, message in sites() if not near(site, refused)}
    assert not untested


def near(site: Site, refused: set[Site]) -> bool:
    """Return True if the call, which may span several lines, was reported at one of them."""
    return any((site[0], site[1] + offset) in refused for offset in range(4))


def test_guards_are_detected() -> None:
    messages = {message for _, message in sites()}
    assert len(messages) > 50
    assert any("arange counts up" in message for message in messages)


@pytest.mark.parametrize("extent", [0, -4])
def test_extents_are_positive(extent: int) -> None:
    with pytest.raises(TypeRuleError, match=f"extents are positive, and {extent} is not"):
        Tile((8, extent), F32)


@pytest.mark.parametrize(
    ("dims", "nearest"),
    [((3,), "2 or 4"), ((48,), "32 or 64"), ((0,), "the nearest are 1"), ((-4,), "are 1")],
)
def test_blocks_whose_extents_are_no_powers_of_two_name_the_nearest(
    dims: tuple[int, ...], nearest: str
) -> None:
    with pytest.raises(TypeRuleError, match=f"powers of two, and {dims[0]} is not.*{nearest}"):
        Descriptor((*dims, 64), F32)


def test_operations_need_powers_of_two_unless_they_say_otherwise() -> None:
    """The refusal has the masked text to write instead."""
    with declare.OPS.scope():
        defn = declare.op()(_shift)
        with pytest.raises(TypeRuleError) as refusal:
            defn.infer([Tile((4, 100), F32)], {}, [])
    assert refusal.value.message == (
        "_shift takes extents that are powers of two, and tile<4x100xf32> has an extent of 100"
    )
    assert refusal.value.notes == [
        "take 128 elements and mask the rest: at = tl.arange(0, 128), with mask=at < 100 in loads "
        "and stores and tl.where(at < 100, x, 0) in sums"
    ]


def _shift(x: Type) -> Type:
    """An operation."""
    return x


def test_a_refusal_names_the_place_of_the_operation() -> None:
    text = "func @f(%x: f32, %n: i32) {\n  %y = add %x, %n : f32\n  return\n}\n"
    with pytest.raises(TileError) as refusal:
        parse_module(text)
    lines = str(refusal.value).splitlines()
    assert lines[0] == "add takes operands of one type, not f32 and i32"
    assert lines[2].endswith("2 |   %y = add %x, %n : f32")
    assert lines[3].rstrip().endswith("^^^")


def test_pointers_have_the_stride_of_what_they_point_to() -> None:
    pointer, offset = Function("f", [Pointer(Pointer(F32)), I32], ["p", "o"]).args
    assert create(memory.addptr, [pointer, offset], {"stride": 8}).result.type == pointer.type
    with pytest.raises(TypeRuleError, match="ptr<f32> has 8 bytes, not 4"):
        create(memory.addptr, [pointer, offset], {"stride": 4})
