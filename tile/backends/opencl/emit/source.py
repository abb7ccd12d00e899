"""The program under construction: its functions, and the declarations before them."""

from __future__ import annotations

from dataclasses import dataclass, field

from tile.backends.assertions import Assertion
from tile.backends.base import Options
from tile.backends.opencl.capabilities import Capabilities
from tile.backends.opencl.emit.assembly import ASSEMBLY
from tile.backends.opencl.emit.library import entry
from tile.backends.opencl.emit.names import Names
from tile.backends.opencl.emit.types import carrier, stored
from tile.errors import Loc, UnsupportedError
from tile.ir.core import Function
from tile.ir.types import F64, Pointer, Scalar

FOR_EACH = "FOR_EACH"  # the macro that expands to the head of a loop over registers


@dataclass(frozen=True)
class Line:
    """A line of text and its location in Python."""

    text: str
    loc: Loc | None = None


@dataclass
class Source:
    """The text of a program."""

    device: Capabilities
    options: Options
    shared_bytes: int
    reports: bool  # True if any function has assertions
    synchronizing: frozenset[str]  # functions that contain or call a barrier
    functions: list[list[Line]] = field(default_factory=list)
    prototypes: list[str] = field(default_factory=list)
    structures: dict[tuple[str, ...], str] = field(default_factory=dict)
    assertions: list[Assertion] = field(default_factory=list)
    extensions: set[str] = field(default_factory=set)
    assembly: int = 0  # the compute capability that its inline assembly needs
    branch_barriers: bool = False  # a branch has a barrier
    _names: Names = field(default_factory=Names)
    _symbols: dict[str, str] = field(default_factory=dict)
    _library: dict[str, str] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """Return the number of work-items per work-group."""
        return self.device.warp * self.options.num_warps

    @property
    def simd_width(self) -> int:
        """Return the work-items along the first axis of a 2-D work-group; 1 for a 1-D one."""
        return self.device.simd_width if not self.device.shuffles else 1

    @property
    def extents(self) -> tuple[int, int, int]:
        """Return the extents of a work-group, in work-items."""
        if self.simd_width == 1:
            return self.threads, 1, 1
        return self.simd_width, self.threads // self.simd_width, 1

    def carrier(self, ty: Scalar | Pointer) -> str:
        """Return the C type of a variable. Raises `UnsupportedError` if the device lacks it."""
        self.check(ty)
        return carrier(ty, self.device.fp16)

    def stored(self, ty: Scalar | Pointer) -> str:
        """Return the C type of an element in memory."""
        self.check(ty)
        return stored(ty, self.device.fp16)

    def check(self, ty: Scalar | Pointer) -> None:
        """Raise `UnsupportedError` for a type on which the device has no arithmetic."""
        if ty is F64:
            if not self.device.fp64:
                raise UnsupportedError(f"device {self.device.name!r} does not support f64")
            self.extensions.add("cl_khr_fp64")

    def use(self, name: str) -> str:
        """Add a helper function, and those that it calls, to the program; return its name."""
        if name not in self._library:
            helper = ASSEMBLY.get(name) or entry(name, self.device.f16_by_bits)
            self.assembly = max(self.assembly, helper.assembly)
            for callee in helper.needs:
                self.use(callee)
            if "double" in helper.text:
                self.check(F64)
            self._library[name] = helper.text
        return name

    @property
    def build_options(self) -> tuple[str, ...]:
        """Return the options that the program is built with."""
        unoptimized = self.branch_barriers and self.device.branch_barriers_unoptimized
        flags = ("-cl-opt-disable",) if unoptimized else ()
        return (*self.device.build_options, *flags)

    def symbol(self, name: str) -> str:
        """Return the identifier of a function of the module."""
        return self._symbols[name]

    def name_function(self, function: Function) -> None:
        """Assign an identifier to a function."""
        hint = function.name.rpartition(".")[2]
        self._symbols[function.name] = self._names.new(hint)

    @property
    def symbols(self) -> frozenset[str]:
        """Return the identifiers of all functions."""
        return frozenset(self._symbols.values())

    def structure(self, types: list[str]) -> str:
        """Return the structure type by which functions return several registers.

        `Names` reserves its name.
        """
        key = tuple(types)
        if key not in self.structures:
            self.structures[key] = f"results{len(self.structures)}_t"
        return self.structures[key]

    def lines(self) -> list[Line]:
        """Return the lines of the whole program."""
        # Helper functions must round exactly as written. The kernel's own multiplications and
        # additions may be contracted.
        fused = self.options.enable_fp_fusion and not self._library
        head = [] if fused else [Line("#pragma OPENCL FP_CONTRACT OFF")]
        extensions = set(self.extensions)
        if self.device.fp16:
            extensions.add("cl_khr_fp16")
        head += [Line(f"#pragma OPENCL EXTENSION {name} : enable") for name in sorted(extensions)]
        for types, name in self.structures.items():
            fields = " ".join(f"{ty} r{number};" for number, ty in enumerate(types))
            head += [Line(""), Line(f"typedef struct {{ {fields} }} {name};")]
        for text in self._library.values():
            head += [Line(""), *(Line(line) for line in text.split("\n"))]
        if self.options.enable_fp_fusion:
            head += [*([Line("")] if self._library else []), Line("#pragma OPENCL FP_CONTRACT ON")]
        if self.prototypes:
            head += [Line(""), *(Line(text) for text in self.prototypes)]
        functions = [line for function in self.functions for line in (Line(""), *function)]
        if any(FOR_EACH in line.text for line in functions):
            pragma = f'_Pragma("{self.device.loops}") ' if self.device.loops else ""
            loop = f"{pragma}for (uint i = 0; i < (count); i++)"
            head += [Line(""), Line(f"#define {FOR_EACH}(i, count) {loop}")]
        return head + functions
