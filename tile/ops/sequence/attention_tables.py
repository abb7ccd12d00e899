"""The configurations of attention."""

from __future__ import annotations

from tile.ops.core.tables import ANY, Table

# By the size of a head and the bytes of an element. H200, float16, 4 x 32 x 4096, 2026-11-21
# (docs/results/gpu.md); wider types and heads are not measured.
BY_POINTERS = Table(
    {(ANY, ANY): {"BLOCK_M": 32, "BLOCK_N": 32}},
    {
        "nvptx": {
            (64, 2): {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2},
            (128, 2): {"BLOCK_M": 128, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2},
            (ANY, ANY): {"BLOCK_M": 64, "BLOCK_N": 32, "num_warps": 4, "num_stages": 2},
        }
    },
)
# Two programs fit on a multiprocessor: one computes while the dots of the other run.
_TWO = {"num_warps": 8, "num_stages": 2, "maxnreg": 128}
# The same with keys and values by descriptors, and by whether attention is causal, whether it has a
# bias, and the number of keys. H200, float16, 4 x 32 x 1024, 2048 and 4096, 2 x 16 x 16384,
# 2026-11-26, those of 64 elements and short ones, many heads, 2026-11-30 (docs/notes/ops.md).
_LARGE = {"BLOCK_M": 128, "BLOCK_N": 128, "num_warps": 8, "num_stages": 2}
_SMALL = {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 2}
_ONE_LOOP = {"ONE_LOOP": True}
_LANES = {**_SMALL, "LANE_SUMS": True, "warp_specialize": False, **_ONE_LOOP}
_WIDE = {"BLOCK_M": 128, "BLOCK_N": 64, **_TWO}
_TALL = {"BLOCK_M": 128, "BLOCK_N": 128, **_TWO, **_ONE_LOOP}
_FOUR = {"BLOCK_M": 64, "BLOCK_N": 32, "num_warps": 4, "num_stages": 2, "maxnreg": 128}
_SHORT = {**_FOUR, "warp_specialize": False}  # four programs on a multiprocessor
_LEAST, _SHORTEST, _SHORTER, _SHORT_KEYS = 128, 256, 384, 512
_FEW, _SOME, _MANY = 1024, 2048, 8192  # keys
BY_DESCRIPTORS = Table(
    {(ANY, ANY, ANY, ANY, ANY): {"BLOCK_M": 32, "BLOCK_N": 32}},
    {
        "nvptx": {
            (64, 2, 0, 0, _SHORTEST): _LANES,
            (64, 2, 0, 0, ANY): {**_TALL, "LANE_SUMS": True},
            (64, 2, 1, 0, _SOME): _LANES,
            (64, 2, 1, 0, ANY): _TALL,  # sums of lanes would spill 4 bytes
            (64, 2, 0, 1, ANY): {"BLOCK_M": 128, "BLOCK_N": 128, **_TWO},
            (128, 2, 0, 0, _LEAST): _SHORT,
            (128, 2, 0, 0, _FEW): _WIDE,
            (128, 2, 0, 0, ANY): _LARGE,
            (128, 2, 1, 0, _SHORTEST): {**_SHORT, **_ONE_LOOP},
            (128, 2, 1, 0, _FEW): {**_WIDE, **_ONE_LOOP},
            (128, 2, 1, 0, ANY): _LARGE,
            (128, 2, 1, 1, ANY): _WIDE,
            (256, 2, 1, 1, ANY): {**_LARGE, "BLOCK_N": 64},
            (ANY, ANY, ANY, ANY, ANY): {**_SMALL, "BLOCK_N": 32},
        }
    },
)
# The same for scores without a window, bias and slope, whose running maximum is not needed
# (attention_origin.py), by the size of a head, the bytes of an element, whether attention is
# causal, and the number of keys; empty where that is slower. H200, float16, 2026-11-30.
_FIRST = {"LANE_SUMS": True, "FIRST_MAXIMUM": True, **_ONE_LOOP}
_FIRST_SMALL = {**_SMALL, "warp_specialize": False, **_FIRST}
_FIRST_TALL, _FIRST_WIDE = {**_TALL, **_FIRST}, {**_WIDE, **_FIRST}
BY_FIRST_MAXIMUM = Table(
    {(ANY, ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (64, 2, ANY, _SHORTEST): {},
            (32, 2, ANY, ANY): _FIRST_SMALL,
            (64, 2, ANY, _SOME): _FIRST_SMALL,
            (64, 2, ANY, ANY): _FIRST_TALL,
            (128, 2, 0, _SHORTER): {},
            (128, 2, 0, ANY): _FIRST_WIDE,
            (128, 2, 1, _SHORT_KEYS): {},
            (128, 2, 1, ANY): _FIRST_WIDE,
            (ANY, ANY, ANY, ANY): {},
        }
    },
)
# For at most this number of queries, and for causal blocks that are too few for all
# multiprocessors, by the size of a head and the bytes of an element. H200, bfloat16, 2026-11-30.
FEW_QUERIES = 64
BY_FEW_QUERIES = Table(
    {(ANY, ANY): {"BLOCK_M": 32, "BLOCK_N": 32}},
    {
        "nvptx": {
            (128, 2): {**_SMALL, "BLOCK_N": 128, "warp_specialize": True},
            (ANY, ANY): {**_SMALL, "BLOCK_N": 32},
        }
    },
)
BY_FEW_BLOCKS = Table(
    {(ANY, ANY): {}},
    {"nvptx": {(64, ANY): {}, (128, 2): {**_SMALL, "warp_specialize": True}, (ANY, ANY): {}}},
)
# Those of one or two programs for each multiprocessor, which take several blocks of queries, if
# these keep all of them busy. By the size of a head, the bytes of an element, whether attention is
# causal, whether there is a bias, and the number of keys; empty where a program for each block is
# faster. In the same runs.
_PRODUCER = {**_SMALL, "warp_specialize": True}
_PAIRS, _TRIPLES = {**_PRODUCER, "PROGRAMS": 264}, {**_PRODUCER, "PROGRAMS": 396}
BY_SEVERAL_BLOCKS = Table(
    {(ANY, ANY, ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (64, 2, ANY, 0, _LEAST): {},
            (64, 2, ANY, 0, _SHORTEST): _TRIPLES,
            (64, ANY, ANY, ANY, ANY): {},
            (128, 2, 0, 0, _SHORTER): _PAIRS,
            (128, 2, 0, 0, _MANY): {**_LARGE, "PROGRAMS": 132},
            (128, 2, 1, 0, _SHORT_KEYS): _PAIRS,
            (128, 2, 1, 0, _FEW): {},
            (128, 2, 1, 0, _MANY): {**_LARGE, "PROGRAMS": 132},
            (128, ANY, ANY, ANY, ANY): {},
            (256, 2, 1, 0, _MANY): {**_LARGE, "BLOCK_N": 64, "PROGRAMS": 132},
            (ANY, ANY, ANY, ANY, ANY): {},
        }
    },
)
