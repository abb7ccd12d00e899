"""Algebra of linear layouts: the element that each register, lane and warp holds.

linear_layout      the algebra, with a tutorial, and the text of layouts
dims, f2           its arithmetic: named dimensions, linear algebra over F2
blocked            layouts of programs
mma_fragments      layouts of the operands of mma, wgmma and FMA dots
swizzle            layouts of shared memory
axes               layouts of reduced, transposed, reshaped and sliced tiles; vector widths
conversion         layout conversion: by renaming, by `warp_shuffle`, or through shared memory
warp_shuffle       the shuffles that convert a tile inside each warp
shared_layout      a shared layout for a tile that is loaded in several layouts
shared_access      accesses to shared memory, ldmatrix and stmatrix
draw               pictures
"""
