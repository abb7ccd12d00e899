"""Tables of tiles for matmuls of few tiles (few_tiles.py), and for those of a short inner axis."""

from __future__ import annotations

from tile.ops.core.tables import ANY, Table
from tile.ops.linear.configurations import dependent, tiles

# Of a result of 64 columns, as its transpose: each row of a is loaded once, by a program for most
# multiprocessors. 1024 to 4096 rows have 1.13 to 1.55 of cuBLAS (H200, float16, 2026-11-29). By M,
# the number of tiles of 64 x 64, and K.
THIN = Table(
    {(ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (1023, ANY, ANY): {},
            (ANY, 66, 1023): {},
            (1535, 33, 1024): dependent(64, 16, 128, stages=8),
            (1535, ANY, ANY): {},
            (ANY, 33, 2048): dependent(64, 16, 128, stages=8),
            (ANY, 33, 4096): dependent(64, 32, 128, stages=8),
            (ANY, 49, 4096): dependent(64, 24, 128, stages=8),
            (ANY, 66, 4096): dependent(64, 32, 128, stages=8),
            (ANY, ANY, ANY): {},
        }
    },
)


# Of a row-major right operand whose rows are no multiples of 128 bytes, so that they lie in two
# lines of the L2 cache: 2560 x 48 x 2560 takes 7.8 us (8.1 with the tiles of FEW), 4096 x 48 x
# 4096 13.2 (13.5). By N, the number of tiles of 64 x 64, and K.
BETWEEN_LINES = Table(
    {(ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (ANY, ANY, 2047): {},
            (32, ANY, ANY): {},
            (48, 32, ANY): {},
            (48, 44, 4096): dependent(64, 16, 256, stages=5),
            (48, 132, 4096): dependent(64, 48, 128, stages=8),
            (ANY, ANY, ANY): {},
        }
    },
)


# Of results of any number of tiles: where K is short, programs take as long to start and to store
# as to multiply, and several on a multiprocessor overlap.
_SHORT = dependent(128, 128, 64, warps=8)


# By M, N, the number of tiles of 64 x 64, and K; an empty entry leaves a shape to the tables of
# configurations.py. H200, float16, cold L2 cache (docs/notes/ops.md, "Few tiles").
FEW = Table(
    {(ANY, ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (64, 64, ANY, 64): dependent(64, 64, 64, stages=2),
            (64, ANY, ANY, 255): {},
            (ANY, 32, ANY, 255): {},
            (ANY, 64, 264, 255): {},
            (128, 64, ANY, 128): dependent(64, 64, 64, stages=2),
            (ANY, 64, ANY, 128): dependent(128, 64, 64, stages=2),
            (ANY, 64, ANY, 255): {},
            (ANY, ANY, 132, 255): dependent(64, 64, 64),
            (ANY, ANY, 264, 255): dependent(64, 128, 64),
            (ANY, ANY, ANY, 64): dependent(128, 128, 64, stages=2),
            (ANY, 128, ANY, 128): dependent(64, 128, 64, stages=2),
            (ANY, 256, ANY, 128): dependent(64, 128, 64),
            (ANY, ANY, ANY, 255): _SHORT,
            # Tiles of 16 or 32 rows would be more programs, which have no wgmma.
            (ANY, 16, 33, ANY): dependent(64, 16, 256, stages=4),
            (ANY, 16, 132, ANY): dependent(64, 16, 256, stages=5),
            # Three programs a multiprocessor, one, or two, so that shares are even: 10240 x 32 x
            # 8192 takes 42.0 us (53.6 as before), 20480 x 8 x 8192 78.5 (103.0).
            (ANY, 16, 198, ANY): dependent(64, 16, 64, stages=6),
            (ANY, 16, 264, ANY): dependent(128, 16, 64, stages=5),
            (ANY, 16, 330, ANY): dependent(64, 16, 64, stages=4),
            (ANY, 16, 396, ANY): dependent(64, 16, 256, stages=5),
            (ANY, 16, ANY, ANY): dependent(128, 16, 64, stages=9),
            (ANY, 32, 132, ANY): dependent(64, 32, 256, stages=4),
            (ANY, 32, 198, ANY): dependent(64, 32, 64, stages=6),
            (ANY, 32, 264, ANY): dependent(128, 32, 64, stages=5),
            (ANY, 32, 396, ANY): dependent(64, 32, 256, stages=4),
            (ANY, 32, ANY, ANY): dependent(128, 32, 64, stages=9),
            (ANY, ANY, 32, 4096): dependent(64, 32, 256, stages=4),
            (ANY, ANY, 64, 1024): dependent(64, 32, 128, stages=4),
            (64, ANY, 132, ANY): dependent(64, 64, 128, stages=6),
            (ANY, 64, 132, ANY): dependent(64, 64, 128, stages=6),
            (64, ANY, ANY, ANY): {},
            (ANY, 64, ANY, ANY): {},
            (2560, ANY, 132, 4096): dependent(64, 64, 128, stages=6),
            # Programs of a cluster load their rows once: 4096 x 128 x 4096.
            (ANY, 128, 132, 4096): {
                **dependent(64, 64, 128, stages=6),
                "GROUP": 1,
                "num_ctas": 2,
                "warp_specialize": True,
            },
            (ANY, ANY, 132, 4096): dependent(64, 64, 128, stages=6),
            (ANY, ANY, 132, ANY): dependent(128, 128, 64, warps=8, stages=6),
            # In three splits: 768 x 768 x 8192 takes 18.9 us, 22.5 without.
            (ANY, ANY, 176, 6143): dependent(64, 128, 64, stages=8),
            (ANY, ANY, 176, ANY): dependent(128, 128, 64, warps=8, stages=6),
            (ANY, ANY, 264, ANY): dependent(64, 128, 64, stages=8),
            (ANY, ANY, 528, ANY): dependent(128, 128, 64, stages=6),
            (ANY, ANY, ANY, 384): _SHORT,
            # 128 x 256 would leave more than a quarter of the multiprocessors idle.
            (ANY, ANY, 792, ANY): {},
            (ANY, 128, 1056, ANY): dependent(128, 128, 64),
            (ANY, ANY, 1056, ANY): dependent(128, 256, 64, warps=8),
            (ANY, ANY, ANY, ANY): {},
        }
    },
)


# Large results of short inner axes: persistent programs load a tile while they store another. 8192
# x 8192 x 128 takes 46.4 us, 57.9 without, 64 times 1024 x 1024 x 128 49.2 and 72.6, but 12544 x
# 256 x 128 6.6 and 4.9 (H200, 2026-11-29). By the negatives of the least of M and N, and of the
# number of tiles of 64 x 64, and by K.
SHORT = Table(
    {(ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (-256, -2048, 384): {
                **tiles(128, 128, 64, warps=8, stages=6),
                "persistent": True,
                "warp_specialize": True,
            },
            (ANY, ANY, ANY): {},
        }
    },
)


# By rows and columns, tiles of operands whose rows begin within sectors of the L2 cache: programs
# of a cluster load columns once. 1000 cubed takes 7.9 us, 9.2 without, 2000 x 1000 x 3000 25.3 and
# 31.3 (H200, float16, 2026-11-29).
CLUSTERED = {
    (64, 128): dependent(64, 128, 128, stages=4) | {"num_ctas": 2, "warp_specialize": True},
    (128, 128): dependent(128, 128, 64, 8, 6)
    | {"GROUP": 1, "num_ctas": 2, "warp_specialize": True},
}
