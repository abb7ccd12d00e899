"""The launches of a tuner: by the plan of an earlier one, or the ordinary way."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

from tile.config import config as settings
from tile.runtime.autotuning.fast_path import (
    Choice,
    ChoicePlan,
    build_choice_plan,
    build_tuned_plan,
    chosen_entry,
)
from tile.runtime.fast_path import UNREADABLE, LaunchPlan, Shape, shape_of
from tile.runtime.first_launch import first_launch
from tile.tracebacks import trim


class Tuner(Protocol):
    """A tuner."""

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        """Launch with the best configuration for these arguments."""

    def launches_itself(self) -> bool:
        """Return True if a subclass launches in a way of its own."""

    def choice_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Choice | None:
        """Return the choice for a call that was launched; None if it is not kept."""


class TunedLaunches:
    """The plans of a tuner by the shape of calls.

    latest: the launch function of the latest plan, if there is one.
    """

    def __init__(self, tuner: Tuner) -> None:
        self._tuner = tuner
        self._plans: dict[Shape, LaunchPlan | ChoicePlan | None] = {}
        self.latest: Callable[..., Any] | None = None

    def on(self, grid: Any) -> functools.partial[Any]:
        """Return `tuner[grid]`."""
        launch = self.latest
        if launch is None:
            return first_launch(self._slow_path, lambda: self.latest, grid)
        return functools.partial(launch, grid)

    def _slow_path(
        self, tried: Callable[..., Any] | None, grid: Any, /, *args: Any, **kwargs: Any
    ) -> Any:
        """Launch a call that the plan of `tried` cannot handle, by another one or without."""
        try:
            call_shape = shape_of(args, kwargs)
            plan = self._plans.get(call_shape)
            if plan is not None and plan.launch is not tried:
                self.latest = plan.launch  # more calls of this shape are likely
                return plan.launch(grid, *args, **kwargs)
            result = self._tuner.run(*args, **{"grid": grid, "warmup": False, **kwargs})
            self._remember(call_shape, args, kwargs)
            return result
        except Exception as error:
            trim(error)
            raise

    def _remember(self, shape: Shape, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Keep the choice of a launch that was done the ordinary way."""
        if shape not in self._plans:
            ordinary = self._tuner.launches_itself() or "grid" in kwargs or "warmup" in kwargs
            self._plans[shape] = None if ordinary else self._plan(args, kwargs)
        plan = self._plans[shape]
        if plan is None or settings.own.get(None) is not None:
            return
        choice = self._tuner.choice_of(args, kwargs)
        if choice is None or choice.config.pre_hook is not None:
            return
        if isinstance(plan, LaunchPlan):
            entry = chosen_entry(self._tuner, choice, args, kwargs)
            place = plan.key(*args, **kwargs)
            if entry is not None and place is not None:
                plan.table[place] = entry
                self.latest = plan.launch
                return
            self._plans[shape] = plan = self._passing_plan(args, kwargs)
        if plan is not None:
            with suppress(*UNREADABLE):
                plan.table[plan.key(*args, **kwargs)] = choice
                self.latest = plan.launch

    def _plan(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> LaunchPlan | ChoicePlan | None:
        """Return a plan for calls of this shape; None if there is none for their arguments."""
        plan = build_tuned_plan(args, kwargs, self._tuner, self._slow_path)
        return self._passing_plan(args, kwargs) if plan is None else plan

    def _passing_plan(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ChoicePlan | None:
        return build_choice_plan(args, kwargs, self._tuner, self._slow_path)
