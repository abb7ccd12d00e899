"""Choose a kernel's meta-parameters, by benchmarking or by rules.

autotuner          `autotune` and `heuristics`
configs            configurations, their pruning, and user functions that tuners call
do_bench           the time of a call
skipped_configs    errors of configurations that cannot run
autotune_cache     tuning results on disk
"""
