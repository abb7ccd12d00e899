"""Tables of the tile element that each thread holds in each register."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tile.backends.interp.values import Array
from tile.simt.layouts.layout import LinearLayout


@lru_cache(maxsize=1024)
def index_table(layout: LinearLayout) -> Array:
    """Return the row-major element index of each (thread, register) of a layout, as i32."""
    names = dict(layout.ins)
    columns = [*names.get("register", ()), *names["lane"], *names["warp"]]
    packed = np.zeros(1, np.int32)
    for column in columns:
        packed = np.concatenate([packed, packed ^ np.int32(column)])
    return packed.reshape(-1, 1 << len(names.get("register", ())))
