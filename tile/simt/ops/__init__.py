"""Operations of the LAID_OUT and THREAD levels. Importing this declares them, and layouts."""

from tile.simt.layouts import layout_text
from tile.simt.ops import bulk, group, layout, matrix, shared, thread

__all__ = ["bulk", "group", "layout", "layout_text", "matrix", "shared", "thread"]
