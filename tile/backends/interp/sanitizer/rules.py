"""Rules of operations with effects in runs with checks.

Each rule returns what an instruction runs, given the operation and what it runs without checks.

Loads, stores and atomics are checked for bounds, poison and races. For arrays of `tile.empty`, they
also record and check which elements have been written. Promises to the compiler (`tl.assume`,
`tl.multiple_of` and the like, and the divisibility of arguments) are compared with what programs
compute.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tile.backends.base import LaunchArgument
from tile.backends.interp.bytecode import Run, rule_in
from tile.backends.interp.fault_report import report_faults
from tile.backends.interp.program_batch import LaunchContext, ProgramBatch
from tile.backends.interp.resolved_access import Buffer, BufferLanes, ResolvedAccess, Strided
from tile.backends.interp.rules import applied, update_groups
from tile.backends.interp.sanitizer.access import (
    Lanes,
    Site,
    WrongElements,
    check_operands,
    report_poison,
    resolve_access,
    valid_part,
)
from tile.backends.interp.sanitizer.poison import (
    Cause,
    Poisoned,
    PoisonKind,
    PoisonMask,
    plain_value,
    poison_of,
    with_poison,
)
from tile.backends.interp.sanitizer.shadow_memory import state_of
from tile.backends.interp.values import (
    Affine,
    Array,
    RegisterValue,
    RunValue,
    array_of,
    broadcast_rows,
    optional_array,
)
from tile.checks import Check, Checks
from tile.faults import Fault
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.ir.ops import debug, memory


def _tracked_parts(
    batch: ProgramBatch, site: Site, resolved: ResolvedAccess
) -> Iterator[tuple[Strided | BufferLanes, Array]]:
    """Yield the parts of an access in arrays that track their elements, and which are written."""
    for part in resolved.parts:
        buffer, written = part.buffer, state_of(batch).uninitialized.get(id(part.buffer))
        if buffer is None or written is None or site.dtype.itemsize != buffer.array.itemsize:
            continue
        yield part, written


def unwritten_lanes(batch: ProgramBatch, site: Site, resolved: ResolvedAccess) -> Array | None:
    """Return the elements of an access that were never written; None if all were."""
    unwritten: Array | None = None
    for part, written in _tracked_parts(batch, site, resolved):
        if isinstance(part, Strided):
            lanes = ~replace(part, flat=written).read()
            if part.part is not None:
                lanes = part.padded(lanes, None, site.shape)
        else:
            lanes = ~written[part.index]
            if part.lanes is not None:
                lanes = lanes & part.lanes
        unwritten = lanes if unwritten is None else unwritten | lanes
    return unwritten if unwritten is not None and unwritten.any() else None


def note_written(batch: ProgramBatch, site: Site, resolved: ResolvedAccess) -> None:
    """Record that the elements of an access are written."""
    for part, written in _tracked_parts(batch, site, resolved):
        if isinstance(part, Strided):
            replace(part, flat=written).write(
                np.ones((1,) * (1 + len(site.shape)), np.bool_), False
            )
        else:
            active = np.True_ if part.lanes is None else part.lanes
            index, lanes = np.broadcast_arrays(part.index, active)
            written[index[lanes]] = True


def written_elements(buffers: Sequence[Buffer]) -> dict[int, Array]:
    """Return, by id of the buffer, the written elements of arrays that track them."""
    unwritten_elements = {}
    for buffer in buffers:
        written_span = getattr(buffer.array, "written_span", None)
        written = None if written_span is None else written_span()
        if written is not None:
            unwritten_elements[id(buffer)] = written
    return unwritten_elements


def report_active_poison(
    batch: ProgramBatch,
    op: Operation,
    poison: PoisonMask | None,
    mask: Array | None,
    message: str,
) -> None:
    """Report undefined elements that are active under `mask` (None: all)."""
    if poison is None or poison.excluded_by(mask):
        return
    wrong = poison.where if mask is None else poison.where & mask
    if wrong.any():
        report_poison(batch, op, poison, message, wrong)


# The language function that makes each claim of a `hint`.
FUNCTIONS = {
    "divisible": "tl.multiple_of",
    "contiguous": "tl.max_contiguous",
    "constant": "tl.max_constancy",
}


def check_assume(batch: ProgramBatch, op: Operation, condition: Any) -> None:
    """Report programs in which an `assume` is false."""
    poison = poison_of(condition, PoisonKind.UNDEFINED)
    holds = array_of(condition)
    if poison is not None:
        report_poison(batch, op, poison, "assumes a condition", poison.where)
        holds = holds | poison.where
    if not holds.all():

        def false_assumption(wrong: Array) -> Fault:
            return WrongElements(batch, op, wrong).fault(Check.ASSUME, "assumes what is false")

        report_faults(batch, ~holds, false_assumption)


def claiming(op: Operation, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function of a `hint`: it checks the claims, and returns its operand."""
    rank = op.results[0].type.rank
    shape = op.results[0].type.shape or (1,)

    def instruction(batch: ProgramBatch, value: Any) -> Any:
        array = array_of(value)
        # In the region of a reduction or scan a scalar stands for many elements.
        if array.ndim == 1 + rank and not _clearly_holds(op, value):
            whole = np.broadcast_to(array, (len(array), *shape)) if rank else array.reshape(-1, 1)
            for claim, limit, wrong in _violations(op, whole):
                if wrong.any():
                    make = partial(_false_claim, batch, op, claim, limit, whole, rank)
                    report_faults(batch, wrong, make)
        return run(batch, value)

    return instruction


