"""From THREAD IR to the text of an OpenCL C program.

Short fragments become a scalar for each register, long ones arrays.

    types       C types, and constants as C has them
    names       identifiers, from the names of Python variables
    library     functions in OpenCL C that the text calls
    assembly    functions in PTX, for compilers that take it
    source      a program: options, functions of the library, assertions
    body        a function: statements with their places in the Python source
    rules       the table of what is emitted for each operation
    arith, convert, real                 arithmetic
    rows, rolling                        long fragments as arrays, and loops over them
    registers, lanes                     fragments, and lanes of a warp
    memory, atomics, shared, copies      accesses
    products                             products of matrices of one thread
    control                              branches, loops, calls
    debug                                prints and assertions
    functions                            whole functions and programs

Integers are variables of the unsigned type of their width, whose arithmetic wraps; where a sign
matters, an operand is cast: `(int)x < (int)y`.
"""
