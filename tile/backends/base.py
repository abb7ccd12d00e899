"""What a backend is.

It compiles a module to an artifact without a device, and loads that to run it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.ir.core import Module
from tile.ir.types import is_power_of_two

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


LaunchArgument = npt.NDArray[Any] | np.generic | DeviceMemory


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

    `thread_tile` and `warp_rows` are sizes of matrix products inside a program: the edge of a
    thread's squares where threads multiply alone, and how many warps share the rows of the result
    (0: as its shape suggests).
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

    def __post_init__(self) -> None:
        limits = {"num_warps": 32, "num_ctas": 16, "thread_tile": 16}
        if self.warp_rows != 0:
            limits["warp_rows"] = self.num_warps
        for name, most in limits.items():
            value = getattr(self, name)
            if not isinstance(value, int) or not (is_power_of_two(value) and value <= most):
                raise ArgumentValueError(f"{name} is a power of two up to {most}, not {value!r}")
        stages: object = self.num_stages  # whatever the caller passed
        if not isinstance(stages, int) or stages < 0:
            raise ArgumentValueError(f"num_stages is a number from 0 on, not {stages!r}")

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


@dataclass(frozen=True, eq=False)
class Artifact:
    """A compiled kernel: the text or bytes of every stage, by the stage's name, in order.

    `module` is the last IR, for backends that run it. `written` names the parameters through
    which the kernel writes memory.
    """

    kernel: str
    target: Target
    options: Options
    stages: dict[str, str | bytes]
    module: Module
    written: frozenset[str] = field(default_factory=frozenset)


class Executable(Protocol):
    """A loaded kernel."""

    def launch(self, grid: Grid, arguments: Sequence[LaunchArgument]) -> None:
        """Run the kernel over the grid. One argument to each parameter of the kernel's function.

        Arrays, those of the backend's own devices too, are accessed in place, or as if they were.
        A scalar is a NumPy scalar of the parameter's type.
        """


Repeat = Callable[[Grid, tuple[Any, ...]], bool]


@runtime_checkable
class Repeatable(Protocol):
    """A loaded kernel that launches faster where a launch like it was done before."""

    def bind(self, arguments: Sequence[LaunchArgument | None]) -> Repeat | None:
        """How to repeat a launch that was just done with these arguments, if there is a way.

        The result takes a grid and one value in each argument's place: for an array the address of
        another one of the same library, dtype and device, and for a scalar a Python number; None
        is the place of a number that the kernel does not take. It launches and returns True, or
        returns False, with nothing done, where that takes an ordinary launch. Any thread calls it.
        """


class Backend(Protocol):
    """One way to run kernels.

    `devices` are the kinds of devices, such as `cuda`, whose arrays its kernels take; those of
    others are copied to the host for it.
    """

    name: str
    devices: frozenset[str]

    def compile(self, module: Module, target: Target, options: Options) -> Artifact:
        """Compile a TILE module, which it may change; needs no device."""

    def load(self, artifact: Artifact) -> Executable:
        """Make an artifact ready to run; opens the device."""
