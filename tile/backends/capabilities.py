"""Optional interfaces of backends and of the kernels that they load.

A backend has the members of `tile.backends.base.Backend`. It implements these protocols too where
its device permits, and its users test for them by `isinstance`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

from tile.backends.base import Artifact, Grid, LaunchArgument, Target
from tile.backends.tensor_handles import TensorKind
from tile.checks import NONE, Checks
from tile.ir.types import Pointer, Scalar

if TYPE_CHECKING:  # imported lazily: a process whose kernels are cached on disk needs none of it
    from tile.ir.debug_info import DebugSteps
    from tile.simt.target import SimtTarget


class KernelInfo(NamedTuple):
    """Resource usage of a kernel loaded on a device; None where the device does not report it.

    - `device`: the device's name.
    - `threads`: threads of one program; `max_threads`: the limit with as many registers a thread.
    - `registers`: 32-bit registers of one thread.
    - `local_bytes`: local memory of one thread: its stack and spilled registers.
    - `shared_bytes`: shared memory of one program.
    - `cluster`: programs of one cluster (`num_ctas`, or 1 if the device has no clusters);
      `clusters`: clusters that the device runs at once.
    - `programs`: programs that one multiprocessor runs at once; `occupancy`: their threads divided
      by the most threads that it can run, from 0 to 1.
    - `binary_version`: the instruction set's version, such as `9.0`.
    """

    device: str
    threads: int | None = None
    max_threads: int | None = None
    registers: int | None = None
    local_bytes: int | None = None
    shared_bytes: int | None = None
    cluster: int | None = None
    clusters: int | None = None
    programs: int | None = None
    occupancy: float | None = None
    binary_version: str | None = None


@runtime_checkable
class Informative(Protocol):
    """A loaded kernel that reports its resource usage on a device."""

    def info(self) -> KernelInfo:
        """Return its resource usage on the current device; loads it there if necessary."""


class Timer(Protocol):
    """Measures the duration of calls between `start` and `stop`.

    A device with asynchronous launches records an event at each, and may flush its caches in
    `start` before recording.
    """

    def start(self) -> None:
        """Record the start of a call."""

    def stop(self) -> None:
        """Record its end."""

    def elapsed(self) -> list[float]:
        """Wait for completion; return ms of each start-stop pair since the last `elapsed`."""


@runtime_checkable
class Timed(Protocol):
    """A loaded kernel, or a backend, whose launches may be asynchronous."""

    def timer(self) -> Timer:
        """Return a timer for calls that launch where this kernel was launched last.

        That of a backend is for its current device.
        """


@runtime_checkable
class Assembling(Protocol):
    """A loaded kernel with a step of compilation that is left to its first launch on a device."""

    def assemble(self) -> None:
        """Do that step for the current device, if its result can be cached on disk."""


class ExportedParameter(NamedTuple):
    """A parameter of an exported kernel: its name, type, and a divisor of its values.

    `spelling` is the type as written in signatures. If `noalias`, the kernel accesses the memory
    through no other pointer, unless it writes none of it.
    """

    name: str
    type: Scalar | Pointer
    divisible: int
    spelling: str
    noalias: bool = False


@runtime_checkable
class Exportable(Protocol):
    """A backend whose kernels can be exported to programs without Python."""

    def exported_form(self, artifact: Artifact) -> Artifact:
        """Return the kernel in a form that such programs can launch."""

    def export(
        self, artifact: Artifact, name: str, parameters: Sequence[ExportedParameter]
    ) -> Mapping[str, str | bytes]:
        """Return files besides the stages' own, by suffix; `name` prefixes functions in them."""


FastLaunch = Callable[..., bool]  # see `FastLaunchable.bind`
InlineCache = Callable[..., Callable[..., Any]]  # see `BoundLaunch`


class DescriptorMaker(Protocol):
    """Makes descriptors of plain tensors like some for which they were made before.

    make: takes a tensor, the shape of a block and a padding, and returns a descriptor; or None
        without an entry for such.
    is_full: no entry can be added.
    """

    make: Callable[[Any, Any, Any], Any]

    @property
    def is_full(self) -> bool: ...

    def add(self, tensor: Any, block: Any, padding: str, bounds: tuple[Any, Any]) -> None:
        """Add an entry: descriptors of tensors like this one have this shape and these strides."""


MakerOf = Callable[[type, tuple[type, type], Any], "DescriptorMaker | None"]
"""Takes the class of descriptors, the two of plain tensors, and one such tensor."""


@dataclass(frozen=True)
class Passed:
    """The value at an index of those that each launch gets."""

    at: int


@dataclass(frozen=True)
class Item:
    """The address at an index of one of the tuples that each launch gets before other values."""

    of: int
    at: int


class ArgumentGuard(NamedTuple):
    """A condition on an argument of a call, of which an entry of a launch function is right.

    Its type is `type`, and: a constant is equal to `object`; a tensor, at an aligned address, has
    that dtype, and its device has the number `least`; a number lies from `least` to `most`, is not
    `excluded`, and its residue modulo 16 is one of the bits of `residues`. All but constants are
    passed to the launch. A descriptor has a tensor of type `base` as its base. name: the kernel's
    parameter, or empty for an option. tensor_kind: the kind of a tensor that can be read by its
    handle, which has its dtype and device.
    """

    kind: Literal["constant", "tensor", "number", "passed", "descriptor"]
    name: str
    type: type
    object: Any = None
    least: int = 0
    most: int = 0
    excluded: int = -1
    residues: int = 0xFFFF
    base: Any = None
    tensor_kind: TensorKind | None = None


