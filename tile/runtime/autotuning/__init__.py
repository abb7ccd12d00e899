"""Choose a kernel's meta-parameters, by benchmarking or by rules.

decorator          `autotune`
autotuner          a tuned kernel: its choices, and how configurations are timed
tuned_launches     its launches, and `fast_path` of repeated ones
heuristics         meta-parameters by rules
configs            configurations, their pruning, and user functions that tuners call
space              search spaces
kernel_space       the space of a kernel, from its TILE IR
cost_model         the estimated time of a configuration
search             which configurations are measured
tuning_run         a search on the arguments of a call
trial, do_bench    a run of a configuration, and the time of a call
graph_replays      the time of a short call, by CUDA graphs
skipped_configs    errors of configurations that cannot run
tuning_store       results on disk
results_table      results as text, CSV and a plot
progress           what a run shows
"""
