"""Inference of `readonly`: pointer parameters through which a function writes no memory."""

from __future__ import annotations

from tile.analysis.alias import Alias, module_aliases
from tile.errors import VerificationError
from tile.ir.descriptor_type import addresses_memory
from tile.ir.module import Module
from tile.ir.passes import module_pass
from tile.ir.printer import print_op


@module_pass("infer-readonly", before=None)
def infer_readonly(module: Module) -> None:
    """Set `readonly` on the pointer parameters through which a function writes no memory.

    Calls count, too. A write through a pointer that alias analysis cannot trace, such as one loaded
    from memory, may be a write through any parameter. Raises `VerificationError` for
    a write through a parameter that is `readonly` already.

        kernel @k(%x: ptr<f32>, %y: ptr<f32>) {    kernel @k(%x: ptr<f32> {readonly}, %y: ptr<f32>)
          %v = load %x : f32                         %v = load %x : f32
          store %y, %v                               store %y, %v
          return                                     return
        }                                          }
    """
    for alias in module_aliases(module).values():
        writes = alias.summary.writes
        for index, value in enumerate(alias.function.args):
            argument = alias.function.arguments[index]
            if argument.readonly and index in writes.parameters:
                _refuse(alias, index)
            untraced = writes.unknown and not argument.readonly
            argument.readonly = addresses_memory(value.type) and not (
                untraced or index in writes.parameters
            )


def _refuse(alias: Alias, index: int) -> None:
    """Raise the error of the first write through a parameter that is `readonly`."""
    write = next(op for op in alias.function.walk() if index in alias.written(op).parameters)
    raise VerificationError(
        f"{alias.function.args[index]!r} is readonly, and {write.name} writes through it",
        loc=write.loc,
        notes=[f"in `{print_op(write).splitlines()[0]}`"],
    )
