"""Checks of assumptions: promises to the compiler, compared with what programs compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from tile.backends.interp.checks.access import fault_at, launch_of, locate_first, undefined_fault
from tile.backends.interp.checks.marked import Mark, flag_of
from tile.backends.interp.values import Affine, Array, array_of
from tile.checks import Check
from tile.faults import Fault
from tile.ir.core import Operation

if TYPE_CHECKING:
    from tile.backends.interp.checks.launch import CheckedLaunch
    from tile.backends.interp.wave import Wave

# The language function that makes each claim of a `hint`.
FUNCTIONS = {
    "divisible": "tl.multiple_of",
    "contiguous": "tl.max_contiguous",
    "constant": "tl.max_constancy",
}


def check_assume(batch: Wave, op: Operation, condition: Any) -> None:
    """Report programs in which an `assume` is false."""
    poison = flag_of(condition, Mark.UNDEFINED)
    holds = array_of(condition)
    if poison is not None:
        report = partial(undefined_fault, batch, op, poison, "assumes a condition")
        launch_of(batch).report_faults(batch, poison.where, report)
        holds = holds | poison.where
    if not holds.all():

        def false_assumption(wrong: Array) -> Fault:
            location = locate_first(batch, wrong)
            return fault_at(batch, Check.ASSUME, op, "assumes what is false", location)

        launch_of(batch).report_faults(batch, ~holds, false_assumption)


def claiming(op: Operation, run: Callable[..., Any]) -> Callable[..., Any]:
    """Return what a `hint` runs: it checks the claims, and returns its operand."""
    rank = op.results[0].type.rank
    shape = op.results[0].type.shape or (1,)

    def instruction(batch: Wave, value: Any) -> Any:
        array = array_of(value)
        # In the region of a reduction or scan a scalar stands for many elements.
        if array.ndim == 1 + rank and not _clearly_holds(op, value):
            whole = np.broadcast_to(array, (len(array), *shape)) if rank else array.reshape(-1, 1)
            for claim, limit, wrong in _violations(op, whole):
                if wrong.any():
                    make = partial(_false_claim, batch, op, claim, limit, whole, rank)
                    launch_of(batch).report_faults(batch, wrong, make)
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
    batch: Wave, op: Operation, claim: str, limit: int, array: Array, rank: int, wrong: Array
) -> Fault:
    location = locate_first(batch, wrong)
    array = np.broadcast_to(array, (len(batch), *array.shape[1:]))
    value = array[location.index].item()
    element = location.element if rank else ()
    if claim == "divisible":
        note = f"the value is {value}"
    else:
        axis = next(a for a in range(1, array.ndim) if op[claim][a - 1] > 1)
        preceding = list(location.index)
        preceding[axis] -= 1
        note = f"the value is {value}, after {array[tuple(preceding)].item()} one element before it"
    message = f"promises {FUNCTIONS[claim]}({limit}), which is false"
    location = replace(location, element=element)
    return fault_at(batch, Check.ASSUME, op, message, location, [note])


def check_alignment(launch: CheckedLaunch) -> None:
    """Report arguments that violate the divisibility that the kernel was compiled for."""
    function = launch.code.kernel.function
    for value, parameter, argument_value in zip(
        function.args, function.arguments, launch.original_arguments, strict=True
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
