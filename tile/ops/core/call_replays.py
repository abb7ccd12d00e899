"""Replays: generated functions that repeat a planned call on other tensors.

A plan whose kernels all have fast launches (`tile.runtime.fast_path`) becomes one function. Its key
has all that selects the kernels but the addresses, so a replay reads no type, dtype or device
again. For `softmax(x)` it is

    def replay(x, axis, out):
        n1 = empty_like(x)
        p0 = x.data_ptr()
        p1 = n1.data_ptr()
        if (p0 | p1) % 16 or not (alive0 and cache0 and not hooks0 and not callbacks):
            return general(x, axis, out)
        if not repeat0(8, 1, 1, p0, p1, 256, 256, 16, 256):
            kernel0[grid0](x, n1, 256, 256, 16, 256, **options0)
        return n1

where all numbers are variables. `general` follows the plan by ordinary means: at other alignments,
for arrays that overlap, after changes of a kernel, and with hooks and callbacks.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CodeType
from typing import Any

from tile.ops.core.call_records import (
    Arguments,
    ArrayAt,
    CallPlan,
    Launch,
    NewArray,
    Varied,
    address_of,
)
from tile.ops.core.new_arrays import row_major, torch_dtype_of
from tile.runtime.arguments.torch_tensors import is_plain_tensor
from tile.runtime.callbacks import LAUNCH_CALLBACKS
from tile.runtime.fast_path import FastPathEntry, LaunchPlan
from tile.runtime.grid import normalize_grid
from tile.runtime.jit import JITFunction
from tile.runtime.signature import DIVISOR, Path
from tile.tracebacks import GENERATED

MOST_COMPARED = 8  # pairs of addresses, which are sorted if there are more

Replay = Callable[..., Any]

_TEXT = """\
def ~replay({parameters}):
    {reads}
    if {other}:
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
    builder = _Builder(plan, arguments, values, parameters)
    if not builder.add_launches():
        return None
    return builder.function(general)


