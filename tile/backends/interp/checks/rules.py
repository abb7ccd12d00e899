"""Rules of operations with effects in runs with checks.

Each rule returns what an instruction runs, given the operation and what it runs without checks.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tile.backends.interp.checks.access import (
    Lanes,
    ResolvedAccess,
    Site,
    check_operands,
    launch_of,
    report_active_poison,
    resolve_access,
    undefined_fault,
    valid_part,
)
from tile.backends.interp.checks.assumptions import check_assume
from tile.backends.interp.checks.marked import (
    Cause,
    Mark,
    Poisoned,
    PoisonMask,
    bare,
    flag_of,
    with_poison,
)
from tile.backends.interp.checks.uninitialised import note_written, unwritten_lanes
from tile.backends.interp.rules import applied, update_groups
from tile.backends.interp.values import Array, Held, RunValue, array_of, broadcast_rows
from tile.checks import Check, Checks
from tile.ir.core import Operation
from tile.ir.opdef import OpDef
from tile.ir.ops import debug, memory

if TYPE_CHECKING:
    from tile.backends.interp.wave import Wave

Run = Callable[..., Any]
Rule = Callable[[Operation, Run, Checks], Run]
CHECKED: dict[OpDef, Rule] = {}


def rule(*defns: OpDef) -> Callable[[Rule], Rule]:
    """Declare the rule of an operation."""

    def declare(make: Rule) -> Rule:
        for defn in defns:
            CHECKED[defn] = make
        return make

    return declare


@rule(memory.load)
def load(op: Operation, plain: Run, checks: Checks) -> Run:
    """Check a load and record it in shadow memory; poison undefined elements."""
    site = Site(op, "reads")
    masked_cause = Cause(op.loc, "the load's mask is false there and it has no `other`")
    unwritten_cause = Cause(op.loc, "that element of an uninitialized array was never written")
    undef = Check.UNDEF in checks

    def run(batch: Wave, address: Any, mask: Any, other: Any) -> Held:
        launch = launch_of(batch)
        active = None if mask is None else array_of(mask)
        address, lanes = check_operands(batch, site, address, mask)
        fill = None if other is None else array_of(other)
        resolved = resolve_access(batch, site, address, lanes.possible)
        accessed = valid_part(batch, site, lanes, resolved)
        value = accessed.load(launch.memory, site, fill)
        if launch.shadow is not None:
            launch.shadow.load(batch, site, resolved)
        masks = poison_of_other(other, active)
        # Elements dropped for a fault are 0 and not poisoned, so that no fault is reported twice.
        if undef and other is None and active is not None and not active.all():
            masks[Mark.UNDEFINED] = PoisonMask(None, masked_cause, active)
        if launch.uninitialized:
            elements = unwritten_lanes(launch, site, accessed)
            if elements is not None:
                unwritten_mask = PoisonMask(elements, unwritten_cause)
                existing = masks.get(Mark.UNDEFINED)
                masks[Mark.UNDEFINED] = (
                    unwritten_mask if existing is None else unwritten_mask.union(existing)
                )
        return with_poison(value, masks)

    return run


def poison_of_other(other: Any, active: Array | None) -> dict[Mark, PoisonMask]:
    """Return the poison that a load takes over from its `other`, where its mask is false."""
    if type(other) is not Poisoned:
        return {}
    return {
        kind: PoisonMask(poison.where if active is None else poison.where & ~active, poison.cause)
        for kind, poison in other.masks.items()
    }


@rule(memory.store)
def store(op: Operation, plain: Run, checks: Checks) -> Run:
    """Check a store and record it in shadow memory; undefined values must not be stored."""
    site = Site(op, "writes")

    def run(batch: Wave, address: Any, value: Any, mask: Any) -> None:
        launch = launch_of(batch)
        stored = array_of(value)
        address, lanes = check_operands(batch, site, address, mask)
        resolved = resolve_access(batch, site, address, lanes.possible, stored)
        check_operand(batch, site, address, value, lanes, "writes a value")
        accessed = valid_part(batch, site, lanes, resolved, stored)
        written = accessed is resolved and not launch.raising
        if not launch.raising:
            accessed.store(launch.memory, site, stored)
        if launch.shadow is not None:
            launch.shadow.store(batch, site, resolved, stored, written)
        if launch.uninitialized:
            note_written(launch, site, accessed)

    return run


def check_operand(
    batch: Wave, site: Site, address: RunValue, value: Any, lanes: Lanes, message: str
) -> None:
    """Report possible elements of an access at which an operand is undefined."""
    poison = flag_of(value, Mark.UNDEFINED)
    wrong = lanes.wrong(Mark.UNDEFINED, poison)
    if wrong is not None:
        assert poison is not None
        report = partial(undefined_fault, batch, site.op, poison, message, address=address)
        launch_of(batch).report_faults(batch, wrong, report)


@rule(memory.atomic_rmw, memory.atomic_cas)
def atomic(op: Operation, plain: Run, checks: Checks) -> Run:
    """Check an atomic and record it in shadow memory and in the happens-before relation."""
    site = Site(op, "updates")
    is_swap = op.defn is memory.atomic_cas
    apply = applied(op)
    used = bool(op.result.uses)
    program_scope = op["scope"] is memory.Scope.PROGRAM
    acquires = used and op["order"].acquires and not program_scope
    releases = op["order"].releases and not program_scope
    masked_cause = Cause(op.loc, "the atomic operation's mask is false there")
    unwritten_cause = Cause(op.loc, "that element of an uninitialized array was never written")

    def run(batch: Wave, address: Any, *operands: Any) -> Held:
        *inputs, mask = operands
        launch = launch_of(batch)
        address, lanes = check_operands(batch, site, address, mask)
        count = len(batch)
        addresses = broadcast_rows(address, site.shape, count)
        resolved = resolve_access(batch, site, addresses, full_mask(lanes.possible, addresses))
        for value in inputs:
            check_operand(batch, site, address, value, lanes, "updates memory by a value")
        accessed = valid_part(batch, site, lanes, resolved)
        if launch.uninitialized:
            _refuse_unwritten(batch, site, accessed, unwritten_cause)
        values = [broadcast_rows(value, site.shape, count) for value in inputs]
        result = update_groups(
            launch.memory, accessed.groups, apply, addresses.shape, site.dtype, values
        )
        if launch.shadow is not None:
            launch.shadow.update(batch, site, resolved, not program_scope)
        if launch.order is not None and (acquires or releases):
            _synchronize(batch, accessed, result, addresses, values if is_swap else None)
        if used and Check.UNDEF in checks and mask is not None:
            return with_poison(
                result, {Mark.UNDEFINED: PoisonMask(None, masked_cause, array_of(mask))}
            )
        return result

    def _synchronize(
        batch: Wave,
        resolved: ResolvedAccess,
        result: Array,
        addresses: Array,
        values: list[Array] | None,
    ) -> None:
        active = np.ones((), np.bool_) if resolved.mask is None else resolved.mask
        chosen = np.broadcast_to(active, addresses.shape)
        programs = batch.rows.reshape(-1, *(1,) * len(site.shape))
        writes = np.full(addresses.shape, releases)
        if values is not None:  # a failed compare-and-swap writes nothing
            bits = f"u{result.itemsize}"
            expected = np.ascontiguousarray(values[0])
            writes &= result.view(bits) == expected.view(bits)
        order = launch_of(batch).order
        assert order is not None
        order.synchronize(
            np.broadcast_to(programs, addresses.shape)[chosen],
            addresses[chosen],
            acquires,
            writes[chosen],
        )

    return run


def full_mask(mask: Array | None, addresses: Array) -> Array | None:
    """Broadcast a mask to the shape of the addresses."""
    return None if mask is None else np.broadcast_to(mask, addresses.shape)


def _refuse_unwritten(
    batch: Wave, site: Site, resolved: ResolvedAccess, unwritten_cause: Cause
) -> None:
    launch = launch_of(batch)
    elements = unwritten_lanes(launch, site, resolved)
    if elements is not None:
        poison = PoisonMask(_first_at_each(array_of(resolved.address), elements), unwritten_cause)
        report = partial(undefined_fault, batch, site.op, poison, "updates memory")
        report_active_poison(batch, poison, resolved.mask, report)
    note_written(launch, site, resolved)


def _first_at_each(addresses: Array, lanes: Array) -> Array:
    """Return the first lane at each address; later ones read what it has written."""
    extents = np.broadcast_shapes(addresses.shape, lanes.shape)
    positions = np.flatnonzero(np.broadcast_to(lanes, extents))
    _, firsts = np.unique(np.broadcast_to(addresses, extents).ravel()[positions], return_index=True)
    result = np.zeros(extents, np.bool_)
    result.flat[positions[firsts]] = True
    return result


@rule(debug.assume)
def assume(op: Operation, plain: Run, checks: Checks) -> Run:
    """Check the assumed condition."""
    if Check.ASSUME not in checks:
        return lambda batch, condition: plain(batch, bare(condition))
    return lambda batch, condition: check_assume(batch, op, condition)


@rule(debug.device_assert)
def device_assert(op: Operation, plain: Run, checks: Checks) -> Run:
    """Check an assertion like a branch: its condition must not be undefined."""

    def run(batch: Wave, condition: Any, mask: Any) -> None:
        for value in (mask, condition):
            poison = flag_of(value, Mark.UNDEFINED)
            if poison is None:
                continue
            guard = None if mask is None or value is mask else array_of(mask)
            report = partial(undefined_fault, batch, op, poison, "asserts a condition")
            report_active_poison(batch, poison, guard, report)
        plain(batch, bare(condition), None if mask is None else bare(mask))

    return run


@rule(debug.device_print)
def device_print(op: Operation, plain: Run, checks: Checks) -> Run:
    """Print plain values; poison is not reported."""
    return lambda batch, *values: plain(batch, *map(bare, values))


def without_poison(plain: Run) -> Run:
    """Return what an operation runs that uses only the plain values of its operands."""

    def run(batch: Wave, *values: Any) -> Any:
        return plain(batch, *(None if value is None else bare(value) for value in values))

    return run
