"""The source of the functions of the launch fast path, one pair for each shape of calls."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tile.backends.capabilities import ArgumentGuard
from tile.frontend.python.source import DeviceFunction
from tile.ir.types import F32, F64, Kind, Scalar
from tile.language.base.constexpr import constexpr
from tile.runtime.arguments.adapt import is_addressed
from tile.runtime.arguments.tensor_descriptor import TensorDescriptor
from tile.runtime.arguments.torch_tensors import is_plain_tensor
from tile.runtime.call_guards import (
    GuardOf,
    constant_guard,
    descriptor_guard,
    exact_guard,
    integer_guard,
    passed_guard,
    tensor_guard,
)
from tile.runtime.grid import LIMITS
from tile.runtime.signature import DIVISOR, Path
from tile.runtime.specialize import Rule

PLAIN_KEYS = frozenset({int, float, bool, str, type(None)})  # whose values are keys as they are
F32_MAX = float(np.finfo(np.float32).max)


# The functions of a plan. Extents of the most frequent kind of grid are computed inline. Most calls
# that leave the fast path pass all named arguments.
_TEXT = """\
def ~key({parameters}):
    try:
        {reads}
        ~result = {key}
        hash(~result)
    except ~unreadable:
        return None
    return ~result

def ~launch(~grid, {defaults}):
    try:
        if {guard}:
            try:
                {indented_reads}
                ~entry = ~table.get({key}){choose}
            except ~unreadable:
                ~entry = None
            if ~entry is not None:
                ~repeat, ~fixed, ~kernel, ~constants, ~choose, ~note, *~more_of_entry = ~entry
                if type(~grid) is not tuple and callable(~grid):
                    ~grid = ~grid({{**~constants{constants}}})
                if (
                    type(~grid) is tuple and len(~grid) == 1
                    and type(~x := ~grid[0]) is int and 1 <= ~x <= {most}
                ):
                    ~y = ~z = 1
                else:
                    ~x, ~y, ~z = ~grid_extents(~grid)
                    if 0 in (~x, ~y, ~z):
                        return ~kernel{note}
                if ~repeat(~x, ~y, ~z{values}):
                    return ~kernel
        if {all_here}:
            return ~slow_path(~launch, ~grid, {passed})
        ~args, ~named = ~merge({positional}, ~rest, {{{named}}}, ~more)
        return ~slow_path(~launch, ~grid, *~args, **~named)
    except Exception as ~error:
        ~trim(~error)
        raise
