"""The tiles of layer and RMS normalization of long rows that part_norms.py computes."""

from __future__ import annotations

from tile.ops.core.tables import ANY, Table
from tile.ops.rowwise.row_sums import SAMPLE

# By CENTERED, the length and the bytes of an element; an empty entry is for other kernels. H200,
# 2026-11-30, us, by two tiles a part in registers, or read twice, and so: layer norm, float16, 8192
# x 14000 137 and 112, 4096 x 24000 110.2 and 96.3, x 32000 146.5 and 129.5, x 40000 184 and 167, x
# 50256 263 and 214, 2048 x 65536 157 and 137; float32, 8192 x 14000 249 and 222, 4096 x 32000 263.8
# and 258.3, 2560 x 50256 299 and 271, 2048 x 65536 285 and 277. RMS norm, float16, 8192 x 14000 120
# and 111, 4096 x 24000 100.9 and 96, x 32000 133.5 and 127.6, 2560 x 50256 137.7 and 129.6, 2048 x
# 65536 139 and 132.5; float32, 8192 x 14000 254 and 223, 2048 x 65536 264.3 and 261.5. Then, before
# and so: RMS norm, float16, 2560 x 45000 121.2 and 115.8, x 50256 130.2 and 128.8, 2048 x 53256
# 118 and 111; layer norm, float32, 2048 x 60000 262 and 254; by LINE, layer norm, float16, 4096 x
# 30000 127.2 and 123.6, 5120 x 26000 135.8 and 131.9, 2560 x 45000 126.4 and 122.2, 2048 x 53256
# 121.8 and 118.5, but 2560 x 50256, whose rows begin at sectors, 135.7 and 137.0. Of a tile of a
# power of two, and so: layer norm, bfloat16, 2026-12-01, 32768 x 1152 46.0 and 38.8, 16384 x 2304
# 48.1 and 37.7, 8192 x 2560 26.5 and 21.9, x 3072 28.6 and 25.4, x 4608 48.0 and 37.9, x 5120 49.3
# and 41.7, x 6144 52.5 and 49.4.
SAMPLED = {"BLOCK": 4096, "SAMPLE": SAMPLE}
PARTS = Table(
    {(ANY, ANY, ANY): {}},
    {
        "nvptx": {
            (ANY, 1024, ANY): {},
            (ANY, 1280, 2): {"BLOCK": 512, "num_warps": 1},
            (ANY, 1535, 2): {"BLOCK": 512, "num_warps": 2},
            (ANY, 2048, ANY): {},
            (ANY, 2560, 2): {"BLOCK": 512, "num_warps": 2},
            (ANY, 4095, 2): {"BLOCK": 1024, "num_warps": 4},
            (ANY, 4096, ANY): {},
            (ANY, 5120, 2): {**SAMPLED, "BLOCK": 2048, "num_warps": 4},
            (ANY, 6144, 2): {**SAMPLED, "BLOCK": 2048, "num_warps": 8},
            (ANY, 8192, ANY): {},
            (0, 12288, 2): {"BLOCK": 4096, "num_warps": 8},
            (ANY, 10240, 2): {**SAMPLED, "BLOCK": 2048, "num_warps": 8, "maxnreg": 80},
            (ANY, 12288, 2): {**SAMPLED, "num_warps": 8, "maxnreg": 80},
            (0, 12288, 4): {"BLOCK": 4096, "num_warps": 16},
            (0, 16383, 4): {"BLOCK": 4096, "num_warps": 16, "maxnreg": 64},
            (0, 16383, 2): {"BLOCK": 4096, "num_warps": 16, "maxnreg": 64},
            (0, 16384, ANY): {},
            (ANY, 14336, 2): {**SAMPLED, "BLOCK": 2048, "num_warps": 8, "maxnreg": 80},
            (ANY, 16383, 2): {
                **SAMPLED,
                "BLOCK": 2048,
                "PACKED": True,
                "num_warps": 8,
                "maxnreg": 64,
            },
            (ANY, 16384, 2): {},
            (0, 20480, 2): {"BLOCK": 4096, "num_warps": 16, "maxnreg": 64},
            (0, 20480, 4): {},
            (ANY, 20480, 2): {**SAMPLED, "num_warps": 16, "maxnreg": 64},
            (ANY, 20480, 4): {"BLOCK": 4096, "num_warps": 16, "maxnreg": 64},
            (0, 32767, 2): {"BLOCK": 4096, "PACKED": True, "num_warps": 16, "maxnreg": 64},
            (0, 32768, 2): {},
            (0, 24576, 4): {"SIZE": 2, "BLOCK": 4096, "num_warps": 8},
            (0, 32768, 4): {"SIZE": 2, "BLOCK": 8192, "num_warps": 8},
            (ANY, 32768, 2): {
                **SAMPLED,
                "PACKED": True,
                "LINE": 128,
                "num_warps": 16,
                "maxnreg": 64,
            },
            (ANY, 32768, 4): {"SIZE": 4, "BLOCK": 2048, "num_warps": 4},
            (0, 57344, 2): {
                "SIZE": 4,
                "BLOCK": 2048,
                "PACKED": True,
                "num_warps": 8,
                "maxnreg": 64,
            },
            (0, 65536, 2): {"SIZE": 8, "BLOCK": 2048, "num_warps": 4, "maxnreg": 40},
            (ANY, 36864, 2): {**SAMPLED, "num_warps": 16, "maxnreg": 64},
            (ANY, 57344, 2): {
                **SAMPLED,
                "BLOCK": 8192,
                "LINE": 32,
                "num_warps": 16,
                "maxnreg": 64,
            },
            (ANY, 65536, 2): {"SIZE": 4, "BLOCK": 4096, "num_warps": 8, "maxnreg": 40},
            (ANY, 57344, 4): {"SIZE": 8, "BLOCK": 1024, "num_warps": 4},
            (0, 65536, 4): {"SIZE": 8, "BLOCK": 4096, "num_warps": 8, "maxnreg": 64},
            (ANY, 65536, 4): {"SIZE": 8, "BLOCK": 2048, "num_warps": 8, "maxnreg": 64},
            (ANY, ANY, ANY): {},
        },
    },
)
