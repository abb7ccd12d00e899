"""Helpers that emitters of all backends share.

emitter    the base of function builders, fragments as lists of registers, loads next to dots
llvm       THREAD IR as LLVM IR
"""
