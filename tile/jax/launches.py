"""Launches as parts of JAX's programs, each with a name that XLA passes to the handler.

The name is a hash of the kernel's source, the constants and the settings: a program that JAX has
stored on disk names the same launch in another process, which has traced it before.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tile.config import config
from tile.errors import ExecutionError
from tile.frontend.python.fingerprint import exact_digest
from tile.runtime.autotuning.configs import innermost

DIGITS = 16  # of the hash in a name


@dataclass(frozen=True)
class Operand:
    """An array of a launch: the input, or else the output, with this index."""

    index: int
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    is_output: bool = False


@dataclass(frozen=True)
class Launch:
    """A launch: its kernel, arguments and options by name, and grid.

    arguments: trees, of which the leaves are operands and constants.
    settings: values of `config` that were overridden when the launch was traced.
    """

    kernel: Any
    arguments: Mapping[str, Any]
    grid: Any
    settings: Mapping[str, Any]

    def values(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> dict[str, Any]:
        """Return the arguments with arrays in place of operands."""

        def fill(leaf: Any) -> Any:
            if isinstance(leaf, Operand):
                return (outputs if leaf.is_output else inputs)[leaf.index]
            return leaf

        return {name: jax.tree.map(fill, tree) for name, tree in self.arguments.items()}

    def run(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        """Launch on arrays, under the settings of its trace."""
        with settings(self.settings):
            self.kernel[self.grid](**self.values(inputs, outputs))

    @property
    def name(self) -> str:
        """The launch's name; equal launches have equal names.

        What has no exact text, such as a constant of a class of the user, makes it unique.
        """
        function = innermost(self.kernel)
        trees = [(name, *_spelled(tree)) for name, tree in sorted(self.arguments.items())]
        wrappers = str(getattr(self.kernel, "configs", ""))
        overrides = sorted((name, repr(value)) for name, value in self.settings.items())
        digest = exact_digest(function, (trees, self.grid, wrappers, overrides))
        text = f"only {next(_NUMBERS)}" if digest is None else digest
        return f"{function.__name__}_{hashlib.sha256(text.encode()).hexdigest()[:DIGITS]}"


_NUMBERS = itertools.count()


def _spelled(tree: Any) -> tuple[Any, ...]:
    """Return a tree of an argument as plain values, for hashes."""
    leaves, structure = jax.tree.flatten(tree)
    words = [
        ("operand", leaf.index, leaf.dtype.name, leaf.is_output)
        if isinstance(leaf, Operand)
        else leaf
        for leaf in leaves
    ]
    return str(structure), words


@contextmanager
def settings(overrides: Mapping[str, Any]) -> Iterator[None]:
    """Use these values of settings, by the names of their variables, inside the `with` block."""
    token = config.own.set(dict(overrides))
    try:
        yield
    finally:
        config.own.reset(token)


class _Registry:
    """The launches that this process has traced, by name, which live as long as it."""

    def __init__(self) -> None:
        self._launches: dict[str, Launch] = {}

    def add(self, launch: Launch) -> str:
        """Add a launch, and return its name."""
        name = launch.name
        self._launches[name] = launch
        return name

    def find(self, name: str) -> Launch:
        """Return a launch by name. Raises `ExecutionError` if this process has not traced it."""
        if name not in self._launches:
            raise ExecutionError(
                f"the program has a launch {name}, which this process has not traced: it comes "
                "from another process, or was made by another version of its kernel",
                notes=["trace the function that has it, as jax.jit(f).lower(...) does, and retry"],
            )
        return self._launches[name]


LAUNCHES = _Registry()
