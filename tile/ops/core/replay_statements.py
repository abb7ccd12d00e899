"""The statements of a replay that launch kernels, and the conditions under which they are right."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from tile.backends.capabilities import Item, Passed
from tile.ops.core.call_records import ArrayAt, Launch, Varied
from tile.ops.core.generated import Names, tuple_text
from tile.ops.core.replay_arrays import ReplayArrays
from tile.ops.core.replay_launches import FastLaunch, leaves
from tile.runtime.arguments.autograd import version_counter
from tile.runtime.grid import normalize_grid


class LaunchStatements:
    """The statements that launch kernels with the arrays of a plan.

    parameters: the names of the op's. numbers: statements for the numbers that vary. notes: those
    that tell autograd of writes. exceptions: conditions for following the plan by ordinary means.
    unchanged: tests that launches are as they were.
    """

    def __init__(self, arrays: ReplayArrays, parameters: Sequence[str], names: Names) -> None:
        self._arrays = arrays
        self._parameters = parameters
        self._names = names
        self._kernels: list[Any] = []
        self.numbers: list[str] = []
        self.notes: list[str] = []
        self.launches: list[str] = []
        self.exceptions: list[str] = []
        self.unchanged = ["not ~callbacks"]

    def add(self, launch: Launch, fast: FastLaunch | None) -> None:
        """Add a launch; by ordinary means if there is no fast one, or that does nothing."""
        start = self._names.add("start", launch.start)
        arrays = self._arrays
        values = arrays.words(range(len(arrays.values)))
        ordinary = f"{start}({values}, {tuple_text(self._parameters)})"
        if fast is None:
            self.launches.append(ordinary)
            return
        self._watch(launch.kernel, fast)
        for one, other in fast.distinct:
            self.exceptions.append(f"{arrays.address(one)} == {arrays.address(other)}")
        self._note(fast)
        tuples: dict[str, int] = {}
        passed: dict[str, int] = {}
        taken: list[int | float | Passed | Item] = []
        for leaf in leaves(fast.arguments):
            item = arrays.items.get(leaf.position) if type(leaf) is ArrayAt else None
            if item is not None:
                taken.append(Item(tuples.setdefault(item[0], len(tuples)), item[1]))
            else:
                word = self._word(leaf)
                taken.append(Passed(passed.setdefault(word, len(passed))) if word else leaf)
        fixed = fast.entry.fixed(normalize_grid(launch.grid), taken)
        repeat = self._names.add("repeat", fixed)
        self.launches.append(f"if not {repeat}({', '.join([*tuples, *passed])}): {ordinary}")

    def _note(self, fast: FastLaunch) -> None:
        """Let the replay tell autograd of the writes of a launch.

        The key has which tensors of lists require a gradient.
        """
        if not fast.written:
            return
        arrays = self._arrays
        words = arrays.words(fast.written)
        from_lists = all(arrays.plan.sources[at][1] is not None for at in fast.written)
        if from_lists and not any(arrays.values[at].requires_grad for at in fast.written):
            count = self._names.add("count", version_counter(sys.modules["torch"]))
            self.notes.append(f"{count}({words})")
        else:
            note = self._names.add("note", fast.entry.kernel.note_writes([*fast.written.values()]))
            self.notes.append(f"{note}{words}")

    def _watch(self, kernel: Any, fast: FastLaunch) -> None:
        """Let the replay test that a kernel's launches are as they were."""
        if any(kernel is other for other in self._kernels):
            return
        self._kernels.append(kernel)
        self.unchanged += [
            self._names.add("alive", fast.plan.alive),
            self._names.add("cache", kernel.cache),
            f"not {self._names.add('hooks', kernel.pre_run_hooks)}",
        ]
        if fast.plan.current is not None:
            self.unchanged.append(f"{self._names.add('current', fast.plan.current)}()")

    def _word(self, leaf: Any) -> str:
        """Return the name of a value, empty for a constant; one that varies is a float."""
        if type(leaf) is ArrayAt:
            return self._arrays.address(leaf.position)
        if type(leaf) is not Varied:
            return ""
        number = f"~v{len(self.numbers)}"
        function = self._names.add("f", leaf.function)
        self.numbers.append(f"{number} = {function}({self._parameters[leaf.argument]})")
        self.exceptions.append(f"type({number}) is not float")
        return number