class AddressReader(Protocol):
    """Tells that the addresses of tensors are those of an earlier call.

    read: takes tensors, and lists and tuples of them. It returns the tuple that `remember` got, if
        it has their addresses in order; else None.
    """

    read: Callable[..., tuple[int, ...] | None]

    def remember(self, addresses: tuple[int, ...]) -> None:
        """Return these addresses, as many as the tensors, as long as they are the same."""


ReaderOf = Callable[[tuple[type, type], Any, int], "AddressReader | None"]
"""Takes the two classes of plain tensors, one such tensor, and the number of tensors."""


class FieldGuard(NamedTuple):
    """A condition on an attribute of a descriptor, or of its base: that it is equal to `value`.

    argument: the index of the descriptor among the arguments. is_method: the value is that of a
    call.
    """

    argument: int
    of_base: bool
    name: str
    value: Any
    is_method: bool = False


class CallGuards(NamedTuple):
    """The conditions under which a call is a launch of an entry.

    limits: the greatest extents of its grid, a tuple of one to three integers from 1 on, or a
    function that returns one. states: objects, and whether each is true. readings: functions, and
    the object that each returns; the last one is called if all else but pairs, fields and the grid
    holds. names: of the arguments passed by name, which come last. constants: what a grid function
    gets besides the arguments, by name. pairs: numbers of tensors that do not overlap; length:
    returns the bytes from the first element of a tensor that is not contiguous to its end.
    """

    limits: tuple[int, int, int]
    states: tuple[tuple[Any, bool], ...]
    readings: tuple[tuple[Callable[[], Any], Any], ...]
    names: tuple[str, ...]
    arguments: tuple[ArgumentGuard, ...]
    constants: dict[str, Any]
    fields: tuple[FieldGuard, ...] = ()
    pairs: tuple[tuple[int, int], ...] = ()
    length: Callable[[Any], int] | None = None


class BoundLaunch(NamedTuple):
    """Launches that repeat an earlier one with other values.

    run: takes the grid's three extents and the values. fixed: for a grid, and for each value of
    `run` a number or what stands for it, returns a function of the values passed alone, after the
    tuples of items. inline_cache: takes guards, a function to call with the tensors, `run`, the
    kernel, and a function for calls for which they do not hold. It returns a function of a grid and
    the arguments of a call, which returns the kernel. descriptor_maker, address_reader: make the
    descriptors of such launches, and read the addresses of tensors, in less time.
    """

    run: FastLaunch
    fixed: Callable[[Grid, Sequence[int | float | Passed | Item]], FastLaunch]
    inline_cache: InlineCache | None = None
    descriptor_maker: MakerOf | None = None
    address_reader: ReaderOf | None = None


@runtime_checkable
class FastLaunchable(Protocol):
    """A loaded kernel with a fast path for launches like a previous one."""

    def bind(
        self, arguments: Sequence[LaunchArgument | None], fixed: Collection[int]
    ) -> BoundLaunch | None:
        """Return what repeats the last launch, done with these arguments; None if nothing does.

        `run` takes the grid's three extents and one value for each argument, except those in
        `fixed`, whose values stay the same: for an array, the address of another one of the same
        library, dtype and device; for a scalar, a Python number. None stands for a number that the
        kernel does not take. The function launches and returns True; or it does nothing and returns
        False if an ordinary launch is needed, which also raises the errors of an invalid launch.
        Any thread may call it.
        """


@runtime_checkable
class Preloaded(Protocol):
    """A backend that can load what it compiles with while a function is compiled to TILE IR."""

    def preload(self) -> None:
        """Start to load it in a thread, once a process."""


@runtime_checkable
class Steppable(Protocol):
    """A backend whose kernels a debugger can follow."""

    def steps(self, target: Target) -> DebugSteps:
        """Return which of the kernels for a target have steps."""


@dataclass(frozen=True)
class Diagnostics:
    """The diagnostics that launches of a kernel support; by default none.

    - `checks`: supported checks; `collects`: True if a report can collect their faults.
    - `traces`: True if `tile.trace` records their accesses.
    - `settings`: settings of the interpreter that they respect, as attributes of `config`.
    """

    checks: Checks = NONE
    collects: bool = False
    traces: bool = False
    settings: frozenset[str] = frozenset()


@runtime_checkable
class Diagnosing(Protocol):
    """A backend whose launches support diagnostics."""

    def diagnostics(self, artifact: Artifact) -> Diagnostics:
        """Return the diagnostics that launches of a compiled kernel support."""


@runtime_checkable
class Debuggable(Protocol):
    """A loaded kernel that stops at its breakpoints if `open_debugger` is set."""

    open_debugger: Any  # creates a debugger if none follows the launch


class Requirement(NamedTuple):
    """A requirement of a backend: the parts that are present, or how to install it."""

    part: str
    lines: tuple[str, ...] = ()  # one line per item
    missing: str = ""


@runtime_checkable
class AliasSpecialized(Protocol):
    """A backend that makes better code of launches whose arrays do not overlap.

    Its artifacts say which of the assumptions they rely on (`Artifact.noalias`).
    """

    specializes_noalias: bool


@runtime_checkable
class ThreadLowering(Protocol):
    """A backend that lowers tiles to threads, so that the SIMT simulator can run its kernels."""

    def lowering_target(self, target: Target) -> SimtTarget:
        """Return the description by which passes lower kernels for a target.

        Raises `BackendError` for an unknown architecture or device.
        """


@runtime_checkable
class DeviceNamed(Protocol):
    """A backend that names the device of a target, as results of measurements depend on it."""

    def device_names(self, target: Target) -> list[str]:
        """Return the names and versions of the device and its driver.

        Raises `BackendError` if there is no device.
        """


@runtime_checkable
class Surveyable(Protocol):
    """A backend that reports which of its requirements this machine has."""

    def survey(self) -> Sequence[Requirement]:
        """Return its requirements and its devices; missing ones raise nothing."""
