"""Inline PTX in LLVM IR, for what LLVM has no instruction for."""

from __future__ import annotations

from collections.abc import Sequence

from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.codegen.llvm.function_builder import Registers

# Constraints of inline PTX by LLVM type; there is none for 8 bits.
CONSTRAINTS = {
    "i1": "b",
    "i16": "h",
    "i32": "r",
    "i64": "l",
    "float": "f",
    "double": "d",
    "ptr": "l",
    "ptr addrspace(3)": "r",
}

MOST_LISTED = 8  # types of results; the type of more has a name

Operand = tuple[str, str]  # type and value


def assemble(
    builder: FunctionBuilder,
    text: str,
    results: Sequence[str],
    operands: Sequence[Operand],
    *,
    initial: Sequence[str] = (),
    guard: str = "true",
    memory: bool = False,
    convergent: bool = False,
    early_clobber: bool = False,
) -> Registers:
    """Emit PTX instructions as one inline-asm call, and return the registers of its results.

    `$0` and so on are the results, then the operands. `results` are types. `initial`: values that
    the result registers hold before; those of a guarded instruction are zero if none are passed.
    `guard`: an i1, under which the instruction is executed.
    `memory`: the instructions access memory or must not be removed. `convergent`: all lanes of a
    warp execute them together. `early_clobber`: they write results before they have read all
    operands.
    """
    if guard != "true":
        text = f"@${len(results) + len(operands)} {text}"
        operands = [*operands, ("i1", guard)]
    if text.startswith("@") and not initial:
        # ptxas treats a register that is only written under a guard as live since the function's
        # entry, and does not allocate it to anything else until then.
        initial = ["zeroinitializer"] * len(results)
    output = "=&" if early_clobber else "="
    constraints = [output + CONSTRAINTS[ty] for ty in results]
    constraints += [CONSTRAINTS[ty] for ty, _ in operands]
    arguments = [f"{ty} {value}" for ty, value in operands]
    if initial:
        constraints += [str(number) for number in range(len(results))]
        arguments += [f"{ty} {value}" for ty, value in zip(results, initial, strict=True)]
    if memory:
        constraints.append("~{memory}")
    ty = result_type(builder, results)
    effect = " sideeffect" if memory else ""
    tail = " convergent" if convergent else ""
    asm = f'asm{effect} "{text}", "{",".join(constraints)}"'
    call = f"call {ty} {asm}({', '.join(arguments)}){tail}"
    if not results:
        builder.do(call)
        return []
    result = builder.new_unique(call) if memory or convergent else builder.new(call)
    if len(results) == 1:
        return [result]
    return [builder.new(f"extractvalue {ty} {result}, {i}") for i in range(len(results))]


def result_type(builder: FunctionBuilder, results: Sequence[str]) -> str:
    """Return the type of a call with results of these types."""
    if len(results) < 2:
        return results[0] if results else "void"
    text = "{ " + ", ".join(results) + " }"
    # It is in a line for each result; those of wgmma were 70 % of the text of attention.
    return text if len(results) <= MOST_LISTED else builder.module.named_type(text)


def braces(first: int, count: int) -> str:
    """Return the operands of a vector instruction: `{$2, $3}`, or `$2` for a single one."""
    names = ", ".join([f"${number}" for number in range(first, first + count)])
    return names if count == 1 else "{" + names + "}"
