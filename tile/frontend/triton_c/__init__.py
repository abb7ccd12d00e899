"""Triton-C: the C-like language of the Triton paper (MAPL 2019, section 3), on the IR builder.

    grammar.lark     the grammar, LALR(1)
    parser           text to a parse tree; syntax errors
    c_types          types of variables, and C's arithmetic conversions
    nodes            AST nodes of what C has and Python has not
    unit             a file under translation: its functions, names and scopes
    expressions, translate
                     parse tree to AST: names, predicates, loops
    intrinsics       functions that every program can call
    rules            compile AST nodes to IR
    host             run the statements outside functions
    function         the functions of a file, as functions that the compiler accepts

A function becomes a Python `ast.FunctionDef` whose statements are nodes of `ast` where Python has
them (`if`, `while`, `return`) and nodes of `nodes` where it has not. Everything that follows the
parser, such as loop-carried names, early exits, debug steps and fingerprints, is that of
`tile.frontend.python`.
"""
