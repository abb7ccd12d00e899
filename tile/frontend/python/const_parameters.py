"""Parameters that are annotated `tl.const`: a kernel only reads through them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from tile.analysis.alias import Alias, PointsTo, module_aliases
from tile.errors import CompilationError
from tile.ir.core import Function, Operation
from tile.ir.module import Module
from tile.ir.ops import control


def refuse_writes(module: Module, constant: Mapping[str, Collection[int]]) -> None:
    """Raise `CompilationError` for an operation that may write through a constant parameter.

    `constant` holds the positions of such parameters, by function. Alias analysis follows pointers
    through arithmetic, casts, selections, loops, calls and descriptors.
    """
    if not any(constant.values()):
        return
    aliases = module_aliases(module)
    for name, positions in constant.items():
        if name not in module.functions:
            continue
        for op, index in _writes(aliases[name], positions):
            parameter = aliases[name].function.args[index]
            inside = " in this call" if op.defn is control.call else ""
            raise CompilationError(
                f"`{parameter.name}` is annotated tl.const, and `{name}` writes through it"
                f"{inside}; drop the annotation, or write to another array",
                loc=op.loc,
            )


def _writes(alias: Alias, positions: Collection[int]) -> Iterator[tuple[Operation, int]]:
    """Yield the operations that may write through one of the parameters, each with the first."""
    constant = PointsTo(frozenset(positions))
    function: Function = alias.function
    for op in function.walk():
        written = alias.written(op).parameters & constant.parameters
        if written:
            yield op, min(written)
