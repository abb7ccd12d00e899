"""Choose a kernel's meta-parameters, by benchmarking or by rules.

decorator          `autotune`
autotuner          a tuned kernel: its choices, and how configurations are timed
fast_path          its launches, and the fast path of repeated ones
heuristics         meta-parameters by rules
configs            configurations, their pruning and errors; user functions that tuners call
space              search spaces
kernel_space       the space of a kernel, from its TILE IR
cost_model         the estimated time of a configuration
search             which configurations are measured
finalists          the fastest configurations measured again
tuning_run         a search on the arguments of a call
trial, do_bench    a run of a configuration, and the time of a call, also by CUDA graphs
measuring          compilation and measurement of configurations, also in other processes
tuning_store       results on disk
progress           what a run shows; its results as text, CSV and a plot
"""
