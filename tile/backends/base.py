"""Interfaces of backends.

A backend compiles a module to an artifact without a device, and loads the artifact to run it. A
launch reports a failed assertion of the kernel by the assertion's number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tile._lazy import lazy_import
from tile.checks import NONE, Checks, format_checks, parse_checks
from tile.errors import (
    ArgumentTypeError,
    ArgumentValueError,
    DeviceAssertionError,
    UnsupportedError,
)
from tile.ir.extents import is_power_of_two
from tile.ir.types import Precision
from tile.location import Loc
from tile.short_repr import short_repr

if TYPE_CHECKING:  # imported lazily: a process whose kernels are cached on disk needs none of it
    from tile.ir.module import Module
    from tile.ir.parser import parse_module
    from tile.ir.printer import print_module
    from tile.simt.tile_sizes import parse_tile_sizes
    from tile.simt.tma_uses import parse_tma_uses
else:
    parse_module = lazy_import("tile.ir.parser", "parse_module")
    print_module = lazy_import("tile.ir.printer", "print_module")
    parse_tile_sizes = lazy_import("tile.simt.tile_sizes", "parse_tile_sizes")
    parse_tma_uses = lazy_import("tile.simt.tma_uses", "parse_tma_uses")

Grid = tuple[int, int, int]


class DeviceMemory(Protocol):
    """An array in a device's memory, which a backend for that device accesses in place.

    `device` is the kind and, if known, the number of the device, as in `cuda:1`; `address` is that
    of the first element; `source` is the object of the library that created the array.
    """

    @property
    def device(self) -> str: ...
    @property
    def address(self) -> int: ...
    @property
    def source(self) -> object: ...


LaunchArgument = np.ndarray[Any, np.dtype[Any]] | np.generic | DeviceMemory


def footprint(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, int]:
    """Return the bytes [low, high) that an array covers, relative to its first element."""
    if 0 in shape:
        return 0, 0
    reach = [stride * (extent - 1) for stride, extent in zip(strides, shape, strict=True)]
    return sum(n for n in reach if n < 0), sum(n for n in reach if n > 0) + itemsize


def accessible(array: np.ndarray[Any, np.dtype[Any]]) -> tuple[int, int]:
    """Return the bytes [low, high) that kernels may access, relative to an array's first element.

    They are those that its elements cover, or the whole storage of a `StorageView`.
    """
    storage: tuple[int, int] | None = getattr(array, "storage_span", None)
    return storage or footprint(array.shape, array.strides, array.itemsize)


@dataclass(frozen=True)
class Target:
    """A compilation target: a backend, and for some an architecture, as in `nvptx:sm_90a`."""

    backend: str
    arch: str = ""

    @classmethod
    def parse(cls, text: str) -> Target:
        backend, _, arch = text.partition(":")
        return cls(backend, arch)

    def __str__(self) -> str:
        return f"{self.backend}:{self.arch}" if self.arch else self.backend


MOST_WARPS = 1 << 16  # for the interpreter, whose results do not depend on them


@dataclass(frozen=True)
class Options:
    """Compiler options of a launch.

    `num_ctas` consecutive programs along axis 0 of the grid run concurrently as one thread block
    cluster, if the device has clusters and the grid is a multiple of it; results do not depend on
    it. Two of them load what both read once, and kernels that ask for clusters exchange numbers
    (`tile/simt/ops/cluster.py`). With `launch_pdl`,
    programs may start before the launch that precedes theirs in the stream is complete, and wait
    for it before they access memory (programmatic dependent launch). `max_programs` limits how many
    programs are co-resident on a multiprocessor of an NVIDIA GPU. `thread_tile` and
    `warp_rows` are sizes of dots inside a program: the edge of the square that one thread computes
    in dots without mma, and the number of warps along the rows of the result (0: chosen by its
    shape); `tile_sizes` has sizes of single dots, loads and stores (`tile.simt.tile_sizes`).
    `warp_specialize` decides for the loops whose `tl.range` does not say
    whether producer warps issue their TMA loads (None: the compiler). `tma` names uses of TMA other
    than by descriptors (`tile.simt.tma_uses`), as in "stores+pointers" (None: those that pay).
    `sanitize` names checks as `tile.sanitize` does (None: those of the configuration); the
    interpreter supports them on tiles, other backends refuse them. `default_dot_input_precision` is
    the precision of dots of float32 that state none (`tl.dot`).
    """

    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    maxnreg: int | None = None
    max_programs: int | None = None
    enable_fp_fusion: bool = True
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    debug: bool = False
    thread_tile: int = 4
    warp_rows: int = 0
    tile_sizes: str = ""
    warp_specialize: bool | None = None
    tma: str | None = None
    sanitize: str | tuple[str, ...] | None = None
    default_dot_input_precision: str = Precision.IEEE.value

    def __post_init__(self) -> None:
        # The warps of a program are limited by the target; the interpreter has no threads.
        limits = {"num_warps": MOST_WARPS, "num_ctas": 16, "thread_tile": 16}
        if self.warp_rows != 0:
            limits["warp_rows"] = self.num_warps
        for name, most in limits.items():
            value = getattr(self, name)
            if not isinstance(value, int) or not is_power_of_two(value) or value > most:
                raise ArgumentValueError(
                    f"{name} must be a power of two up to {most}, not {short_repr(value)}"
                )
        if self.default_dot_input_precision not in tuple(Precision):
            raise ArgumentValueError(
                f"default_dot_input_precision is one of {', '.join(Precision)}, not "
                f"{short_repr(self.default_dot_input_precision)}"
            )
        stages: object = self.num_stages  # whatever the caller passed
        if not isinstance(stages, int) or stages < 0:
            raise ArgumentValueError(
                f"num_stages must be a non-negative integer, not {short_repr(stages)}"
            )
        for name in ("maxnreg", "max_programs"):
            number: object = getattr(self, name)
            if number is not None and (not isinstance(number, int) or number < 1):
                raise ArgumentValueError(
                    f"{name} must be a positive integer or None, not {short_repr(number)}"
                )
        for name in ("enable_fp_fusion", "launch_cooperative_grid", "launch_pdl", "debug"):
            _require_one_of(name, getattr(self, name), (False, True))
        _require_one_of("warp_specialize", self.warp_specialize, (None, False, True))
        sizes: object = self.tile_sizes
        if not isinstance(sizes, str):
            raise ArgumentTypeError(
                f"tile_sizes is a text such as 'dot0:2x8@4+load1:4', not {short_repr(sizes)}"
            )
        if sizes:
            parse_tile_sizes(sizes)
        uses: object = self.tma
        if not isinstance(uses, str | None):
            raise ArgumentTypeError(
                f"tma is a text such as 'stores+pointers' or None, not {short_repr(uses)}"
            )
        if uses:
            parse_tma_uses(uses)
        _ = self.checks

    @property
    def checks(self) -> Checks | None:
        """The checks that `sanitize` names."""
        sanitize = self.sanitize
        return None if sanitize is None else requested_checks(sanitize, "the option sanitize")

    def refuse_checks(self, target: Target, offered: Checks = NONE) -> None:
        """Raise `UnsupportedError` if the option requests checks that `target` does not support.

        `offered` are those that it does. Checks of the configuration are verified at launch.
        """
        missing = (self.checks or NONE) - offered
        if missing:
            raise unsupported_checks_error("the option sanitize", missing, target)

    @property
    def lowering(self) -> dict[str, Any]:
        """The options of the lowering from tiles to threads, by name."""
        names = ("num_warps", "num_stages", "thread_tile", "warp_rows")
        rare: dict[str, Any] = {"tile_sizes": self.tile_sizes} if self.tile_sizes else {}
        if self.warp_specialize is not None:
            rare["warp_specialize"] = bool(self.warp_specialize)
        if self.tma is not None:
            rare["tma"] = self.tma
        if self.num_ctas != 1:
            rare["num_ctas"] = self.num_ctas
        if self.maxnreg is not None:
            rare["maxnreg"] = self.maxnreg
        return {name: getattr(self, name) for name in names} | rare

    @classmethod
    def names(cls) -> frozenset[str]:
        return frozenset(f.name for f in fields(cls))

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Options:
        """Return options by name. Raises `ArgumentTypeError` for an unknown name."""
        unknown = sorted(set(values) - cls.names())
        if unknown:
            valid = ", ".join(sorted(cls.names()))
            raise ArgumentTypeError(f"there is no option {unknown[0]!r}; options are {valid}")
        return cls(**values)


def _require_one_of(name: str, value: object, valid: Sequence[bool | None]) -> None:
    if not isinstance(value, bool | int | np.bool_ | None) or value not in valid:
        choices = ", ".join(map(repr, valid[:-1])) + f" or {valid[-1]}"
        raise ArgumentValueError(f"{name} must be {choices}, not {short_repr(value)}")


def requested_checks(selection: str | Iterable[str], requester: str) -> Checks:
    """Return the checks that a user names, or raise `ArgumentError`, naming `requester`."""
    try:
        return parse_checks(selection)
    except ValueError as error:
        raise ArgumentValueError(f"{requester}: {error}") from None
    except TypeError as error:
        raise ArgumentTypeError(f"{requester}: {error}") from None


def unsupported_checks_error(requester: str, missing: Checks, target: Target) -> UnsupportedError:
    """Return the error for checks that `requester` names and `target` does not support."""
    return UnsupportedError(
        f"{requester} asks for checks that {target} does not do: {format_checks(missing)}; the "
        "interpreter does them on tiles: set TILE_BACKEND=interp (and no other TILE_INTERP_LEVEL "
        "than tile)"
    )


@dataclass(frozen=True, eq=False)
class Artifact:
    """A compiled kernel: the text or bytes of every stage, by the stage's name, in order.

    `parameters` are those of the kernel's function, and `written` those through which it writes
    memory. Its code is wrong for a launch in which the array of a parameter in `noalias` overlaps
    that of one in `written`, or the arrays of a pair in `disjoint` overlap. `launch_metadata` is
    further data for `Backend.load`, serializable as JSON, so that an artifact can be cached on
    disk; `inputs` are the files, besides those of packages, that the artifact depends on. `stops`
    is True if the kernel has a `breakpoint()`. `module` is the last IR, for backends that run it,
    and `code` their translation of it, or a function that translates it once, so that
    `Backend.load` need not repeat it.
    """

    kernel: str
    target: Target
    options: Options
    stages: dict[str, str | bytes]
    parameters: tuple[str, ...]
    written: frozenset[str] = frozenset()
    noalias: frozenset[str] = frozenset()
    disjoint: frozenset[tuple[str, str]] = frozenset()
    launch_metadata: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[Path, ...] = ()
    stops: bool = False
    module: Module | None = None
    code: Any = None

    def __reduce__(self) -> tuple[Callable[..., Artifact], tuple[Any, ...]]:
        """Pickle all but `code`; the IR as text, which keeps locations and needs no recursion."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        text = None if self.module is None else print_module(self.module, locations=True)
        return _restored, ({**values, "module": None, "code": None}, text)


