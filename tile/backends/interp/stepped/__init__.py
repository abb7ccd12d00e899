"""Runs that a debugger watches: statement by statement, on all programs at once.

The module has `step`s (`tile/frontend/steps.py`) and is run as the frontend made it, so that every
statement does what it says and every variable has its value. The machine is the one of all runs:
a step is an instruction that calls the `Watcher` (`watcher.py`), which may look at anything, and
returns when the programs shall go on.
"""
