"""The options of the current compilation that functions of the language return."""

from __future__ import annotations

from tile.instrumentation import Scoped

# The warps of a program; 4 is also the default of a launch.
num_warps: Scoped[int] = Scoped("tile_num_warps", 4)
