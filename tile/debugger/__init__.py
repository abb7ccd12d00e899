"""The debugger: a session in the manner of pdb over the interpreter's runs.

`session.py` follows runs and decides where programs stop; `prompt.py` and the files of commands
talk with the user; `frames.py`, `values.py`, `places.py` look at programs; `program.py` runs a
program from the beginning for `tile debug`, and `plain.py` opens at a `breakpoint()`.
"""
