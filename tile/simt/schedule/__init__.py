"""Schedule loops: prefetch loads, slice dots, and keep within registers and shared memory.

pipeline_loops       loads as async operations, with a schedule
expand_schedules     software pipelining of any schedule
async_ops            latencies of async operations, what waits for them, and how many are in flight
deferred_ops         operations and waits that run an iteration later
backward_slice       copies of operations for other iterations, and what they need, computed early
trip_count           future iterations of a loop, and whether they exist
hoist_loads          loads before operations in which threads wait for each other
slice_dots           k-slices of FMA dots
dot_slices           how many they are
buffered_operands    operands that are loaded from buffers, of which slices are taken
stage_tiles          large tiles that are read several times, in shared memory
reload_operands      loop-invariant dot operands in shared memory instead of registers
resources            registers of loops, and what threads and programs may take of a multiprocessor
shared_memory        the part of it that is shared memory
"""
