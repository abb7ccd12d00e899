"""The configurations of attention of sequences of different lengths."""

from __future__ import annotations

from tile.ops.core.tables import ANY, Table

# With keys and values by descriptors, by the size of a head, the bytes of an element, whether
# attention is causal, and the longest sequence. H200, bfloat16, 2026-11-30, sequences of 256, 512
# and 1024 (docs/notes/ops.md); for longer ones those of `attention`, not measured for sequences.
_SMALL = {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2}
_FOUR = {**_SMALL, "maxnreg": 128}  # programs on a multiprocessor
_ONE_LOOP = {"ONE_LOOP": True}
_LANES = {**_SMALL, "LANE_SUMS": True, "warp_specialize": False}
_WIDE = {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 8, "num_stages": 2, "maxnreg": 128}
_SHORT = {**_FOUR, "BLOCK_N": 32, "warp_specialize": False}
_LARGE = {"BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 8, "num_stages": 2}
_TWO = {**_LARGE, "maxnreg": 128, "LANE_SUMS": True}
BY_DESCRIPTORS = Table(
    {(ANY, ANY, ANY, ANY): {"BLOCK_M": 32, "BLOCK_N": 32}},
    {
        "nvptx": {
            (64, 2, 0, 1024): _LANES,
            (64, 2, 1, 1024): {**_LANES, **_ONE_LOOP},
            (64, 2, 1, 2048): _FOUR,
            (64, 2, 0, ANY): _TWO,
            (64, 2, ANY, ANY): {**_TWO, **_ONE_LOOP},
            (128, 2, 0, 1024): {**_WIDE, **_ONE_LOOP},
            (128, 2, 1, 512): {**_SHORT, **_ONE_LOOP},
            (128, 2, 1, 1024): {**_WIDE, **_ONE_LOOP},
            (128, 2, ANY, ANY): _LARGE,
            (256, 2, ANY, ANY): {**_LARGE, "BLOCK_N": 64},
            (ANY, ANY, ANY, ANY): {**_SMALL, "BLOCK_N": 32},
        }
    },
)

# The same without a window, where the maximum of the first block of keys is the origin of powers
# (attention_origin.py); empty where that is slower. H200, float16, 512 to 4096, 2026-11-30.
_FIRST = {"LANE_SUMS": True, "FIRST_MAXIMUM": True, **_ONE_LOOP}
BY_FIRST_MAXIMUM = Table(
    {(ANY, ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (64, 2, ANY, 512): {},
            (64, 2, 0, ANY): {**_TWO, **_FIRST},
            (64, 2, 1, 1024): {**_LANES, **_FIRST},
            (64, 2, 1, ANY): {**_TWO, **_FIRST},
            (128, 2, 0, 512): {},
            (128, 2, 0, ANY): {**_WIDE, **_FIRST},
            (128, 2, 1, 2048): {},
            (128, 2, 1, ANY): {**_WIDE, **_FIRST},
            (ANY, ANY, ANY, ANY): {},
        }
    },
)

# Those of one or two programs for each multiprocessor, which take several blocks of queries
# (attention_tables.py), by the size of a head, the bytes of an element, and the longest sequence,
# and how many sequences there may be for each block of a program: each program looks at all. H200,
# four sequences of 2048, 2026-11-29: 630 TFLOP/s for heads of 128, 516 without, and 703 and 529 for
# heads of 256; 16 sequences of 256 and 512, bfloat16, 2026-11-30 (docs/notes/ops.md).
_EACH = {"PROGRAMS": 132, "SEQUENCES": 1}
_PAIRS = {**_SMALL, "warp_specialize": True, "PROGRAMS": 264, "SEQUENCES": 4}
BY_SEVERAL_BLOCKS = Table(
    {(ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (64, ANY, ANY): {},
            (128, 2, 512): _PAIRS,
            (128, 2, ANY): {**_LARGE, **_EACH},
            (128, ANY, ANY): {},
            (256, 2, ANY): {**_LARGE, "BLOCK_N": 64, **_EACH},
            (ANY, ANY, ANY): {},
        }
    },
)

# The kernels of gradients by descriptors, by the size of a head, and whether attention is causal.
# H200, float16, those of attention of equal lengths of 2026-11-26, and heads of 64, sequences of
# 1024 and 4096, 2026-11-30 (docs/notes/ops.md); smaller heads are not measured.
_PRODUCER, _ALONE = {"warp_specialize": True}, {"warp_specialize": False}
_TALL = {**_SMALL, "BLOCK_N": 128, **_PRODUCER}
QUERY_TILES = Table(
    {(ANY, ANY): {"BLOCK_M": 32, "BLOCK_N": 32}},
    {
        "nvptx": {
            (32, ANY): _TALL,
            (64, 0): _TALL,
            (64, 1): {**_FOUR, **_ALONE},
            (ANY, ANY): {**_SMALL, **_PRODUCER},
        }
    },
)
KEY_TILES = Table(
    {(ANY, ANY): {"BLOCK_M": 32, "BLOCK_N": 32}},
    {
        "nvptx": {
            (32, ANY): {**_SMALL, **_PRODUCER},
            (64, ANY): {**_SMALL, **_ALONE, "maxnreg": 168, "DELTA_LAST": True},  # three programs
            (128, ANY): {**_SMALL, **_ALONE},
            (ANY, ANY): {**_SMALL, **_PRODUCER, "num_warps": 8},
        }
    },
)
