"""The fast path of launches that differ from an earlier one only in addresses and numbers.

For each shape of calls of a kernel (the types of arguments, and the names of those passed by name),
Python source of a launch function is generated and compiled. It does only what such a call needs:
compute the key that selects a compiled kernel, look it up in one dictionary, and call the backend's
fast launch (`FastLaunchable.bind`). For `add[grid](x, y, out, n, BLOCK=1024)` with torch's tensors
the function is

    def launch(grid, a0=absent, a1=absent, a2=absent, a3=absent, /, *rest, BLOCK=absent, **more):
        if type(a0) is t0 and ... and not rest and not more and cache and alive and ...:
            try:
                p0 = a0.data_ptr()
                ...
                entry = table.get((backend() if own(None) is None else scoped(), checks(),
                                   a0.dtype, a0.get_device(), ..., BLOCK, <alignment>))
                if entry is not None and entry.choose is not None:
                    entry = entry.choose((a0, a1, a2), (p0, p1, p2))
            except unreadable:
                entry = None
            if entry is not None:
                repeat, kernel, constants, choose, note = entry
                <the grid's extents x, y, z>
                note(a0, a1, a2)
                if repeat(x, y, z, p0, p1, p2, a3):
                    return kernel
        if a0 is not absent and ... and BLOCK is not absent:
            return slow_path(shape, grid, a0, a1, a2, a3, *rest, BLOCK=BLOCK, **more)
        args, named = merge((a0, a1, a2, a3), rest, {'BLOCK': BLOCK}, more)
        return slow_path(shape, grid, *args, **named)

`add[grid]` calls this function directly, without packing arguments: `*rest`, `**more` and the
defaults exist only so that it accepts any call. It leaves everything else to `slow_path`: the first
launch with a key, arguments of other types, hooks, errors, and launches with launch callbacks or
inside `with tile.sanitize(...)`. The whole body is in a `try` that trims the tracebacks of errors
(`tile.tracebacks`). Keys may be finer than those of compiled kernels, but never coarser. The launch
of an entry has passed all checks of an ordinary launch. A kernel that is wrong for arrays that
overlap has two versions, and its entry chooses between them by the arrays' address ranges.

Arguments passed by name keep their names in the generated source. All other names begin with `~` in
the templates here, which `Writer.text` replaces by enough underscores to make them unique.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tile.backends.base import footprint
from tile.backends.capabilities import FastLaunch
from tile.config import Config, Origin, config
from tile.frontend.python.source import Parameter
from tile.ir.types import F32, F64, Kind, Pointer, Scalar
from tile.language.base.constexpr import constexpr
from tile.runtime.arguments.autograd import NoteWrites
from tile.runtime.arguments.tensor_descriptor import TensorDescriptor
from tile.runtime.arguments.torch_tensors import is_plain_tensor, only_cuda_numbered
from tile.runtime.callbacks import LAUNCH_CALLBACKS
from tile.runtime.grid import LIMITS, normalize_grid
from tile.runtime.kernel import CompiledKernel
from tile.runtime.signature import DIVISOR
from tile.runtime.specialize import divisor_of
from tile.tracebacks import GENERATED, trim

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
                ~repeat, ~kernel, ~constants, ~choose, ~note = ~entry
                if type(~grid) is not tuple and callable(~grid):
                    ~grid = ~grid({{**~constants{constants}}})
                if (
                    type(~grid) is tuple and len(~grid) == 1
                    and type(~grid[0]) is int and 1 <= ~grid[0] <= {most}
                ):
                    ~x, ~y, ~z = ~grid[0], 1, 1
                else:
                    ~x, ~y, ~z = ~grid_extents(~grid)
                    if 0 in (~x, ~y, ~z):
                        return ~kernel{note}
                if ~repeat(~x, ~y, ~z{values}):
                    return ~kernel
        if {all_here}:
            return ~slow_path(~shape, ~grid, {passed})
        ~args, ~named = ~merge({positional}, ~rest, {{{named}}}, ~more)
        return ~slow_path(~shape, ~grid, *~args, **~named)
    except Exception as ~error:
        ~trim(~error)
        raise
"""


