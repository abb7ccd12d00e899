"""Helpers that emitters of all backends share.

unroll_fragments    fragments as lists of registers
"""
