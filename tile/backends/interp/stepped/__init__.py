"""Runs under a debugger: statement by statement, on all programs at once.

The module has `step` operations (`tile/frontend/steps.py`) and runs as the frontend emitted it, so
that every statement is executed as written and every variable has its value. The executor is that
of all runs. A step is an instruction that calls the `Watcher` (`watcher.py`), which may inspect any
state and returns when the programs are to continue.
"""
