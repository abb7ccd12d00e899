"""Compiled kernels: kernels specialized for types and constants, their stages and launches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tile import backends
from tile._lazy import lazy_import
from tile.backends.base import Artifact, Backend, Executable, Grid, Options, Target
from tile.backends.capabilities import (
    BoundLaunch,
    Debuggable,
    Diagnostics,
    FastLaunchable,
    Informative,
    KernelInfo,
)
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.frontend.python.source import DeviceFunction
from tile.language.base.constexpr import constexpr
from tile.runtime.arguments.autograd import NoteWrites, note_writes, tensors_in
from tile.runtime.arguments.device_arrays import DeviceArray, host_copies
from tile.runtime.arguments.storage_view import with_storage
from tile.runtime.binding import OPTION_DEFAULTS, assignments, fit, quoted
from tile.runtime.callbacks import HookChain, launch_started
from tile.runtime.grid import normalize_grid
from tile.runtime.kernel_metadata import KernelDescription, Stages
from tile.runtime.kernel_parameters import KernelParameters
from tile.runtime.launch_diagnostics import diagnosed, supported_diagnostics
from tile.runtime.launch_hooks import active_observer
from tile.runtime.signature import Path
from tile.runtime.specialize import (
    Constant,
    Leaf,
    spell_leaf,
    spell_specialized,
    with_aliased,
)
from tile.short_repr import short_repr
from tile.tracebacks import public_function

if TYPE_CHECKING:
    from tile.debugger.commands import open_debugger
    from tile.runtime.compiler import compile_for_overlap
else:
    open_debugger = lazy_import("tile.debugger.commands", "open_debugger")
    compile_for_overlap = lazy_import("tile.runtime.compiler", "compile_for_overlap")


LAUNCHER_ARGUMENTS = 9  # of Triton's launchers, in front of the kernel's own


class Launches(Protocol):
    """Remembers launches of a compiled kernel, to repeat them faster."""

    def remember(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        arguments: Sequence[Any],
        meta: Mapping[str, Any],
        launched: CompiledKernel,
    ) -> None:
        """Remember a launch; see `tile.runtime.compiled_fast_path`."""


class CompiledKernel(KernelDescription):
    """A compiled kernel.

    - `asm`: the text of every stage by name: `source`, then the backend's, from `tile` (the IR from
      the frontend) on.
    - `name`, `target`, `options`; `constants` by parameter; `signature`: each parameter's type.
    - `written`: names of the parameters through which it writes memory.
    - `leaves`: the specialization of each parameter; `parameters`: their launch arguments.

    `kernel[grid](*arguments)` launches it; the arguments are the runtime ones in order or by name,
    or all of the function's in order, of which the constants must be those that are compiled in.
    """

    def __init__(
        self,
        artifact: Artifact,
        backend: Backend,
        leaves: Mapping[str, Leaf],
        *,
        name: str,
        source: str,
        fn: DeviceFunction | None = None,
    ) -> None:
        """Initialize from an artifact that was compiled for `leaves`; `fn` is the function."""
        self.artifact = artifact
        self.name = name
        self.target: Target = artifact.target
        self.options: Options = artifact.options
        self.fn = fn
        self.asm = Stages({"source": source, **artifact.stages})
        self.signature: dict[str, Any] = {n: spell_leaf(leaf) for n, leaf in leaves.items()}
        self.constants = {n: leaf.value for n, leaf in leaves.items() if isinstance(leaf, Constant)}
        self._loader = _Loader(backend)
        self.launches: Launches | None = None  # of kernels that a jitted function has compiled
        self._latest: Callable[..., object] | None = None
        self.leaves = dict(leaves)
        self.parameters = KernelParameters(name, artifact, leaves)

    @property
    def _backend(self) -> Backend:
        return self._loader.backend

    @functools.cached_property
    def executable(self) -> Executable:
        """The kernel as loaded by its backend; it is loaded on first access."""
        loaded = self._backend.load(self.artifact)
        if isinstance(loaded, Debuggable):
            loaded.open_debugger = open_debugger
        return loaded

    @property
    @public_function
    def info(self) -> KernelInfo:
        """The resources of the kernel on the device: registers, memory, occupancy.

        The device is the current one; the kernel is loaded if necessary. For a backend without
        device resources, `device` says so and there are no numbers. Raises `BackendError` if there
        is no device.
        """
        executable = self.executable
        if isinstance(executable, Informative):
            return executable.info()
        return KernelInfo(f"none: the {self.target.backend} backend runs kernels in NumPy")

    def _init_handles(self) -> None:
        """Load the kernel.

        A library that pickles the attributes one by one may have set `run` to None meanwhile.
        """
        if vars(self).get("run", self) is None:
            del self.run  # of this object: the method stays
        _ = self.executable

    def __reduce__(self) -> tuple[Callable[..., CompiledKernel], tuple[Any, ...]]:
        """Return the recipe to pickle the kernel; another process loads it at its first launch."""
        source = self.asm["source"]
        return _restored, (self.artifact, self._backend.name, self.leaves, self.name, source)

    def __repr__(self) -> str:
        return f"<CompiledKernel {spell_specialized(self.name, self.leaves)} for {self.target}>"

    # -- launching with unchecked arguments

    def __getitem__(self, grid: Any) -> Callable[..., object]:
        """Return the launch function of the kernel's arguments, on `grid`."""
        if self._latest is None or grid is None or "run" in vars(self):  # replaced by a tool
            return functools.partial(self.run, grid=grid)
        return MethodType(self._latest, grid)

    def launch_by(self, launch: Callable[..., object]) -> None:
        """Let `kernel[grid]` call `launch(grid, *args, **kwargs)`."""
        self._latest = launch

    @public_function
    def run(self, *args: Any, grid: Any = None, **kwargs: Any) -> None:
        """Launch on a grid. Raises `ArgumentError` if the arguments do not match the kernel.

        Without `grid`, the first arguments are those of Triton's launchers: three extents of the
        grid, a stream, the function, its metadata, the launch's metadata, and the functions to call
        before and after the launch. The stream is always the current one of the arrays' library.
        """
        if grid is not None:
            values = self._with_constants(args, kwargs)
            self.tell_autograd([values[name] for name in self.leaves])
            self._run(grid, args, kwargs)
            return
        if len(args) < LAUNCHER_ARGUMENTS:
            raise ArgumentTypeError(f"{self.name} needs a grid: {self.name}[grid](...)")
        extents, (_, _, _, metadata, enter, leave) = args[:3], args[3:LAUNCHER_ARGUMENTS]
        if enter is not None and not isinstance(enter, HookChain):  # launches call these anyway
            enter(metadata)
        self._run(extents, args[LAUNCHER_ARGUMENTS:], kwargs)
        if leave is not None and not isinstance(leave, HookChain):
            leave(metadata)

    def _run(self, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        values = self._with_constants(args, kwargs)
        arguments = self._checked(values)
        meta = {**{n: getattr(self.options, n) for n in OPTION_DEFAULTS}, **values}
        extents = normalize_grid(grid(meta) if callable(grid) else grid)
        kernel = self if self.parameters.overlap(arguments) is None else self._for_overlap
        kernel.execute(extents, arguments, [values[name] for name in self.leaves])
        if self.launches is not None and 0 not in extents:
            self.launches.remember(args, kwargs, arguments, meta, kernel)

    @functools.cached_property
    def _for_overlap(self) -> CompiledKernel:
        """The kernel compiled without the assumption that its arrays do not overlap."""
        artifact = compile_for_overlap(self.artifact, self._backend)
        leaves = {name: with_aliased(leaf) for name, leaf in self.leaves.items()}
        source = self.asm["source"]
        assert isinstance(source, str)
        return CompiledKernel(
            artifact, self._backend, leaves, name=self.name, source=source, fn=self.fn
        )

    @public_function
    def launch_arguments(self, *args: Any, **kwargs: Any) -> list[Any]:
        """Return the launch arguments: one for each parameter of the kernel's IR function.

        Raises `ArgumentError` if the arguments do not match the kernel.
        """
        return self._checked(self._with_constants(args, kwargs))

    def _with_constants(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return {**self.constants, **self._bind(args, kwargs)}

    def _checked(self, values: Mapping[str, Any]) -> list[Any]:
        leaves = self.leaves.items()
        arguments = self.parameters.pack(
            [fit(values[n], leaf, f"argument {n!r} of {self.name}()") for n, leaf in leaves]
        )
        self.parameters.refuse_overlap(arguments, promised=True)
        if getattr(self.fn, "whole_storage", False):
            return [with_storage(argument) for argument in arguments]
        return arguments

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = [name for name in self.leaves if name not in self.constants]
        if len(args) == len(self.leaves) != len(names) and not kwargs:
            return self._without_constants(args)
        values = {**dict(zip(names, args, strict=False)), **kwargs}
        twice = set(names[: len(args)]) & set(kwargs)
        if len(args) > len(names) or twice or values.keys() != set(names):
            takes = quoted(names) if names else "no arguments"
            by_name = f" and {quoted(list(kwargs))} by name" if kwargs else ""
            constants = f"its constants are {assignments(self.constants)}"
            raise ArgumentTypeError(
                f"{self.name}, as compiled, takes {takes}; it was passed {len(args)} by position"
                f"{by_name}",
                notes=[constants] if self.constants else [],
            )
        return values

    def _without_constants(self, args: tuple[Any, ...]) -> dict[str, Any]:
        """Return the runtime arguments among all; raise if a constant differs from the kernel's."""
        values = dict(zip(self.leaves, args, strict=True))
        for name, constant in self.constants.items():
            value = values.pop(name)
            value = value.value if isinstance(value, constexpr) else value
            if value is not constant and value != constant:
                raise ArgumentValueError(
                    f"argument {name!r} of {self.name}() is {short_repr(value)}, and the kernel "
                    f"was compiled for {short_repr(constant)}"
                )
        return values

    # -- launching with arguments that the kernel was specialized for

    @property
    def written(self) -> frozenset[str]:
        return self.parameters.written_names

    @property
    def disjoint_parameters(self) -> list[tuple[Path, Path]]:
        return self.parameters.disjoint

    @functools.cached_property
    def _diagnostics(self) -> Diagnostics:
        return supported_diagnostics(self._backend, self.artifact)

    def note_writes(self, paths: Sequence[Path]) -> NoteWrites:
        """Return a function that tells autograd of the kernel's writes to tensors.

        paths: of the tensors that the function takes, among the arguments.
        """
        labels = self.parameters.written_paths
        written = {at: labels[path] for at, path in enumerate(paths) if path in labels}
        # Triton's programs may write what they like.
        refuse = not getattr(self.fn, "whole_storage", False)
        return note_writes(self.name, len(paths), written, refuse_gradients=refuse)

    def tell_autograd(self, values: Sequence[Any]) -> None:
        """Tell autograd of the writes of a launch with these values of all parameters."""
        tensors = dict(tensors_in(tuple(values)))
        if tensors:
            self.note_writes([*tensors])(*tensors.values())

    def execute(self, grid: Grid, arguments: Sequence[Any], values: Sequence[Any] = ()) -> None:
        """Run over the grid, on host copies of arrays that are in another device's memory.

        `values` are the caller's values of all parameters, for launch callbacks. A grid with an
        extent of 0 has no programs: nothing is launched or copied. Raises `UnsupportedError`,
        before anything runs, for checks that the backend does not support.
        """
        if 0 in grid:
            return
        with diagnosed(self.name, self.artifact, self._diagnostics):
            finish = launch_started(self, grid, values)
            self._execute(grid, arguments)
            for done in finish:
                done()

    def _execute(self, grid: Grid, arguments: Sequence[Any]) -> None:
        on_device = self._foreign_device_arrays(arguments)
        if not on_device:
            self._launch(grid, arguments)
            return
        hosts = dict(zip(map(id, on_device), host_copies(on_device), strict=True))
        self._launch(grid, [hosts.get(id(a), a) for a in arguments])
        for index, _ in self.parameters.written:
            array = arguments[index]
            if id(array) in hosts:
                array.put(hosts[id(array)])

    def _launch(self, grid: Grid, arguments: Sequence[Any]) -> None:
        """Launch with arguments in memory that the backend can access."""
        self.executable.launch(grid, arguments)
        observer = active_observer()
        if observer is not None:
            written = {label: arguments[index] for index, label in self.parameters.written}
            observer.launch_done(self, grid, dict(reachable_arrays(written)))

    def _foreign_device_arrays(self, arguments: Sequence[Any]) -> list[DeviceArray]:
        """Return the arrays in the memory of devices that the backend does not run on."""
        own = self._backend.devices
        return [
            a for a in arguments if type(a) is DeviceArray and a.device.partition(":")[0] not in own
        ]

    def bind(self, parameters: Sequence[int], arguments: Sequence[Any]) -> BoundLaunch | None:
        """Return the backend's fast launch for the launch just done, or None if there is none.

        It takes a value for each of `parameters`; for a descriptor it is the address of its
        base, as all other fields are part of the key.
        """
        executable = self.executable
        if not isinstance(executable, FastLaunchable) or self._foreign_device_arrays(arguments):
            return None
        return executable.bind(*self.parameters.of_fast_launch(parameters, arguments))


@dataclass(frozen=True)
class _Loader:
    """A backend, which is pickled by its name."""

    backend: Backend

    def __reduce__(self) -> tuple[Callable[[str], _Loader], tuple[str]]:
        return _loader, (self.backend.name,)


def _loader(name: str) -> _Loader:
    return _Loader(backends.get(name))


def _restored(
    artifact: Artifact, backend: str, leaves: Mapping[str, Leaf], name: str, source: str
) -> CompiledKernel:
    return CompiledKernel(artifact, backends.get(backend), leaves, name=name, source=source)


def reachable_arrays(arrays: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the NumPy arrays among `arrays`, and those that pointers in them point to, by label."""
    for label, array in arrays.items():
        if isinstance(array, np.ndarray):
            yield label, array
            for index, target in enumerate(getattr(array, "targets", ())):
                yield from reachable_arrays({f"{label}[{index}]": target})
