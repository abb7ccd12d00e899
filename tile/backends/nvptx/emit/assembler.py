"""Lines of PTX inside LLVM IR, for what LLVM has no instruction for."""

from __future__ import annotations

from collections.abc import Sequence

from tile.backends.nvptx.emit.body import Body, Registers

# How registers of a type are spelled as operands of inline PTX; there is none for 8 bits.
_CONSTRAINTS = {
    "i1": "b",
    "i16": "h",
    "i32": "r",
    "i64": "l",
    "float": "f",
    "double": "d",
    "ptr": "l",
    "ptr addrspace(3)": "r",
}

Operand = tuple[str, str]  # type and value


def assemble(
    body: Body,
    text: str,
    results: Sequence[str],
    operands: Sequence[Operand],
    *,
    initial: Sequence[str] = (),
    memory: bool = False,
    convergent: bool = False,
    apart: bool = False,
) -> Registers:
    """Instructions of PTX as one of LLVM's; `$0` and so on are the results, then the operands.

    `results` are types. Where `initial` has values, the results hold these before; those of a
    guarded instruction are zeros where it has none. `memory` says that the instructions access
    memory or must not be left out, `convergent` that all lanes of a warp run them together, and
    `apart` that they write results before they have read all operands.
    """
    if text.startswith("@") and not initial:
        # Of a register that is written under a guard alone, the assembler thinks that it may hold
        # something since the function began, and gives it to nobody else until then.
        initial = ["zeroinitializer"] * len(results)
    written = "=&" if apart else "="
    constraints = [written + _CONSTRAINTS[ty] for ty in results]
    constraints += [_CONSTRAINTS[ty] for ty, _ in operands]
    given = [f"{ty} {value}" for ty, value in operands]
    if initial:
        constraints += [str(number) for number in range(len(results))]
        given += [f"{ty} {value}" for ty, value in zip(results, initial, strict=True)]
    if memory:
        constraints.append("~{memory}")
    kind = _result_type(results)
    effect = " sideeffect" if memory else ""
    tail = " convergent" if convergent else ""
    call = f'call {kind} asm{effect} "{text}", "{",".join(constraints)}"({", ".join(given)}){tail}'
    if not results:
        body.do(call)
        return []
    found = body.fresh(call) if memory or convergent else body.new(call)
    if len(results) == 1:
        return [found]
    return [body.new(f"extractvalue {kind} {found}, {i}") for i in range(len(results))]


def _result_type(results: Sequence[str]) -> str:
    if len(results) < 2:
        return results[0] if results else "void"
    return "{ " + ", ".join(results) + " }"


def braces(first: int, count: int) -> str:
    """Operands of a vector instruction: `{$2, $3}`, or `$2` for one alone."""
    names = ", ".join([f"${number}" for number in range(first, first + count)])
    return names if count == 1 else "{" + names + "}"
