"""Checks of every access: no wrong mask or address, and no address outside its array.

All kinds of faults of an access are looked for, and reported in this order: a mask or an address
that is wrong, which may be why the rest is; elements out of bounds; undefined values; races.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tile.backends.interp.checks.marked import Flag, Mark, Marked, flag_of
from tile.backends.interp.checks.spread import spread_in
from tile.backends.interp.memory import FaultError, Group, Memory
from tile.backends.interp.report import bounds_fault, described, place_of
from tile.backends.interp.strided import Strided
from tile.backends.interp.values import Array, RunValue, array_of
from tile.checks import Check
from tile.faults import Fault, Place
from tile.ir import numerics
from tile.ir.core import Operation
from tile.ir.ops.memory import pointee
from tile.ir.types import Pointer, Scalar

if TYPE_CHECKING:
    from tile.backends.interp.checks.launch import CheckedLaunch
    from tile.backends.interp.wave import Wave


class Site:
    """A memory operation: what its messages and its accesses need of it."""

    def __init__(self, op: Operation, verb: str) -> None:
        self.op = op
        self.verb = verb
        ptr = op.inputs[0].type
        self.element: Scalar | Pointer = pointee(op.name, ptr)
        self.shape = ptr.shape
        self.dtype = numerics.numpy_dtype(self.element)


@dataclass
class Reached:
    """An access inside arrays: as strided elements of one, or by address in some."""

    address: RunValue
    mask: Array | None
    strided: Strided | None
    groups: Sequence[Group]

    def load(self, memory: Memory, site: Site, other: Array | None) -> Array:
        """The elements; `other`, or zero, where the mask is false."""
        access = self.strided
        if access is None:
            addresses = array_of(self.address)
            values = memory.gathered(self.groups, addresses, self.mask, other, site.dtype)
        elif access.part is None:
            values = access.read()
        else:
            values = access.padded(access.read(), other, site.dtype, site.shape)
        return memory.virtual(values) if site.element.is_ptr() else values

    def store(self, memory: Memory, site: Site, value: Array) -> None:
        """Write the elements."""
        if site.element.is_ptr():
            value = memory.real(value)
        if self.strided is not None:
            memory.changed(self.strided.write(value, memory.watched))
            return
        programs = max(len(x) for x in (array_of(self.address), value, self.mask) if x is not None)
        memory.scattered(self.groups, value, (programs, *site.shape))


class Lanes:
    """The elements of an access that are `possible`, and those of them that are `sound`.

    Elements under an undefined mask may be accessed, and those that are marked would be where their
    addresses are: all of them are held to bounds and to other programs' accesses, so that a fault
    of one kind hides none of another. What is accessed are the sound ones, that have no fault.
    None stands for all elements.
    """

    def __init__(self, mask: Array | None) -> None:
        self.possible = mask
        self.sound = mask
        self.reported: dict[Mark, Array] = {}

    def wrong(self, mark: Mark, flag: Flag | None) -> Array | None:
        """Return possible elements with a mark that were not reported for it; None for none."""
        if flag is None or flag.spared_by(self.possible):
            return None
        known = self.reported.get(mark)
        where = flag.where if self.possible is None else flag.where & self.possible
        if known is not None:
            where = where & ~known
        if not where.any():
            return None
        self.reported[mark] = where if known is None else where | known
        self.sound = _without(self.sound, where)
        return where


def _without(mask: Array | None, wrong: Array) -> Array:
    return ~wrong if mask is None else mask & ~wrong


def admit(wave: Wave, site: Site, address: Any, mask: Any) -> tuple[RunValue, Lanes]:
    """The address of an access without marks, and its elements; marks are reported."""
    lanes = Lanes(None if mask is None else array_of(mask))
    launch = launch_of(wave)
    if type(mask) is Marked:
        undecided = flag_of(mask, Mark.UNDEFINED)
        if undecided is not None:
            lanes.possible = undecided.where | lanes.possible
        for mark, masked in _MASKED.items():
            # Whatever the mask says of such an element, it is not what was meant.
            flag = flag_of(mask, mark)
            if flag is not None and flag.where.any():
                lanes.reported[mark] = flag.where
                lanes.sound = _without(lanes.sound, flag.where)
                launch.found_in(wave, flag.where, partial(masked, wave, site, flag, address))
    if type(address) is not Marked:
        return address, lanes
    for mark, report in _REPORTS.items():
        flag = flag_of(address, mark)
        wrong = lanes.wrong(mark, flag)
        if wrong is not None:
            assert flag is not None
            launch.found_in(wave, wrong, partial(report, wave, site, flag, address.value))
            if mark is Mark.STRAYED:  # it is out of bounds, and reported as that
                lanes.possible = _without(lanes.possible, wrong)
    return address.value, lanes


def spared(
    wave: Wave, flag: Flag | None, mask: Array | None, report: Callable[[Array], Fault]
) -> None:
    """Report flagged elements that are active."""
    if flag is None or flag.spared_by(mask):
        return
    wrong = flag.where if mask is None else flag.where & mask
    if wrong.any():
        launch_of(wave).found_in(wave, wrong, report)


def reach(
    wave: Wave, site: Site, address: RunValue, mask: Array | None, value: Array | None = None
) -> Reached:
    """Where an access goes. With the `value` of a store, elements are strided if all are apart.

    Those outside are reported, and left out.
    """
    memory = wave.launch.memory
    while True:
        try:
            access = memory.strided(address, mask, site.dtype, site.shape)
            if access is not None and (value is None or access.distinct(value)):
                return Reached(address, mask, access, ())
            groups = memory.groups(array_of(address), mask, site.dtype, site.shape)
            return Reached(address, mask, None, groups)
        except FaultError:
            addresses = array_of(address)
            whole = np.broadcast_to(addresses, (len(addresses), *site.shape))
            inside = memory.valid(whole, site.dtype.itemsize)
            wrong = ~inside if mask is None else mask & ~inside
            launch_of(wave).found_in(wave, wrong, partial(_outside, wave, site, whole, mask))
            mask = inside if mask is None else inside & mask


def sound_part(
    wave: Wave, site: Site, lanes: Lanes, reached: Reached, value: Array | None = None
) -> Reached:
    """The part of an access that has no fault, of its possible elements inside arrays."""
    if lanes.sound is lanes.possible:
        return reached
    sound = lanes.sound
    if reached.mask is not None:
        sound = reached.mask if sound is None else sound & reached.mask
    return reach(wave, site, reached.address, sound, value)


def launch_of(wave: Wave) -> CheckedLaunch:
    """The run with checks that a wave is of."""
    return cast("CheckedLaunch", wave.launch)


# -- reports


@dataclass(frozen=True)
class Seen:
    """The first of some `wrong` elements: whose it is, and which one."""

    row: int
    element: tuple[int, ...]
    place: tuple[int, ...]
    wrong: Array


def first(wave: Wave, wrong: Array) -> Seen:
    """The first of the wrong elements; an axis of extent 1 stands for its first index."""
    place = tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
    row = int(wave.rows[place[0]])
    return Seen(row, place[1:], place, wrong)


def fault_at(
    wave: Wave,
    check: Check,
    op: Operation,
    message: str,
    seen: Seen,
    notes: Sequence[str] = (),
    address: RunValue | None = None,
    **known: Any,
) -> Fault:
    """A fault of an operation, seen first in one element; `address` is where it points to."""
    launch = wave.launch
    addresses = None if address is None else array_of(address)
    spread = spread_in(wave, op.inputs[0].type.shape, seen.wrong, addresses)
    return Fault(
        check,
        f"`{launch.name}` {message}",
        kernel=launch.name,
        grid=launch.grid,
        program=launch.coordinates(seen.row),
        loc=op.loc,
        element=seen.element,
        count=spread.count,
        notes=(*notes, launch.element(seen.element, seen.row)),
        spread=spread,
        **known,
    )


def undefined(
    wave: Wave,
    op: Operation,
    flag: Flag,
    message: str,
    wrong: Array,
    address: RunValue | None = None,
) -> Fault:
    """An undefined value that reached what it must not; on its way to an address, if it has one."""
    message = f"{message} that is undefined"
    seen = first(wave, wrong)
    place = None if address is None else place_at(wave, address, wrong, seen)
    if place is not None:
        message = f"{message}, to {place}"
    notes = [f"it is undefined since {flag.cause.text}, {spelt(flag.cause.loc)}"]
    return fault_at(
        wave,
        Check.UNDEF,
        op,
        message,
        seen,
        notes,
        address,
        place=place,
        cause=flag.cause.loc,
    )


def place_at(wave: Wave, address: RunValue, wrong: Array, seen: Seen) -> Place | None:
    """Where an address of a wrong element points."""
    array = array_of(address)
    extents = np.broadcast_shapes(array.shape, wrong.shape)
    at = tuple(i if n > 1 else 0 for i, n in zip(seen.place, extents, strict=True))
    number = int(np.broadcast_to(array, extents)[at])
    buffer = wave.launch.memory.buffer_at(number)
    return None if buffer is None else place_of(buffer, number)


def wrapped(
    wave: Wave,
    op: Operation,
    flag: Flag,
    message: str,
    wrong: Array,
    address: RunValue | None = None,
    place: Place | None = None,
) -> Fault:
    """A value that wrapped and decides where memory is accessed."""
    cause = flag.cause
    return fault_at(
        wave,
        Check.OVERFLOW,
        op,
        f"{message} made of signed arithmetic that wrapped",
        first(wave, wrong),
        [f"{cause.text}: it wrapped, {spelt(cause.loc)}", cause.advice],
        address,
        cause=cause.loc,
        place=place,
    )


def spelt(loc: Any) -> str:
    """A place in a note."""
    return "at an unknown place" if loc is None else f"at {loc}"


Report = Callable[["Wave", Site, Flag, RunValue, Array], Fault]


def _undefined(what: str) -> Report:
    def report(wave: Wave, site: Site, flag: Flag, address: RunValue, wrong: Array) -> Fault:
        return undefined(wave, site.op, flag, f"{site.verb} memory {what}", wrong)

    return report


def _wrapped(what: str) -> Report:
    def report(wave: Wave, site: Site, flag: Flag, address: RunValue, wrong: Array) -> Fault:
        place = place_at(wave, address, wrong, first(wave, wrong))
        message = f"{site.verb} memory {what}"
        return wrapped(wave, site.op, flag, message, wrong, address, place)

    return report


def _outside(wave: Wave, site: Site, addresses: Array, mask: Array | None, wrong: Array) -> Fault:
    row, *lane = (int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
    whole = np.broadcast_to(addresses, (len(wave), *site.shape))
    active = np.ones((), np.bool_) if mask is None else mask
    count = np.broadcast_to(active, whole.shape)[row].sum()
    fault = FaultError(
        row, tuple(lane), int(whole[(row, *lane)]), int(wrong[row].sum()), int(count)
    )
    found = bounds_fault(wave, site.verb, fault, site.dtype.itemsize)
    spread = spread_in(wave, site.shape, wrong, whole)
    return replace(found, count=spread.count, spread=spread)


def _strayed(wave: Wave, site: Site, flag: Flag, address: RunValue, wrong: Array) -> Fault:
    seen = first(wave, wrong)
    at = int(np.broadcast_to(array_of(address), wrong.shape)[seen.place])
    buffer = wave.launch.memory.buffer_at(at)
    into = "no array of this launch" if buffer is None else f"`{buffer.name}`"
    message = f"{site.verb} {into} through a pointer {flag.cause.text}"
    notes = [] if buffer is None else [described(buffer)]
    place = None if buffer is None else place_of(buffer, at)
    known = {"place": place, "cause": flag.cause.loc}
    return fault_at(wave, Check.BOUNDS, site.op, message, seen, notes, address, **known)


_REPORTS: dict[Mark, Report] = {
    Mark.UNDEFINED: _undefined("at an address"),
    Mark.WRAPPED: _wrapped("at an address"),
    Mark.STRAYED: _strayed,
}
_MASKED: dict[Mark, Report] = {
    Mark.UNDEFINED: _undefined("under a mask"),
    Mark.WRAPPED: _wrapped("under a mask"),
}
