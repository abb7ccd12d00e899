"""The options of the current compilation that functions of the language read."""

from __future__ import annotations

from tile.instrumentation import Scoped

# The warps of a program; 4 is also the default of a launch.
num_warps: Scoped[int] = Scoped("tile_num_warps", 4)
# The precision of `tl.dot` of float32 that states none: a value of `Precision`.
default_dot_input_precision: Scoped[str] = Scoped("tile_default_dot_input_precision", "ieee")
