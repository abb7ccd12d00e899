"""Lowering that is common to all SIMT targets: from TILE IR to THREAD IR.

layouts          the algebra of linear layouts: which register, lane and warp holds an element
ops              operations of the LAID_OUT and THREAD levels; layout inference
target           the target description: the fields by which passes decide
tile_sizes       sizes of single tiles below the program's
tma_uses         the uses of TMA that a launch chooses
tuning           the tuning constants of a target, with the measurements they come from
assign           TILE to LAID_OUT: layout assignment, and removal of layout conversions
schedule         schedules of loops, under limits of registers and shared memory
memory           explicit shared memory, its allocation, and barriers
hopper           wgmma and TMA
lower            LAID_OUT to THREAD, and passes on THREAD IR
pass_pipeline    the pass pipeline from TILE to THREAD
"""
