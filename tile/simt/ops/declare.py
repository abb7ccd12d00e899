"""Declarations of operations by level: of those that access shared memory, and of one thread's."""

from __future__ import annotations

from functools import partial

from tile.ir.declare import op
from tile.ir.op_definition import LAID_OUT, LOWERED, THREAD, Effect

lowered_op = partial(op, levels=LOWERED, effect=Effect.SHARED)
laid_out_op = partial(op, levels=LAID_OUT, effect=Effect.SHARED)
shared_op = partial(op, levels=THREAD, effect=Effect.SHARED)
thread_op = partial(op, levels=THREAD)
