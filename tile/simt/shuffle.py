"""A tile's way from one layout to another inside each warp, by shuffles.

In a shuffle every lane sends one register and reads what one lane of its choice sends. So elements
that travel in one round must not share their lane, neither where they are nor where they go. Taking
turns by registers alone fails that: if two lanes swap halves of their registers, both want from the
other what it has in one register while they send another.

The rounds are found in the space of the receivers' (register, lane, warp) as parallel copies of one
of its subspaces, the *team*. A team has one element for each receiving thread, so it shares nothing
with the space that registers span; and what it takes from one thread is in one register, so nor
does it with the space that stays on one sending thread, but for elements received twice. Both is
what `f2.common_complement` gives. As everything is linear, so is what a lane does in a round: which
register it sends, which lane it reads from and which register it fills are layouts of (lane, warp),
the same in all rounds but for a constant that each adds by XOR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tile.simt import f2
from tile.simt.dims import LANE, REGISTER, WARP, log2_of, places
from tile.simt.layout import LinearLayout
from tile.simt.shared_access import distinct_registers

WORD_BITS = 32


@dataclass(frozen=True)
class Round:
    """One shuffle: what it adds, by XOR, to the outputs of the layouts of its `Shuffle`."""

    send: int
    source: int
    receive: int
    turn: int


@dataclass(frozen=True)
class Shuffle:
    """A conversion by one shuffle a round, each of a word for every lane.

    All layouts are of (lane, warp). In a round a lane sends what is in the register `send`, reads
    what the lane `source` sends, and has that for its register `receive`, provided that `turn` is
    0, each after XOR with the round's own. A word is of several registers if `packed` has several
    pairs: what to XOR with `send`, and with `receive`, for each register in it. Last, a register
    that holds a copy of another takes its value: `copies` has such pairs.
    """

    send: LinearLayout
    source: LinearLayout
    receive: LinearLayout
    turn: LinearLayout
    rounds: tuple[Round, ...]
    packed: tuple[tuple[int, int], ...]
    copies: tuple[tuple[int, int], ...]

    @property
    def is_butterfly(self) -> bool:
        """Whether lanes read from each other in pairs: `source` of a round is XORed with them.

        A round that XORs with 0 then needs no shuffle.
        """
        return self.source.is_identity_on(LANE)

    @property
    def shuffles(self) -> int:
        """How many rounds need a shuffle, of a word each."""
        return sum(not self.is_butterfly or r.source != 0 for r in self.rounds)


def by_shuffles(pull: LinearLayout, dst: LinearLayout, element_bits: int) -> Shuffle:
    """The rounds that fill the registers of `dst`, of (register, lane, warp).

    `pull` tells for each of them where it comes from: a layout to (register, lane, warp) that keeps
    the warp.
    """
    free = dst.select_ins(REGISTER).free_variables()[REGISTER]
    at, source_at = places(pull.indices), places(pull.outs)
    columns, first, source_first = pull.columns, at[REGISTER], source_at[REGISTER]

    def origin(vector: int) -> int:
        return f2.multiply(columns, vector)

    def sender(vector: int) -> int:
        return origin(vector) & (1 << source_first) - 1

    def lane_of(thread: int) -> int:
        return thread >> source_at[LANE] & (1 << pull.out_bits(LANE)) - 1

    units = [1 << first + bit for bit in range(dst.in_bits(REGISTER)) if not free >> bit & 1]
    threads = f2.units(first)
    pack = _zeros(sender, units)[: log2_of(max(1, WORD_BITS // element_bits), "a word")]
    registers = f2.extend(pack, units)
    space = threads + registers
    twice, at_one = _zeros(origin, space), _zeros(sender, space)
    team = twice + f2.common_complement(registers + twice, at_one, within=space)
    steps = f2.extend(team, registers + threads)
    idle = [step for step in steps if step >> first == 0]

    # The parts of a receiver in the team and beside it, and the number of its turn.
    part, turn = f2.Elimination(), f2.Elimination()
    for vector in team:
        part.define(vector, vector)
        turn.define(vector)
    for step in steps:
        part.define(step)
        turn.define(step, 1 << idle.index(step) if step in idle else 0)
    # What a thread sends of the first team, by its own number.
    sent = f2.Elimination()
    for vector in team:
        sent.define(sender(vector), origin(vector) >> source_first)
    for thread in threads:
        sent.define(thread)

    def of_thread(rule: Callable[[int], int], name: str, bits: int) -> LinearLayout:
        ins = [
            (dim, tuple([rule(1 << at[dim] + bit) for bit in range(dst.in_bits(dim))]))
            for dim in (LANE, WARP)
        ]
        return LinearLayout(tuple(ins), ((name, bits),))

    def in_team(vector: int) -> int:
        return part.reduce(vector)[1]

    def register_sent(vector: int) -> int:
        return sent.reduce(sender(vector))[1] ^ origin(vector) >> source_first

    return Shuffle(
        of_thread(lambda thread: sent.reduce(thread)[1], REGISTER, pull.out_bits(REGISTER)),
        of_thread(lambda thread: lane_of(sender(in_team(thread))), LANE, pull.out_bits(LANE)),
        of_thread(
            lambda thread: (thread ^ in_team(thread)) >> first, REGISTER, dst.in_bits(REGISTER)
        ),
        of_thread(lambda thread: turn.reduce(thread)[1], "turn", len(idle)),
        tuple(
            Round(register_sent(c), lane_of(sender(c)), c >> first, turn.reduce(c)[1])
            for c in _sums(steps)
        ),
        tuple((origin(c) >> source_first, c >> first) for c in _sums(pack)),
        tuple(distinct_registers(dst)[1]),
    )


def _zeros(rule: Callable[[int], int], space: Sequence[int]) -> list[int]:
    """What a linear rule takes to 0, of the space that these vectors are a basis of."""
    return [f2.multiply(space, chosen) for chosen in f2.kernel([rule(v) for v in space])]


def _sums(space: Sequence[int]) -> list[int]:
    """All vectors of a space that these are a basis of."""
    sums = [0]
    for vector in space:
        sums += [vector ^ other for other in sums]
    return sums
