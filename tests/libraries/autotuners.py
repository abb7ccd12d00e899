"""Limit what the autotuners of libraries try, where the time is short."""

from __future__ import annotations

import gc
import random
from typing import Any


def limit_configs(most: int) -> None:
    """Leave at most `most` configurations to each autotuner that there is; 0 leaves all."""
    if not most:
        return
    from triton.runtime.autotuner import Autotuner

    # `isinstance` would load what lazy modules stand for.
    for tuner in [x for x in gc.get_objects() if issubclass(type(x), Autotuner)]:
        limit(tuner, most)


def limit(tuner: Any, most: int) -> None:
    """Leave at most `most` configurations to an autotuner of Triton or of tile.

    The choice is by the kernel's name: the same in each run, and for each compiler.
    """
    count = len(tuner.configs)
    if count > most:
        indices = sorted(random.Random(tuner.base_fn.__name__).sample(range(count), most))
        tuner.configs = [tuner.configs[index] for index in indices]
