"""The debugger: sessions over the interpreter's runs, with pdb's commands.

session         follows runs, and decides where programs stop
stop_points     breakpoints, their conditions and hits
frames          the call stack, and the positions of programs
variables       variables of programs as NumPy values, and as text
evaluate        expressions of the user over variables of a program
source_files    source lines
commands        the command classes, which `Debugger` joins

`open_debugger` opens it at a `breakpoint()`, `tile debug` for a program from its beginning.
"""
