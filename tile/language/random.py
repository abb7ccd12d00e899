"""Counter-based random numbers: Philox-4x32-10 and Philox-4x64-10.

Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011. The generator
is stateless: the same seed and offset give the same numbers in any program and order. `seed` is the
key, its low half first; `offset` is the counter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import tile.language.math as math
from tile.errors import CompilationError
from tile.ir.builder import Builder
from tile.ir.types import I32, I64, U32, U64, Scalar
from tile.language.base.builtin import builtin
from tile.language.base.dtypes import spelled
from tile.language.base.promotion import Operand, broadcast_together, convert, describe, to_tensor
from tile.language.base.static_args import compile_time_int
from tile.language.base.tensor import Tensor
from tile.language.creation import cast
from tile.language.operators import binary, compare, unary
from tile.language.selection import maximum, where

Four: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor]

ROUNDS = 10


@dataclass(frozen=True)
class _Constants:
    """The multipliers of a round, and the Weyl constants that are added to the key after it."""

    multipliers: tuple[int, int]
    weyl: tuple[int, int]


CONSTANTS = {
    U32: _Constants((0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)),
    U64: _Constants(
        (0xD2E7470EE14C6C93, 0xCA5A826395121157), (0x9E3779B97F4A7C15, 0xBB67AE8584CAA73B)
    ),
}
# The greatest float32 whose product with the greatest signed integer of that width is below 1.
UNIT = {32: 4.6566127342e-10, 64: 1.0842020432385337e-19}
LEAST_UNIFORM = 1.0e-7
TWO_PI = 6.283185307179586


@builtin
def philox_impl(
    build: Builder,
    c0: Tensor,
    c1: Tensor,
    c2: Tensor,
    c3: Tensor,
    k0: Operand,
    k1: Operand,
    n_rounds: Any = ROUNDS,
) -> Four:
    """Apply `n_rounds` rounds of Philox to counter (`c0`, `c1`, `c2`, `c3`), key (`k0`, `k1`).

    All are `tl.uint32`, or all `tl.uint64`; the results have that type and the common shape.
    """
    counter = [to_tensor(build, c, "a counter of tl.philox_impl") for c in (c0, c1, c2, c3)]
    key = [to_tensor(build, k, "a key of tl.philox_impl") for k in (k0, k1)]
    element = counter[0].dtype
    constants = CONSTANTS.get(element) if isinstance(element, Scalar) else None
    if constants is None or any(x.dtype != element for x in (*counter, *key)):
        raise CompilationError(
            f"tl.philox_impl takes counters and keys that are all tl.uint32 or all tl.uint64, not "
            f"{', '.join(spelled(x.dtype) for x in (*counter, *key))}"
        )
    for i in range(compile_time_int(n_rounds, "the n_rounds of tl.philox_impl")):
        if i > 0:
            key = [binary(build, "+", k, w) for k, w in zip(key, constants.weyl, strict=True)]
        counter = _round(build, counter, key, constants)
    a, b, c, d = broadcast_together(build, *counter)
    return a, b, c, d


def _round(
    build: Builder, counter: list[Tensor], key: list[Tensor], constants: _Constants
) -> list[Tensor]:
    c0, c1, c2, c3 = counter
    first, second = constants.multipliers
    high0, low0 = _product(build, c0, first)
    high2, low2 = _product(build, c2, second)
    return [
        binary(build, "^", binary(build, "^", high2, c1), key[0]),
        low2,
        binary(build, "^", binary(build, "^", high0, c3), key[1]),
        low0,
    ]


def _product(build: Builder, x: Tensor, y: Operand) -> tuple[Tensor, Tensor]:
    """Return the high and the low word of a product."""
    if x.dtype == U64:
        return math.umulhi.emit(build, x, y), binary(build, "*", x, y)
    whole = binary(build, "*", convert(build, x, U64), y)
    return convert(build, binary(build, ">>", whole, 32), U32), convert(build, whole, U32)


@builtin
def philox(
    build: Builder,
    seed: Operand,
    c0: Operand,
    c1: Operand,
    c2: Operand,
    c3: Operand,
    n_rounds: Any = ROUNDS,
) -> Four:
    """Four random integers for each counter (`c0`, `c1`, `c2`, `c3`), under the key `seed`.

    Counters are integers of one width. With 32 bits, the results are `tl.uint32` and the 64 bits of
    the seed are the key; with 64 bits, the results are `tl.uint64` and the seed is the low word of
    the key. Raises `CompilationError` for other widths.
    """
    key = _integer(build, seed, "the seed of tl.philox")
    counter = [_integer(build, c, "a counter of tl.philox") for c in (c0, c1, c2, c3)]
    bits = counter[0].dtype.bits
    if bits not in (32, 64):
        raise CompilationError(
            f"the counters of tl.philox have 32 or 64 bits, not {describe(c0)}; cast first: "
            f"x.to(tl.uint32)"
        )
    element = U32 if bits == 32 else U64
    words = [convert(build, c, element) for c in counter]
    whole = convert(build, key, U64)
    if bits == 64:
        low, high = whole, to_tensor(build, 0)
    else:
        low, high = whole, binary(build, ">>", whole, 32)
    keys = [convert(build, k, element) for k in (low, high)]
    return philox_impl.emit(
        build, words[0], words[1], words[2], words[3], keys[0], keys[1], n_rounds
    )


def _integer(build: Builder, x: Operand, subject: str) -> Tensor:
    tensor = to_tensor(build, x, subject)
    if not tensor.dtype.is_int():
        raise CompilationError(f"{subject} is an integer, not {describe(x)}")
    return tensor


@builtin
def randint4x(build: Builder, seed: Operand, offset: Operand, n_rounds: Any = ROUNDS) -> Four:
    """Four tiles of random `tl.uint32` with the shape of `offset`: the cheapest per number.

    Each offset is a separate counter; a 64-bit offset is two words of the counter, low word first.
    """
    counter = _integer(build, offset, "the offset of tl.randint4x")
    low = convert(build, counter, U32)
    high: Operand = Tensor(build.constant(0, U32))
    if counter.dtype.bits > 32:
        high = convert(build, binary(build, ">>", counter, 32), U32)
    zero = Tensor(build.constant(0, U32))
    return philox.emit(build, seed, low, high, zero, zero, n_rounds)


@builtin
def randint(build: Builder, seed: Operand, offset: Operand, n_rounds: Any = ROUNDS) -> Tensor:
    """A tile of random `tl.uint32` with the shape of `offset`."""
    return randint4x.emit(build, seed, offset, n_rounds)[0]


@builtin
def uint_to_uniform_float(build: Builder, x: Tensor) -> Tensor:
    """Random integers of 32 or 64 bits as `tl.float32` uniform in [0, 1).

    The sign bit is folded away and the rest scaled, so that adjacent values are equally likely.
    """
    bits = to_tensor(build, x, "the input of tl.uint_to_uniform_float")
    if not bits.dtype.is_int() or bits.dtype.bits not in UNIT:
        raise CompilationError(
            f"tl.uint_to_uniform_float takes integers of 32 or 64 bits, not {bits.type}"
        )
    signed = cast.emit(build, bits, I32 if bits.dtype.bits == 32 else I64, bitcast=True)
    negative = compare(build, "<", signed, 0)
    folded = where.emit(build, negative, unary(build, "~", signed), signed)
    result: Tensor = binary(build, "*", folded, UNIT[bits.dtype.bits])
    return result


@builtin
def rand(build: Builder, seed: Operand, offset: Operand, n_rounds: Any = ROUNDS) -> Tensor:
    """A tile of `tl.float32` uniform in [0, 1) with the shape of `offset`."""
    return uint_to_uniform_float.emit(build, randint.emit(build, seed, offset, n_rounds))


@builtin
def rand4x(build: Builder, seed: Operand, offsets: Operand, n_rounds: Any = ROUNDS) -> Four:
    """Four tiles of `tl.float32` uniform in [0, 1), each of the shape of `offsets`."""
    a, b, c, d = (
        uint_to_uniform_float.emit(build, x) for x in randint4x.emit(build, seed, offsets, n_rounds)
    )
    return a, b, c, d


@builtin
def pair_uniform_to_normal(build: Builder, u1: Tensor, u2: Tensor) -> tuple[Tensor, Tensor]:
    """Two standard normal numbers from two uniform in [0, 1), by the Box-Muller transform."""
    above_zero = maximum.emit(build, LEAST_UNIFORM, u1)
    angle = binary(build, "*", u2, TWO_PI)
    radius = math.sqrt.emit(build, binary(build, "*", math.log.emit(build, above_zero), -2.0))
    x: Tensor = binary(build, "*", radius, math.cos.emit(build, angle))
    y: Tensor = binary(build, "*", radius, math.sin.emit(build, angle))
    return x, y


@builtin
def randn(build: Builder, seed: Operand, offset: Operand, n_rounds: Any = ROUNDS) -> Tensor:
    """A tile of standard normal `tl.float32` with the shape of `offset`."""
    a, b, _, _ = rand4x.emit(build, seed, offset, n_rounds)
    return pair_uniform_to_normal.emit(build, a, b)[0]


@builtin
def randn4x(build: Builder, seed: Operand, offset: Operand, n_rounds: Any = ROUNDS) -> Four:
    """Four tiles of standard normal `tl.float32`, each of the shape of `offset`."""
    a, b, c, d = rand4x.emit(build, seed, offset, n_rounds)
    return (*pair_uniform_to_normal.emit(build, a, b), *pair_uniform_to_normal.emit(build, c, d))
