"""The Python frontend: from jitted functions to TILE IR, by a walk over their AST.

source               jitted functions: parameters, source text, AST
fingerprint          hashes of functions, their callees and captured values
code_generator       a function and its callees as a module
lowering_context     the state of one function's lowering: scope, insertion point, early exits
statements, assignment, expressions, calls, attributes, comprehensions
                     lowering rules, by kind of AST node
branches, loops, loop_carried
                     control flow: merges, loops, loop-carried names
overloads            operators of aggregates
aggregates           classes whose objects are values of kernels
value_trees          the values of names, and their merges
global_names         globals and closure variables
constexpr_function   Python functions that kernels call at compile time
debug_info           debug steps for the debugger
"""
