"""THREAD IR to the text of an LLVM module.

Fragments are unrolled to scalar registers here and nowhere before: in the text, every register of a
fragment is an SSA value of its own. Each family of operations has a file with its rules, and
`rules` joins their tables. `body` holds a function under construction, `module` what stands around
functions, `types` and `words` the spelling of types, constants and packed registers, `assembler`
inline PTX for what LLVM has no instruction for.

The module is written as strings. That is an order of magnitude faster than building it from
objects, and compile time is time that users wait for.
"""
