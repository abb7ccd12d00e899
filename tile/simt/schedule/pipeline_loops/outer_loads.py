"""Loads of a loop around, whose tile wgmmas of its inner loops read, by a producer.

In a persistent kernel of attention, each iteration of the outer loop loads a block of queries,
which the dots of the inner loop read. The producer issues that load as well, into a channel of one
stage: it does so while the program ends the iteration before, once that has left its inner loops.

    for %t {                              for %t iter(%i = ..) {
      %q = load %p                          mbarrier_wait %full, %i
      for %k {                              for %k {
        %r = wgmma %q, %x, %z                 %r = wgmma %m, %x, %z
        ..                                    ..
      }                                     }
      ..                                    mbarrier_arrive %empty, %i
    }                                       ..
                                          }
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tile.ir.core import Operation, Value
from tile.simt.ops import wgmma
from tile.simt.ops.layout_inference import LayoutBuilder
from tile.simt.schedule.pipeline_loops.buffer_readers import (
    Reader,
    nested_operands,
    operand_uses,
    read_operands,
)
from tile.simt.schedule.pipeline_loops.channels import TmaChannel
from tile.simt.schedule.pipeline_loops.multi_buffer import BufferedLoad, stage
from tile.simt.schedule.shared_memory import ALIGNMENT, OperandUse, align_up


@dataclass(frozen=True)
class OuterLoad:
    """A TMA load of a loop, and the operands of wgmmas in its inner loops that the tile is.

    loop: the loop around, in whose body the load is.
    """

    loop: Operation
    load: BufferedLoad

    @property
    def readers(self) -> list[Reader]:
        readers = nested_operands(self.load.load.result)
        assert readers is not None
        return readers

    @property
    def buffer_reads(self) -> set[OperandUse]:
        """The operands that become reads of the buffer."""
        return operand_uses(self.readers)

    @property
    def bytes(self) -> int:
        """The shared memory that the buffer and its mbarriers take, in bytes."""
        return align_up(self.load.bytes) + 2 * ALIGNMENT

    def lower(self, channel: TmaChannel, at: Value) -> list[Operation]:
        """Make wgmmas read the buffer; return what issues the load."""
        (body,) = self.loop.regions
        load = self.load.load
        build = LayoutBuilder.before(load)
        issued = channel.issue(build, [self.load], {}, at)
        target = stage(build, channel.buffers[0], at)
        readers = self.readers
        within = {reader.op.within(body) for reader in readers}
        read_operands(readers, target)
        in_order = [op for op in body if op in within]
        channel.wait(LayoutBuilder.before(in_order[0]), at)
        channel.release(LayoutBuilder.after(in_order[-1]), at)
        return issued


def complete_in_loops(readers: Sequence[Reader], outer: Operation) -> bool:
    """Return True if wgmmas are in inner loops of a loop, and none is in flight after these."""
    return all(map(_completes, readers)) and all(
        reader.op.block is not outer.regions[0] for reader in readers
    )


def _completes(reader: Reader) -> bool:
    """Return True if a wgmma is waited for in its block, which does not yield the result."""
    block = reader.op.block
    return block is not None and all(
        user.defn is wgmma.wgmma_wait and user.block is block and user.result not in block.yielded
        for user in reader.op.result.users
    )