# With two or more arrays, which may overlap.
_CHOOSE = """
                if ~entry is not None and ~entry[3] is not None:
                    ~entry = ~entry[3]({tensors}, {addresses})"""

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
        self._tensors: dict[int, str] = {}  # by parameter, in the order of their addresses
        self._reads: list[str] = []
        self._checks: list[str] = []  # after the reads, only where an entry is added
        self._parts: list[str] = []

    def runtime(
        self, word: str, value: Any, index: int, annotated: Scalar | Pointer | None
    ) -> bool:
        kind = type(value)
        if kind is type(None):
            return True
        self.parameters.append(index)
        if isinstance(annotated, Scalar):
            return self._number(word, kind, annotated)
        if kind is TensorDescriptor:
            self._descriptor(word, index, len(value.shape))
            return True
        if kind is tuple:
            return self._integers(word, value)
        if kind is int:
            self._parts.append(_integer_part(word))
        elif is_plain_tensor(kind):
            address = f"~p{len(self._addresses)}"
            self._reads.append(f"{address} = {word}.data_ptr()")
            self._addresses.append(address)
            self._tensors[index] = word
            self._parts += [f"{word}.dtype", f"{word}.{self._device}"]
            word = address
        elif kind not in (float, bool):
            return False
        self._values.append(word)
        return True

    def _integers(self, word: str, values: tuple[Any, ...]) -> bool:
        """Add a tuple of integers, such as strides; tuples of other lengths are not readable."""
        number = len(self._values)
        items = [f"~i{number}_{at}" for at in range(len(values))]
        self._reads.append(f"{_tuple(items)} = {word}")
        self._parts += [_integer_part(item, f"type({item}) is int and ") for item in items]
        self._values += items
        return all(type(value) is int for value in values)

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

    def _descriptor(self, word: str, index: int, rank: int) -> None:
        """Add a descriptor: its base is a runtime value, and all its other fields are in the key.

        Unpacking fails for a descriptor of another rank, which is left to the slow path.
        """
        number = len(self._addresses)
        base, address = f"~b{number}", f"~p{number}"
        self._reads += [f"{base} = {word}.base", f"{address} = {base}.data_ptr()"]
        self._checks.append(f"if not ~plain(type({base})): raise TypeError")
        self._addresses.append(address)
        self._tensors[index] = base
        self._parts += [f"type({base})", f"{base}.dtype", f"{base}.{self._device}"]
        self._parts += [f"{base}.shape", f"{base}.stride()", f"{word}.padding"]
        for name, letter in (("shape", "n"), ("strides", "s"), ("block_shape", "k")):
            numbers = [f"~{letter}{number}_{axis}" for axis in range(rank)]
            self._reads.append(f"{_tuple(numbers)} = {word}.{name}")
            self._parts += numbers
        self._values.append(address)

    def constant(self, word: str, kind: type) -> bool:
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
        self._parts.append(word)
        return kind in PLAIN_KEYS

    def text(self, *, watching: bool) -> str:
        words = (*self.positional, *self.keywords)
        state = ["not ~rest", "not ~more", "~cache", "~alive", "not ~hooks", "not ~callbacks"]
        passed = [*self.positional, "*~rest", *(f"{n}={n}" for n in self.keywords), "**~more"]
        text = _TEXT.format(
            parameters=self.signature(""),
            defaults=self.signature(" = ~absent"),
            reads="\n        ".join([*self._reads, *self._checks]) or "pass",
            key=self._key(),
            choose=self._choose(),
            note=_NOTE.format(tensors=", ".join(self._tensors.values())) if self._tensors else "",
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
    def tensors(self) -> tuple[int, ...]:
        """The indices of the parameters that take tensors, or descriptors with them as bases."""
        return tuple(self._tensors)

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


def _integer_part(word: str, condition: str = "") -> str:
    """Return the source of the part of a key for an integer, of 32 bits if the condition holds."""
    return (
        f"({word} != 1 and ~divisors[{word} % {DIVISOR}]) "
        f"if {condition}-0x80000000 <= {word} <= 0x7FFFFFFF else ~wide({word})"
    )


def _tuple(words: Sequence[str]) -> str:
    return f"({''.join(f'{word}, ' for word in words)})"


Arguments = tuple[Any, ...]
Options = dict[str, Any]
Shape = tuple[Any, ...]
SlowPath = Callable[..., CompiledKernel]

ABSENT = object()  # the default of all arguments

# Exceptions of reading arguments that differ from those for which the plan was built.
UNREADABLE = (AttributeError, RuntimeError, TypeError, ValueError)


class FastPathEntry(NamedTuple):
    """The fast launch for one key; `constants` are the constants and options, by name.

    choose: replaces the entry by another, or by None, for the tensors of a launch and their
        addresses.
    note: tells autograd of the kernel's writes to some of the tensors of a launch.
    """

    repeat: FastLaunch
    kernel: CompiledKernel
    constants: dict[str, Any]
    choose: Callable[[Sequence[Any], Sequence[int]], FastPathEntry | None] | None = None
    note: NoteWrites | None = None


class OverlapEntries:
    """The entries of one key for tensors that do not overlap, and for those that may.

    `pairs` are positions of tensors whose overlap matters.
    """

    def __init__(self, pairs: Sequence[tuple[int, int]]) -> None:
        self.pairs = pairs
        self.versions: dict[bool, FastPathEntry | None] = {}  # by: the tensors may overlap

    def choose(self, tensors: Sequence[Any], addresses: Sequence[int]) -> FastPathEntry | None:
        """Return the entry for tensors at these addresses; only the lower one's extent matters."""
        for one, other in self.pairs:
            distance = addresses[other] - addresses[one]
            lower = tensors[one] if distance >= 0 else tensors[other]
            extent = lower.nbytes if lower.is_contiguous() else _extent(lower)
            if -extent < distance < extent:
                return self.versions.get(True)
        return self.versions.get(False)


def _extent(tensor: Any) -> int:
    """Return the bytes from a tensor's first element to the end of its last one."""
    elements = footprint(tensor.shape, tensor.stride(), 1)[1]
    return elements * int(tensor.itemsize)


class LaunchPlan(NamedTuple):
    """The generated functions for calls of one shape.

    table: the entries by key.
    alive: cleared to invalidate the plan. A caller may have stored `launch`, which then leaves all
        calls to the slow path.
    key: the key of arguments, or None if they have none, such as tensors without plain memory.
    launch: `launch(grid, *args, **kwargs)` launches.
    parameters: the indices of the kernel's parameters whose values are passed to the backend.
    tensors: the indices of those that take tensors, or descriptors with them as bases.
    passed: the names of the parameters that calls pass.
    overlaps: by key, the entries of kernels with two versions.
    current: returns True if the variables that the kernel captured are unchanged; None if there are
        none.
    """

    table: dict[Any, FastPathEntry | None]
    alive: list[bool]
    key: Callable[..., Any]
    launch: Callable[..., CompiledKernel]
    parameters: tuple[int, ...]
    tensors: tuple[int, ...]
    passed: frozenset[str]
    overlaps: dict[Any, OverlapEntries]
    current: Callable[[], bool] | None = None

    def lacks(self, key: Any, *, overlapping: bool) -> bool:
        """Return True if there is no entry yet for launches with a key, with such tensors."""
        entries = self.overlaps.get(key)
        return key not in self.table if entries is None else overlapping not in entries.versions

    def add(self, key: Any, entry: FastPathEntry | None, guarded: CompiledKernel) -> None:
        """Add the entry for launches with a key; None for launches without a fast path.

        guarded: the kernel for tensors that do not overlap. The entry's may be another one.
        """
        pairs = guarded.parameters.disjoint
        if entry is not None and self.tensors:
            entry = entry._replace(note=entry.kernel.note_writes(self.tensors))
        if entry is not None and pairs:
            positions = {parameter: at for at, parameter in enumerate(self.tensors)}
            new = OverlapEntries([(positions[x], positions[y]) for x, y in pairs])
            entries = self.overlaps.setdefault(key, new)
            entries.versions[entry.kernel is not guarded] = entry
            entry = entry._replace(choose=entries.choose)
        self.table[key] = entry


def shape_of(args: Arguments, kwargs: Options) -> Shape:
    """Return the types of a call's arguments, and the names of those passed by name."""
    return (*map(type, args), *kwargs, *map(type, kwargs.values()))


def build_launch_plan(
    args: Arguments,
    kwargs: Options,
    parameters: Sequence[Parameter],
    annotated: Sequence[Scalar | Pointer | None],
    *,
    hooks: list[Any],
    cache: dict[Any, Any],
    current: Callable[[], bool] | None,
    slow_path: SlowPath,
    exact: Collection[str] = (),
    always_choose: bool = False,
) -> LaunchPlan | None:
    """Return a plan for calls of this shape, or None if it does not support their arguments.

    annotated: the annotated types of the parameters.
    current: returns True if the captured variables are unchanged; None if there are none.
    exact: parameters for each value of which there is an entry.
    always_choose: every entry has a `choose`, which may return None for one that is out of date.
    slow_path: launches calls that the plan does not support. It takes the plan's shape, a grid, and
        the arguments of a call.
    """
    writer = Writer(
        len(args), tuple(kwargs), numbered=only_cuda_numbered(), always_choose=always_choose
    )
    words: dict[str, tuple[str, Any]] = {name: (name, value) for name, value in kwargs.items()}
    words |= {
        p.name: (word, value)
        for word, p, value in zip(writer.positional, parameters, args, strict=False)
    }
    names: dict[str, Any] = {f"t{at}": type(v) for at, v in enumerate((*args, *kwargs.values()))}
    for index, parameter in enumerate(parameters):
        word, value = words.pop(parameter.name, ("", parameter.default))
        if word:
            writer.passed[parameter.name] = word
        else:
            names[f"d{index}"] = value
        if parameter.is_constexpr:
            supported = not word or writer.constant(word, type(value))
        else:
            supported = writer.runtime(word or f"~d{index}", value, index, annotated[index])
        if word and parameter.name in exact:
            supported = supported and writer.exact(word, type(value))
        if not supported:
            return None
    if not all(writer.constant(word, type(value)) for word, value in words.values()):
        return None
    table: dict[Any, FastPathEntry | None] = {}
    alive = [True]
    names |= {"table": table, "alive": alive, "hooks": hooks, "cache": cache, "current": current}
    names |= {"slow_path": slow_path, "shape": shape_of(args, kwargs), "absent": ABSENT}
    names |= {"merge": merge_arguments, "callbacks": LAUNCH_CALLBACKS}
    names |= {"scoped": _scoped, "own": config.own.get}
    variables = Config.variables()
    names |= {"backend": variables["backend"].text_reader()}
    names |= {"checks": variables["sanitize"].text_reader()}
    names |= {"unreadable": UNREADABLE, "trim": trim}
    names |= {"divisors": tuple(map(divisor_of, range(DIVISOR)))}
    names |= {"grid_extents": normalize_grid, "wide": _wide, "plain": is_plain_tensor}
    names |= {"items": _items}
    key, launch = _compile_functions(writer, names, watching=current is not None)
    return LaunchPlan(
        table,
        alive,
        key,
        launch,
        tuple(writer.parameters),
        writer.tensors,
        frozenset(writer.passed),
        {},
        current,
    )


class _CheckedError(RuntimeError):
    """Checks of a `with` block are active, which only an ordinary launch supports."""


def _scoped() -> tuple[str]:
    """Return the part of a key for the settings of a `with` block."""
    if config.origin("sanitize") is Origin.SCOPE:
        raise _CheckedError
    return (config.backend,)


def _compile_functions(
    writer: Writer, names: Mapping[str, Any], *, watching: bool
) -> tuple[Callable[..., Any], Callable[..., CompiledKernel]]:
    """Compile the generated source, and return the functions `key` and `launch`."""
    prefix = writer.prefix
    space = {prefix + name: value for name, value in names.items()}
    exec(compile(writer.text(watching=watching), GENERATED, "exec"), space)
    return space[f"{prefix}key"], space[f"{prefix}launch"]


def merge_arguments(
    args: Arguments, rest: Arguments, named: Options, more: Options
) -> tuple[Arguments, Options]:
    """Return a call's arguments from those of the generated function."""
    named = {name: value for name, value in named.items() if value is not ABSENT}
    return (*(value for value in args if value is not ABSENT), *rest), {**named, **more}


def _items(value: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the part of a key for a constant tuple: with types, as 1, 1.0 and True are equal.

    Raises `TypeError` for items that no key tells apart.
    """
    kinds = tuple(map(type, value))
    if kinds.count(int) == len(kinds):
        return value
    if any(issubclass(kind, np.generic | constexpr) for kind in kinds):
        raise TypeError
    return kinds, *(_item(item, kind) for item, kind in zip(value, kinds, strict=True))


def _item(value: Any, kind: type) -> Any:
    if kind is float:
        return value.hex()
    return _items(value) if kind is tuple else value


def _wide(value: int) -> tuple[int, bool]:
    """Return the part of a key for integers that do not fit 32 bits, as items of tuples may be."""
    if type(value) is not int:
        raise TypeError
    return divisor_of(value % DIVISOR), value <= 0x7FFF_FFFF_FFFF_FFFF
