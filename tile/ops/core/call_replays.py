"""Replays: generated functions that repeat a planned call on other tensors.

A plan whose kernels all have fast launches (`tile.runtime.fast_path`) becomes one function. Its key
has all that selects the kernels but the addresses, so a replay reads no type, dtype or device
again. For `softmax(x)` it is

    def replay(x, axis, out):
        n1 = empty_like(x)
        p0 = x.data_ptr()
        p1 = n1.data_ptr()
        if (p0 | p1) % 16 or not (not callbacks and alive0 and cache0 and not hooks0):
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
from tile.ops.core.generated import Names, execute, tuple_text
from tile.ops.core.replay_arrays import (
    address_conditions,
    address_word,
    array_words,
    device_conditions,
    list_statements,
    new_array,
)
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
    words = array_words(plan, parameters)
    statements = LaunchStatements(plan, values, words, parameters, names)
    for launch, one in zip(plan.launches, fast, strict=True):
        statements.add(launch, one)
    text = _replay_text(plan, values, words, parameters, names, statements)
    replay: Replay = execute(text, parameters, **names.values)["replay"]
    return replay


def _replay_text(
    plan: CallPlan,
    values: Sequence[Any],
    words: Sequence[str],
    parameters: Sequence[str],
    names: Names,
    statements: LaunchStatements,
) -> str:
    """Return the text of a replay, and give `names` the values of its names."""
    made = range(len(plan.sources), len(words))
    new = [
        f"{words[at]} = {new_array(one, values[one.like], values[at], words[one.like], names)}"
        for at, one in zip(made, plan.new, strict=True)
    ]
    separated = plan.separation.extents if plan.separation.outputs else ()
    read = sorted(statements.addresses.union(separated))
    exceptions = address_conditions(plan.separation, read, names)
    exceptions += device_conditions([values[at] for at in made], names)
    exceptions += statements.exceptions
    exceptions.append(f"not ({' and '.join(statements.unchanged)})")
    addresses = [f"{address_word(at)} = {words[at]}.data_ptr()" for at in read]
    lists = list_statements(plan, words, parameters)
    whole = type(plan.result) is int
    return _TEXT.format(
        parameters=", ".join(parameters),
        reads="\n    ".join([*lists, *statements.numbers, *new, *addresses]) or "pass",
        exceptions=" or ".join(exceptions),
        launches="\n    ".join([*statements.notes, *statements.launches]) or "pass",
        result=words[plan.result] if whole else tuple_text(words[at] for at in plan.result),
    )
