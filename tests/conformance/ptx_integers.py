"""Integer instructions of PTX on Python's integers, by the PTX ISA 8.5."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tests.conformance.ptx_kernels import COUNT, Instruction

Array = np.ndarray[Any, Any]


def unchanged(operands: Sequence[int]) -> Sequence[int]:
    return operands


@dataclass(frozen=True)
class Case(Instruction):
    """An instruction and its function.

    The function takes Python integers of the sources' types; of its result, the low bits count.
    `domain` maps random operands to those that are passed.
    """

    function: Callable[..., int]
    tail: str = ""
    domain: Callable[[Sequence[int]], Sequence[int]] = unchanged


def bits(name: str) -> int:
    return int(name[1:])


def number(pattern: int, name: str) -> int:
    """The number of a type that has these bits."""
    width = bits(name)
    pattern &= (1 << width) - 1
    return pattern - (1 << width) if name[0] == "s" and pattern >> (width - 1) else pattern


def each(
    opcode: str, types: str, sources: str, function: Callable[..., int], **rest: Any
) -> Iterator[Case]:
    """A case for each type `t`; `u` is the unsigned type of its width, `w` that of twice its width."""
    for name in types.split():
        names = {"t": name, "u": f"u{bits(name)}", "w": f"{name[0]}{2 * bits(name)}"}
        result, *rest_ = (names.get(s, s) for s in sources.split())
        yield Case(opcode.replace("TYPE", name), result, tuple(rest_), function, **rest)


LOW = (1 << 24) - 1


def low_24(x: int) -> int:
    return number(x << 8, "s32") >> 8


def clamp(x: int, low: int, high: int) -> int:
    return min(max(x, low), high)


def fields(x: int, width: int, *, signed: bool = False) -> list[int]:
    parts = [x >> at & ((1 << width) - 1) for at in range(0, 32, width)]
    return [part - (1 << width) if signed and part >> (width - 1) else part for part in parts]


def dp4a(a: int, b: int, c: int, *, sa: bool, sb: bool) -> int:
    return c + sum(
        x * y for x, y in zip(fields(a, 8, signed=sa), fields(b, 8, signed=sb), strict=True)
    )


def dp2a(a: int, b: int, c: int, *, high: bool) -> int:
    x, y = fields(a, 16, signed=True), fields(b, 8, signed=True)[2 * high :]
    return c + x[0] * y[0] + x[1] * y[1]


def bfe(name: str) -> Callable[[int, int, int], int]:
    def apply(a: int, position: int, length: int) -> int:
        width, (position, length) = bits(name), (position & 255, length & 255)
        if length == 0:
            return 0
        top = min(position + length - 1, width - 1)
        sign = name[0] == "s" and a >> top & 1
        pattern = a & ((1 << width) - 1)
        return sum(
            (pattern >> (position + i) & 1 if i < length and position + i < width else sign) << i
            for i in range(width)
        )

    return apply


def bfi(width: int) -> Callable[[int, int, int, int], int]:
    def apply(a: int, b: int, position: int, length: int) -> int:
        position, length = position & 255, length & 255
        for i in range(length):
            if position + i < width:
                at = position + i
                b = b & ~(1 << at) | (a >> i & 1) << at
        return b

    return apply


def bfind(name: str) -> Callable[[int], int]:
    return lambda a: (~a if a < 0 else a).bit_length() - 1


def fns(mask: int, base: int, offset: int) -> int:
    step, count, position = (-1 if offset < 0 else 1), abs(offset), base
    while 0 <= position < 32:
        count -= mask >> position & 1
        if count <= 0 and mask >> position & 1:
            return position
        if not offset:
            break
        position += step
    return -1


def shift_amount(name: str) -> Callable[[int], int]:
    def apply(a: int) -> int:
        position = bfind(name)(a)
        return -1 if position < 0 else bits(name) - 1 - position

    return apply


def funnel(a: int, b: int, c: int, *, left: bool, wrap: bool) -> int:
    amount = c & 31 if wrap else min(c, 32)
    both = b << 32 | a
    return (both << amount) >> 32 if left else both >> amount


def lop3(table: int) -> Callable[[int, int, int], int]:
    return lambda a, b, c: sum(
        (table >> ((a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1) & 1) << i for i in range(32)
    )


def prmt(a: int, b: int, c: int) -> int:
    both, result = b << 32 | a, 0
    for at in range(4):
        selector = c >> 4 * at & 15
        byte = both >> 8 * (selector & 7) & 255
        result |= (255 * (byte >> 7) if selector & 8 else byte) << 8 * at
    return result


MODES = {
    "f4e": (0x3210, 0x4321, 0x5432, 0x6543),
    "b4e": (0x5670, 0x6701, 0x7012, 0x0123),
    "rc8": (0x0000, 0x1111, 0x2222, 0x3333),
    "ecl": (0x3210, 0x3211, 0x3222, 0x3333),
    "ecr": (0x0000, 0x1110, 0x2210, 0x3210),
    "rc16": (0x1010, 0x3232, 0x1010, 0x3232),
}


def video(
    lane: Callable[[int, int], int], width: int, signed: bool, kind: str
) -> Callable[..., int]:
    def apply(a: int, b: int, c: int) -> int:
        lanes = [
            lane(x, y)
            for x, y in zip(
                fields(a, width, signed=signed), fields(b, width, signed=signed), strict=True
            )
        ]
        if kind == ".add":
            return c + sum(lanes)
        if kind == ".sat":
            low = -(1 << (width - 1)) if signed else 0
            lanes = [clamp(x, low, low + (1 << width) - 1) for x in lanes]
        return sum((x & ((1 << width) - 1)) << width * at for at, x in enumerate(lanes))

    return apply


VIDEO = {
    "vadd": lambda x, y: x + y,
    "vsub": lambda x, y: x - y,
    "vavrg": lambda x, y: (x + y + (x + y >= 0)) >> 1,
    "vabsdiff": lambda x, y: abs(x - y),
    "vmin": min,
    "vmax": max,
}


def halves(
    function: Callable[[int, int], int], *, signed: bool = False
) -> Callable[[int, int], int]:
    def apply(a: int, b: int) -> int:
        pairs = zip(fields(a, 16, signed=signed), fields(b, 16, signed=signed), strict=True)
        return sum((function(x, y) & 0xFFFF) << 16 * at for at, (x, y) in enumerate(pairs))

    return apply


def nonzero(operands: Sequence[int]) -> Sequence[int]:
    """Divisors that are not 0 and do not overflow."""
    return [operands[0], operands[1] if operands[1] not in (0, -1) else 3]


def near(operands: Sequence[int]) -> Sequence[int]:
    """Operands of which the first positions and lengths are mostly inside of the width."""
    return [*operands[:-2], *(x % 80 for x in operands[-2:])]


INTEGERS = "u16 s16 u32 s32 u64 s64"
WORDS = "u32 s32 u64 s64"
BITS = "b16 b32 b64"

GROUPS: dict[str, list[Case]] = {
    "arithmetic": [
        *each("add.TYPE", INTEGERS, "t t t", lambda a, b: a + b),
        *each("sub.TYPE", INTEGERS, "t t t", lambda a, b: a - b),
        *each("mul.lo.TYPE", INTEGERS, "t t t", lambda a, b: a * b),
        *each("min.TYPE", INTEGERS, "t t t", min),
        *each("max.TYPE", INTEGERS, "t t t", max),
        *each("abs.TYPE", "s16 s32 s64", "t t", abs),
        *each("neg.TYPE", "s16 s32 s64", "t t", lambda a: -a),
    ],
    "wide": [
        *(
            case
            for name in INTEGERS.split()
            for case in each(
                "mul.hi.TYPE", name, "t t t", lambda a, b, n=int(name[1:]): a * b >> n
            )
        ),
        *each("mul.wide.TYPE", "u16 s16 u32 s32", "w t t", lambda a, b: a * b),
        *each("mad.lo.TYPE", INTEGERS, "t t t t", lambda a, b, c: a * b + c),
        *(
            case
            for name in WORDS.split()
            for case in each(
                "mad.hi.TYPE", name, "t t t t", lambda a, b, c, n=int(name[1:]): (a * b >> n) + c
            )
        ),
        *each("mad.wide.TYPE", "u16 s16 u32 s32", "w t t w", lambda a, b, c: a * b + c),
        Case("mul24.lo.u32", "u32", ("u32", "u32"), lambda a, b: (a & LOW) * (b & LOW)),
        Case("mad24.lo.u32", "u32", ("u32",) * 3, lambda a, b, c: (a & LOW) * (b & LOW) + c),
        Case("mul24.lo.s32", "s32", ("s32", "s32"), lambda a, b: low_24(a) * low_24(b)),
        *each("sad.TYPE", INTEGERS, "t t t u", lambda a, b, c: abs(a - b) + c),
        *each("add.sat.TYPE", "s32", "t t t", lambda a, b: clamp(a + b, -(2**31), 2**31 - 1)),
        *each("sub.sat.TYPE", "s32", "t t t", lambda a, b: clamp(a - b, -(2**31), 2**31 - 1)),
    ],
    "division": [
        *each("div.TYPE", INTEGERS, "t t t", lambda a, b: quotient(a, b), domain=nonzero),
        *each("rem.TYPE", INTEGERS, "t t t", lambda a, b: a - b * quotient(a, b), domain=nonzero),
    ],
    "counts": [
        *each("popc.TYPE", "b32 b64", "u32 t", int.bit_count),
        Case("clz.b32", "u32", ("b32",), lambda a: 32 - a.bit_length()),
        Case("clz.b64", "u32", ("b64",), lambda a: 64 - a.bit_length()),
        Case("brev.b32", "b32", ("b32",), lambda a: int(f"{a:032b}"[::-1], 2)),
        Case("brev.b64", "b64", ("b64",), lambda a: int(f"{a:064b}"[::-1], 2)),
        *(Case(f"bfind.{n}", "u32", (n,), bfind(n)) for n in WORDS.split()),
        *(Case(f"bfind.shiftamt.{n}", "u32", (n,), shift_amount(n)) for n in WORDS.split()),
        Case(
            "fns.b32", "u32", ("b32", "u32", "s32"), fns,
            domain=lambda x: [x[0], x[1] % 32, x[2] % 67 - 33],
        ),
    ],
    "fields": [
        *(Case(f"bfe.{n}", n, (n, "u32", "u32"), bfe(n), domain=near) for n in WORDS.split()),
        Case("bfi.b32", "b32", ("b32", "b32", "u32", "u32"), bfi(32), domain=near),
        Case("bfi.b64", "b64", ("b64", "b64", "u32", "u32"), bfi(64), domain=near),
        Case("bmsk.clamp.b32", "b32", ("u32", "u32"), lambda a, b: ((1 << b) - 1) << a, domain=near),
        Case(
            "bmsk.wrap.b32", "b32", ("u32", "u32"),
            lambda a, b: ((1 << (b & 31)) - 1) << (a & 31), domain=near,
        ),
    ],
    "shifts": [
        *each("shl.TYPE", BITS, "t t u32", lambda a, b: a << b, domain=lambda x: [x[0], x[1] % 80]),
        *each("shr.TYPE", INTEGERS, "t t u32", lambda a, b: a >> b),
        *each("shr.TYPE", f"{INTEGERS} {BITS}", "t t u32", lambda a, b: a >> b % 80,
              domain=lambda x: [x[0], x[1] % 80]),
        *(
            Case(
                f"shf.{way}.{mode}.b32", "b32", ("b32", "b32", "u32"),
                lambda a, b, c, way=way, mode=mode: funnel(
                    a, b, c, left=way == "l", wrap=mode == "wrap"
                ),
                domain=lambda x: [*x[:2], x[2] % 80],
            )
            for way in "lr"
            for mode in ("clamp", "wrap")
        ),
    ],
    "bitwise": [
        *each("and.TYPE", BITS, "t t t", lambda a, b: a & b),
        *each("or.TYPE", BITS, "t t t", lambda a, b: a | b),
        *each("xor.TYPE", BITS, "t t t", lambda a, b: a ^ b),
        *each("not.TYPE", BITS, "t t", lambda a: ~a),
        *each("cnot.TYPE", BITS, "t t", lambda a: not a),
        *(
            Case("lop3.b32", "b32", ("b32",) * 3, lop3(table), f"{table:#x}")
            for table in (0x00, 0xFF, 0x80, 0x96, 0xE8, 0xCA, 0x1B, 0x3C, 0xF8, 0x6A)
        ),
    ],
    "permutations": [
        Case("prmt.b32", "b32", ("b32",) * 3, prmt),
        *(
            Case("prmt.b32", "b32", ("b32",) * 2, partial(prmt, c=c), f"{c:#x}")
            for c in (0x5410, 0x7632, 0x4140, 0xBA98, 0x0F1E)
        ),
        *(
            Case(
                f"prmt.b32.{mode}", "b32", ("b32",) * 3,
                lambda a, b, c, s=selectors: prmt(a, b, s[c & 3]),
            )
            for mode, selectors in MODES.items()
        ),
    ],
    "dots": [
        *(
            Case(
                f"dp4a.{a}.{b}", "u32", ("b32", "b32", "u32"),
                lambda x, y, z, a=a, b=b: dp4a(x, y, z, sa=a == "s32", sb=b == "s32"),
            )
            for a in ("u32", "s32")
            for b in ("u32", "s32")
        ),
        *(
            Case(
                f"dp2a.{half}.s32.s32", "u32", ("b32", "b32", "u32"),
                lambda x, y, z, half=half: dp2a(x, y, z, high=half == "hi"),
            )
            for half in ("lo", "hi")
        ),
    ],
    "video": [
        Case(
            f"{name}{count}.{t}.{t}.{t}{kind}", "u32", ("b32", "b32", "u32"),
            video(lane, 32 // count, t == "s32", kind),
        )
        for name, lane in VIDEO.items()
        for count in (2, 4)
        for t in ("u32", "s32")
        for kind in ("", ".sat", ".add")
    ],
    "halves": [
        Case("add.u16x2", "b32", ("b32", "b32"), halves(lambda x, y: x + y)),
        Case("min.s16x2", "b32", ("b32", "b32"), halves(min, signed=True)),
        Case("max.u16x2", "b32", ("b32", "b32"), halves(max)),
        Case("max.relu.s16x2", "b32", ("b32", "b32"), halves(lambda x, y: max(x, y, 0), signed=True)),
    ],
    "conversions": [
        *(
            Case(f"cvt.{to}.{source}", to, (source,), lambda a: a)
            for to in INTEGERS.split()
            for source in INTEGERS.split()
            if to != source
        ),
        *(
            Case(
                f"cvt.sat.{to}.{source}", to, (source,),
                lambda a, to=to: clamp(a, *((-(1 << bits(to) - 1), (1 << bits(to) - 1) - 1) if to[0] == "s" else (0, (1 << bits(to)) - 1))),
            )
            for to in INTEGERS.split()
            for source in INTEGERS.split()
            if bits(to) < bits(source)
        ),
    ],
    "selections": [
        *each("slct.TYPE.s32", "u32 s64 b16", "t t t s32", lambda a, b, c: a if c >= 0 else b),
        *(
            Case(
                f"set.{name}.u32.{t}", "u32", (t, t),
                lambda a, b, compare=compare: -int(compare(a, b)),
            )
            for name, compare in (
                ("eq", int.__eq__), ("ne", int.__ne__), ("lt", int.__lt__),
                ("le", int.__le__), ("gt", int.__gt__), ("ge", int.__ge__),
            )
            for t in ("s32", "u64")
        ),
    ],
}  # fmt: skip


def quotient(a: int, b: int) -> int:
    """Divide toward zero."""
    size = abs(a) // abs(b)
    return size if (a < 0) == (b < 0) else -size


def operands(case: Case, seed: int) -> list[list[int]]:
    """Operands of a case: every pair of special numbers, then random ones; a list for each element."""
    generator = np.random.default_rng(seed)
    rows = []
    for _ in range(COUNT):
        row = []
        for name in case.sources:
            width = bits(name)
            special = (0, 1, 2, (1 << width) - 1, 1 << (width - 1), (1 << (width - 1)) - 1)
            chance, pick = generator.integers(0, 3), int(generator.integers(0, 1 << 16))
            value = int.from_bytes(generator.bytes(8), "little") & ((1 << width) - 1)
            row.append(number(value if chance else special[pick % len(special)], name))
        rows.append(list(case.domain(row)))
    return rows


def arrays(cases: Sequence[Case]) -> tuple[list[Array], list[Array], list[Array]]:
    """The operands of the kernel, empty results, and the expected results."""
    inputs, results, expected = [], [], []
    for index, case in enumerate(cases):
        rows = operands(case, index)
        for column, source in zip(zip(*rows, strict=True), case.sources, strict=True):
            inputs.append(_array(column, bits(source)))
        results.append(np.zeros(COUNT, f"u{bits(case.result) // 8}"))
        expected.append(_array([case.function(*row) for row in rows], bits(case.result)))
    return inputs, results, expected


def _array(column: Sequence[int], width: int) -> Array:
    return np.array([int(x) & ((1 << width) - 1) for x in column], f"u{width // 8}")
