"""Check every access: no poisoned mask or address, and no address out of bounds.

All kinds of faults of an access are detected, and reported in this order: a poisoned mask or
address, which may cause the others; elements out of bounds; undefined values; races. A fault has an
extent: the elements, programs and array cells that it covers (`tile/heatmap.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tile.backends.interp.fault_report import (
    bounds_fault,
    described,
    first_true,
    place_of,
    report_faults,
    verb_of,
    view_of,
)
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.resolved_access import Buffer, Elements, ResolvedAccess
from tile.backends.interp.sanitizer.poison import Poisoned, PoisonKind, PoisonMask, poison_of
from tile.backends.interp.tuning import TUNING
from tile.backends.interp.values import Array, RunValue, array_of, optional_array
from tile.backends.interp.virtual_memory import FaultError
from tile.checks import Check
from tile.faults import Fault, FaultAddress
from tile.heatmap import MARGIN, ArrayHeatmap, FaultExtent, fault_extent
from tile.ir.core import Operation
from tile.ir.ops.memory import pointee


def spread_in(
    batch: ProgramBatch, shape: tuple[int, ...], wrong: Array, addresses: Array | None = None
) -> FaultExtent:
    """Return the extent of the wrong elements of an operation on a tile, and of their addresses.

    An axis of extent 1 stands for all elements along it.
    """
    if wrong.ndim == 1 + len(shape):
        wrong = np.broadcast_to(wrong, (len(wrong), *shape))
    array_heatmaps: tuple[ArrayHeatmap, ...] = ()
    if addresses is not None:
        extents = np.broadcast_shapes(wrong.shape, addresses.shape)
        wrong = np.broadcast_to(wrong, extents)
        array_heatmaps = tuple(landed(batch, np.broadcast_to(addresses, extents)[wrong]))
    launch = batch.launch
    return fault_extent(wrong, launch.programs_of(batch.rows), launch.grid, array_heatmaps)


def landed(batch: ProgramBatch, addresses: Array) -> Iterator[ArrayHeatmap]:
    """Yield, for each array that addresses point to, the cells that they fall into."""
    for buffer, own in batch.launch.memory.by_buffer(addresses):
        landing = ArrayHeatmap(view_of(buffer), inside_of(buffer))
        landing.add(buffer.element(addresses[own]))
        yield landing


def inside_of(buffer: Buffer) -> Array:
    """Return, for each cell of an array's grid, the share of its elements that are in the view.

    In cells of very many elements the share is estimated from a random sample.
    """
    view = view_of(buffer)
    raster = view.raster(MARGIN)
    if buffer.gaps is None:
        return raster.covered(0, view.high - view.low).astype(np.float64)
    points = raster.sample_points(TUNING.sampled_elements)
    points = points[(points >= 0) & (points < view.high - view.low)]
    cells = raster.cell(points)
    size = raster.cells[0] * raster.cells[1]
    itemsize = buffer.array.itemsize
    weights = buffer.gaps.contain(points * itemsize, itemsize)
    held = np.bincount(cells, weights=weights, minlength=size)
    share = held / np.maximum(1, np.bincount(cells, minlength=size))
    return share.reshape(raster.cells)


class Site(Elements):
    """A memory operation: its verb in messages, and the elements that it accesses."""

    def __init__(self, op: Operation) -> None:
        ptr = op.inputs[0].type
        super().__init__(pointee(op.name, ptr), ptr.shape)
        self.op = op
        self.verb = verb_of(op)


class Lanes:
    """The elements of an access that are `possible`, and those of them that are `valid`.

    Possible elements are those whose mask is true or undefined, also with a poisoned address. All
    are checked for bounds and races, so that no kind of fault hides another. Only valid ones,
    which have no fault, are accessed. None stands for all elements.
    """

    def __init__(self, mask: Array | None) -> None:
        self.possible = mask
        self.valid = mask
        self.reported: dict[PoisonKind, Array] = {}

    def wrong(self, kind: PoisonKind, poison: PoisonMask | None) -> Array | None:
        """Return possible elements with this poison that are not reported yet; None if none are."""
        if poison is None or poison.excluded_by(self.possible):
            return None
        reported = self.reported.get(kind)
        where = poison.where if self.possible is None else poison.where & self.possible
        if reported is not None:
            where = where & ~reported
        if not where.any():
            return None
        self.reported[kind] = where if reported is None else where | reported
        self.valid = _and_not(self.valid, where)
        return where


def _and_not(mask: Array | None, wrong: Array) -> Array:
    return ~wrong if mask is None else mask & ~wrong


def check_operands(
    batch: ProgramBatch, site: Site, address: Any, mask: Any
) -> tuple[RunValue, Lanes]:
    """Report poison of an access's mask and address; return the plain address and the elements."""
    lanes = Lanes(optional_array(mask))
    if type(mask) is Poisoned:
        undefined_mask = poison_of(mask, PoisonKind.UNDEFINED)
        if undefined_mask is not None:
            lanes.possible = undefined_mask.where | lanes.possible
        for kind in (PoisonKind.UNDEFINED, PoisonKind.WRAPPED):
            # Whether the mask is true or false for such an element, it is not what was meant.
            poison = poison_of(mask, kind)
            if poison is not None and poison.where.any():
                lanes.reported[kind] = poison.where
                lanes.valid = _and_not(lanes.valid, poison.where)
                message = f"{site.verb} memory under a mask"
                place = None if kind is PoisonKind.UNDEFINED else address
                report_poison(batch, site.op, poison, message, poison.where, place, kind)
    if type(address) is not Poisoned:
        return address, lanes
    for kind in PoisonKind:
        poison = poison_of(address, kind)
        wrong = lanes.wrong(kind, poison)
        if wrong is None:
            continue
        assert poison is not None
        if kind is PoisonKind.STRAYED:  # it is out of bounds, and reported as that
            report = partial(_strayed_fault, batch, site, poison, address.value)
            lanes.possible = _and_not(lanes.possible, wrong)
            report_faults(batch, wrong, report)
        else:
            message = f"{site.verb} memory at an address"
            place = None if kind is PoisonKind.UNDEFINED else address.value
            report_poison(batch, site.op, poison, message, wrong, place, kind)
    return address.value, lanes