def _restored(values: Mapping[str, Any], module: str | None) -> Artifact:
    return Artifact(**{**values, "module": None if module is None else parse_module(module)})


class Executable(Protocol):
    """A loaded kernel."""

    def launch(self, grid: Grid, arguments: Sequence[LaunchArgument]) -> None:
        """Run the kernel over the grid, with one argument for each parameter of its function.

        Arrays, also those on the backend's own devices, are accessed in place, or as if in place.
        A scalar is a NumPy scalar of the parameter's type.
        """


class Backend(Protocol):
    """A backend compiles and runs kernels.

    `devices` are the kinds of devices, such as `cuda`, whose arrays its kernels access in place;
    arrays of other devices are copied to the host.
    """

    name: str
    devices: frozenset[str]

    def resolve(self, target: Target, arrays: Iterable[DeviceMemory] = ()) -> Target:
        """Return the target with everything that determines what is compiled for it.

        If the target has no architecture, it becomes that of the device in whose memory the arrays
        are, or of the current one. Raises `BackendError` if there is none.
        """

    def identity(self, target: Target) -> str | None:
        """Return the cache key of this backend besides `tile` itself and the resolved target.

        For example versions of packages. None if its artifacts cannot be cached on disk.
        """

    def compile(self, module: Module, target: Target, options: Options) -> Artifact:
        """Compile a TILE module, which it may change, for a resolved target; needs no device."""

    def load(self, artifact: Artifact) -> Executable:
        """Load an artifact for execution; opens the device."""


@dataclass(frozen=True)
class Assertion:
    """The message and location of a `device_assert`."""

    message: str
    loc: Loc | None

    def failure(self, kernel: str, program: Sequence[int], thread: str) -> DeviceAssertionError:
        """Return the error of a program and a thread in which the assertion was false."""
        message = f": {self.message}" if self.message else ""
        return DeviceAssertionError(
            f"device_assert failed in `{kernel}`{message}",
            loc=self.loc,
            notes=[f"in program ({', '.join(map(str, program))}), {thread}"],
        )

    def data(self) -> list[Any]:
        """Return the assertion as data for JSON; see `of`."""
        return [self.message, [_loc_data(frame) for frame in self.loc.chain()] if self.loc else []]

    @classmethod
    def of(cls, data: Sequence[Any]) -> Assertion:
        """Return the assertion that `data` described."""
        message, locs = data
        loc: Loc | None = None
        for file, line, column, end, function in reversed(locs):
            loc = Loc(file, line, column, end, function, loc)
        return cls(message, loc)


def _loc_data(loc: Loc) -> list[Any]:
    return [loc.file, loc.line, loc.column, loc.end_column, loc.function]
