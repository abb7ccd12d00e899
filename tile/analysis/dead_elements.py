"""Elements of a loaded tile that nothing depends on, as stores leave out what is computed of them.

%a = load rows (%u + i2) % %m             // rows from %m - %u on
%c = dot %a, %b, %acc                     // are those rows of the dot alone
store %p, %c, (%u + i2 < %m) and ..       // which are not stored
"""

from __future__ import annotations

from collections.abc import Iterable

from tile.analysis.index_bounds import index_bounds
from tile.analysis.index_forms import IndexForms, NoFormError, Wrap, moved_axes
from tile.ir.core import Operation, Value
from tile.ir.effects import is_pure
from tile.ir.op_definition import Trait
from tile.ir.ops import control, memory
from tile.ir.types import Scalar, Tile


class _UsedError(Exception):
    """Raised for a use that may depend on the elements."""


def reason_for_use(forms: IndexForms, value: Value, wrap: Wrap) -> str | None:
    """Return what may use elements of a tile that a `Wrap` says nothing about; None if nothing."""
    worklist, seen = [(value, wrap.axis)], {(value, wrap.axis)}
    while worklist:
        tile, axis = worklist.pop()
        for user, index in tile.uses:
            try:
                dependent = list(_dependent(forms, user, index, axis, wrap))
            except (_UsedError, NoFormError) as error:
                return f"{user.name} uses them" + (f", as {error}" if str(error) else "")
            for each in dependent:
                if each not in seen:
                    seen.add(each)
                    worklist.append(each)
    return None


def _dependent(
    forms: IndexForms, user: Operation, index: int, axis: int, wrap: Wrap
) -> Iterable[tuple[Value, int]]:
    """Return the tiles, and their axes, whose elements depend on those of an operand.

    Raises `_UsedError` if others may depend on them as well.
    """
    target = moved_axes(user)
    if target is not None:
        return [(user.result, target(axis))]
    if user.has_trait(Trait.DOT):
        return [(user.result, _axis_of_dot(index, axis))]
    if user.defn.elementwise and is_pure(user) and not _may_fault(user):
        return [(result, axis) for result in user.results]
    if user.defn is control.for_ and index >= _BOUNDS:
        position = index - _BOUNDS
        return [(user.regions[0].args[1 + position], axis), (user.results[position], axis)]
    if user.defn is control.yield_:
        return [(value, axis) for value in _yielded(forms, user, index, wrap)]
    if user.defn in (memory.store, memory.atomic_rmw) and user["value"] is user.operands[index]:
        _check_store(forms, user, axis, wrap)
        return []
    raise _UsedError


def _may_fault(op: Operation) -> bool:
    """Return True for a division of integers, which is undefined for a divisor of 0."""
    ty = op.result.type
    element = ty.element if isinstance(ty, Tile) else ty
    return op.has_trait(Trait.DIVISION) and not (
        isinstance(element, Scalar) and element.is_floating()
    )


_BOUNDS = 3  # the first operands of a `for`: its bounds and step


def _axis_of_dot(index: int, axis: int) -> int:
    """Return the axis of a dot's result along which the elements of an operand lie."""
    if index == 2 or (index, axis) in ((0, -2), (1, -1)):
        return axis
    raise _UsedError("it sums over them")


def _yielded(forms: IndexForms, end: Operation, index: int, wrap: Wrap) -> list[Value]:
    """Return what an operation that ends a region passes a value to."""
    parent = end.parent
    assert parent is not None
    if parent.defn is control.if_:
        return [parent.results[index]]
    if parent.defn is not control.for_:
        raise _UsedError(f"`{parent.name}` passes them on")
    if any(
        forms.varies(parent, atom) for part in (wrap.start, wrap.limit) for atom in part.atoms()
    ):
        raise _UsedError("another iteration has them, too")
    return [parent.regions[0].args[1 + index], parent.results[index]]


def _check_store(forms: IndexForms, store: Operation, axis: int, wrap: Wrap) -> None:
    """Raise for a store, or an atomic operation, of the elements."""
    if store.results and store.result.uses:
        raise _UsedError("its results are used")
    upper = index_bounds(forms, store["mask"], store["value"].type.shape).upper
    if wrap.limit - wrap.start not in upper.get(axis, set()):
        raise _UsedError("its mask does not leave them out")
