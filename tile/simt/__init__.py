"""What is true of any SIMT machine, with no vendor's name inside.

layouts            which element each register, lane and warp holds
ops                operations of the LAID_OUT and THREAD levels
target             what a machine can do: the fields by which passes decide
layout_rules       the layout of each operation's result, given its operands'
pipeline           the passes in order, from TILE to THREAD
"""
