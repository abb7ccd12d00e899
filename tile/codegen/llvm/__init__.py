"""Emit THREAD IR as LLVM IR, for any target of LLVM.

types    LLVM types and constants
"""
