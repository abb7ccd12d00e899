"""Which element each register, lane and warp holds: the algebra of linear layouts.

layout             the algebra, with a tutorial; on dims and f2, its arithmetic
layout_text        its text
blocked, fragments, swizzle    the layouts of programs, matrix instructions and shared memory
axes               reductions, transposes and reshapes of tiles, and the width of vectors
conversion         from one layout to another: by shuffle or shared_conversion, if not by renaming
shared_access, banks    the instructions to and from shared memory, and what they cost
draw               pictures
"""