def resolve_access(
    batch: ProgramBatch,
    site: Site,
    address: RunValue,
    mask: Array | None,
    value: Array | None = None,
) -> ResolvedAccess:
    """Resolve the addresses of an access to elements of arrays.

    Elements out of bounds are reported and dropped.
    value: that of a store, whose elements are strided only if their addresses are distinct.
    """
    memory = batch.launch.memory
    while True:
        try:
            return memory.resolve(address, mask, site, value)
        except FaultError:
            addresses = array_of(address)
            whole = np.broadcast_to(addresses, (len(addresses), *site.shape))
            inside = memory.valid(whole, site.dtype.itemsize)
            wrong = ~inside if mask is None else mask & ~inside
            report_faults(batch, wrong, partial(_bounds_fault, batch, site, whole, mask))
            mask = inside if mask is None else inside & mask


def valid_part(
    batch: ProgramBatch,
    site: Site,
    lanes: Lanes,
    resolved: ResolvedAccess,
    value: Array | None = None,
) -> ResolvedAccess:
    """Return the part of a resolved access that has no fault."""
    if lanes.valid is lanes.possible:
        return resolved
    valid = lanes.valid
    if resolved.mask is not None:
        valid = resolved.mask if valid is None else valid & resolved.mask
    return resolve_access(batch, site, resolved.address, valid, value)


# -- reports


