"""Make shared memory explicit, allocate it, and insert barriers between its accesses.

expose_shared         the pass that inserts buffers, stores to them and loads from them
gather_in_clusters    the pass that exchanges numbers between the programs of a cluster
allocate_shared       the pass that assigns each buffer an offset for its live range
insert_barriers       the pass that inserts barriers
"""
