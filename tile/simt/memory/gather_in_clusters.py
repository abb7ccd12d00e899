"""Exchange numbers between the programs of a cluster through their shared memory."""

from __future__ import annotations

from tile.errors import UnsupportedError
from tile.ir.builder import Builder
from tile.ir.core import Function, Operation
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import program
from tile.ir.passes import module_pass
from tile.ir.shared_type import Shared
from tile.ir.types import I64
from tile.simt.layouts.dims import OFFSET
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops import cluster, shared
from tile.simt.target import GENERIC, SimtTarget


@module_pass("gather-in-clusters", before=Level.LAID_OUT)
def gather_in_clusters(module: Module, *, target: SimtTarget = GENERIC, num_ctas: int = 1) -> None:
    """Replace `cluster_gather` by exchanges through the shared memory of the cluster's programs.

    Each has a buffer of its own. Raises `UnsupportedError` if the launch has no such clusters.

        kernel @k(%p: ptr<f32>, %n: i32) {          kernel @k(%p: ptr<f32>, %n: i32) {
                                                      %m = local_alloc : shared<8xi64, #s>
                                                      cluster_exchange_init %m
                                                      cluster_arrive {relaxed = true}
          ..                                          ..
                                                      cluster_wait
          for %i = %a to %n step %b {                 for %i = %a to %n step %b {
            %x, %y = cluster_gather %v {size = 2}       %x, %y = cluster_exchange %m, %v {size = 2}
    """
    for function in module:
        gathers = [op for op in function.walk() if op.defn is program.cluster_gather]
        for gather in gathers:
            _check(gather, function, target, num_ctas)
        if gathers:
            outermost = [gathers[0], *gathers[0].ancestors()][-1]
            Builder.before(outermost).op(cluster.cluster_wait)
            first = function.body.first
            assert first is not None
            top = Builder.before(first)
            for gather in gathers:
                _exchange(gather, top)
            top.op(cluster.cluster_arrive, relaxed=True)


def _check(gather: Operation, function: Function, target: SimtTarget, num_ctas: int) -> None:
    reason = None
    if not target.has_tma:  # which the same devices have
        reason = f"target {target} has no clusters"
    elif gather["size"] != num_ctas:
        reason = f"the launch has num_ctas={num_ctas}"
    elif not function.kernel:
        reason = f"{function} is no kernel"
    if reason is not None:
        raise UnsupportedError(
            f"numbers of {gather['size']} programs of a cluster cannot be gathered: {reason}",
            loc=gather.loc,
        )


def _exchange(gather: Operation, top: Builder) -> None:
    size, numbers = gather["size"], gather.inputs
    words = cluster.exchange_words(size, [number.type for number in numbers])
    bits = (words - 1).bit_length()
    layout = LinearLayout(((OFFSET, tuple(1 << bit for bit in range(bits))),), (("dim0", bits),))
    with top.at(gather.loc):
        mem = top(shared.local_alloc, result=Shared((1 << bits,), I64, layout))
        top.op(cluster.cluster_exchange_init, mem)
    build = Builder.before(gather)
    gather.replace_by(build.op(cluster.cluster_exchange, mem, *numbers, size=size).results)
