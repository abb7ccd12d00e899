"""From THREAD IR to the text of an LLVM module; fragments are unrolled to scalars here alone.

    types       types and constants
    module      declarations, globals, helper functions, places in the source
    body        a function: names, lines, values
    rules       the table of what is emitted for each operation
    arith, integers, convert, math       arithmetic
    registers, lanes                     fragments, and lanes of a warp
    memory, atomics, shared, copies      accesses
    matrix                               products
    control                              branches, loops, calls
    debug                                prints and assertions
    assembler                            lines of PTX inside LLVM IR

The text is written as strings: an order of magnitude faster than through objects, and compile time
is a user's time.
"""
