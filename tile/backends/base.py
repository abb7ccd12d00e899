"""What a backend is.

It compiles a module to an artifact without a device, and loads that to run it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from tile.brief import brief
from tile.checks import NONE, Checks, choose, spelled
from tile.errors import ArgumentTypeError, ArgumentValueError, UnsupportedError
from tile.ir.types import Pointer, Scalar, is_power_of_two
from tile.late import late

if TYPE_CHECKING:  # what a process that finds its kernels on disk does not import
    from tile.ir.core import Module
    from tile.ir.parser import parse_module
    from tile.ir.printer import print_module
    from tile.ir.steps import Steps
else:
    parse_module = late("tile.ir.parser", "parse_module")
    print_module = late("tile.ir.printer", "print_module")

Grid = tuple[int, int, int]


class DeviceMemory(Protocol):
    """An array in a device's memory, which a backend for that device accesses in place.

    `device` is its kind and, where that is known, its number, as in `cuda:1`; `address` is that of
    the first element, and `source` the object of the library that made it.
    """

    @property
    def device(self) -> str: ...
    @property
    def address(self) -> int: ...
    @property
    def source(self) -> object: ...


LaunchArgument = np.ndarray[Any, np.dtype[Any]] | np.generic | DeviceMemory


@dataclass(frozen=True)
class Target:
    """Where a kernel shall run: a backend, and for some an architecture, as in `nvptx:sm_90a`."""

    backend: str
    arch: str = ""

    @classmethod
    def parse(cls, text: str) -> Target:
        backend, _, arch = text.partition(":")
        return cls(backend, arch)

    def __str__(self) -> str:
        return f"{self.backend}:{self.arch}" if self.arch else self.backend


@dataclass(frozen=True)
class Options:
    """What a launch asks of the compiler besides the program itself.

    `num_ctas` programs in a row along axis 0 of the grid run at the same time, close together, as
    one cluster, where devices have clusters and the grid is a multiple of them; what programs
    compute never depends on it.
    `thread_tile` and `warp_rows` are sizes of matrix products inside a program: the edge of a
    thread's squares where threads multiply alone, and how many warps share the rows of the result
    (0: as its shape suggests). `sanitize` names checks as `tile.sanitize` does (None: those that
    are in force), which the interpreter does on tiles and others refuse.
    """

    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    maxnreg: int | None = None
    enable_fp_fusion: bool = True
    launch_cooperative_grid: bool = False
    debug: bool = False
    thread_tile: int = 4
    warp_rows: int = 0
    sanitize: str | tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        limits = {"num_warps": 32, "num_ctas": 16, "thread_tile": 16}
        if self.warp_rows != 0:
            limits["warp_rows"] = self.num_warps
        for name, most in limits.items():
            value = getattr(self, name)
            if not isinstance(value, int) or not (is_power_of_two(value) and value <= most):
                raise ArgumentValueError(
                    f"{name} is a power of two up to {most}, not {brief(value)}"
                )
        stages: object = self.num_stages  # whatever the caller passed
        if not isinstance(stages, int) or stages < 0:
            raise ArgumentValueError(f"num_stages is a number from 0 on, not {brief(stages)}")
        _ = self.checks

    @property
    def checks(self) -> Checks | None:
        """The checks that `sanitize` names."""
        try:
            return None if self.sanitize is None else choose(self.sanitize)
        except (TypeError, ValueError) as error:
            raise ArgumentValueError(f"the option sanitize: {error}") from None

    def refuse_checks(self, target: Target, offered: Checks = NONE) -> None:
        """Refuse checks that the option asks for and launches on `target` do not do.

        Checks that a setting asks for are looked at when a kernel is launched.
        """
        missing = (self.checks or NONE) - offered
        if missing:
            raise unchecked("the option sanitize", missing, target)

    @property
    def lowering(self) -> dict[str, int]:
        """Those that the lowering from tiles to threads takes."""
        return {
            name: getattr(self, name)
            for name in ("num_warps", "num_stages", "thread_tile", "warp_rows")
        }

    @classmethod
    def names(cls) -> frozenset[str]:
        return frozenset(f.name for f in fields(cls))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Options:
        """Options by name; refuses names that do not exist."""
        unknown = sorted(set(values) - cls.names())
        if unknown:
            known = ", ".join(sorted(cls.names()))
            raise ArgumentTypeError(f"there is no option {unknown[0]!r}; options are {known}")
        return cls(**values)


def unchecked(who: str, missing: Checks, target: Target) -> UnsupportedError:
    """Return the error for checks that `who` asks for and launches on `target` do not do."""
    return UnsupportedError(
        f"{who} asks for checks that {target} does not do: {spelled(missing)}; the interpreter "
        "does them on tiles: set TILE_BACKEND=interp (and no other TILE_INTERP_LEVEL than tile)"
    )


@dataclass(frozen=True, eq=False)
class Artifact:
    """A compiled kernel: the text or bytes of every stage, by the stage's name, in order.

    `parameters` are those of the kernel's function, and `written` those through which it writes
    memory. `facts` are what `Backend.load` needs besides, as JSON can say it, so that an artifact
    may be kept on disk; `inputs` are the files, besides those of packages, that it was made from.
    `stops` says that the kernel has a `breakpoint()`.
    `module` is the last IR, for backends that run it, and `code` what they made of it to see that
    they can, so that `Backend.load` need not make it again.
    """

    kernel: str
    target: Target
    options: Options
    stages: dict[str, str | bytes]
    parameters: tuple[str, ...]
    written: frozenset[str] = field(default_factory=frozenset)
    facts: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[Path, ...] = ()
    stops: bool = False
    module: Module | None = None
    code: Any = None

    def __reduce__(self) -> tuple[Callable[..., Artifact], tuple[Any, ...]]:
        """All but `code`, with the IR as text, which keeps places and needs no deep recursion."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        text = None if self.module is None else print_module(self.module, locations=True)
        return _restored, ({**values, "module": None, "code": None}, text)


