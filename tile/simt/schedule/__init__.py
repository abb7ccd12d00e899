"""Schedule loops: prefetch loads, slice dots, and keep within registers and shared memory.

pipeline_loops       loads as async operations, with a schedule
expand_schedules     software pipelining of any schedule
async_ops            latencies of async operations, and what waits for them
deferred_ops         operations that run an iteration later
deferred_waits       waits that do
shifted_copies       copies of operations for other iterations
pending_counts       what waits leave in flight in a new order
backward_slice       what an operation needs, computed iterations early
trip_count           future iterations of a loop, and whether they exist
hoist_loads          loads before operations in which threads wait for each other
slice_dots           k-slices of FMA dots, as many as `dot_slices` chooses
reload_operands      loop-invariant dot operands in shared memory instead of registers
register_pressure    estimates of register pressure
resources            what threads and programs may take of a multiprocessor
shared_memory        the part of it that is shared memory
"""
