"""The SIMT simulator: THREAD IR in NumPy, one row per thread, with checks of shared memory.

The engine is that of the TILE level, where a row is a program. Here a row is a thread, and all rows
of a batch execute each operation in lockstep. Threads of a GPU do not. The simulator therefore
checks that a barrier separates conflicting accesses to shared memory, and that warp-wide and
program-wide operations are executed by all threads that they need. `tile/errors.py` has the errors.

    place      maps rows to threads and programs
    launch     a run, and what the programs of a chunk share
    memory     shared memory: its bytes, and records of the last accesses
    copies     asynchronous copies (cp.async) in flight
    barriers   mbarriers, and the TMA loads in flight that complete on them
    pending    wgmmas in flight
    rules      operations of one thread
    lanes      shuffles
    matrix     dots of one thread, mma
    products   wgmma
    accumulators  static check: a wgmma accumulator used before its wait
    accesses   vector accesses to global memory
    shared     operations on shared memory
    bulk       TMA loads and stores, mbarrier operations
    races      races on global memory, on request
    faults     error messages
    counters   memory traffic and bank conflicts
    registers  live registers
"""
