"""Limit what the autotuners of libraries try, where the time is short."""

from __future__ import annotations

import gc
import random


def limit_configs(most: int) -> None:
    """Leave at most `most` configurations to each autotuner that there is; 0 leaves all.

    The choice is by the names of kernels: the same in each run, and for each compiler.
    """
    if not most:
        return
    from triton.runtime.autotuner import Autotuner

    # `isinstance` would load what lazy modules stand for.
    for tuner in [x for x in gc.get_objects() if issubclass(type(x), Autotuner)]:
        count = len(tuner.configs)
        if count > most:
            name = getattr(tuner.base_fn, "__name__", "")
            indices = sorted(random.Random(name).sample(range(count), most))
            tuner.configs = [tuner.configs[index] for index in indices]
