"""The operations of the LAID_OUT and THREAD levels. Importing this declares them, and layouts."""

from tile.simt.layouts import layout_text
from tile.simt.ops import group, layout, matrix, shared, thread

__all__ = ["group", "layout", "layout_text", "matrix", "shared", "thread"]
