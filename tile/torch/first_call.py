"""The first call of an operator's function: compare what its kernels write with `mutates_args`.

Kernels know from their IR what they write. PyTorch relies on what an operator declares: with less,
compiled graphs reorder the operator or drop it, and autograd uses overwritten values.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

from torch import Tensor

from tile.errors import ArgumentError, ArgumentValueError
from tile.runtime.arguments.adapt import adapt
from tile.runtime.arguments.overlap import may_overlap
from tile.runtime.arguments.tensor_descriptor import TensorDescriptor
from tile.runtime.callbacks import LaunchEvent, on_launch


class FirstCall:
    """The function of an operator, whose first call is checked."""

    def __init__(
        self, name: str, function: Callable[..., Any], mutates_args: Sequence[str]
    ) -> None:
        self.name = name
        self.function = function
        self.mutates_args = frozenset(mutates_args)
        self._call: Callable[..., Any] = self._checked

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def _checked(self, *args: Any, **kwargs: Any) -> Any:
        named = inspect.signature(self.function).bind(*args, **kwargs).arguments
        written: list[Any] = []

        def record(event: LaunchEvent) -> None:
            for parameter in event.kernel.written:
                written.extend(memories(event.arguments.get(parameter)))

        with on_launch(record):
            result = self.function(*args, **kwargs)
        undeclared = self._undeclared(named, written)
        if undeclared:
            every = sorted({*undeclared, *self.mutates_args})
            raise ArgumentValueError(
                f"a kernel of {self.name} writes {', '.join(undeclared)}; declare it: "
                f"mutates_args={every}"
            )
        self._call = self.function
        return result

    def _undeclared(self, named: Mapping[str, Any], written: Sequence[Any]) -> list[str]:
        """Return the arguments that only undeclared writes can have reached.

        Address ranges of views of one tensor may overlap though no element is in both.
        """
        declared = [one for name in self.mutates_args for one in memories(named.get(name))]
        others = [one for one in written if not any(may_overlap(one, d) for d in declared)]
        return [
            name
            for name, value in named.items()
            if others
            and any(may_overlap(one, other) for one in memories(value) for other in others)
        ]


def memories(value: Any) -> Iterator[Any]:
    """Yield the arrays of the tensors in an argument that kernels can take."""
    if isinstance(value, Tensor):
        with suppress(ArgumentError):
            yield adapt(value, "an argument")
    elif isinstance(value, TensorDescriptor):
        yield from memories(value.base)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from memories(item)