"""


# With two or more arrays, which may overlap.
_CHOOSE = """
                if ~entry is not None and ~entry[4] is not None:
                    ~entry = ~entry[4]({tensors}, {addresses})"""

# With tensors, of which autograd must know those that the kernel writes.
_NOTE = """
                ~note({tensors})"""


class Writer:
    """Generates the functions of a plan for calls with given positional and named arguments.

    `runtime`, `constant` and `exact` add an argument by its name in the source, and return False if
    its type is not supported. If `numbered`, a tensor's device is identified by its number alone,
    which is faster to read. If `always_choose`, every entry has a `choose`.
    """

    def __init__(
        self,
        positional: int,
        keywords: Sequence[str],
        *,
        numbered: bool,
        always_choose: bool = False,
    ) -> None:
        self._always_choose = always_choose
        self.positional = tuple(f"~a{at}" for at in range(positional))
        self.keywords = tuple(keywords)
        self._device = "get_device()" if numbered else "device"
        self.passed: dict[str, str] = {}  # parameter -> the argument's name in the source
        self.parameters: list[int] = []
        self._values: list[str] = []
        self._addresses: list[str] = []
        self._tensors: dict[Path, str] = {}  # in the order of their addresses
        self._objects: set[Path] = set()  # those that are no tensors of torch
        self.item_types: dict[type, str] = {}  # of items of tuples: their names in the source
        self._items = 0
        self._reads: list[str] = []
        self._checks: list[str] = []  # after the reads, only where an entry is added
        self._parts: list[str] = []
        self._guards: dict[str, GuardOf] = {}  # by the argument's name in the source
        self._run: list[str] = []  # arguments that are passed to the launch

    def runtime(self, word: str, value: Any, index: int, rule: Rule) -> bool:
        kind = type(value)
        if kind is type(None):
            self._guards[word] = constant_guard
            return True
        self.parameters.append(index)
        self._run.append(word)
        if isinstance(rule.type, Scalar):
            return self._number(word, kind, rule.type)
        if kind is int:
            self._guards[word] = functools.partial(integer_guard, rule)
        elif is_plain_tensor(kind):
            self._guards[word] = tensor_guard
        elif kind in (float, bool):
            self._guards[word] = passed_guard
        elif kind is TensorDescriptor:
            self._guards[word] = descriptor_guard
        return self._value(word, value, (index,), rule)

    def _value(self, word: str, value: Any, path: Path, rule: Rule) -> bool:
        """Add an argument whose type is known, or an item of one."""
        kind = type(value)
        if kind is TensorDescriptor:
            self._descriptor(word, path, len(value.shape))
            return True
        if isinstance(value, tuple):
            return self._tuple(word, value, path, rule)
        if kind is int:
            self._parts.append(_integer_part(word, rule))
        elif is_plain_tensor(kind):
            address = f"~p{len(self._addresses)}"
            self._reads.append(f"{address} = {word}.data_ptr()")
            self._addresses.append(address)
            self._tensors[path] = word
            self._parts += [f"{word}.dtype", f"{word}.{self._device}"]
            word = address
        elif is_addressed(value):
            word = self._object(word, path)
        elif kind not in (float, bool):
            return False
        self._values.append(word)
        return True

    def _object(self, word: str, path: Path) -> str:
        """Add an object with an address and a dtype; return the name of its address."""
        address = f"~p{len(self._addresses)}"
        self._reads.append(f"{address} = {word}.data_ptr()")
        self._reads.append(f"if type({address}) is not int: raise TypeError")
        self._addresses.append(address)
        self._tensors[path] = word
        self._objects.add(path)
        self._parts += [f"{word}.dtype", f"{word}.device"]
        # Without its number, the driver tells the device by the address.
        self._checks.append(f"if ':' not in str({word}.device): raise TypeError")
        return address

    def _tuple(self, word: str, values: tuple[Any, ...], path: Path, rule: Rule) -> bool:
        """Add the items of a tuple; one of another length or with other types is not readable."""
        items = [f"~i{self._items + at}" for at in range(len(values))]
        self._items += len(items)
        if not items:
            self._reads.append(f"() = {word}")
            return True
        types = [self.item_types.setdefault(type(v), f"k{len(self.item_types)}") for v in values]
        equal = " and ".join(
            f"type({item}) is ~{kind}" for item, kind in zip(items, types, strict=True)
        )
        self._reads += [f"{_tuple(items)} = {word}", f"if not ({equal}): raise TypeError"]
        return all(
            self._item(item, value, (*path, at), rule)
            for at, (item, value) in enumerate(zip(items, values, strict=True))
        )

    def _item(self, word: str, value: Any, path: Path, rule: Rule) -> bool:
        """Add an item of a tuple, where None and functions are constants."""
        if value is None:
            return True
        if isinstance(value, DeviceFunction):
            self._parts.append(word)
            return True
        return self._value(word, value, path, rule)

    def _number(self, word: str, kind: type, ty: Scalar) -> bool:
        """Add a number for an annotated parameter; the key differs for a number out of range.

        Numbers of another kind than the annotation are left to the slow path.
        """
        if kind is int and ty.kind is Kind.INT:
            self._parts.append(
                f"~divisors[{word} % {DIVISOR}] if {ty.min_value} <= {word} <= {ty.max_value} "
                f"else ~wide({word})"
            )
        elif kind is float and ty == F32:
            self._parts.append(f"-{F32_MAX!r} <= {word} <= {F32_MAX!r} or {word}.hex()")
        elif kind is not float or ty != F64:
            return False
        self._values.append(word)
        return True

    def _descriptor(self, word: str, path: Path, rank: int) -> None:
        """Add a descriptor: its base is a runtime value, and all its other fields are in the key.

        Unpacking fails for a descriptor of another rank, which is left to the slow path.
        """
        number = len(self._addresses)
        base, address = f"~b{number}", f"~p{number}"
        self._reads += [f"{base} = {word}.base", f"{address} = {base}.data_ptr()"]
        self._checks.append(f"if not ~plain(type({base})): raise TypeError")
        self._addresses.append(address)
        self._tensors[(*path, 0)] = base
        self._parts += [f"type({base})", f"{base}.dtype", f"{base}.{self._device}"]
        self._parts += [f"{base}.shape", f"{base}.stride()", f"{word}.padding"]
        for name, letter in (("shape", "n"), ("strides", "s"), ("block_shape", "k")):
            numbers = [f"~{letter}{number}_{axis}" for axis in range(rank)]
            self._reads.append(f"{_tuple(numbers)} = {word}.{name}")
            self._parts += numbers
        self._values.append(address)

    def constant(self, word: str, kind: type) -> bool:
        if kind not in (float, tuple):
            self._guards[word] = constant_guard
        if kind is float:
            self._parts.append(f"{word}.hex()")  # unlike floats, differs for -0.0, equal for NaN
            return True
        if kind is tuple:
            self._parts.append(f"~items({word})")
            return True
        self._parts.append(word)
        return not issubclass(kind, float | tuple | np.generic | constexpr)

    def exact(self, word: str, kind: type) -> bool:
        """Let the key differ for each value of an argument, which `runtime` may have added."""
        if word in self._run:
            self._guards[word] = exact_guard
        self._parts.append(word)
        return kind in PLAIN_KEYS

    def guards(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[ArgumentGuard] | None:
        """Return the guards of the arguments of a call for an inline cache; None if it has none."""
        words = (*self.positional, *kwargs)  # by name in any order
        if [word for word in words if word in self._run] != self._run:
            return None
        guards = []
        parameters = {word: name for name, word in self.passed.items()}
        for word, value in zip(words, (*args, *kwargs.values()), strict=True):
            guard_of = self._guards.get(word)
            guard = None if guard_of is None else guard_of(parameters.get(word, ""), value)
            if guard is None:
                return None
            guards.append(guard)
        return guards

    def text(self, *, watching: bool) -> str:
        words = (*self.positional, *self.keywords)
        state = ["not ~rest", "not ~more", "~cache", "~alive", "not ~hooks", "not ~callbacks"]
        noted = [word for path, word in self._tensors.items() if path not in self._objects]
        passed = [*self.positional, "*~rest", *(f"{n}={n}" for n in self.keywords), "**~more"]
        text = _TEXT.format(
            parameters=self.signature(""),
            defaults=self.signature(" = ~absent"),
            reads="\n        ".join([*self._reads, *self._checks]) or "pass",
            key=self._key(),
            choose=self._choose(),
            note=_NOTE.format(tensors=", ".join(noted)) if noted else "",
            guard=" and ".join([*self.kinds(), *state, *(["~current()"] if watching else [])]),
            indented_reads="\n                ".join(self._reads) or "pass",
            constants="".join(f", {name!r}: {word}" for name, word in self.passed.items()),
            most=LIMITS[0],
            values="".join(f", {value}" for value in self._values),
            all_here=" and ".join(f"{word} is not ~absent" for word in words) or "True",
            passed=", ".join(passed),
            positional=_tuple(self.positional),
            named=", ".join(f"{name!r}: {name}" for name in self.keywords),
        )
        return text.replace("~", self.prefix)

    def kinds(self) -> list[str]:
        """Return the conditions that the arguments of a call have the types of the plan's."""
        words = (*self.positional, *self.keywords)
        return [f"type({word}) is ~t{at}" for at, word in enumerate(words)]

    @property
    def prefix(self) -> str:
        """The prefix of names in the source, which no argument's name has."""
        prefix = "_"
        while any(name.startswith(prefix) for name in self.keywords):
            prefix += "_"
        return prefix

    def signature(self, default: str) -> str:
        """Return the parameters, with defaults and variadic ones if `default` is not empty."""
        some = [f"{word}{default}" for word in self.positional]
        named = [f"{word}{default}" for word in self.keywords]
        rest, more = (["*~rest"], ["**~more"]) if default else (["*"] if named else [], [])
        return ", ".join([*some, *(["/"] if some or default else []), *rest, *named, *more])

    @property
    def tensors(self) -> tuple[Path, ...]:
        """The paths of tensors; the base of a descriptor is its first item."""
        return tuple(self._tensors)

    @property
    def objects(self) -> frozenset[Path]:
        """The paths of those that are not tensors of torch, but other objects with an address."""
        return frozenset(self._objects)

    def _choose(self) -> str:
        if len(self._tensors) < 2 and not self._always_choose:
            return ""
        tensors, addresses = _tuple([*self._tensors.values()]), _tuple(self._addresses)
        return _CHOOSE.format(tensors=tensors, addresses=addresses)

    def _key(self) -> str:
        """Return the source of the key; usually one test shows that all addresses are aligned."""
        parts = ["~backend() if ~own(None) is None else ~scoped()", "~checks()", *self._parts]
        if self._addresses:
            each = _tuple([f"{address} % {DIVISOR}" for address in self._addresses])
            parts.append(f"({' | '.join(self._addresses)}) % {DIVISOR} and {each}")
        return _tuple(parts)


def _integer_part(word: str, rule: Rule) -> str:
    """Return the source of the part of a key for an integer."""
    parts = [f"{word} != 1"] * rule.ones + [f"~divisors[{word} % {DIVISOR}]"] * rule.alignment
    return (
        f"({' and '.join(parts) or True}) if -0x80000000 <= {word} <= 0x7FFFFFFF else ~wide({word})"
    )


def _tuple(words: Sequence[str]) -> str:
    return f"({''.join(f'{word}, ' for word in words)})"
