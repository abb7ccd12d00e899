"""The disk cache of tuning results.

There is one JSON file per kernel, list of configurations and tuning key. A file holds only times:
if it is missing, corrupt, or for an older version of the kernel, the kernel is tuned again.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import math
import platform
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tile.cache import cache_folder
from tile.cache.disk_cache import read_regular_file, write_atomically
from tile.tracebacks import warn


def default_folder() -> Path:
    """Return the folder of results if the user names none."""
    return cache_folder() / "autotune"


@dataclass(frozen=True)
class TuningResult:
    """Times by configuration text, and the reasons of configurations that cannot run."""

    timings: dict[str, list[float]]
    skipped: dict[str, str]


class AutotuneCache:
    """The tuning results of one kernel and list of configurations, by tuning key.

    A file is specific to the kernel's own source, the list and the machine's architecture, but not
    to the source of functions that the kernel calls. After a change there, times may be stale and
    configurations may stay skipped that would run now; results of launches are never wrong.
    """

    def __init__(self, folder: Path, fn: Callable[..., object], configs: Sequence[str]) -> None:
        self.folder = folder
        self.name = fn.__name__
        self._identity = "\0".join(
            [fn.__module__, fn.__qualname__, inspect.getsource(fn), platform.machine(), *configs]
        )

    def path(self, key: tuple[Any, ...]) -> Path:
        """Return the file with the times for `key`."""
        digest = hashlib.sha256(f"{self._identity}\0{key!r}".encode()).hexdigest()
        return self.folder / f"{self.name}-{digest[:24]}.json"

    def load(self, key: tuple[Any, ...]) -> TuningResult | None:
        """Return the result for `key`, or None if there is no readable one."""
        try:
            content = json.loads(read_regular_file(self.path(key)))
        except (OSError, ValueError):
            return None
        timings = content.get("timings") if isinstance(content, dict) else None
        if not isinstance(timings, dict):
            return None
        if not all(map(_is_times, timings.values())):
            return None
        skipped = content.get("skipped")
        reasons = skipped.items() if isinstance(skipped, dict) else ()
        return TuningResult(
            {
                config: [math.inf if t is None else float(t) for t in times]
                for config, times in timings.items()
            },
            {config: str(reason) for config, reason in reasons},
        )

    def save(
        self,
        key: tuple[Any, ...],
        timings: Mapping[str, Sequence[float]],
        skipped: Mapping[str, str],
    ) -> None:
        """Write the result of a tuning run; warn if the folder is not writable."""
        finite = {
            config: [t if math.isfinite(t) else None for t in times]
            for config, times in timings.items()
        }
        content = {
            "kernel": self.name,
            "key": repr(key),
            "timings": finite,
            "skipped": dict(skipped),
        }
        text = json.dumps(content, indent=1)
        try:
            write_atomically(self.path(key), text.encode())
        except OSError as error:
            warn(f"the tuning result of {self.name} is not saved: {error}")


def _is_times(times: object) -> bool:
    return (
        isinstance(times, list)
        and len(times) > 0
        and all(t is None or isinstance(t, (int, float)) for t in times)
    )
