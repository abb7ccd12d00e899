"""Linking of modules: declarations are resolved by the definitions of other modules.

    func @scale(%x: f32) -> (f32)              func @scale(%x: f32) -> (f32) {
    kernel @k(%p: ptr<f32>) {                    %y = add %x, %x : f32
      %x = load %p : f32                         return %y
      %y = call %x {callee = @scale} : f32     }
      store %p, %y
      return
    }

The linked module has the definitions of all modules, in order, and no declarations. A function has
one definition, and its declarations have the same signature: the types of parameters and results,
and the parameters' attributes. Names of parameters may differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from tile.errors import LinkError
from tile.ir.core import Function, Operation
from tile.ir.module import Module, clone_function
from tile.ir.ops import control


def link(modules: Sequence[Module]) -> Module:
    """Return one module of copies of all functions. Raises `LinkError`, the first of `conflicts`.

    Example: `link([parse_module(kernels), parse_module(library)])`.
    """
    for error in conflicts(modules):
        raise error
    return Module(clone_function(function) for module in modules for function in module)


def conflicts(modules: Sequence[Module]) -> Iterator[LinkError]:
    """Yield the reasons why modules cannot be linked.

    They are functions with two definitions, declarations that disagree with the definition, and
    functions that are declared and called but not defined.
    """
    definitions: dict[str, Function] = {}
    for module in modules:
        for function in module:
            first = definitions.setdefault(function.name, function)
            if first is not function:
                yield LinkError(
                    f"{function} is defined twice; a function has one definition",
                    loc=function.loc,
                    notes=[f"first defined at {first.loc}"],
                )
    for module in modules:
        for declared in module.declarations.values():
            definition = definitions.get(declared.name)
            if definition is not None:
                yield from _disagreement(declared, definition)
    yield from _unresolved(modules, definitions.keys())


def refuse_unresolved(module: Module) -> None:
    """Raise `LinkError` if the module calls a function that it only declares."""
    for error in _unresolved([module], module.functions.keys()):
        raise error


def _disagreement(declared: Function, definition: Function) -> Iterator[LinkError]:
    notes = [f"defined at {definition.loc}"]
    if definition.kernel:
        yield LinkError(
            f"{declared} is declared as a function, but defined as a kernel, which is launched and "
            "not called",
            loc=declared.loc,
            notes=notes,
        )
    elif declared.signature != definition.signature:
        yield LinkError(
            f"{declared} is declared as {declared.signature}, but defined as "
            f"{definition.signature}",
            loc=declared.loc,
            notes=notes,
        )


def _unresolved(modules: Sequence[Module], defined: Set[str]) -> Iterator[LinkError]:
    """Yield an error for each function that is called and declared, but not among `defined`."""
    calls: dict[str, list[Operation]] = {}
    declarations: dict[str, Function] = {}
    for module in modules:
        missing = module.declarations.keys() - defined
        for op in module.walk() if missing else ():
            if op.defn is control.call and op["callee"] in missing:
                calls.setdefault(op["callee"], []).append(op)
                declarations.setdefault(op["callee"], module.declarations[op["callee"]])
    for name, callers in calls.items():
        yield LinkError(
            f"@{name} is declared, but no module defines it",
            loc=declarations[name].loc,
            notes=[
                *(f"called at {op.loc}, in {op.function}" for op in callers),
                "link a module that defines it: tile link a.tile b.tile -o c.tile",
            ],
        )
