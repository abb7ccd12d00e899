"""Unique identifiers: the names of Python variables, unless OpenCL C reserves them."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
    r"bf16|f8e4m3|f8e5m2|tf32|i\d+|u\d+|rtz|odd)|report|results\d+_t|_.*|[A-Z]+_(MAX|MIN)"
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
