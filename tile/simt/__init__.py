"""Lowering that is common to all SIMT targets: from TILE IR to THREAD IR.

layouts            the algebra of linear layouts: which register, lane and warp holds an element
ops                operations of the LAID_OUT and THREAD levels
target             the target description: the fields by which passes decide
layout_rules       layout inference: the layout of each result, given those of the operands
pipeline           the pass pipeline from TILE to THREAD
"""
