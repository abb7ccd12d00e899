"""Inline PTX on the elements of tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.core import Value
from tile.ir.ops.inline_asm import inline_asm
from tile.ir.types import with_element
from tile.language.base.builtin import Bound, Builtin, Callback, builtin
from tile.language.base.promotion import broadcast_together, cast_to, describe, to_tensor
from tile.language.base.static_args import compile_time, compile_time_bool, compile_time_int
from tile.language.base.tensor import Tensor
from tile.language.creation import element_type
from tile.short_repr import short_repr

NAME = "tl.inline_asm_elementwise"


@builtin
def inline_asm_elementwise(
    build: Builder,
    asm: Any,
    constraints: Any,
    args: Any,
    dtype: Any,
    is_pure: Any,
    pack: Any,
    reference: Any = None,
) -> Any:
    """Execute inline PTX on the elements of `args`, tiles or scalars that are broadcast together.

    `dtype` is the type of the result, or a tuple of them for a tuple of results. In `asm`, `$0` and
    so on are registers: first those of the results, then those of the arguments. `constraints` has
    an item for each: `=r,=f,r,l` are two results and two arguments, in registers of 16 (h), 32 (r)
    or 64 (l) bits, or of float32 (f) or float64 (d). A digit puts an argument into the register of
    that result.

    The text is executed once for every `pack` elements, a power of two. Elements of 8 and 16 bits
    share registers of 32 bits, as many as fit and at most `pack`. Which elements those are is not
    defined. Without `is_pure`, the text is executed as often as the program says.

    Backends other than NVIDIA's GPUs execute the common instructions on integers, floats and packed
    floats (docs/inline_ptx.md lists them), as the PTX ISA defines them. `reference`, a @tile.jit
    function of the arguments, returns the results there instead; other instructions need it.

        popcount = tl.inline_asm_elementwise(
            "popc.b32 $0, $1;", "=r,r", [x], dtype=tl.int32, is_pure=True, pack=1
        )

    Raises `CompilationError` for constraints that do not fit, and without `reference` for an
    instruction that the backend does not execute.
    """
    text = _text(asm, "asm")
    registers = _text(constraints, "constraints")
    single, elements = _elements(dtype)
    tensors = _tensors(build, args)
    operands = [x.value for x in tensors]
    if compile_time(reference, f"the reference of {NAME}") is not None:
        operands += _references(build, reference, tensors, elements, single=single)
    op = build.op(
        inline_asm,
        *operands,
        asm=text,
        constraints=registers,
        pack=compile_time_int(pack, f"the pack of {NAME}"),
        volatile=not compile_time_bool(is_pure, f"the is_pure of {NAME}"),
        reference=len(operands) > len(tensors),
        to=tuple(elements),
    )
    results = tuple(map(Tensor, op.results))
    return results[0] if single else results


def _text(x: Any, name: str) -> str:
    text = compile_time(x, f"the {name} of {NAME}")
    if not isinstance(text, str):
        raise CompilationError(f"the {name} of {NAME} is a text, not {short_repr(text)}")
    return text


def _elements(dtype: Any) -> tuple[bool, list[Any]]:
    """Return whether `dtype` is one type, and the list of types."""
    value = compile_time(dtype, f"the dtype of {NAME}")
    single = not isinstance(value, tuple | list)
    elements = [element_type(ty, NAME) for ty in ((value,) if single else value)]
    if not elements:
        raise CompilationError(f"the dtype of {NAME} has at least one type")
    return single, elements


def _tensors(build: Builder, args: Any) -> Sequence[Tensor]:
    if not isinstance(args, tuple | list):
        raise CompilationError(f"the args of {NAME} are a list, not {describe(args)}")
    tensors = [to_tensor(build, x, f"an argument of {NAME}") for x in args]
    return broadcast_together(build, *tensors) if tensors else ()


def _references(
    build: Builder,
    reference: Any,
    tensors: Sequence[Tensor],
    elements: Sequence[Any],
    *,
    single: bool,
) -> list[Value]:
    """Return the results of the function, in the types and the shape of the operation's."""
    if not isinstance(reference, Builtin | Bound | Callback):
        raise CompilationError(
            f"the reference of {NAME} is a @tile.jit function, not {describe(reference)}"
        )
    returned = reference.emit(build, *tensors)
    values = (returned,) if not isinstance(returned, tuple) else returned
    if len(values) != len(elements) or isinstance(returned, tuple) == single:
        wanted = "one value" if single else f"a tuple of {len(elements)}"
        raise CompilationError(
            f"`{reference.name}`, the reference of {NAME}, returns {describe(returned)}, and not "
            f"{wanted}, as the dtype says"
        )
    subject = f"a result of `{reference.name}`, the reference of {NAME},"
    types = [with_element(tensors[0].type, ty) if tensors else ty for ty in elements]
    return [cast_to(build, x, ty, subject).value for x, ty in zip(values, types, strict=True)]
