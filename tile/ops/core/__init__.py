"""The parts that all ops share.

call_plans           what first calls did, for later calls with equal shapes
call_records         the arrays and launches of first calls
call_replays         functions that repeat calls on other tensors
call                 the checks of a call's arguments, and the arrays of its results
new_arrays           new arrays of the libraries whose arrays are passed
new_tensors          those of PyTorch that a replay makes
column_sums          sums over rows, in a fixed order
tables               tables of configurations by size
device_functions     functions that kernels call
reference            array types and conversions of the NumPy references
"""