def _clearly_holds(op: Operation, value: Any) -> bool:
    """Return True if the steps of an affine value prove the claims, as they mostly do."""
    if type(value) is not Affine or len(value.shape) != 1 or value.base.size != len(value.base):
        return False
    (run,) = op["contiguous"] or (1,)
    (divisor,) = op["divisible"] or (1,)
    (constant,) = op["constant"] or (1,)
    step = value.steps[0]
    if constant > 1 and step:
        return False
    if run > 1 and step != 1:
        return False
    return not (value.base % divisor).any() and (run * step) % divisor == 0


def _violations(op: Operation, array: Array) -> Iterator[tuple[str, int, Array]]:
    """Yield each claim with its number and the elements that violate it."""
    rank = array.ndim - 1
    for axis in range(rank):
        run = (op["contiguous"] or (1,) * rank)[axis]
        position = np.arange(array.shape[axis + 1]).reshape(-1, *(1,) * (rank - axis - 1))
        if op["divisible"]:
            divisor = op["divisible"][axis]
            yield "divisible", divisor, (array % divisor != 0) & (position % run == 0)
        following = (slice(None),) * (axis + 1) + (slice(1, None),)
        preceding = (slice(None),) * (axis + 1) + (slice(None, -1),)
        for claim, differs in (("contiguous", _is_not_successor), ("constant", _differs)):
            extent = op[claim][axis] if op[claim] else 1
            if extent > 1 and array.shape[axis + 1] > 1:
                wrong = np.zeros(array.shape, np.bool_)
                wrong[following] = differs(array[preceding], array[following])
                yield claim, extent, wrong & (position % extent != 0)


def _is_not_successor(preceding: Array, after: Array) -> Array:
    rises: Array = after - preceding != 1
    return rises


def _differs(preceding: Array, after: Array) -> Array:
    """Return True where two elements differ; all NaNs are equal."""
    differs: Array = (preceding != after) & ~((preceding != preceding) & (after != after))
    return differs


def _false_claim(
    batch: ProgramBatch,
    op: Operation,
    claim: str,
    limit: int,
    array: Array,
    rank: int,
    wrong: Array,
) -> Fault:
    elements = WrongElements(batch, op, wrong)
    array = np.broadcast_to(array, (len(batch), *array.shape[1:]))
    value = array[elements.index].item()
    if claim == "divisible":
        note = f"the value is {value}"
    else:
        axis = next(a for a in range(1, array.ndim) if op[claim][a - 1] > 1)
        preceding = list(elements.index)
        preceding[axis] -= 1
        note = f"the value is {value}, after {array[tuple(preceding)].item()} one element before it"
    message = f"promises {FUNCTIONS[claim]}({limit}), which is false"
    elements.element = elements.element if rank else ()
    return elements.fault(Check.ASSUME, message, [note])