def _restored(values: Mapping[str, Any], module: str | None) -> Artifact:
    return Artifact(**{**values, "module": None if module is None else parse_module(module)})


class Executable(Protocol):
    """A loaded kernel."""

    def launch(self, grid: Grid, arguments: Sequence[LaunchArgument]) -> None:
        """Run the kernel over the grid. One argument to each parameter of the kernel's function.

        Arrays, those of the backend's own devices too, are accessed in place, or as if they were.
        A scalar is a NumPy scalar of the parameter's type.
        """


class KernelInfo(NamedTuple):
    """What a device says of a kernel that is loaded there; None is what it does not say.

    - `device`: where that is.
    - `threads`: that run one program, and `max_threads`: that could, with as many registers.
    - `registers`: of 32 bits, of one thread.
    - `local_bytes`: of memory that one thread has for itself alone: its stack, and what registers
      did not hold.
    - `shared_bytes`: of memory that the threads of a program share.
    - `cluster`: programs in a row that run at the same time, close together (`num_ctas`, or 1
      where the device has no clusters), and `clusters`: that the device runs at once.
    - `programs`: that one multiprocessor runs at once, and `occupancy`: the share of the threads
      that it could run, from 0 to 1, that these are.
    - `binary_version`: of the instructions, such as `9.0`.
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
    """A loaded kernel that can tell what it takes of a device."""

    def info(self) -> KernelInfo:
        """What the current device says of it; it is loaded there if it was not yet."""


class Timer(Protocol):
    """Marks the start and the end of calls and says afterwards how long each took.

    A device whose launches return before the work is done records an event at each mark, and may
    empty its caches in `start` before recording.
    """

    def start(self) -> None:
        """Mark the start of a call."""

    def stop(self) -> None:
        """Mark its end."""

    def elapsed(self) -> list[float]:
        """Wait for all to be done; ms of each start-stop pair since the last `elapsed`."""


@runtime_checkable
class Timed(Protocol):
    """A loaded kernel whose launches may return before they are over."""

    def timer(self) -> Timer:
        """A clock for calls that launch where this kernel was launched last."""


class ExportedParameter(NamedTuple):
    """An argument of a kernel's launch: its name, type, what its value is divisible by.

    `spelling` is the type as signatures have it.
    """

    name: str
    type: Scalar | Pointer
    divisible: int
    spelling: str


@runtime_checkable
class Exportable(Protocol):
    """A backend whose kernels programs without Python can use."""

    def export(
        self, artifact: Artifact, name: str, parameters: Sequence[ExportedParameter]
    ) -> Mapping[str, str | bytes]:
        """Files besides the stages' own, by their endings; `name` is for functions in them."""


Repeat = Callable[..., bool]  # see `Repeatable.bind`


@runtime_checkable
class Repeatable(Protocol):
    """A loaded kernel that launches faster where a launch like it was done before."""

    def bind(
        self, arguments: Sequence[LaunchArgument | None], fixed: Collection[int]
    ) -> Repeat | None:
        """How to repeat a launch that was just done with these arguments, if there is a way.

        The result takes a grid's three extents and one value in each argument's place but those in
        `fixed`, which are the same each time: for an array the address of another one of the same
        library, dtype and device, and for a scalar a Python number; None is the place of a number
        that the kernel does not take. It launches and returns
        True, or returns False, with nothing done, where that takes an ordinary launch, which also
        says what is wrong with those that cannot be done. Any thread calls it.
        """


@runtime_checkable
class Steppable(Protocol):
    """A backend whose kernels a debugger can follow."""

    def steps(self, target: Target) -> Steps:
        """Which of the kernels for a target are to have steps."""


@dataclass(frozen=True)
class Diagnostics:
    """The diagnostics that launches of a kernel support; by default none.

    - `checks`: those that they do, and `collects`: whether a report may take their faults.
    - `traces`: whether `tile.trace` records their accesses.
    - `settings`: the settings of the interpreter that they follow, by attribute of `config`.
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
    """A loaded kernel that stops where its program says so, if it is given what to call there."""

    open_debugger: Any  # makes a debugger, where none follows the launch


class Finding(NamedTuple):
    """A part of what a backend needs: what is there of it, or else how it is come by."""

    part: str
    found: tuple[str, ...] = ()  # a line each
    missing: str = ""


@runtime_checkable
class Surveyable(Protocol):
    """A backend that can tell what is there for it on this machine."""

    def survey(self) -> Sequence[Finding]:
        """What it needs, part by part, and its devices; raises nothing for what is missing."""


class Backend(Protocol):
    """One way to run kernels.

    `devices` are the kinds of devices, such as `cuda`, whose arrays its kernels take; those of
    others are copied to the host for it.
    """

    name: str
    devices: frozenset[str]

    def resolve(self, target: Target, arrays: Iterable[DeviceMemory] = ()) -> Target:
        """The target with all that decides what is compiled for it.

        Where the target leaves the architecture open, it is that of the device in whose memory the
        arrays are, or of the current one; `BackendError` where there is none.
        """

    def identity(self, target: Target) -> str | None:
        """What decides what this backend compiles, besides `tile` itself and the resolved target.

        Such as the versions of packages. None where its artifacts cannot be kept on disk.
        """

    def compile(self, module: Module, target: Target, options: Options) -> Artifact:
        """Compile a TILE module, which it may change, for a resolved target; needs no device."""

    def load(self, artifact: Artifact) -> Executable:
        """Make an artifact ready to run; opens the device."""
