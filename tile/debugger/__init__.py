"""The debugger: sessions over the interpreter's runs, with pdb's commands.

A session follows runs and decides where programs stop; the command classes, which `Debugger` joins,
read and answer the user's commands; frames, variables and expressions inspect programs.
`open_debugger` opens it at a `breakpoint()`, `tile debug` for a program from its beginning.
"""