class _Builder:
    """Generates a replay. Names begin with `~` in its text, which becomes enough underscores."""

    def __init__(
        self,
        plan: CallPlan,
        arguments: Arguments,
        values: Sequence[Any],
        parameters: Sequence[str],
    ) -> None:
        self.plan = plan
        self.arguments = arguments
        self.parameters = parameters
        self.values = values
        self.count = len(plan.sources)
        self.words = [
            parameters[index] if at is None else f"~i{index}_{at}" for index, at in plan.sources
        ]
        self.words += [f"~n{at}" for at in range(self.count, len(values))]
        self.names: dict[str, Any] = {"callbacks": LAUNCH_CALLBACKS}
        self.reads: list[str] = []
        self.launches: list[str] = []
        self.notes: list[str] = []
        self.state = ["not ~callbacks"]
        self.numbers: list[str] = []  # that vary
        self.conditions: list[str] = []  # for following the plan by ordinary means
        self.read: set[int] = set()  # positions of arrays whose addresses are read
        self.kernels: list[JITFunction[..., Any]] = []

    def variable(self, letter: str, value: Any) -> str:
        """Return a new name in the source for a value."""
        name = f"{letter}{len(self.names)}"
        self.names[name] = value
        return f"~{name}"

    def address(self, position: int) -> str:
        self.read.add(position)
        return f"~p{position}"

    # -- launches

    def add_launches(self) -> bool:
        """Add the launches; return False if none has a fast path."""
        fast = [self._add_launch(launch) for launch in self.plan.launches]
        return any(fast) or not fast

    def _add_launch(self, launch: Launch) -> bool:
        text = self._ordinary(launch)
        entry = self._entry(launch)
        if entry is None:
            self.launches.append(text)
            return False
        plan, one = entry
        self._watch(launch.kernel, plan)
        self._add_note(launch, one)
        numbers = map(functools.partial(self.variable, "c"), normalize_grid(launch.grid))
        items = _items(plan, launch)
        values = [word for item in items for word in self._flat(item)]
        repeat = self.variable("repeat", one.repeat)
        self.launches.append(f"if not {repeat}({', '.join([*numbers, *values])}): {text}")
        return True

    def _ordinary(self, launch: Launch) -> str:
        """Return the source of an ordinary launch."""
        kernel, grid = self.variable("kernel", launch.kernel), self.variable("grid", launch.grid)
        passed = ", ".join([*map(self._word, launch.arguments)])
        return f"{kernel}[{grid}]({passed}, **{self.variable('options', launch.options)})"

    def _word(self, item: Any) -> str:
        """Return the source of an argument of an ordinary launch."""
        if type(item) is ArrayAt:
            return self.words[item.position]
        if type(item) is Varied:
            function = self.variable("f", item.function)
            return f"{function}({self.parameters[item.argument]})"
        if type(item) is tuple and any(type(one) in (ArrayAt, tuple) for one in item):
            return f"({''.join(f'{self._word(one)}, ' for one in item)})"
        return self.variable("c", item)

    def _flat(self, item: Any) -> Iterator[str]:
        """Yield the values that a fast launch takes for an argument."""
        if type(item) is ArrayAt:
            yield self.address(item.position)
        elif type(item) is tuple:
            for one in item:
                yield from self._flat(one)
        elif type(item) is Varied:
            yield self._varied(item)
        elif isinstance(item, int | float):
            yield self.variable("c", item)

    def _varied(self, item: Varied) -> str:
        """Return the variable of a number that varies, which is a float in all replays."""
        number = f"~v{len(self.numbers)}"
        function = self.variable("f", item.function)
        self.numbers.append(f"{number} = {function}({self.parameters[item.argument]})")
        self.conditions.append(f"type({number}) is not float")
        return number

    def _entry(self, launch: Launch) -> tuple[LaunchPlan, FastPathEntry] | None:
        """Return the entry of launches at aligned addresses, if one fits all calls of the plan."""
        kernel = launch.kernel
        if type(kernel) is not JITFunction or callable(launch.grid):
            return None
        filled = launch.filled(self.values, self.arguments)
        planned = kernel.planned(filled, launch.options)
        if planned is None:
            return None
        plan, entry = planned
        key = plan.key(*filled, **launch.options)
        if key != plan.key(*_with_other_floats(launch, filled), **launch.options):
            return None
        overlaps = plan.overlaps.get(key)
        if overlaps is None:
            return plan, entry
        positions = [_at(path, launch) for path in plan.tensors]
        pairs = [(positions[i], positions[j]) for i, j in overlaps.pairs]
        same = any(one == other for one, other in pairs)
        if not same and not all(map(self._keep_apart, pairs)):
            return None
        version = overlaps.versions.get(same)
        return None if version is None else (plan, version)

    def _keep_apart(self, pair: tuple[int, int]) -> bool:
        """Return True for two arrays that share no memory in any replay.

        One of them is new, or an array to write that the plan separates from the other. Where it
        may be the same one, replays compare their addresses.
        """
        if max(pair) >= self.count:
            return True
        separation = self.plan.separation
        if separation.may_be_one(*pair):
            one, other = map(self.address, pair)
            self.conditions.append(f"{one} == {other}")
            return True
        return separation.keeps_apart(*pair)

    def _watch(self, kernel: JITFunction[..., Any], plan: LaunchPlan) -> None:
        """Let replays test that a kernel's launches are as they were."""
        if any(kernel is other for other in self.kernels):
            return
        self.kernels.append(kernel)
        self.state.append(self.variable("alive", plan.alive))
        self.state.append(self.variable("cache", kernel.cache))
        self.state.append(f"not {self.variable('hooks', kernel.pre_run_hooks)}")
        if plan.current is not None:
            self.state.append(f"{self.variable('current', plan.current)}()")

    def _add_note(self, launch: Launch, entry: FastPathEntry) -> None:
        """Tell autograd of writes to arguments; it does not know new arrays yet."""
        written = {_at(path, launch): path for path in entry.kernel.parameters.written_paths}
        arguments = {at: path for at, path in written.items() if 0 <= at < self.count}
        if arguments:
            note = self.variable("note", entry.kernel.note_writes([*arguments.values()]))
            self.notes.append(f"{note}({', '.join([self.words[at] for at in arguments])})")

    # -- arrays

    def _lists(self) -> list[str]:
        """Return statements that unpack lists of arrays."""
        items: dict[int, list[str]] = {}
        for (index, at), word in zip(self.plan.sources, self.words, strict=False):
            if at is not None:
                items.setdefault(index, []).append(word)
        return [
            f"({''.join(f'{word}, ' for word in words)}) = {self.parameters[index]}"
            for index, words in items.items()
        ]

    def _new(self, at: int, new: NewArray) -> str:
        """Return the statement that allocates a new array."""
        like, word = self.values[new.like], self.words[new.like]
        made = self.values[at]
        strides = row_major(new.shape)
        if like.dtype == made.dtype and like.shape == made.shape and like.stride() == strides:
            return f"{self.words[at]} = {self.variable('like', _torch().empty_like)}({word})"
        shape, steps = self.variable("c", new.shape), self.variable("c", strides)
        dtype = f", dtype={self.variable('c', torch_dtype_of(new.dtype))}"
        dtype = "" if like.dtype == made.dtype else dtype
        return f"{self.words[at]} = {word}.new_empty_strided({shape}, {steps}{dtype})"

    def _overlap(self) -> list[str]:
        """Return conditions that are true if an array to write overlaps another one."""
        separation = self.plan.separation
        extents, outputs = separation.extents, separation.outputs
        pairs = [(one, other) for one in outputs for other in extents if one != other]
        if not pairs:
            return []
        if len(pairs) > MOST_COMPARED:
            holds = self.variable("holds", separation.holds)
            return [f"not {holds}(({''.join(f'{self.address(at)}, ' for at in extents)}))"]
        conditions = []
        for one, other in pairs:
            low, high = self.address(one), self.address(other)
            words = [self.variable("c", number) for number in (-extents[other], extents[one])]
            equal = f"{high} != {low} and " if separation.may_be_one(one, other) else ""
            conditions.append(f"{equal}{words[0]} < {high} - {low} < {words[1]}")
        return conditions

    # -- the function

    def function(self, general: Replay) -> Replay:
        """Return the replay."""
        overlap = self._overlap()
        new = [self._new(self.count + at, one) for at, one in enumerate(self.plan.new)]
        self.read |= set(self.plan.aligned)
        read = sorted(self.read)
        addresses = [f"~p{at} = {self.words[at]}.data_ptr()" for at in read]
        aligned = f"({' | '.join(f'~p{at}' for at in read)}) % {DIVISOR}" if read else ""
        other = [*filter(None, [aligned]), *overlap, *self.conditions]
        other.append(f"not ({' and '.join(self.state)})")
        text = _TEXT.format(
            parameters=", ".join(self.parameters),
            reads="\n    ".join([*self._lists(), *self.numbers, *new, *addresses]) or "pass",
            other=" or ".join(other),
            launches="\n    ".join([*self.notes, *self.launches]) or "pass",
            result=self._result(),
        )
        prefix = "_"
        while any(name.startswith(prefix) for name in self.parameters):
            prefix += "_"
        space = {prefix + name: value for name, value in self.names.items()}
        space[f"{prefix}general"] = general
        exec(_code(text.replace("~", prefix)), space)
        replay: Replay = space[f"{prefix}replay"]
        return replay

    def _result(self) -> str:
        result = self.plan.result
        if type(result) is int:
            return self.words[result]
        return f"({''.join(f'{self.words[at]}, ' for at in result)})"


def _items(plan: LaunchPlan, launch: Launch) -> list[Any]:
    """Return the arguments of a launch that its fast path takes."""
    return [_argument(launch, parameter) for parameter in plan.parameters]


def _argument(launch: Launch, parameter: int) -> Any:
    """Return the argument of a launch for a parameter of its kernel."""
    if parameter < len(launch.arguments):
        return launch.arguments[parameter]
    one = launch.kernel.parameters[parameter]
    return launch.options.get(one.name, one.default)


def _at(path: Path, launch: Launch) -> int:
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


@functools.lru_cache(maxsize=256)
def _code(text: str) -> CodeType:
    """Compile a replay; plans for other shapes often have the same text."""
    return compile(text, GENERATED, "exec")


def _torch() -> Any:
    return sys.modules["torch"]
