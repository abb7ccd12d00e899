"""The parameters of a compiled kernel: its launch arguments, and arrays that must not overlap."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tile.backends.base import Artifact
from tile.errors import ArgumentValueError
from tile.language.base.tensor import DescriptorParts
from tile.runtime.arguments.jax_arrays import notes_on_read_only
from tile.runtime.arguments.overlap import first_overlap
from tile.runtime.binding import launch_arguments_of, writeable
from tile.runtime.signature import ParameterType, Path
from tile.runtime.specialize import Leaf


class KernelParameters:
    """The parameters of a compiled kernel, by the arguments of a launch.

    A parameter has any number of launch arguments: none if it is a constant, one for an array, and
    several for a tuple or a descriptor.

    - `written`: the index and label of the launch arguments that the kernel writes.
    - `written_names`: the names of their parameters. `written_paths`: their paths.
    - `disjoint`: the paths of arrays that must not overlap, in pairs.
    """

    def __init__(self, name: str, artifact: Artifact, leaves: Mapping[str, Leaf]) -> None:
        """Read them from an artifact that was compiled for `leaves`; `name` is the kernel's."""
        self._kernel = name
        self._leaves = list(leaves.values())
        every = [
            argument
            for i, (n, leaf) in enumerate(leaves.items())
            for argument in launch_arguments_of(i, n, leaf)
        ]
        self._plan = [(argument.parameter, argument.pack) for argument in every]
        self._paths = [argument.path for argument in every]
        self._labels = [argument.label for argument in every]
        written = [
            (i, argument)
            for i, (argument, inner) in enumerate(zip(every, artifact.parameters, strict=True))
            if inner in artifact.written
        ]
        self.written = [(i, argument.label) for i, argument in written]
        names = list(leaves)
        self.written_names = frozenset(names[argument.parameter] for _, argument in written)
        self.written_paths = {argument.path: argument.label for _, argument in written}
        self._promised = [
            (i, j)
            for i, inner in enumerate(artifact.parameters)
            if inner in artifact.noalias
            for j, _ in written
            if i != j
        ]
        at = {inner: i for i, inner in enumerate(artifact.parameters)}
        assumed = [
            (at[one], at[other]) if other in artifact.written else (at[other], at[one])
            for one, other in sorted(artifact.disjoint)
        ]
        self._disjoint = list(dict.fromkeys([*self._promised, *assumed]))

    @property
    def disjoint(self) -> list[tuple[Path, Path]]:
        return [(self._paths[one], self._paths[written]) for one, written in self._disjoint]

    def pack(self, values: Sequence[Any]) -> list[Any]:
        """Return the launch arguments of all runtime parameters, from adapted values of all.

        Raises `ArgumentValueError` if the kernel writes an array that is read-only.
        """
        arguments = [pack(values[parameter]) for parameter, pack in self._plan]
        for index, label in self.written:
            if not writeable(arguments[index]):
                raise ArgumentValueError(
                    f"argument {label!r} of {self._kernel}() is read-only, and the kernel writes "
                    "to it",
                    notes=notes_on_read_only(),
                )
        return arguments

    def of_fast_launch(
        self, parameters: Sequence[int], arguments: Sequence[Any]
    ) -> tuple[list[Any], set[int]]:
        """Return the launch arguments of `parameters`, and the indices of those that are fixed.

        Numbers that are compiled in are None; all of a descriptor but the address of its base are
        fixed.
        """
        by_path = dict(zip(self._paths, arguments, strict=True))
        every: list[Any] = []
        fixed: set[int] = set()
        for parameter in parameters:
            for path, is_fixed in _of_leaf(self._leaves[parameter], (parameter,)):
                if is_fixed:
                    fixed.add(len(every))
                every.append(by_path.get(path))
        return every, fixed

    def overlap(self, arguments: Sequence[Any]) -> tuple[str, str] | None:
        """Return the labels of two launch arguments that must not overlap and may, if there are.

        The kernel relies on the first one's memory not being written; it writes the second one's.
        """
        return self._overlapping(self._disjoint, arguments)

    def refuse_overlap(self, arguments: Sequence[Any], *, promised: bool = False) -> None:
        """Raise `ArgumentValueError` for launch arguments that must not overlap and may.

        promised: check only those of parameters that are declared not to overlap.
        """
        labels = self._overlapping(self._promised if promised else self._disjoint, arguments)
        if labels is not None:
            one, written = labels
            raise ArgumentValueError(
                f"argument {one!r} of {self._kernel}() is noalias (in C, restrict), and its memory "
                f"overlaps that of {written!r}, which the kernel writes",
                notes=["pass arrays that do not overlap, or drop the promise"],
            )

    def _overlapping(
        self, pairs: Sequence[tuple[int, int]], arguments: Sequence[Any]
    ) -> tuple[str, str] | None:
        pair = first_overlap(pairs, arguments) if pairs else None
        return None if pair is None else (self._labels[pair[0]], self._labels[pair[1]])


def _of_leaf(leaf: Leaf, path: Path) -> Iterator[tuple[Path, bool]]:
    """Yield the paths of one parameter's arguments of a fast launch; True for those that are fixed.

    Other constants than numbers have no argument in a fast launch.
    """
    if isinstance(leaf, DescriptorParts):
        yield (*path, 0), False
        for at in (1, 2):  # extents and strides
            yield from (((*path, at, axis), True) for axis in range(len(leaf.shape)))
    elif isinstance(leaf, tuple):
        for at, part in enumerate(leaf):
            yield from _of_leaf(part, (*path, at))
    elif isinstance(leaf, ParameterType) or type(leaf.value) is int:
        yield path, False
