"""The SIMT simulator: THREAD IR in NumPy, one row per thread, with checks of shared memory.

The engine is that of the TILE level, where a row is a program. Here a row is a thread, and all rows
of a batch execute each operation in lockstep. Threads of a GPU do not. The simulator therefore
checks that a barrier separates conflicting accesses to shared memory, and that warp-wide and
program-wide operations are executed by all threads that they need. `tile/errors.py` has the errors.

    threads          map of rows to threads and programs; elements of a layout by thread
    shared_memory    the bytes of shared memory, and records of the last accesses
    async_ops        cp.async copies, wgmmas and TMA stores in flight; the order of writes
    mbarriers        mbarriers, and TMA loads in flight
    verify           operations that the target lacks; registers of wgmmas in flight
    launch           translation, a run, and what the programs of a chunk share
    rules            operations of one thread
    rules.memory     vector accesses to global memory
    rules.shared     operations on shared memory
    rules.warp       shuffles, dots of one thread, mma
    rules.wgmma      wgmma
    rules.tma        TMA loads and stores, mbarrier operations
    races            races on global memory, on request
    fault_report     error messages
    counters         memory traffic, bank conflicts, live registers
    access_cost      sectors and wavefronts of each access
    thread_kernel    compilation and loading of kernels
"""
