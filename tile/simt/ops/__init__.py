"""Operations of the LAID_OUT and THREAD levels. Importing this declares them, and layouts."""

from tile.simt.layouts import linear_layout
from tile.simt.ops import cluster, layout, mma, order, shared, thread, tma, warp_specialize, wgmma

__all__ = [
    "cluster",
    "layout",
    "linear_layout",
    "mma",
    "order",
    "shared",
    "thread",
    "tma",
    "warp_specialize",
    "wgmma",
]
