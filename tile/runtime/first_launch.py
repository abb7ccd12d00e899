"""`kernel[grid]` of a kernel that has no launch plan yet.

A caller may store it and call it often. The first of its calls that finds a plan, or makes one,
lets it call the plan's launch function from then on.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from tile.tracebacks import trim


def first_launch(
    launch: Callable[..., Any], latest: Callable[[], Callable[..., Any] | None], grid: Any
) -> functools.partial[Any]:
    """Return a function that calls `launch(None, grid, *args, **kwargs)` until there is a plan.

    latest: returns the launch function of the latest plan, if there is one.
    """

    def first(*args: Any, **kwargs: Any) -> Any:
        try:
            result = launch(None, grid, *args, **kwargs)
        except Exception as error:
            trim(error)
            raise
        planned = latest()
        if planned is not None:
            # In place, so that later calls have no step more than those of a new `kernel[grid]`.
            stored.__setstate__((planned, (grid,), {}, {}))
        return result

    stored: Any = functools.partial(first)
    return stored  # type: ignore[no-any-return]