def check_alignment(launch: LaunchContext, arguments: Sequence[LaunchArgument]) -> None:
    """Report arguments that violate the divisibility that the kernel was compiled for."""
    function = launch.code.kernel.function
    for value, parameter, argument_value in zip(
        function.args, function.arguments, arguments, strict=True
    ):
        divisor = parameter.divisible
        if divisor <= 1:
            continue
        number, subject = (
            (argument_value.ctypes.data, "the address of ")
            if isinstance(argument_value, np.ndarray)
            else (int(np.asarray(argument_value)), "")
        )
        if number % divisor:
            launch.report_fault(
                Fault(
                    Check.ASSUME,
                    f"`{launch.name}` was compiled for {subject}`{value.name}` being a multiple of "
                    f"{divisor}, and it is {number}",
                    kernel=launch.name,
                    grid=launch.grid,
                    program=(0, 0, 0),
                    loc=function.loc,
                )
            )


Rule = Callable[[Operation, Run, Checks], Run]
CHECKED: dict[OpDef, Rule] = {}


rule = rule_in(CHECKED)


@rule(memory.load)
def load(op: Operation, plain: Run, checks: Checks) -> Run:
    """Check a load and record it in shadow memory; poison undefined elements."""
    site = Site(op)
    masked_cause = Cause(op.loc, "the load's mask is false there and it has no `other`")
    unwritten_cause = Cause(op.loc, "that element of an uninitialized array was never written")
    undef = Check.UNDEF in checks

    def run(batch: ProgramBatch, address: Any, mask: Any, other: Any) -> RegisterValue:
        state, space = state_of(batch), batch.launch.memory
        active = optional_array(mask)
        address, lanes = check_operands(batch, site, address, mask)
        fill = optional_array(other)
        resolved = resolve_access(batch, site, address, lanes.possible)
        accessed = valid_part(batch, site, lanes, resolved)
        value = space.read(accessed, fill)
        if state.shadow is not None:
            state.shadow.load(batch, site, resolved)
        masks = poison_of_other(other, active)
        # Elements dropped for a fault are 0 and not poisoned, so that no fault is reported twice.
        if undef and other is None and active is not None and not active.all():
            masks[PoisonKind.UNDEFINED] = PoisonMask(None, masked_cause, active)
        if state.uninitialized:
            elements = unwritten_lanes(batch, site, accessed)
            if elements is not None:
                unwritten = PoisonMask(elements, unwritten_cause)
                existing = masks.get(PoisonKind.UNDEFINED, unwritten)
                masks[PoisonKind.UNDEFINED] = unwritten.union(existing)
        return with_poison(value, masks)

    return run


def poison_of_other(other: Any, active: Array | None) -> dict[PoisonKind, PoisonMask]:
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
    site = Site(op)

    def run(batch: ProgramBatch, address: Any, value: Any, mask: Any) -> None:
        state, space = state_of(batch), batch.launch.memory
        stored = array_of(value)
        address, lanes = check_operands(batch, site, address, mask)
        resolved = resolve_access(batch, site, address, lanes.possible, stored)
        check_operand(batch, site, address, value, lanes, "writes a value")
        accessed = valid_part(batch, site, lanes, resolved, stored)
        written = accessed is resolved and not state.collector.raising
        if not state.collector.raising:
            space.write(accessed, stored)
        if state.shadow is not None:
            state.shadow.store(batch, site, resolved, stored, written)
        if state.uninitialized:
            note_written(batch, site, accessed)

    return run


