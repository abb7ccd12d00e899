"""What is kept on disk between processes: compiled kernels, programs that drivers built.

entries   what one entry is, and its bytes in a file, which tell whether they are whole
files     writing a file so that others see all of it or nothing
store     a folder of entries: looking up, keeping, removing those that were not used for long
place     where the folder is, and the store that the settings ask for
"""

from __future__ import annotations

from tile.store.entries import Entry
from tile.store.place import current, folder
from tile.store.store import Kept, Store

__all__ = ["Entry", "Kept", "Store", "current", "folder"]