class WrongElements:
    """Wrong elements of an operation; the first is described: its program, and its tile index.

    An axis of extent 1 stands for its first index.
    """

    def __init__(self, batch: ProgramBatch, op: Operation, wrong: Array) -> None:
        self.batch = batch
        self.op = op
        self.wrong = wrong
        self.index = first_true(wrong)
        self.element = self.index[1:]

    def fault(
        self,
        check: Check,
        message: str,
        notes: Sequence[str] = (),
        address: RunValue | None = None,
        **details: Any,
    ) -> Fault:
        """Return the fault of these elements, at which the operation accesses `address`."""
        launch, row = self.batch.launch, int(self.batch.rows[self.index[0]])
        addresses = optional_array(address)
        spread = spread_in(self.batch, self.op.inputs[0].type.shape, self.wrong, addresses)
        return Fault(
            check,
            f"`{launch.name}` {message}",
            kernel=launch.name,
            grid=launch.grid,
            program=launch.coordinates(row),
            loc=self.op.loc,
            element=self.element,
            count=spread.count,
            notes=(*notes, launch.element(self.element, row)),
            extent=spread,
            **details,
        )

    def place(self, address: RunValue) -> FaultAddress | None:
        """Return the array element that the address of the first points to; None outside arrays."""
        array = array_of(address)
        extents = np.broadcast_shapes(array.shape, self.wrong.shape)
        at = tuple(i if n > 1 else 0 for i, n in zip(self.index, extents, strict=True))
        number = int(np.broadcast_to(array, extents)[at])
        buffer = self.batch.launch.memory.buffer_at(number)
        return None if buffer is None else place_of(buffer, number)


def report_poison(
    batch: ProgramBatch,
    op: Operation,
    poison: PoisonMask,
    message: str,
    wrong: Array,
    address: RunValue | None = None,
    kind: PoisonKind = PoisonKind.UNDEFINED,
) -> None:
    """Report the use of wrong elements, which are undefined or wrapped.

    address: what the operation accesses, if that belongs to the fault.
    """
    cause = poison.cause
    where = location_text(cause.loc)

    def fault(wrong: Array) -> Fault:
        elements = WrongElements(batch, op, wrong)
        place = None if address is None else elements.place(address)
        if kind is PoisonKind.UNDEFINED:
            check = Check.UNDEF
            text = f"{message} that is undefined" + ("" if place is None else f", to {place}")
            notes = [f"it is undefined since {cause.text}, {where}"]
        else:
            check, text = Check.OVERFLOW, f"{message} made of signed arithmetic that wrapped"
            notes = [f"{cause.text}: it wrapped, {where}", cause.advice]
        return elements.fault(check, text, notes, address, place=place, cause=cause.loc)

    report_faults(batch, wrong, fault)


def location_text(loc: Any) -> str:
    """Return a source location as text for a note."""
    return "at an unknown location" if loc is None else f"at {loc}"


def _bounds_fault(
    batch: ProgramBatch, site: Site, addresses: Array, mask: Array | None, wrong: Array
) -> Fault:
    row, *lane = first_true(wrong)
    whole = np.broadcast_to(addresses, (len(batch), *site.shape))
    active = np.ones((), np.bool_) if mask is None else mask
    count = np.broadcast_to(active, whole.shape)[row].sum()
    first, total = int(whole[(row, *lane)]), int(wrong[row].sum())
    fault = FaultError(row, tuple(lane), first, total, int(count), site.dtype.itemsize)
    bounds = bounds_fault(batch, fault)
    spread = spread_in(batch, site.shape, wrong, whole)
    return replace(bounds, count=spread.count, extent=spread)


def _strayed_fault(
    batch: ProgramBatch, site: Site, poison: PoisonMask, address: RunValue, wrong: Array
) -> Fault:
    elements = WrongElements(batch, site.op, wrong)
    at = int(np.broadcast_to(array_of(address), wrong.shape)[elements.index])
    buffer = batch.launch.memory.buffer_at(at)
    into = "no array of this launch" if buffer is None else f"`{buffer.name}`"
    message = f"{site.verb} {into} through a pointer {poison.cause.text}"
    notes = [] if buffer is None else [described(buffer)]
    place = None if buffer is None else place_of(buffer, at)
    return elements.fault(
        Check.BOUNDS, message, notes, address, place=place, cause=poison.cause.loc
    )
