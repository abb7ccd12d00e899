"""`heuristics`: meta-parameters that rules compute from the other arguments of a call."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from types import MethodType
from typing import Any

from tile.errors import ArgumentTypeError
from tile.pickling import Reduction
from tile.runtime.autotuning.configs import Kernel, KernelWrapper, check_kernel, hook_error
from tile.runtime.autotuning.fast_path import launcher
from tile.short_repr import short_repr
from tile.tracebacks import public_function, trim


class Heuristics(KernelWrapper):
    """A kernel with meta-parameters that are computed from its other arguments."""

    def __init__(
        self,
        fn: Kernel,
        arg_names: Iterable[str],
        values: Mapping[str, Callable[[dict[str, Any]], Any]],
        *,
        override: bool = True,
    ) -> None:
        """`fn` is the kernel, `arg_names` its parameters, and `values` the rules by parameter.

        A computed value replaces one that a call passes; without `override` such a call is refused.
        """
        super().__init__(fn, arg_names)
        self.values = dict(values)
        self.override = override

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """Return the launch function of the kernel's arguments, on `grid`."""
        if type(self).run is not Heuristics.run:
            return super().__getitem__(grid)
        return MethodType(self._launch, grid)

    def _launch(self, grid: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Launch the wrapped kernel with the computed values."""
        if "warmup" in kwargs or "grid" in kwargs:
            return self.run(*args, **{"grid": grid, **kwargs})
        try:
            return launcher(self.fn, grid)(*args, **self._with_values(args, kwargs))
        except Exception as error:
            trim(error)
            raise

    @public_function
    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Run the wrapped kernel with the computed values.

        Raises `ArgumentTypeError` if the call passes one of them, unless they override it.
        """
        if not warmup:
            return self._launch(grid, *args, **kwargs)
        return self.fn.run(*args, grid=grid, warmup=warmup, **self._with_values(args, kwargs))

    @public_function
    def written_arguments(self, *args: Any, **kwargs: Any) -> frozenset[str]:
        """Return the names of the array arguments that the kernel writes with computed values."""
        return self.fn.written_arguments(*args, **self._with_values(args, kwargs))

    def by_value(self) -> tuple[bool, Reduction]:
        """Return the recipe to pickle a kernel with rules that is not a module's attribute."""
        return True, (
            functools.partial(type(self), override=self.override),
            (self.fn, self.arg_names, self.values),
        )

    def _with_values(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """Add the computed values to `kwargs`, and return them."""
        named = {**dict(zip(self.arg_names, args, strict=False)), **kwargs} if args else kwargs
        if not (self.override or self.values.keys().isdisjoint(named)):
            self.check_free(self.values, named, "@heuristics")
        for name, rule in self.values.items():
            try:
                kwargs[name] = named[name] = rule(named.copy())  # which may change what it gets
            except Exception as error:
                rule_name = f"the rule for {name} of {self.__name__}, given to @heuristics,"
                raise hook_error(rule_name, error) from error
        return kwargs


@public_function
def heuristics(
    values: Mapping[str, Callable[[dict[str, Any]], Any]],
) -> Callable[[Kernel], Heuristics]:
    """Compute meta-parameters by `values[name](arguments)` at every call. Use it as a decorator.

    `arguments` maps names to the passed arguments and the values of earlier rules. Raises
    `ArgumentTypeError` for a rule that is not callable.
    """
    if not isinstance(values, Mapping):
        raise ArgumentTypeError(
            f"heuristics takes a dict of functions by name, not {short_repr(values)}: "
            "{'BLOCK': lambda args: ...}"
        )
    for name, rule in values.items():
        if not callable(rule):
            raise ArgumentTypeError(
                f"heuristics takes functions of the arguments, not {short_repr(rule)}: "
                f"{{{name!r}: lambda args: ...}}"
            )

    def decorate(kernel: Kernel) -> Heuristics:
        check_kernel(kernel, "heuristics")
        return Heuristics(kernel, kernel.arg_names, values, override=False)

    return decorate
