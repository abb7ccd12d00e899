"""Helpers that emitters of all backends share.

emitter             the base of function builders
unroll_fragments    fragments as lists of registers
operand_loads       loads next to the dots that use them
llvm                THREAD IR as LLVM IR
"""
