"""Call plans: what the first call of an op did, for later calls that differ only in addresses.

The first call of a planned op checks its arguments, chooses configurations, allocates arrays and
launches kernels. A recorder notes the new arrays and the launches: which arguments or new arrays
each takes, and all else as constants (recorder.py). A later call with arrays of the same types,
shapes, strides and devices, equal numbers and the same backend (call_keys.py) allocates and
launches only:

    @planned()
    def softmax(x, *, out=None): ...        launch(kernel, grid)(...) instead of kernel[grid](...)

With torch's tensors it becomes one generated function, without the checks of a launch, too
(call_replays.py). Arguments may be lists of arrays.

Arrays to write are compared with the others by address at each call. A call that reads array
elements on the host has no plan, nor has one with arguments of other kinds; these run as the first.
Numbers that change from call to call, as the seed of `dropout`, are named in `planned`: they are
not part of the key, and kernels take them, or functions of them, as `Varying` values.
"""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar, cast

from tile.ops.core.array_arguments import sources_of
from tile.ops.core.call_keys import Accept, reader_names, reader_text
from tile.ops.core.call_records import CallPlan, Varying
from tile.ops.core.call_replays import build_replay
from tile.ops.core.call_wrapper import wrapped
from tile.ops.core.generated import execute
from tile.ops.core.list_keys import ListKeys
from tile.ops.core.options import Options
from tile.ops.core.recorder import RECORDER, Recorder, launch

__all__ = ["Varying", "launch", "planned"]

MOST_PLANS = 1024  # of an op; more signatures, as of sequences of many lengths, start anew
ATTEMPTS = 5  # to make a replay of a plan

P = ParamSpec("P")
R = TypeVar("R")


def planned(**varying: Accept) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate an op whose calls have plans.

    varying: for each argument that is not part of the key, a function that returns True for values
        that a plan may take; the op itself handles others.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        call = functools.wraps(function)(_Planned(function, varying).call)
        return cast("Callable[P, R]", call)

    return decorate


class _Planned:
    """An op whose calls have plans: `call`, whose attribute `plans` has them by key."""

    def __init__(self, function: Callable[..., Any], varying: Mapping[str, Accept]) -> None:
        parameters = inspect.signature(function).parameters
        self.names = tuple(parameters)
        self.plans: dict[tuple[Any, ...], Callable[..., Any]] = {}
        self._varying = varying
        self._readers: dict[tuple[type, ...], Callable[..., Any]] = {}
        self._lists = ListKeys()
        self._options = Options(function.__name__)
        self._flags = [name for name, one in parameters.items() if one.annotation == "bool"]
        self.call, self._ordinary = wrapped(function, self._readers, self._new_reader)
        self.call.plans = self.plans

    def _new_reader(self, *arguments: Any) -> Callable[..., Any]:
        """Return the function that finds the plan of calls with these types of arguments."""
        by_name = dict(zip(self.names, arguments, strict=True))
        for name in self._flags:
            self._options.flag(name, by_name[name])
        text = reader_text(len(self._readers), by_name, self._varying)
        read = self._ordinary
        if text is not None:
            names = reader_names(self._varying, self._lists)
            own = {"plans": self.plans, "ordinary": self._ordinary, "record": self._record}
            read = execute(text, self.names, **names, **own)["read"]
        self._readers[tuple(map(type, arguments))] = read
        return read

    def _record(self, key: tuple[Any, ...], arguments: tuple[Any, ...]) -> Any:
        """Return the result of a first call, and make a plan of it, if it can have one."""
        pairs = [*sources_of(arguments)]
        if len({id(value) for _, value in pairs}) < len(pairs):  # positions would be ambiguous
            return self._ordinary(*arguments)
        recording = Recorder(self.names, tuple(s for s, _ in pairs), [v for _, v in pairs])
        with RECORDER.scope(recording):
            result = self._ordinary(*arguments)
        if len(self.plans) >= MOST_PLANS:
            self.plans.clear()
            self._lists.clear()
        plan = recording.plan(result)
        self.plans[key] = self._ordinary if plan is None else self._followed(key, plan)
        return result

    def _followed(self, key: tuple[Any, ...], plan: CallPlan) -> Callable[..., Any]:
        """Return the function that follows a plan, until a replay takes its place.

        A replay calls it where a kernel has changed, and needs to be made anew then.
        """
        attempts = itertools.count(1)

        def general(*arguments: Any) -> Any:
            values = plan.arrays(arguments)
            if not plan.allows(values):
                return self._ordinary(*arguments)
            result = plan.run(values, arguments)
            if next(attempts) <= ATTEMPTS:
                replay = build_replay(plan, arguments, values, self.names, general)
                if replay is not None:
                    self.plans[key] = replay
            return result

        return general
