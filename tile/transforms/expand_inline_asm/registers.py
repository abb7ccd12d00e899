"""Registers of inline PTX: their names, widths and values while the text is expanded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tile.errors import CompilationError
from tile.ir.core import Value
from tile.ir.expressions import Expression, signed, unsigned
from tile.ir.op_definition import OpDef
from tile.ir.ops import program, shape
from tile.ir.types import I1, Pointer, Scalar
from tile.transforms.expand_inline_asm.syntax import (
    Address,
    Group,
    Immediate,
    Instruction,
    Name,
    Operand,
)

# Widths of the types of `.reg`, in bits.
_WIDTHS = {
    **{f"{kind}{bits}": bits for kind in "bus" for bits in (8, 16, 32, 64)},
    "f16": 16,
    "f16x2": 32,
    "f32": 32,
    "f64": 64,
    "pred": 1,
}

# The registers of a program that operations read; those of a thread have no meaning here.
_SPECIAL: dict[str, tuple[OpDef, dict[str, Any]]] = {
    "%globaltimer": (program.global_timer, {}),
    "%smid": (program.multiprocessor_id, {}),
    **{f"%ctaid.{name}": (program.program_id, {"axis": n}) for n, name in enumerate("xyz")},
    **{f"%nctaid.{name}": (program.num_programs, {"axis": n}) for n, name in enumerate("xyz")},
}


@dataclass
class Register:
    """A register and its value, None before the first write. A predicate has one bit."""

    width: int
    value: Expression | None = None


class RegisterFile:
    """The registers in scope, and the elements that execute.

    like: any value of the shape of all.
    active: the predicate of elements that have not branched away; None for all.
    user: the instruction that is executed.
    guard: the predicate of the elements that execute it; None for all.
    """

    user: Instruction
    guard: Expression | None

    def __init__(self, like: Expression, registers: dict[str, Register]) -> None:
        self.like = like
        self.active: Expression | None = None
        self.scopes = [registers]

    def begin(self, instruction: Instruction) -> None:
        """Begin the execution of an instruction."""
        self.user, self.guard = instruction, self.active
        if instruction.guard is not None:
            own = self.read(instruction.guard, I1)
            self.guard = own if self.active is None else self.active & own

    @property
    def mask(self) -> Value | None:
        """The guard as the mask of an access."""
        return None if self.guard is None else self.guard.value

    def declare(self, ty: str, names: tuple[str, ...]) -> None:
        """Declare registers of a type. Raises `CompilationError` for an unknown type."""
        if ty not in _WIDTHS:
            raise CompilationError(
                f"`.{ty}` is no type of a register; there are {', '.join(_WIDTHS)}"
            )
        self.scopes[-1].update({name: Register(_WIDTHS[ty]) for name in names})

    def find(self, name: str) -> Register:
        """Return a register by its name. Raises `CompilationError` if there is none."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        if name in _SPECIAL:
            return self._special(name)
        if name.startswith("%"):
            raise self.user.refusal(
                f"`{name}` is not declared; special registers of threads exist on GPUs only"
            )
        raise self.user.refusal(f"`{name}` is not declared; declare it as in `.reg .b32 {name};`")

    def _special(self, name: str) -> Register:
        """Return a register of the program with its value."""
        defn, attributes = _SPECIAL[name]
        build, extents = self.like.build, self.like.value.type.shape
        value = build(defn, **attributes)
        if extents:
            value = build(shape.splat, value, shape=extents)
        result = Expression(build, value)
        return Register(result.bits, result)

    def read(
        self, operand: Operand, element: Scalar | Pointer, *, wider: bool = False
    ) -> Expression:
        """Return an operand as an element. `wider`: take the low bits of a wider register.

        Raises `CompilationError` for a register without value or of another width.
        """
        if isinstance(operand, Group | Address):
            raise self.user.refusal("it takes no vector")
        if isinstance(operand, Immediate):
            assert isinstance(element, Scalar)
            return self.immediate(operand, element)
        if operand.negated and element is not I1:
            raise self.user.refusal(f"`!{operand.text}` negates what is no predicate")
        register = self.find(operand.text)
        if register.value is None:
            raise self.user.refusal(f"it reads `{operand.text}`, which has no value yet")
        value = register.value
        if register.width != element.bits:
            if not wider or register.width < element.bits:
                raise self._other_width(operand, register, "takes", element.bits)
            value = value.unsigned().cast(unsigned(element.bits))
        value = value.view(element)
        return ~value if operand.negated else value

    def immediate(self, operand: Immediate, element: Scalar) -> Expression:
        """Return a number as an element. Raises `CompilationError` for a number of another kind."""
        if element.is_floating():
            if isinstance(operand.value, int) and not operand.width:
                raise self.user.refusal(f"{operand.value} is no float; write {operand.value}.0")
            return self.like.constant(operand.exact, element)
        if operand.width == element.bits:
            return self.like.constant(int(operand.value), element)
        if isinstance(operand.value, float) or operand.width:
            raise self.user.refusal(f"{operand.exact} is no integer of {element.bits} bits")
        return self.like.constant(bool(operand.value) if element is I1 else operand.value, element)

    def write(self, operand: Operand, value: Expression, *, wider: bool = False) -> None:
        """Set a register where the guard holds. `wider`: extend the value to a wider register.

        Raises `CompilationError` for a register of another width, and for what is no register.
        """
        target = self.target(operand)
        if target.text == "_":
            return
        register = self.find(target.text)
        if register.width != value.bits:
            if not wider or register.width < value.bits:
                raise self._other_width(target, register, "gives", value.bits)
            value = extended(value, register.width)
        if self.guard is not None and register.value is not None:
            value = self.guard.select(value, register.value.view(value.element))
        register.value = value

    def target(self, operand: Operand) -> Name:
        """Return the register, or the label, that an operand names."""
        if not isinstance(operand, Name) or operand.negated:
            raise self.user.refusal("its first operand is no register")
        return operand

    def _other_width(
        self, operand: Name, register: Register, verb: str, bits: int
    ) -> CompilationError:
        return self.user.refusal(
            f"`{operand.text}` has {register.width} bits where the instruction {verb} {bits}"
        )


def extended(value: Expression, width: int) -> Expression:
    """Return the bits of a value in a wider integer: a signed integer is sign-extended."""
    to = signed(width) if value.is_signed else unsigned(width)
    return (value if not value.is_float else value.unsigned()).cast(to)