def check_operand(
    batch: ProgramBatch, site: Site, address: RunValue, value: Any, lanes: Lanes, message: str
) -> None:
    """Report possible elements of an access at which an operand is undefined."""
    poison = poison_of(value, PoisonKind.UNDEFINED)
    wrong = lanes.wrong(PoisonKind.UNDEFINED, poison)
    if wrong is not None:
        assert poison is not None
        report_poison(batch, site.op, poison, message, wrong, address)


@rule(memory.atomic_rmw, memory.atomic_cas)
def atomic(op: Operation, plain: Run, checks: Checks) -> Run:
    """Check an atomic and record it in shadow memory and in the happens-before relation."""
    site = Site(op)
    is_swap = op.defn is memory.atomic_cas
    apply = applied(op)
    used = bool(op.result.uses)
    program_scope = op["scope"] is memory.Scope.PROGRAM
    acquires = used and op["order"].acquires and not program_scope
    releases = op["order"].releases and not program_scope
    masked_cause = Cause(op.loc, "the atomic operation's mask is false there")
    unwritten_cause = Cause(op.loc, "that element of an uninitialized array was never written")

    def run(batch: ProgramBatch, address: Any, *operands: Any) -> RegisterValue:
        *inputs, mask = operands
        state, space = state_of(batch), batch.launch.memory
        address, lanes = check_operands(batch, site, address, mask)
        count = len(batch)
        addresses = broadcast_rows(address, site.shape, count)
        resolved = resolve_access(batch, site, addresses, full_mask(lanes.possible, addresses))
        for value in inputs:
            check_operand(batch, site, address, value, lanes, "updates memory by a value")
        accessed = valid_part(batch, site, lanes, resolved)
        if state.uninitialized:
            _refuse_unwritten(batch, site, accessed, unwritten_cause)
        values = [broadcast_rows(value, site.shape, count) for value in inputs]
        result = update_groups(space, accessed.groups, apply, addresses.shape, site.dtype, values)
        if state.shadow is not None:
            state.shadow.update(batch, site, resolved, not program_scope)
        if state.order is not None and (acquires or releases):
            _synchronize(batch, accessed, result, addresses, values if is_swap else None)
        if used and Check.UNDEF in checks and mask is not None:
            return with_poison(
                result, {PoisonKind.UNDEFINED: PoisonMask(None, masked_cause, array_of(mask))}
            )
        return result

    def _synchronize(
        batch: ProgramBatch,
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
        order = state_of(batch).order
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
    batch: ProgramBatch, site: Site, resolved: ResolvedAccess, unwritten_cause: Cause
) -> None:
    elements = unwritten_lanes(batch, site, resolved)
    if elements is not None:
        poison = PoisonMask(_first_at_each(array_of(resolved.address), elements), unwritten_cause)
        report_active_poison(batch, site.op, poison, resolved.mask, "updates memory")
    note_written(batch, site, resolved)


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
        return lambda batch, condition: plain(batch, plain_value(condition))
    return lambda batch, condition: check_assume(batch, op, condition)


@rule(debug.device_assert)
def device_assert(op: Operation, plain: Run, checks: Checks) -> Run:
    """Check an assertion like a branch: its condition must not be undefined."""

    def run(batch: ProgramBatch, condition: Any, mask: Any) -> None:
        for value in (mask, condition):
            poison = poison_of(value, PoisonKind.UNDEFINED)
            guard = None if mask is None or value is mask else array_of(mask)
            report_active_poison(batch, op, poison, guard, "asserts a condition")
        plain(batch, plain_value(condition), None if mask is None else plain_value(mask))

    return run


@rule(debug.device_print)
def device_print(op: Operation, plain: Run, checks: Checks) -> Run:
    """Print plain values; poison is not reported."""
    return lambda batch, *values: plain(batch, *map(plain_value, values))


def without_poison(plain: Run) -> Run:
    """Return the function of an operation that uses only the plain values of its operands."""

    def run(batch: ProgramBatch, *values: Any) -> Any:
        return plain(batch, *(None if value is None else plain_value(value) for value in values))

    return run
