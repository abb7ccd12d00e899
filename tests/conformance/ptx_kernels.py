"""Kernels that run instructions of PTX, one after the other, on tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

COUNT = 128  # elements of each operand

# The element in the IR, its size in bytes and the constraint of a type in cases.
TYPES = {
    **{
        f"{kind}{size * 8}": (f"u{size * 8}", size, letter)
        for size, letter in ((2, "h"), (4, "r"), (8, "l"))
        for kind in "bus"
    },
    "f16": ("f16", 2, "h"),
    "bf16": ("bf16", 2, "h"),
    "f32": ("f32", 4, "f"),
    "f64": ("f64", 8, "d"),
}


@dataclass(frozen=True)
class Instruction:
    """An instruction: types such as `s32` of its result and its sources."""

    opcode: str
    result: str
    sources: tuple[str, ...]

    @property
    def asm(self) -> str:
        """The text; `tail` has the operands after the sources."""
        operands = [f"${number + 1}" for number in range(len(self.sources))]
        tail = getattr(self, "tail", "")
        return f"{self.opcode} $0, {', '.join([*operands, *filter(None, [tail])])};"

    @property
    def constraints(self) -> str:
        return ",".join([f"={TYPES[self.result][2]}", *(TYPES[name][2] for name in self.sources)])


def kernel(cases: Sequence[Instruction]) -> str:
    """A kernel that runs instructions: pointers to each operand, then to each result."""
    parameters, lines = [], [f"  %i = arange {{start = 0, end = {COUNT}}} : tile<{COUNT}xi32>"]
    results = []
    for index, case in enumerate(cases):
        names = []
        for at, source in enumerate(case.sources):
            name, element = f"%x{index}_{at}", TYPES[source][0]
            parameters.append(f"{name}: ptr<{element}>")
            lines += access(f"{name}q", name, case.sources[at])
            names.append(f"{name}v")
            lines.append(f"  {name}v = load {name}q : tile<{COUNT}x{element}>")
        element = TYPES[case.result][0]
        results.append(f"%r{index}: ptr<{element}>")
        lines.append(
            f'  %y{index} = inline_asm {", ".join(names)} {{asm = "{case.asm}", '
            f'constraints = "{case.constraints}", to = ({element})}} : tile<{COUNT}x{element}>'
        )
        lines += access(f"%r{index}q", f"%r{index}", case.result)
        lines.append(f"  store %r{index}q, %y{index}")
    head = ", ".join([*parameters, *results])
    return "\n".join([f"kernel @k({head}) {{", *lines, "  return", "}"])


def access(name: str, base: str, type_name: str) -> list[str]:
    """The lines that make a tile of pointers to consecutive elements."""
    element, size, _ = TYPES[type_name]
    tile = f"tile<{COUNT}xptr<{element}>>"
    return [
        f"  {name}b = splat {base} {{shape = ({COUNT})}} : {tile}",
        f"  {name} = addptr {name}b, %i {{stride = {size}}} : {tile}",
    ]
