"""wgmma and TMA: instruction shapes, operands in shared memory, and stores by TMA.

wgmma_layouts     wgmma instructions of a dot, and the shared layouts of their operands
wgmma_operands    operands staged in shared memory: a part of `expose-shared`
im2col            limits of TMA loads in im2col mode
tma_boxes         shared layouts of descriptor blocks, and the TMA boxes that copy them
tma_store         TMA stores of descriptor blocks: a part of `expose-shared`
"""
