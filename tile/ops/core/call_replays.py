"""Replays: generated functions that repeat a planned call on other tensors.

A plan whose kernels all have fast launches (`tile.runtime.fast_path`) becomes one function. Its key
has all that selects the kernels but the addresses, so a replay reads no type, dtype or device
again. For `softmax(x)` it is

    def replay(x, axis, out):
        n1 = empty_like(x)
        p0 = x.data_ptr()
        p1 = n1.data_ptr()
        if (p0) % 16 or not (not callbacks and alive0 and cache0 and not hooks0):
            return general(x, axis, out)
        if not repeat0(p0, p1): start0((x, n1, ), (x, axis, out, ))
        return n1

where the launch function has the grid and all numbers. `general` follows the plan by ordinary
means: at other alignments, for arrays that overlap, after changes of a kernel, and with hooks and
callbacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tile.ops.core.array_arguments import Arguments, address_of
from tile.ops.core.call_records import CallPlan
from tile.ops.core.generated import Names, execute
from tile.ops.core.replay_arrays import ReplayArrays
from tile.ops.core.replay_launches import fast_launch
from tile.ops.core.replay_statements import LaunchStatements
from tile.runtime.arguments.torch_tensors import is_plain_tensor
from tile.runtime.callbacks import LAUNCH_CALLBACKS
from tile.runtime.signature import DIVISOR

Replay = Callable[..., Any]

_TEXT = """\
def ~replay({parameters}):
    {reads}
    if {exceptions}:
        return ~general({parameters})
    {launches}
    return {result}
"""


def build_replay(
    plan: CallPlan,
    arguments: Arguments,
    values: Sequence[Any],
    parameters: Sequence[str],
    general: Replay,
) -> Replay | None:
    """Return the replay of a plan, which was just followed with these arguments; None without one.

    values: the arrays by position. parameters: the names of the op's parameters, which `general`
    takes in order.
    """
    if not all(is_plain_tensor(type(value)) for value in values):
        return None
    if any(address_of(value) % DIVISOR for value in values):  # another kernel may be faster
        return None
    fast = [fast_launch(plan, launch, values, arguments) for launch in plan.launches]
    if fast and not any(fast):
        return None
    names = Names(callbacks=LAUNCH_CALLBACKS, general=general)
    readers = (one.entry.address_reader for one in fast if one is not None)
    arrays = ReplayArrays(plan, values, parameters, names, next(readers, None))
    statements = LaunchStatements(arrays, parameters, names)
    for launch, one in zip(plan.launches, fast, strict=True):
        statements.add(launch, one)
    text = _replay_text(arrays, statements, parameters)
    replay: Replay = execute(text, parameters, **names.values)["replay"]
    return replay


def _replay_text(
    arrays: ReplayArrays, statements: LaunchStatements, parameters: Sequence[str]
) -> str:
    """Return the text of a replay."""
    exceptions = [*arrays.exceptions(), *statements.exceptions]
    exceptions.append(f"not ({' and '.join(statements.unchanged)})")
    result = arrays.plan.result
    return _TEXT.format(
        parameters=", ".join(parameters),
        reads="\n    ".join([*statements.numbers, *arrays.statements()]) or "pass",
        exceptions=" or ".join(exceptions),
        launches="\n    ".join([*statements.notes, *statements.launches]) or "pass",
        result=arrays.word(result) if type(result) is int else arrays.words(result),
    )
