"""The fast path of launches of a compiled kernel: `compiled[grid](...)`.

Libraries that keep compiled kernels themselves, as FlagGems' `LibEntry` does, launch them so. A
plan of `tile.runtime.fast_path` serves calls of one shape. Its keys tell apart all that the jitted
function compiles separately; so a launch with the key of one that has passed the checks passes
them, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tile.runtime.fast_path import LaunchFunction, LaunchPlan, Shape, shape_of
from tile.runtime.kernel import CompiledKernel


class Planner(Protocol):
    """A jitted function."""

    def build_plan(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], **choices: Any
    ) -> LaunchPlan | None:
        """Return a launch plan for calls of a shape, as `build_launch_plan` does."""


class CompiledLaunches:
    """The plans for launches of one compiled kernel of a jitted function."""

    def __init__(self, kernel: CompiledKernel, function: Planner) -> None:
        self._kernel = kernel
        self._function = function
        self._plans: dict[Shape, LaunchPlan | None] = {}

    def remember(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        arguments: Sequence[Any],
        meta: Mapping[str, Any],
        launched: CompiledKernel,
    ) -> None:
        """Let later calls like one that was just launched take the fast path, if there is one.

        arguments: the launch arguments. meta: all parameters and options by name. launched: the
        kernel, or its version for arrays that overlap.
        """
        shape = shape_of(args, kwargs)
        if shape not in self._plans:
            self._plans[shape] = self._plan(args, kwargs)
        plan = self._plans[shape]
        if plan is None:
            return
        if plan.remember(args, kwargs, arguments, meta, launched, self._kernel):
            self._kernel.launch_by(plan.fastest)

    def _plan(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> LaunchPlan | None:
        kernel = self._kernel
        runtime = [name for name in kernel.leaves if name not in kernel.constants]
        names = runtime if len(args) <= len(runtime) else list(kernel.leaves)
        if names[: len(args)] != list(kernel.leaves)[: len(args)]:
            return None  # a constant that is not passed comes before an argument that is
        return self._function.build_plan(args, kwargs, slow_path=self._slow_path)

    def _slow_path(self, tried: LaunchFunction, grid: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Launch a call that the plan of `tried` does not support: by another plan, or checked."""
        plan = self._plans.get(shape_of(args, kwargs))
        if plan is not None and plan.launch is not tried:
            self._kernel.launch_by(plan.fastest)  # more calls of this shape are likely
            return plan.launch(grid, *args, **kwargs)
        self._kernel.run(*args, grid=grid, **kwargs)
        return self._kernel
