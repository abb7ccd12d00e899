"""PyTorch's operators computed by this library, after one line of change.

    tile.ops.enable()                      for the rest of the program
    with tile.ops.use() as replaced:       for a while
        model(x)
    print(replaced)                        which operators were called, and who computed them
    replaced.operators                     the names of all that are replaced

The checks of an op decide: a call that it does not take, because of the type, layout or options of
its arguments, is computed by PyTorch as before, and the reason is kept. Autograd is PyTorch's;
gradients that consist of replaced operators are computed by their replacements. `torch.compile`
generates kernels of its own for most operators and calls no replacement.
"""

from __future__ import annotations

import functools
import importlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tile._lazy import lazy_import
from tile.errors import ArgumentError, ArgumentValueError
from tile.ops.aten.arguments import Implementation, by_schema
from tile.ops.aten.operators import operators_of

if TYPE_CHECKING:
    from tile.torch.overrides import Override, difference_of, overload_of
else:
    OVERRIDES = "tile.torch.overrides"  # it imports torch
    Override = lazy_import(OVERRIDES, "Override")
    difference_of = lazy_import(OVERRIDES, "difference_of")
    overload_of = lazy_import(OVERRIDES, "overload_of")

DISPATCH_KEYS = {"cpu": "CPU", "cuda": "CUDA"}
MOST_REASONS = 16  # of an operator


def require_same(difference: str | None) -> None:
    """Leave a call to PyTorch if the result differs from PyTorch's in shapes or types."""
    if difference is not None:
        raise ArgumentValueError(f"tile {difference}")


class Replacements:
    """Replaced operators of PyTorch, until `remove` is called or the `with` block ends.

    `operators` are the names of all that are replaced. `computed` and `left` count the calls by
    operator: those that this library computed, and those that it left to PyTorch. `reasons` counts
    the reasons for the latter, by operator.
    """

    def __init__(self, device: str) -> None:
        self.operators = tuple(sorted(operators_of(device)))
        self.computed: Counter[str] = Counter()
        self.left: Counter[str] = Counter()
        self.reasons: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._overrides: list[Override] = []
        for name, function in operators_of(device).items():
            operator = overload_of(name)
            compute = self._function(operator, function, device)
            self._overrides.append(Override(operator, compute, device, check=False))

    def _function(
        self, operator: Any, implementation: Implementation, device: str
    ) -> Callable[..., Any]:
        """Return a function that computes an operator, or leaves a call of it to PyTorch."""
        torch = importlib.import_module("torch")
        name: str = operator.name()
        key = DISPATCH_KEYS[device]
        kernel = torch.library.get_kernel(name, key)
        keys = torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))
        function = by_schema(operator, implementation)
        compared = False

        @functools.wraps(implementation)
        def compute(*args: Any, **kwargs: Any) -> Any:
            nonlocal compared
            try:
                result = function(*args, **kwargs)
                if not compared:
                    require_same(difference_of(operator, args, kwargs, result))
                    compared = True
            except ArgumentError as error:
                self._leave(name, error.message)
                return kernel.call_boxed(keys, *args, **kwargs)
            self.computed[name] += 1
            return result

        return compute

    def _leave(self, name: str, reason: str) -> None:
        """Count a call that PyTorch computes. Reasons that name many shapes are not all kept."""
        self.left[name] += 1
        reasons = self.reasons[name]
        reasons[reason if reason in reasons or len(reasons) < MOST_REASONS else "others"] += 1

    def remove(self) -> None:
        """Let PyTorch compute its operators again."""
        for each in reversed(self._overrides):
            each.remove()

    def __enter__(self) -> Replacements:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        return "\n".join(self._lines()) or "no replaced operator was called"

    def _lines(self) -> Iterator[str]:
        """Yield a line for each operator that was called, and for each reason why it was left."""
        for name in sorted({*self.computed, *self.left}):
            yield f"{name}: {self.computed[name]} by tile, {self.left[name]} by PyTorch"
            for reason, count in sorted(self.reasons[name].items()):
                yield f"    {count}: {reason}"


def use(device: str | None = None) -> Replacements:
    """Replace PyTorch's operators by this library's until the `with` block ends.

    device: the kind of device, "cpu" or "cuda"; by default "cuda" where PyTorch has one.
    """
    if device is None:
        torch = importlib.import_module("torch")
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device not in DISPATCH_KEYS:
        raise ArgumentValueError(f"use takes the kind of a device, 'cpu' or 'cuda', not {device!r}")
    return Replacements(device)


def enable(device: str | None = None) -> Replacements:
    """Replace PyTorch's operators by this library's for the rest of the program; see `use`.

    The result's `remove` ends it, and printing it lists the operators that were called.
    """
    return use(device)
