"""A kernel compiled for certain types and constants: what it is made of, and how it is launched."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from tile.backends import registry
from tile.backends.base import (
    Artifact,
    Backend,
    Debuggable,
    Diagnostics,
    Executable,
    Grid,
    Informative,
    KernelInfo,
    Options,
    Repeat,
    Repeatable,
    Target,
)
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.language.descriptor_parts import DescriptorParts
from tile.late import late
from tile.runtime.binding import OPTION_DEFAULTS, named, quoted
from tile.runtime.device_arrays import DeviceArray, host_copies
from tile.runtime.diagnostics import diagnosed, supported
from tile.runtime.grid import normalise_grid
from tile.runtime.observer import observing
from tile.runtime.packing import fit, slots, writeable
from tile.runtime.signature import ParameterType
from tile.runtime.specialise import Constant, Leaf, spell_leaf, spell_specialised
from tile.tracebacks import entry

if TYPE_CHECKING:
    from tile.debugger.plain import open_debugger
else:
    open_debugger = late("tile.debugger.plain", "open_debugger")

WATCHERS: list[Callable[[CompiledKernel], None]] = []
"""Functions called at each launch, in the thread of the launch; while there is one, nothing
repeats."""


@contextmanager
def told(watcher: Callable[[CompiledKernel], None]) -> Iterator[None]:
    """Call a function at each launch inside the `with` block, by any thread."""
    WATCHERS.append(watcher)
    try:
        yield
    finally:
        WATCHERS.remove(watcher)


@contextmanager
def watching() -> Iterator[list[Executable]]:
    """The kernels that are launched inside the `with` block, in order, by any thread."""
    launched: list[Executable] = []
    with told(lambda kernel: launched.append(kernel.executable)):
        yield launched


class CompiledKernel:
    """A compiled kernel.

    - `asm`: the text of every stage by name: `source`, then the backend's, from `tile` (the IR as
      the frontend made it) on.
    - `name`, `target`, `options`; `constants` by parameter; `signature`: each parameter's type.
    - `written`: names of the parameters through which it writes memory.
    - `leaves`: by parameter, what it was compiled for.

    `kernel[grid](*arguments)` launches it; the arguments are those that are no constants, in order
    or by name.
    """

    def __init__(
        self,
        artifact: Artifact,
        backend: Backend,
        leaves: Mapping[str, Leaf],
        *,
        name: str,
        source: str,
    ) -> None:
        """Take an artifact that was compiled for `leaves`."""
        self.artifact = artifact
        self.name = name
        self.target: Target = artifact.target
        self.options: Options = artifact.options
        self.asm: dict[str, str | bytes] = {"source": source, **artifact.stages}
        self.signature: dict[str, Any] = {n: spell_leaf(leaf) for n, leaf in leaves.items()}
        self.constants = {n: leaf.value for n, leaf in leaves.items() if isinstance(leaf, Constant)}
        self._backend = backend
        self.leaves = dict(leaves)
        every = [slot for i, (n, leaf) in enumerate(leaves.items()) for slot in slots(i, n, leaf)]
        self._plan = [(slot.parameter, slot.pack) for slot in every]
        written = [
            (i, slot)
            for i, (slot, inner) in enumerate(zip(every, artifact.parameters, strict=True))
            if inner in artifact.written
        ]
        self._written = [(i, slot.label) for i, slot in written]
        parameters = list(leaves)
        self.written = frozenset(parameters[slot.parameter] for _, slot in written)

    @functools.cached_property
    def executable(self) -> Executable:
        """The kernel loaded by its backend, at the first launch."""
        loaded = self._backend.load(self.artifact)
        if isinstance(loaded, Debuggable):
            loaded.open_debugger = open_debugger
        return loaded

    @property
    @entry
    def info(self) -> KernelInfo:
        """What the device says of the kernel: registers, memory, how many programs run at once.

        It is the current device, where the kernel is loaded now if it was not; a backend whose
        kernels take nothing of a device says so in `device`, and knows no numbers. Raises
        `BackendError` where there is no device.
        """
        executable = self.executable
        if isinstance(executable, Informative):
            return executable.info()
        return KernelInfo(f"none: the {self.target.backend} backend runs kernels in NumPy")

    @property
    def metadata(self) -> SimpleNamespace:
        """Name, target, signature, constants, what is written, and all options, as attributes."""
        facts = {
            n: getattr(self, n) for n in ("name", "target", "signature", "constants", "written")
        }
        return SimpleNamespace(**facts, **{n: getattr(self.options, n) for n in OPTION_DEFAULTS})

    def __reduce__(self) -> tuple[Callable[..., CompiledKernel], tuple[Any, ...]]:
        """All but what is loaded: another process loads the kernel at its first launch."""
        source = self.asm["source"]
        return _restored, (self.artifact, self._backend.name, self.leaves, self.name, source)

    def __repr__(self) -> str:
        return f"<CompiledKernel {spell_specialised(self.name, self.leaves)} for {self.target}>"

    # -- launching with arguments of which nothing is known

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        """The kernel as a function of its arguments, on `grid`."""
        return functools.partial(self.run, grid=grid)

    @entry
    def run(self, *args: Any, grid: Any, **kwargs: Any) -> None:
        """Launch on a grid. Raises `ArgumentError` for arguments other than it was compiled for."""
        given = self._given(args, kwargs)
        arguments = self._fitted(given)
        meta = {**{n: getattr(self.options, n) for n in OPTION_DEFAULTS}, **given}
        extents = normalise_grid(grid(meta) if callable(grid) else grid)
        self.execute(extents, arguments)

    @entry
    def launch_arguments(self, *args: Any, **kwargs: Any) -> list[Any]:
        """What a launch is given: one argument to each parameter of the kernel's function.

        Raises `ArgumentError` for arguments other than it was compiled for.
        """
        return self._fitted(self._given(args, kwargs))

    def _given(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return {**self.constants, **self._bind(args, kwargs)}

    def _fitted(self, given: Mapping[str, Any]) -> list[Any]:
        leaves = self.leaves.items()
        return self.prepare(
            [fit(given[n], leaf, f"argument {n!r} of {self.name}()") for n, leaf in leaves]
        )

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = [name for name in self.leaves if name not in self.constants]
        values = {**dict(zip(names, args, strict=False)), **kwargs}
        twice = set(names[: len(args)]) & set(kwargs)
        if len(args) > len(names) or twice or values.keys() != set(names):
            takes = quoted(names) if names else "no arguments"
            by_name = f" and {quoted(list(kwargs))} by name" if kwargs else ""
            constants = f"its constants are {named(self.constants)}"
            raise ArgumentTypeError(
                f"{self.name}, as compiled, takes {takes}; given were {len(args)} by position"
                f"{by_name}",
                notes=[constants] if self.constants else [],
            )
        return values

    # -- launching with arguments that were specialised for

    def prepare(self, values: Sequence[Any]) -> list[Any]:
        """One launch argument to each runtime parameter, from adapted values for all parameters.

        Raises `ArgumentValueError` if the kernel writes an array that is read-only.
        """
        arguments = [pack(values[parameter]) for parameter, pack in self._plan]
        for index, label in self._written:
            if not writeable(arguments[index]):
                raise ArgumentValueError(
                    f"argument {label!r} of {self.name}() is read-only, and the kernel writes to it"
                )
        return arguments

    @functools.cached_property
    def _diagnostics(self) -> Diagnostics:
        return supported(self._backend, self.artifact)

    def execute(self, grid: Grid, arguments: Sequence[Any]) -> None:
        """Run over the grid, on copies of arrays that are in the memory of another device.

        A grid with an extent of 0 has no programs: nothing is launched or copied. Raises
        `UnsupportedError`, before anything runs, for checks that the backend does not do.
        """
        if 0 in grid:
            return
        with diagnosed(self.name, self.artifact, self._diagnostics):
            self._execute(grid, arguments)

    def _execute(self, grid: Grid, arguments: Sequence[Any]) -> None:
        for watcher in WATCHERS:
            watcher(self)
        on_device = self._elsewhere(arguments)
        if not on_device:
            self._launch(grid, arguments)
            return
        hosts = dict(zip(map(id, on_device), host_copies(on_device), strict=True))
        self._launch(grid, [hosts.get(id(a), a) for a in arguments])
        for index, _ in self._written:
            array = arguments[index]
            if id(array) in hosts:
                array.put(hosts[id(array)])

    def _launch(self, grid: Grid, arguments: Sequence[Any]) -> None:
        """Launch with arguments that the backend can reach."""
        self.executable.launch(grid, arguments)
        observer = observing()
        if observer is not None:
            written = {label: arguments[index] for index, label in self._written}
            observer.ran(self, grid, dict(reached(written)))

    def _elsewhere(self, arguments: Sequence[Any]) -> list[DeviceArray]:
        """The arrays that are in the memory of a device which is none of the backend's own."""
        own = self._backend.devices
        return [
            a for a in arguments if type(a) is DeviceArray and a.device.partition(":")[0] not in own
        ]

    def bind(self, parameters: Sequence[int], arguments: Sequence[Any]) -> Repeat | None:
        """How to repeat the launch with `arguments` that was just done, if there is a way.

        The result takes a value for each of `parameters`; for a descriptor the address of its base,
        all else of which is the same each time.
        """
        executable = self.executable
        if not isinstance(executable, Repeatable) or self._elsewhere(arguments):
            return None
        by_parameter: dict[int, list[Any]] = {}
        for (at, _), argument in zip(self._plan, arguments, strict=True):
            by_parameter.setdefault(at, []).append(argument)
        leaves = list(self.leaves.values())
        places = [_places(leaves[at], by_parameter.get(at, [])) for at in parameters]
        every: list[Any] = []
        fixed: set[int] = set()
        for place in places:
            if place is None:
                return None
            fixed.update(range(len(every) + 1, len(every) + len(place)))
            every += place
        return executable.bind(every, fixed)


def _restored(
    artifact: Artifact, backend: str, leaves: Mapping[str, Leaf], name: str, source: str
) -> CompiledKernel:
    return CompiledKernel(artifact, registry.get(backend), leaves, name=name, source=source)


def reached(arrays: Mapping[str, Any]) -> Iterator[tuple[str, np.ndarray]]:
    """NumPy's arrays among `arrays`, and those that pointers in them point to, by label."""
    for label, array in arrays.items():
        if isinstance(array, np.ndarray):
            yield label, array
            for index, target in enumerate(getattr(array, "targets", ())):
                yield from reached({f"{label}[{index}]": target})


def _places(leaf: Leaf, arguments: list[Any]) -> list[Any] | None:
    """The launch arguments of one parameter as repeats have them, None where one is compiled in.

    No list, for a tuple: repeats do not know those.
    """
    if not isinstance(leaf, DescriptorParts):
        return (arguments or [None]) if len(arguments) < 2 else None
    rest = iter(arguments)
    parts = (leaf.base, *leaf.shape, *leaf.strides)
    return [next(rest) if isinstance(part, ParameterType) else None for part in parts]
