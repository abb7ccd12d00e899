"""Schedule loops: prefetch loads, slice dots, and keep within registers and shared memory.

pipeline_loops       software pipelining
hoist_loads          loads before operations in which threads wait for each other
slice_dots           k-slices of FMA dots, as many as `dot_slices` chooses
reload_operands      loop-invariant dot operands in shared memory instead of registers
register_pressure    estimates of register pressure
occupancy            estimates of occupancy
"""
