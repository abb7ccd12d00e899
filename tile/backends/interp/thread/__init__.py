"""THREAD IR in NumPy: every thread of every program a row, and shared memory that is watched.

The engine is that of the TILE level, whose rows are programs. Here a row is a thread, and all rows
of a wave take each operation in step. Real threads do not, so whatever they hand each other
through shared memory is checked for a barrier in between, and what they do together for being all
there. See `tile/errors.py` for the faults.

    place      which thread of which program a row is
    launch     a run, and what the programs of a chunk share
    memory     what shared memory holds, and who touched it when
    copies     asynchronous copies on their way
    barriers   on which bulk copies arrive
    pending    products of groups of warps on their way
    rules      operations of one thread
    lanes      shuffles
    matrix     products
    products   those by groups of warps
    accumulators  what these compute, used too early
    accesses   global memory in vectors
    shared     operations on shared memory
    bulk       copies of boxes to it
    races      of global memory, on request
    faults     errors in words
    counters   what accesses cost
    registers  how many are live
"""
