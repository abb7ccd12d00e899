"""The order of warpgroups: `order_wait` and `order_arrive`.

All threads of a program run in lockstep here. So a warpgroup may wait before the one in front of it
arrives, if that one need not wait itself: the program goes on if one of its warpgroups can.
"""

from __future__ import annotations

import numpy as np

from tile.backends.interp.values import Array, Rows
from tile.errors import DeadlockError
from tile.ir.core import Operation
from tile.simt.ops.order import ALL
from tile.simt.ops.warp_specialize import WARPGROUP_WARPS


class WarpgroupOrder:
    """For each program of a chunk and each warpgroup, how many arrives no wait has taken yet."""

    def __init__(self, programs: int, warps: int) -> None:
        self.arrived: Array = np.zeros((programs, max(1, warps // WARPGROUP_WARPS)), np.int64)

    def wait(self, op: Operation, programs: Rows) -> None:
        """Wait in each warpgroup, or in one."""
        groups = _groups(op)
        blocked = (self.arrived[programs, groups] < 1).all(axis=1)
        self.arrived[programs, groups] -= 1
        if blocked.any() or (self.arrived[programs] < -1).any():
            raise DeadlockError(
                "a warpgroup waits for its predecessor, which never arrives", loc=op.loc
            )

    def arrive(self, op: Operation, programs: Rows) -> None:
        """Let the warpgroup after each one go on, or that after one of them."""
        count = self.arrived.shape[1]
        following = (np.arange(count)[_groups(op)] + 1) % count
        self.arrived[programs[:, None], following] += 1
        if (self.arrived[programs] > 1).any():
            raise DeadlockError("a warpgroup arrives twice, and no other one waits", loc=op.loc)

    def barrier(self, op: Operation, programs: Rows) -> None:
        """Raise for a barrier that a warpgroup does not reach until another one arrives."""
        if (self.arrived[programs] < 0).any():
            raise DeadlockError("a barrier is between order_wait and order_arrive", loc=op.loc)

    def end(self, programs: Rows) -> None:
        """Raise unless each arrive has been waited for."""
        if self.arrived[programs].any():
            raise DeadlockError("a program ends although a warpgroup has arrived, or waits")


def _groups(op: Operation) -> slice:
    only = op["only"]
    return slice(None) if only == ALL else slice(only, only + 1)
