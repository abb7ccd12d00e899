"""Guards of arguments: the conditions under which calls have the key of an entry.

They are narrower than the key that `fast_path_source` makes of an argument, and cover what most
calls differ in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tile.backends.capabilities import ArgumentGuard, FieldGuard
from tile.backends.tensor_handles import tensor_kind
from tile.runtime.signature import DIVISOR
from tile.runtime.specialize import Rule, divisor_of

GuardOf = Callable[[str, Any], ArgumentGuard | None]

_EXTENTS = ("shape", "strides", "block_shape")  # of a descriptor
_LEAST, _MOST = -0x8000_0000, 0x7FFF_FFFF


def constant_guard(name: str, value: Any) -> ArgumentGuard:
    """Return the guard of a constant."""
    return ArgumentGuard("constant", name, type(value), value)


def passed_guard(name: str, value: Any) -> ArgumentGuard:
    """Return the guard of a number of which the key has the type alone."""
    return ArgumentGuard("passed", name, type(value))


def exact_guard(name: str, value: Any) -> ArgumentGuard | None:
    """Return the guard of a number of which the key has the value; None for one wider than 32 bits.

    Floats and booleans have none.
    """
    if type(value) is not int or not _LEAST <= value <= _MOST:
        return None
    return ArgumentGuard("number", name, int, None, value, value)


def tensor_guard(name: str, value: Any) -> ArgumentGuard | None:
    """Return the guard of a tensor of torch; None at an address that is not aligned."""
    if value.data_ptr() % DIVISOR:
        return None
    facts = value.dtype, value.get_device()
    return ArgumentGuard("tensor", name, type(value), *facts, tensor_kind=tensor_kind(value))


def descriptor_guard(name: str, value: Any) -> ArgumentGuard | None:
    """Return the guard of a descriptor; `field_guards` returns those of its fields."""
    if any(type(getattr(value, field)) not in (list, tuple) for field in _EXTENTS):
        return None
    guard = tensor_guard(name, value.base)
    if guard is None:
        return None
    return guard._replace(kind="descriptor", type=type(value), base=type(value.base))


def field_guards(argument: int, value: Any) -> tuple[FieldGuard, ...]:
    """Return the guards of the fields of a descriptor that its key has."""
    fields = {name: getattr(value, name) for name in _EXTENTS}
    copies = {name: type(field)(field) for name, field in fields.items()}  # a list may change
    copies["padding"] = value.padding
    own = [FieldGuard(argument, False, name, field) for name, field in copies.items()]
    base = value.base
    shape = FieldGuard(argument, True, "shape", base.shape)
    return *own, shape, FieldGuard(argument, True, "stride", base.stride(), is_method=True)


def integer_guard(rule: Rule, name: str, value: int) -> ArgumentGuard | None:
    """Return the guard of an integer of 32 bits; None for a wider one."""
    if not _LEAST <= value <= _MOST:
        return None
    if rule.ones and value == 1:
        return ArgumentGuard("number", name, int, None, 1, 1)
    divisor = divisor_of(value % DIVISOR)
    equal = sum(1 << residue for residue in range(DIVISOR) if divisor_of(residue) == divisor)
    residues = equal if rule.alignment else (1 << DIVISOR) - 1
    return ArgumentGuard("number", name, int, None, _LEAST, _MOST, 1 if rule.ones else -1, residues)
