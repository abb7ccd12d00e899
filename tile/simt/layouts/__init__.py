"""Algebra of linear layouts: the element that each register, lane and warp holds.

layout             the algebra, with a tutorial; on dims and f2, its arithmetic
layout_text        its text
blocked, fragments, swizzle    layouts of programs, mma instructions and shared memory
axes               reductions, transposes and reshapes of tiles, and vector widths
conversion         layout conversion: by renaming, shuffle or shared_conversion
shared_access, banks    accesses to shared memory, and their bank conflicts
draw               pictures
"""
