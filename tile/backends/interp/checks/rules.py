"""What operations with effects do in a run with checks.

Each rule makes, from an operation and what its instruction runs without checks, what it runs here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tile.backends.interp.checks.access import (
    Lanes,
    Reached,
    Site,
    admit,
    launch_of,
    reach,
    sound_part,
    spared,
    undefined,
)
from tile.backends.interp.checks.assumptions import check_assume
from tile.backends.interp.checks.marked import Cause, Flag, Mark, Marked, bare, flag_of, marked
from tile.backends.interp.checks.uninitialised import note_written, unwritten
from tile.backends.interp.rules import applied, update_groups
from tile.backends.interp.values import Array, Held, RunValue, array_of, spread
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
    """Look who reads what, and mark what nobody defined."""
    site = Site(op, "reads")
    masked = Cause(op.loc, "the load's mask is false there and it has no `other`")
    never = Cause(op.loc, "nobody wrote that element of an uninitialised array")
    undef = Check.UNDEF in checks

    def run(wave: Wave, address: Any, mask: Any, other: Any) -> Held:
        launch = launch_of(wave)
        active = None if mask is None else array_of(mask)
        address, lanes = admit(wave, site, address, mask)
        fill = None if other is None else array_of(other)
        reached = reach(wave, site, address, lanes.possible)
        accessed = sound_part(wave, site, lanes, reached)
        value = accessed.load(launch.memory, site, fill)
        if launch.shadow is not None:
            launch.shadow.load(wave, site, reached)
        flags = filled(other, active)
        # What was left out for a fault counts as zero, so that one fault is not reported as two.
        if undef and other is None and active is not None and not active.all():
            flags[Mark.UNDEFINED] = Flag(None, masked, active)
        if launch.uninitialised:
            empty = unwritten(launch, site, accessed)
            if empty is not None:
                fresh = Flag(empty, never)
                known = flags.get(Mark.UNDEFINED)
                flags[Mark.UNDEFINED] = fresh if known is None else fresh.union(known)
        return marked(value, flags)

    return run


def filled(other: Any, active: Array | None) -> dict[Mark, Flag]:
    """The flags that a load takes over from its `other`, where its mask is false."""
    if type(other) is not Marked:
        return {}
    return {
        mark: Flag(flag.where if active is None else flag.where & ~active, flag.cause)
        for mark, flag in other.flags.items()
    }


@rule(memory.store)
def store(op: Operation, plain: Run, checks: Checks) -> Run:
    """Look who writes what; what is undefined does not go to memory."""
    site = Site(op, "writes")

    def run(wave: Wave, address: Any, value: Any, mask: Any) -> None:
        launch = launch_of(wave)
        stored = array_of(value)
        address, lanes = admit(wave, site, address, mask)
        reached = reach(wave, site, address, lanes.possible, stored)
        operand(wave, site, address, value, lanes, "writes a value")
        accessed = sound_part(wave, site, lanes, reached, stored)
        written = accessed is reached and not launch.raising
        if not launch.raising:
            accessed.store(launch.memory, site, stored)
        if launch.shadow is not None:
            launch.shadow.store(wave, site, reached, stored, written)
        if launch.uninitialised:
            note_written(launch, site, accessed)

    return run


def operand(
    wave: Wave, site: Site, address: RunValue, value: Any, lanes: Lanes, message: str
) -> None:
    """Report possible elements of an access at which an operand is undefined."""
    flag = flag_of(value, Mark.UNDEFINED)
    wrong = lanes.wrong(Mark.UNDEFINED, flag)
    if wrong is not None:
        assert flag is not None
        report = partial(undefined, wave, site.op, flag, message, address=address)
        launch_of(wave).found_in(wave, wrong, report)


@rule(memory.atomic_rmw, memory.atomic_cas)
def atomic(op: Operation, plain: Run, checks: Checks) -> Run:
    """Look who updates what, and whom that orders."""
    site = Site(op, "updates")
    swaps = op.defn is memory.atomic_cas
    apply = applied(op)
    used = bool(op.result.uses)
    alone = op["scope"] is memory.Scope.PROGRAM
    acquires = used and op["order"].acquires and not alone
    releases = op["order"].releases and not alone
    masked = Cause(op.loc, "the atomic operation's mask is false there")
    never = Cause(op.loc, "nobody wrote that element of an uninitialised array")

    def run(wave: Wave, address: Any, *operands: Any) -> Held:
        *given, mask = operands
        launch = launch_of(wave)
        address, lanes = admit(wave, site, address, mask)
        count = len(wave)
        addresses = spread(address, site.shape, count)
        reached = reach(wave, site, addresses, whole(lanes.possible, addresses))
        for value in given:
            operand(wave, site, address, value, lanes, "updates memory by a value")
        accessed = sound_part(wave, site, lanes, reached)
        if launch.uninitialised:
            _refuse_unwritten(wave, site, accessed, never)
        values = [spread(value, site.shape, count) for value in given]
        result = update_groups(
            launch.memory, accessed.groups, apply, addresses.shape, site.dtype, values
        )
        if launch.shadow is not None:
            launch.shadow.update(wave, site, reached, not alone)
        if launch.order is not None and (acquires or releases):
            _synchronise(wave, accessed, result, addresses, values if swaps else None)
        if used and Check.UNDEF in checks and mask is not None:
            return marked(result, {Mark.UNDEFINED: Flag(None, masked, array_of(mask))})
        return result

    def _synchronise(
        wave: Wave,
        reached: Reached,
        result: Array,
        addresses: Array,
        values: list[Array] | None,
    ) -> None:
        active = np.ones((), np.bool_) if reached.mask is None else reached.mask
        chosen = np.broadcast_to(active, addresses.shape)
        who = wave.rows.reshape(-1, *(1,) * len(site.shape))
        wrote = np.full(addresses.shape, releases)
        if values is not None:  # what does not swap writes nothing
            bits = f"u{result.itemsize}"
            expected = np.ascontiguousarray(values[0])
            wrote &= result.view(bits) == expected.view(bits)
        order = launch_of(wave).order
        assert order is not None
        order.synchronise(
            np.broadcast_to(who, addresses.shape)[chosen],
            addresses[chosen],
            acquires,
            wrote[chosen],
        )

    return run


def whole(mask: Array | None, addresses: Array) -> Array | None:
    """A mask with all axes of the addresses."""
    return None if mask is None else np.broadcast_to(mask, addresses.shape)


def _refuse_unwritten(wave: Wave, site: Site, reached: Reached, never: Cause) -> None:
    launch = launch_of(wave)
    empty = unwritten(launch, site, reached)
    if empty is not None:
        flag = Flag(_first_at_each(array_of(reached.address), empty), never)
        report = partial(undefined, wave, site.op, flag, "updates memory")
        spared(wave, flag, reached.mask, report)
    note_written(launch, site, reached)


def _first_at_each(addresses: Array, lanes: Array) -> Array:
    """Return the first lane at each address: others find what it has written."""
    extents = np.broadcast_shapes(addresses.shape, lanes.shape)
    places = np.flatnonzero(np.broadcast_to(lanes, extents))
    _, firsts = np.unique(np.broadcast_to(addresses, extents).ravel()[places], return_index=True)
    result = np.zeros(extents, np.bool_)
    result.flat[places[firsts]] = True
    return result


@rule(debug.assume)
def assume(op: Operation, plain: Run, checks: Checks) -> Run:
    """Hold the program to what it promised."""
    if Check.ASSUME not in checks:
        return lambda wave, condition: plain(wave, bare(condition))
    return lambda wave, condition: check_assume(wave, op, condition)


@rule(debug.device_assert)
def device_assert(op: Operation, plain: Run, checks: Checks) -> Run:
    """An assertion is a branch."""

    def run(wave: Wave, condition: Any, mask: Any) -> None:
        for value in (mask, condition):
            flag = flag_of(value, Mark.UNDEFINED)
            if flag is None:
                continue
            guard = None if mask is None or value is mask else array_of(mask)
            report = partial(undefined, wave, op, flag, "asserts a condition")
            spared(wave, flag, guard, report)
        plain(wave, bare(condition), None if mask is None else bare(mask))

    return run


@rule(debug.device_print)
def device_print(op: Operation, plain: Run, checks: Checks) -> Run:
    """Printing looks at values, and changes nothing."""
    return lambda wave, *values: plain(wave, *map(bare, values))


def unmarked(plain: Run) -> Run:
    """An operation with effects that asks nothing of its operands but their numbers."""

    def run(wave: Wave, *values: Any) -> Any:
        return plain(wave, *(None if value is None else bare(value) for value in values))

    return run
