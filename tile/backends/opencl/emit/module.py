"""The program under construction: its functions, the declarations before them, and identifiers.

An identifier is the name of a Python variable, made unique, unless OpenCL C reserves it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from tile.backends.base import Assertion, Options
from tile.backends.opencl.emit.helper_functions import ASSEMBLY, entry
from tile.backends.opencl.emit.types import carrier, stored
from tile.backends.opencl.target import Capabilities
from tile.errors import UnsupportedError
from tile.ir.core import Function
from tile.ir.types import F64, Pointer, Scalar
from tile.location import Loc

_KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int
long register restrict return short signed sizeof static struct switch typedef union unsigned void
volatile while bool half uchar ushort uint ulong size_t ptrdiff_t intptr_t uintptr_t quad complex
imaginary kernel global local constant private generic read_only write_only read_write true false
event_t image2d_t sampler_t queue_t pipe_t and or not xor bitand bitor compl class this new delete
template typename namespace operator public protected try catch throw using virtual mutable wchar_t
asm typeof main NULL NAN INFINITY HUGE_VAL MAXFLOAT M_E M_PI
"""
_BUILTINS = """
abs add_sat all any acos asin atan atan2 barrier bitselect cbrt ceil clamp clz copysign cos cosh
cross degrees distance dot erf erfc exp exp2 exp10 expm1 fabs fast_length fdim floor fma fmax fmin
fmod fract frexp get_group_id get_global_id get_local_id get_num_groups hadd hypot ilogb isequal
isfinite isinf isnan isnormal ldexp length lgamma log log2 log10 log1p logb mad mad24 mad_hi max
maxmag mem_fence min minmag mix modf mul24 mul_hi nan nextafter normalize popcount pow pown powr
prefetch printf radians read_mem_fence remainder remquo rhadd rint rootn rotate round rsqrt select
shuffle shuffle2 sign signbit sin sincos sinh smoothstep sqrt step sub_sat tan tanh tgamma trunc
upsample vec_step vload_half vstore_half write_mem_fence shared faults thread lane part
prevent_inlining
"""
_RESERVED = frozenset((_KEYWORDS + _BUILTINS).split())
# Vector types, conversions, atomics, helper functions, and names that the standard reserves.
_PATTERNS = re.compile(
    r"(u?(char|short|int|long)|float|double|half|bool)\d+|(as|convert|atomic|atom|vload|vstore|"
    r"native|half|sub_group|work_group|intel|memory|cl|CL|CLK|get|async|__)_?.*|lane_.*|.*_(f16|f32|f64|"
    r"bf16|f8e4m3|f8e5m2|tf32|i\d+|u\d+|rtz|odd)|report|results\d+_t|table\d+|_.*|[A-Z]+_(MAX|MIN)"
)


class Names:
    """The identifiers of a function, each of which is handed out once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def new(self, hint: str) -> str:
        """Return the hint itself if it is unused, else the hint with a number."""
        return self.several(hint, ("",))[0]

    def registers(self, hint: str, count: int) -> list[str]:
        """Return names for the registers of a fragment."""
        return self.several(hint, tuple(f"_{number}" for number in range(count)))

    def several(self, hint: str, endings: tuple[str, ...]) -> list[str]:
        """Return one name with each of several endings."""
        base = self._plain(hint)
        number = self._next.get(base, 0)
        while True:
            name = f"{base}{number}" if number else base
            names = [name + ending for ending in endings]
            number += 1
            if self._taken.isdisjoint(names):
                self._next[base] = number
                self._taken.update(names)
                return names

    def loop(self, hint: str) -> str:
        """Return a name for a loop's variable; loops that are not nested share a name."""
        name, number = hint, 0
        while name in self._taken:
            number += 1
            name = f"{hint}{number}"
        self._taken.add(name)
        return name

    def done(self, name: str) -> None:
        """Release the name of a loop's variable."""
        self._taken.discard(name)

    @staticmethod
    def _plain(hint: str) -> str:
        base = re.sub(r"\W", "_", hint, flags=re.ASCII)
        if base in _RESERVED or _PATTERNS.fullmatch(base) or not base[:1].isalpha():
            base = f"v_{base.strip('_')}_" if base else "v"
        return base


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
    tables: dict[str, str] = field(default_factory=dict)  # names, by type and contents
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

    def table(self, ty: Scalar, entries: tuple[int, ...]) -> str:
        """Return the constant array of these entries. `Names` reserves its name."""
        suffix = {32: "u", 64: "ul"}.get(ty.bits, "")
        numbers = ", ".join([f"{entry}{suffix}" for entry in entries])
        key = f"{self.stored(ty)} {{}}[{len(entries)}] = {{{{{numbers}}}}};"
        return self.tables.setdefault(key, f"table{len(self.tables)}")

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
        for text, name in self.tables.items():
            head += [Line(""), Line(f"__constant {text.format(name)}")]
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
