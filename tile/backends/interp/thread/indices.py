"""Which element each thread's registers hold, as tables."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tile.backends.interp.values import Array
from tile.simt.layouts.layout import LinearLayout


@lru_cache(maxsize=1024)
def index_table(layout: LinearLayout) -> Array:
    """The row-major index, in i32, that each (thread, register) of a layout has."""
    names = dict(layout.ins)
    columns = [*names.get("register", ()), *names["lane"], *names["warp"]]
    packed = np.zeros(1, np.int32)
    for column in columns:
        packed = np.concatenate([packed, packed ^ np.int32(column)])
    return packed.reshape(-1, 1 << len(names.get("register", ())))
