"""Stream-K: programs share the iterations of all tiles evenly (Osama et al., arXiv:2301.03598).

Iterations are numbered through: tile by tile, and along the inner axis within a tile. Each of
`streams` programs has an equal range of them, which may begin and end within a tile: its sums of a
part of a tile go to a workspace, and those of a whole tile to the result. A second kernel adds up
the parts of each shared tile in the order of programs, so that results are the same in every run.
If there are more tiles than programs, only the last ones, between one and two for each program, are
shared; each of the others has a program of its own, as in an ordinary matmul.
"""

from __future__ import annotations

from typing import Any

import tile
import tile.language as tl
from tile.ops.core.call import Call, Operand
from tile.ops.core.call_plans import launch
from tile.ops.core.new_arrays import DType
from tile.ops.core.tables import Configuration
from tile.ops.linear.configurations import PROGRAMS
from tile.ops.linear.stream_k_kernels import add_streams_kernel, stream_matmul_kernel

LEAST_STEPS = 4  # iterations of a program
OTHER_PROGRAMS = 4  # of backends that `PROGRAMS` lacks
SUM_ROWS = 16  # of a program that adds up parts


def stream_matmul(
    call: Call,
    arrays: tuple[Any, Any, Any],
    out: Operand,
    sizes: tuple[int, int, int, int],
    strides: tuple[tuple[int, int, int], ...],
    sums: DType,
    config: Configuration,
    activation: Any,
    **options: Any,
) -> None:
    """Write activation(a @ b + bias) to `out`.

    arrays: a, b and bias. sizes: batches, M, N and K, which is 1 or more. strides: of a, b and out,
    of batch, row and column. sums: the type of sums. options: constexprs of the kernel.
    """
    (a, b, bias), (batches, m, n, k) = arrays, sizes
    block_m, block_n = config["BLOCK_M"], config["BLOCK_N"]
    steps, tiles = tile.cdiv(k, config["BLOCK_K"]), tile.cdiv(m, block_m) * tile.cdiv(n, block_n)
    programs = PROGRAMS.get(call.backend, OTHER_PROGRAMS)
    count = tiles * batches
    shared = count if count <= programs else count % programs and count % programs + programs
    streams = max(1, min(programs, shared * steps // LEAST_STEPS)) if shared else 0
    share, rest = divmod(shared * steps, max(streams, 1))
    parts = call.new((2 * streams, block_m, block_n), sums)
    shares = (tiles, shared, steps, streams, share, rest)
    launch(stream_matmul_kernel, (streams + count - shared,))(
        *(a, b, bias, out.value, parts.value, m, n, k, *strides, *shares),
        ACTIVATION=activation,
        SUMS=getattr(tl, sums.name),
        EVEN=k % config["BLOCK_K"] == 0,
        **options,
        **config,
    )
    if shared:
        rows = min(SUM_ROWS, block_m)
        launch(add_streams_kernel, (shared, block_m // rows))(
            *(parts.value, bias, out.value, m, n, strides[2], *shares),
            ACTIVATION=activation,
            ROWS=rows,
            **{name: config[name] for name in ("BLOCK_M", "BLOCK_N", "GROUP")},
        )
