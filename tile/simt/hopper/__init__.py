"""wgmma and TMA: instruction shapes, operands in shared memory, and stores by TMA.

wgmma_layouts     wgmma instructions of a dot, the shared layouts of their operands, and staging
tma_boxes         shared layouts of descriptor blocks, and the TMA boxes that copy them
block_stores      which stores and atomic operations of descriptor blocks TMA executes
tma_store         TMA stores of descriptor blocks: a part of `expose-shared`
"""
