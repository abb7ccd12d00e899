"""`tile._dataclasses` makes the classes that the standard library makes."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, field
from typing import Any, ClassVar

import pytest

from tile._dataclasses import dataclass

Decorator = Callable[..., Any]
ALL = [
    {"frozen": frozen, "eq": equal, "slots": small}
    for frozen, equal, small in itertools.product((False, True), repeat=3)
]


def point(make: Decorator, **options: Any) -> Any:
    @make(**options)
    class Point:
        """A point."""

        kind: ClassVar[str] = "point"
        x: int
        y: float = 2.5
        names: list[str] = field(default_factory=list, compare=False)
        note: str = field(default="", repr=False, hash=False)

    return Point


@pytest.mark.parametrize("options", ALL, ids=repr)
def test_classes_are_those_of_the_standard_library(options: dict[str, Any]) -> None:
    mine, standard = point(dataclass, **options), point(dataclasses.dataclass, **options)
    for cls in (mine, standard):
        assert cls.kind == "point" and cls(1).names is not cls(1).names
        assert dataclasses.is_dataclass(cls) and cls.__doc__ == "A point."
        assert (cls(1) == cls(1)) == bool(options["eq"]) and cls(1) != cls(2)
        assert cls(1) != 1 and repr(cls(1)).endswith("Point(x=1, y=2.5, names=[])")
        assert dataclasses.asdict(cls(1, note="n"))["note"] == "n"
        assert dataclasses.replace(cls(1), y=3.0) is not None
        assert copy.copy(cls(1, names=["a"])).names == ["a"]
        match cls(5, 6.0):
            case cls(x, y):
                assert (x, y) == (5, 6.0)
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
            cls()
    assert mine.__match_args__ == standard.__match_args__
    assert ("__slots__" in mine.__dict__) == ("__slots__" in standard.__dict__)
    assert list(inspect.signature(mine).parameters) == list(inspect.signature(standard).parameters)
    assert (mine.__hash__ is None) == (standard.__hash__ is None)
    names = [(f.name, f.type, f.default, f.init) for f in dataclasses.fields(mine)]
    assert names == [(f.name, f.type, f.default, f.init) for f in dataclasses.fields(standard)]
    if mine.__hash__ is not None and options["eq"]:
        assert hash(mine(1, note="a")) == hash(mine(1, note="b")) == hash(standard(1))


@pytest.mark.parametrize("options", [{}, {"slots": True}], ids=repr)
def test_fields_of_frozen_classes_cannot_be_changed(options: dict[str, Any]) -> None:
    one = point(dataclass, frozen=True, **options)(1)
    for change in (lambda: setattr(one, "x", 2), lambda: delattr(one, "x")):
        with pytest.raises(FrozenInstanceError, match="field 'x'"):
            change()
    assert one.x == 1


@dataclass(frozen=True, slots=True)
class Base:
    first: int


@dataclass(frozen=True, slots=True)
class Derived(Base):
    second: int = 2
    third: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "third", self.first + self.second)

    def __repr__(self) -> str:
        return "derived"


def test_derived_classes() -> None:
    assert [f.name for f in dataclasses.fields(Derived)] == ["first", "second", "third"]
    one = pickle.loads(pickle.dumps(Derived(1)))
    assert one == Derived(1, 2) and one.third == 3 and repr(one) == "derived"
    assert hash(one) == hash(Derived(1, 2)) and one != Derived(2) and Base(1) != one
    assert Derived.__slots__ == ("second", "third")
    later = pickle.loads(pickle.dumps(Base(4)))
    assert later == Base(4) and {Base(4)} == {later}


def test_other_options_are_the_standard_librarys() -> None:
    @dataclass(order=True)
    class Ordered:
        x: int

    assert Ordered(1) < Ordered(2)
