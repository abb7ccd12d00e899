"""The fast launches that a replay makes in place of ordinary ones.

A replay has the address of every array, and all else is constant or a float that varies. So the
launch plan of a kernel (`tile.runtime.fast_path`) needs no key: the entry is always the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from tile.ops.core.array_arguments import Arguments
from tile.ops.core.call_records import ArrayAt, CallPlan, Launch, Varied
from tile.runtime.fast_path import FastPathEntry, LaunchPlan
from tile.runtime.jit import JITFunction
from tile.runtime.signature import Path


class FastLaunch(NamedTuple):
    """The fast launch of a recorded launch.

    arguments: of the recorded launch, that it takes. written: the positions of arrays among the
    arguments of the op, with their paths in those of the kernel. distinct: pairs of positions of
    arrays that must not be the same one.
    """

    plan: LaunchPlan
    entry: FastPathEntry
    arguments: tuple[Any, ...]
    written: dict[int, Path]
    distinct: list[tuple[int, int]]


def fast_launch(
    call: CallPlan, launch: Launch, values: Sequence[Any], arguments: Arguments
) -> FastLaunch | None:
    """Return the fast launch at aligned addresses, if one fits all calls of a plan.

    values: the arrays by position, of a call that has launched the kernel.
    """
    kernel = launch.kernel
    if type(kernel) is not JITFunction or callable(launch.grid):
        return None
    filled = launch.filled(values, arguments)
    planned = kernel.planned(filled, launch.options)
    if planned is None:
        return None
    plan, entry = planned
    key = plan.key(*filled, **launch.options)
    if key != plan.key(*_with_other_floats(launch, filled), **launch.options):
        return None
    pairs: list[tuple[int, int]] = []
    overlaps = plan.overlaps.get(key)
    if overlaps is not None:
        positions = [_position(launch, path) for path in plan.tensors]
        pairs = [(positions[i], positions[j]) for i, j in overlaps.pairs]
        same = any(one == other for one, other in pairs)
        if not same and not all(_keeps_apart(call, pair) for pair in pairs):
            return None
        version = overlaps.versions.get(same)
        if version is None:
            return None
        pairs = [] if same else [pair for pair in pairs if _may_be_one(call, pair)]
        entry = version
    paths = {_position(launch, path): path for path in entry.kernel.parameters.written_paths}
    written = {at: path for at, path in paths.items() if 0 <= at < len(call.sources)}
    taken = tuple(_argument(launch, parameter) for parameter in plan.parameters)
    return FastLaunch(plan, entry, taken, written, pairs)


def leaves(argument: Any) -> Iterator[Any]:
    """Yield the values that a fast launch takes for an argument of a recorded launch."""
    if type(argument) is tuple:
        for item in argument:
            yield from leaves(item)
    elif type(argument) in (ArrayAt, Varied) or isinstance(argument, int | float):
        yield argument


def _keeps_apart(call: CallPlan, pair: tuple[int, int]) -> bool:
    """Return True for two arrays that share no memory in any replay, if they are not the same one.

    One of them is new, or an array to write that the plan separates from the other.
    """
    if max(pair) >= len(call.sources):
        return True
    return _may_be_one(call, pair) or call.separation.keeps_apart(*pair)


def _may_be_one(call: CallPlan, pair: tuple[int, int]) -> bool:
    return max(pair) < len(call.sources) and call.separation.may_be_one(*pair)


def _argument(launch: Launch, parameter: int) -> Any:
    """Return the argument of a launch for a parameter of its kernel."""
    if parameter < len(launch.arguments):
        return launch.arguments[parameter]
    one = launch.kernel.parameters[parameter]
    return launch.options.get(one.name, one.default)


def _position(launch: Launch, path: Path) -> int:
    """Return the position of the array at a path of a launch's arguments; -1 if there is none."""
    item = _argument(launch, path[0])
    for at in path[1:]:
        item = item[at]
    return item.position if type(item) is ArrayAt else -1


def _with_other_floats(launch: Launch, filled: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a launch with other values of numbers that vary, if all are floats.

    Their key differs where a number may select another kernel.
    """
    return tuple(
        (math.inf if type(value) is float else None) if type(item) is Varied else value
        for item, value in zip(launch.arguments, filled, strict=True)
    )
