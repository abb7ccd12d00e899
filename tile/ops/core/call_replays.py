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

import sys
from collections.abc import Callable, Sequence
from typing import Any

from tile.backends.capabilities import Passed
from tile.ops.core.array_arguments import Arguments, address_of
from tile.ops.core.call_records import ArrayAt, CallPlan, Launch, Varied
from tile.ops.core.generated import Names, execute, tuple_text
from tile.ops.core.replay_arrays import (
    address_conditions,
    array_words,
    device_conditions,
    list_statements,
    new_array,
)
from tile.ops.core.replay_launches import FastLaunch, fast_launch, leaves
from tile.runtime.arguments.autograd import version_counter
from tile.runtime.arguments.torch_tensors import is_plain_tensor
from tile.runtime.callbacks import LAUNCH_CALLBACKS
from tile.runtime.grid import normalize_grid
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
    builder = _Builder(plan, values, parameters)
    for launch, one in zip(plan.launches, fast, strict=True):
        builder.add_launch(launch, one)
    replay: Replay = execute(builder.text(), parameters, general=general, **builder.names.values)[
        "replay"
    ]
    return replay


class _Builder:
    """Generates the text of a replay; `names` has the values of its names."""

    def __init__(self, plan: CallPlan, values: Sequence[Any], parameters: Sequence[str]) -> None:
        self.plan = plan
        self.values = values
        self.parameters = parameters
        self.words = array_words(plan, parameters)
        self.names = Names(callbacks=LAUNCH_CALLBACKS)
        self._addresses: set[int] = {*plan.aligned}  # positions of arrays whose addresses are read
        self._numbers: list[str] = []  # statements for those that vary
        self._exceptions: list[str] = []  # conditions for following the plan by ordinary means
        self._notes: list[str] = []  # of writes, for autograd
        self._launches: list[str] = []
        self._kernels: list[Any] = []
        self._unchanged = ["not ~callbacks"]  # tests that launches are as they were

    def address(self, position: int) -> str:
        self._addresses.add(position)
        return f"~p{position}"

    def add_launch(self, launch: Launch, fast: FastLaunch | None) -> None:
        """Add a launch; by ordinary means if there is no fast one, or that does nothing."""
        start = self.names.add("start", launch.start)
        ordinary = f"{start}({tuple_text(self.words)}, {tuple_text(self.parameters)})"
        if fast is None:
            self._launches.append(ordinary)
            return
        self._watch(launch.kernel, fast)
        for one, other in fast.distinct:
            self._exceptions.append(f"{self.address(one)} == {self.address(other)}")
        self._note(fast)
        passed: dict[str, int] = {}
        values: list[int | float | Passed] = []
        for leaf in leaves(fast.arguments):
            word = self._word(leaf)
            values.append(Passed(passed.setdefault(word, len(passed))) if word else leaf)
        fixed = fast.entry.fixed(normalize_grid(launch.grid), values)
        repeat = self.names.add("repeat", fixed)
        self._launches.append(f"if not {repeat}({', '.join(passed)}): {ordinary}")

    def _note(self, fast: FastLaunch) -> None:
        """Let the replay tell autograd of the writes of a launch.

        The key has which tensors of lists require a gradient.
        """
        if not fast.written:
            return
        words = [self.words[at] for at in fast.written]
        from_lists = all(self.plan.sources[at][1] is not None for at in fast.written)
        if from_lists and not any(self.values[at].requires_grad for at in fast.written):
            count = self.names.add("count", version_counter(sys.modules["torch"]))
            self._notes.append(f"{count}({tuple_text(words)})")
        else:
            note = self.names.add("note", fast.entry.kernel.note_writes([*fast.written.values()]))
            self._notes.append(f"{note}({', '.join(words)})")

    def _watch(self, kernel: Any, fast: FastLaunch) -> None:
        """Let the replay test that a kernel's launches are as they were."""
        if any(kernel is other for other in self._kernels):
            return
        self._kernels.append(kernel)
        self._unchanged += [
            self.names.add("alive", fast.plan.alive),
            self.names.add("cache", kernel.cache),
            f"not {self.names.add('hooks', kernel.pre_run_hooks)}",
        ]
        if fast.plan.current is not None:
            self._unchanged.append(f"{self.names.add('current', fast.plan.current)}()")

    def _word(self, leaf: Any) -> str:
        """Return the name of a value, empty for a constant; one that varies is a float."""
        if type(leaf) is ArrayAt:
            return self.address(leaf.position)
        if type(leaf) is not Varied:
            return ""
        number = f"~v{len(self._numbers)}"
        function = self.names.add("f", leaf.function)
        self._numbers.append(f"{number} = {function}({self.parameters[leaf.argument]})")
        self._exceptions.append(f"type({number}) is not float")
        return number

    def text(self) -> str:
        plan, words = self.plan, self.words
        made = range(len(plan.sources), len(words))
        new = [
            f"{words[at]} = "
            + new_array(one, self.values[one.like], self.values[at], words[one.like], self.names)
            for at, one in zip(made, plan.new, strict=True)
        ]
        self._addresses |= {*plan.separation.extents} if plan.separation.outputs else set()
        read = sorted(self._addresses)
        exceptions = address_conditions(plan.separation, read, self.address, self.names)
        exceptions += device_conditions([self.values[at] for at in made], self.names)
        exceptions += self._exceptions
        exceptions.append(f"not ({' and '.join(self._unchanged)})")
        addresses = [f"~p{at} = {words[at]}.data_ptr()" for at in read]
        lists = list_statements(plan, words, self.parameters)
        whole = type(plan.result) is int
        return _TEXT.format(
            parameters=", ".join(self.parameters),
            reads="\n    ".join([*lists, *self._numbers, *new, *addresses]) or "pass",
            exceptions=" or ".join(exceptions),
            launches="\n    ".join([*self._notes, *self._launches]) or "pass",
            result=words[plan.result] if whole else tuple_text(words[at] for at in plan.result),
        )
