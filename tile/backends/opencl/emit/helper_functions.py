"""Helper functions in OpenCL C, each with the helpers that it calls.

*Narrow floats*: a float on which the device has no arithmetic is held as its bits: `ushort` for f16
and bf16, `uchar` for 8-bit floats. Helpers round f32 to narrow floats by its bits. Every rounding
is to nearest even but that of `f32_to_f16_rtz`, and 8-bit floats saturate, as
`tile/ir/semantics/cast.py` defines.

Bits that are read or written as `half` are in an array of bytes: with a `ushort`, C's aliasing
rules let a compiler assume that the `half` is another object, and PoCL then drops the store.

*Inline PTX*: NVIDIA's OpenCL C compiler accepts it in `__asm__` statements. NVIDIA's OpenCL has no
sub-groups, no asynchronous copies by single work-items and no warp reductions. Its instruction set
has all three ("PTX ISA", section "Instruction set"). 32 adjacent work-items are a warp. All lanes
of a warp take part in shuffles and reductions: the member mask is -1.

*Atomics*: OpenCL 1.2 has atomics on integers of 32 bits, and as an extension of 64. Sums, minima
and maxima of
floats compare and swap their bits. Operations on elements of 8 and 16 bits compare and swap the
aligned 32 bits that contain the element; a write of another thread to the rest of them makes the
loop repeat.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tile.backends.opencl.emit.libdevice_functions import TABLES, table_text, texts
from tile.backends.opencl.emit.library import source
from tile.backends.opencl.target import COPIES, LANE_REDUCTIONS, ROUNDING, SHUFFLES
from tile.ir.ops.reduce import ReduceKind

_BITWISE = {"and": "old & value", "or": "old | value", "xor": "old ^ value"}


def _atomics() -> Iterator[str]:
    """Return the helper functions `atomic_KIND_ELEMENT`, one each.

    They take a pointer and a value and return the old value; `cmpxchg` takes the expected value
    before the value. Those of fewer than 32 bits take and return the bits of an element.
    """
    yield from _of_floats("float", "uint", 32, "atomic", "atomic_or(word, 0u)")
    yield from _of_floats("double", "ulong", 64, "atom", "atom_cmpxchg(word, 0UL, 0UL)")
    for bits, unsigned in ((8, "uchar"), (16, "ushort")):
        for element, ty in ((f"i{bits}", unsigned[1:]), (f"u{bits}", unsigned)):
            combined = {
                "add": "old + value",
                "min": f"min(({ty})old, ({ty})value)",
                "max": f"max(({ty})old, ({ty})value)",
            }
            yield from _of_elements(element, unsigned, bits, combined | _BITWISE)
    for element in ("f16", "bf16"):
        numbers = f"{element}_to_f32(old), {element}_to_f32(value)"
        combined = {
            "add": f"f32_to_{element}({numbers.replace(',', ' +')})",
            "min": f"f32_to_{element}(fmin({numbers}))",
            "max": f"f32_to_{element}(fmax({numbers}))",
        }
        yield from _of_elements(element, "ushort", 16, combined)


def _of_floats(ty: str, unsigned: str, bits: int, prefix: str, read: str) -> Iterator[str]:
    """Yield the operations on floats of 32 or 64 bits, of which integer atomics swap the bits."""
    for kind, combined in (
        ("add", f"as_{ty}(before) + value"),
        ("min", f"fmin(as_{ty}(before), value)"),
        ("max", f"fmax(as_{ty}(before), value)"),
    ):
        yield source(
            "atomic_float.cl",
            ty=ty,
            unsigned=unsigned,
            bits=bits,
            prefix=prefix,
            read=read,
            kind=kind,
            combined=combined,
        )


def _of_elements(element: str, carrier: str, bits: int, combined: dict[str, str]) -> Iterator[str]:
    """Yield the operations on an element of 8 or 16 bits; `combined` has those of one value."""
    value = f"{carrier} value"
    for kind, text in {**combined, "xchg": "value"}.items():
        yield _word_loop(element, carrier, bits, kind, value, text)
    parameters = f"{carrier} expected, {value}"
    swapped = "old == expected ? value : old"
    yield _word_loop(element, carrier, bits, "cmpxchg", parameters, swapped)


def _word_loop(
    element: str, carrier: str, bits: int, kind: str, parameters: str, combined: str
) -> str:
    """Return an operation on the 32 bits that contain an element.

    combined: the new element, an expression of `old` and the parameters.
    """
    return source(
        "atomic_narrow.cl",
        element=element,
        carrier=carrier,
        kind=kind,
        parameters=parameters,
        combined=combined,
        last=4 - bits // 8,
        mask=f"{(1 << bits) - 1:#x}",
    )


@dataclass(frozen=True)
class Narrow:
    """A float format of fewer than 32 bits to which f32 is rounded."""

    name: str
    carrier: str  # the C type of its bits
    bits: int
    mantissa: int
    least: int  # the exponent of the least normal number
    greatest: int  # the bits of the number, or infinity, to which greater numbers are rounded
    nan: int  # the bits of a NaN

    def rounding(self) -> str:
        """Return the function that rounds, which has no branches, so that it can be vectorized.

        Below the least normal number, adding a number with the same unit in the last place rounds;
        other numbers are rounded by integer arithmetic. Both are from F. Giesen's conversions of
        f16 (2012). Subnormal numbers of f32 may be flushed to zero.
        """
        sign, cut = 1 << (self.bits - 1), 23 - self.mantissa
        offset = (126 + self.least) << 23  # between the exponents of both, in f32
        half = ((1 << (cut - 1)) - 1 - offset) & 0xFFFFFFFF
        greatest, normal = (self.greatest << cut) + offset, (127 + self.least) << 23
        last = self.least - self.mantissa + 23
        return f"""
{self.carrier} f32_to_{self.name}(float x) {{
  uint sign = as_uint(x) >> {32 - self.bits} & {sign:#x}, size = as_uint(x) & 0x7fffffff;
  uint most = size < {greatest:#x} ? size : {greatest:#x};
  uint small = as_uint(as_float(most) + 0x1p{last}f) - {(127 + last) << 23:#x};
  uint large = (most + {half:#x} + (most >> {cut} & 1)) >> {cut};
  uint number = most < {normal:#x} ? small : large;
  return ({self.carrier})(sign | (size > 0x7f800000 ? {self.nan:#x} : number));
}}
"""


F16 = Narrow("f16", "ushort", 16, mantissa=10, least=-14, greatest=0x7C00, nan=0x7E00)
F8E4M3 = Narrow("f8e4m3", "uchar", 8, mantissa=3, least=-6, greatest=0x7E, nan=0x7F)
F8E5M2 = Narrow("f8e5m2", "uchar", 8, mantissa=2, least=-14, greatest=0x7B, nan=0x7F)


# The name of a function or macro, and all identifiers of a text.
_NAME = re.compile(r"\b(?!__attribute__)(\w+)\(")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Entry:
    """A helper function."""

    text: str
    assembly: int = 0  # the compute capability that its inline PTX needs: 90 is 9.0

    @property
    def name(self) -> str:
        match = _NAME.search(self.text)
        assert match is not None
        return match[1]

    @property
    def needs(self) -> list[str]:
        """The helpers that it calls."""
        names = dict.fromkeys(_IDENTIFIER.findall(self.text))
        helpers = (_ENTRIES, ASSEMBLY, TABLES)
        return [n for n in names if n != self.name and any(n in table for table in helpers)]


def functions(text: str, assembly: int = 0) -> dict[str, Entry]:
    """Return the helper functions of a text in OpenCL C, which empty lines separate, by name."""
    entries = [Entry(part.strip("\n"), assembly) for part in text.strip("\n").split("\n\n")]
    return {entry.name: entry for entry in entries}


def entry(name: str, f16_by_bits: bool) -> Entry:
    """Return a helper function; with `f16_by_bits`, one that does not use the type `half`."""
    if name in TABLES:
        return Entry(table_text(name))
    return _F16_BY_BITS.get(name, _ENTRIES[name]) if f16_by_bits else _ENTRIES[name]


_ENTRIES: dict[str, Entry] = functions(source("floats.cl"))

# Replacements for devices that convert f16 by its bits: CPUs. They need subnormal f32 numbers.
_F16_BY_BITS: dict[str, Entry] = functions(F16.rounding()) | functions(source("f16_by_bits.cl"))

for _format in (F8E4M3, F8E5M2):
    _ENTRIES |= functions(_format.rounding())

for _kind, _bits in (("float", 32), ("double", 64)):
    for _which in ("min", "max"):
        _ENTRIES |= functions(f"""
{_kind} nan_{_which}_f{_bits}({_kind} x, {_kind} y) {{
  return x != x ? x : y != y ? y : f{_which}(x, y);
}}
""")
    _ENTRIES |= functions(f"""
{_kind} dot_f{_bits}({_kind} x, {_kind} y, {_kind} sum) {{
  #pragma OPENCL FP_CONTRACT ON
  return x * y + sum;
}}
""")

for _text in (*texts(), *_atomics()):
    _ENTRIES |= functions(_text)


def _shuffle(name: str, lane: str, mode: str) -> dict[str, Entry]:
    """Return a shuffle of 32-bit words, and one of 64-bit values as two such words."""
    both = f"(uint2)({name}(parts.x, {lane}), {name}(parts.y, {lane}))"
    text = f"""
uint {name}(uint x, uint {lane}) {{
  uint result;
  __asm__ volatile("shfl.sync.{mode}.b32 %0, %1, %2, 31, -1;" : "=r"(result) : "r"(x), "r"({lane}));
  return result;
}}

ulong {name}_64(ulong x, uint {lane}) {{
  uint2 parts = as_uint2(x);
  return as_ulong({both});
}}"""
    return functions(text, SHUFFLES)


_INSTRUCTIONS = {
    ReduceKind.SUM: "add",
    ReduceKind.MAX: "max",
    ReduceKind.MIN: "min",
    ReduceKind.AND: "and",
    ReduceKind.OR: "or",
    ReduceKind.XOR: "xor",
}


def reduction(kind: ReduceKind, signed: bool) -> str:
    """Return the name of the helper that reduces 32-bit integers over all lanes of a warp."""
    if kind in (ReduceKind.MAX, ReduceKind.MIN):
        return f"lane_{_INSTRUCTIONS[kind]}_{'s' if signed else 'u'}32"
    return f"lane_{_INSTRUCTIONS[kind]}_{'u32' if kind is ReduceKind.SUM else 'b32'}"


def _reductions() -> dict[str, Entry]:
    entries: dict[str, Entry] = {}
    for name in (reduction(kind, signed) for kind in _INSTRUCTIONS for signed in (False, True)):
        _, operator, suffix = name.split("_")
        text = f"""
uint {name}(uint x) {{
  uint result;
  __asm__ volatile("redux.sync.{operator}.{suffix} %0, %1, -1;" : "=r"(result) : "r"(x));
  return result;
}}"""
        entries |= functions(text, LANE_REDUCTIONS)
    return entries


def _copies() -> dict[str, Entry]:
    """Return copies of 4, 8 and 16 bytes, each also with a condition that writes zeros if false.

    Only a copy of 16 bytes can bypass the L1 cache (`.cg`), and it does.
    """
    text = """
void async_commit(void) {
  __asm__ volatile("cp.async.commit_group;" : : : "memory");
}

#define async_wait(pending) __asm__ volatile("cp.async.wait_group " #pending ";" : : : "memory")"""
    for size in (4, 8, 16):
        cache = "cg" if size == 16 else "ca"
        condition, source_size = ", bool in_bounds", f', "r"(in_bounds ? {size} : 0)'
        for name, parameter, register, operand in (
            (f"async_copy_{size}", "", "", ""),
            (f"async_copy_{size}_if", condition, ", %2", source_size),
        ):
            text += f"""

void {name}(__local void *to, __global const void *from{parameter}) {{
  __asm__ volatile("cp.async.{cache}.shared.global [%0], [%1], {size}{register};"
               : : "r"((uint)(size_t)to), "l"((ulong)from){operand} : "memory");
}}"""
    return functions(text, COPIES)


ASSEMBLY: dict[str, Entry] = (
    _shuffle("lane_shuffle", "lane", "idx")
    | _shuffle("lane_shuffle_xor", "mask", "bfly")
    | _reductions()
    | functions(source("ptx.cl"), ROUNDING)
    | _copies()
)
"""The helper functions in inline PTX by name."""
