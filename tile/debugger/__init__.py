"""The debugger: a session in the manner of pdb over the interpreter's runs.

`session.py` follows runs and decides where programs stop; `prompt.py` and the files of commands
talk with the user; `frames.py`, `values.py`, `places.py` look at programs. `plain.py` opens it at a
`breakpoint()`, and `tile/tools/debugged.py` for a program from its beginning.
"""
