"""Synchronization of a program's warpgroups: of each with itself, and the order of their dots.

Warpgroups that exchange nothing need not wait for each other: `warpgroup_barrier` orders accesses
of the threads of one.

Warpgroups of a program that no barrier holds together drift apart, and each may compute while the
dots of another run. They do if they are ordered: a warpgroup issues its dots, and lets the next one
issue its own. The last one is followed by the first (*ping-pong*, if there are two).

    order_arrive {only = 1}         let warpgroup 0 begin
    for .. {
      order_wait
      %s = wgmma ..
      %t = wgmma ..
      order_arrive
      ..                            what threads compute from %s
    }
    order_wait {only = 0}           after the last warpgroup

No memory is handed over: results are the same without any of these.
"""

from __future__ import annotations

from tile.ir.declare import lowered_op
from tile.ir.types import require

ALL = -1


@lowered_op(examples=("order_wait", "order_wait {only = 0}"))
def order_wait(*, only: int = ALL) -> None:
    """Wait in each warpgroup of the program until the one before it has arrived.

    With `only`, no other warpgroup waits. Every `order_wait` takes an `order_arrive`.
    """
    _check("order_wait", only)


@lowered_op(examples=("order_arrive", "order_arrive {only = 1}"))
def order_arrive(*, only: int = ALL) -> None:
    """Let the next warpgroup of the program go on. With `only`, no other warpgroup arrives."""
    _check("order_arrive", only)


def _check(name: str, only: int) -> None:
    require(only >= ALL, f"{name} takes the number of a warpgroup, not {only}")


@lowered_op(examples=("warpgroup_barrier",))
def warpgroup_barrier() -> None:
    """Wait in each warpgroup of the program for all threads of it, as at a `barrier`."""
