"""Convert a tile from one layout to another inside each warp, by shuffles.

In a shuffle every lane sends one register, and reads the one that a lane of its choice sends: so
the elements of one step come from different lanes, and go to different lanes. Filling the result's
registers in order, one per step, breaks that: if two lanes swap half of their registers, both
elements that such a step needs are on the same lane.

Steps are found in the space of the receivers, of (register, lane, warp), as cosets of one of its
subspaces, the *team*. A team has one receiver on each thread, so it intersects the space of the
registers only in 0. The elements that it takes from one sender are in one register, so neither does
it intersect the space of the elements of one sender, except for elements that are received twice.
`f2.common_complement` finds such a space. As all is linear, so is a step of a lane: the register it
sends, the lane it reads from and the register it fills are layouts of (lane, warp), the same in all
steps but for a constant of each that is added by XOR.

Two lanes that swap half of their registers take two steps, and in the first keep to themselves:

    >>> src = LinearLayout.of({"register": [[1]], "lane": [[2]], "warp": []}, [4])
    >>> dst = LinearLayout.of({"register": [[2]], "lane": [[1]], "warp": []}, [4])
    >>> plan = by_shuffles(src, dst, element_bits=32)
    >>> plan.send                                   # lane 1 begins with its register 1
    #linear{lane = [[1]], warp = [] -> register = 2}
    >>> plan.steps[0]
    ShuffleStep(send=0, source=0, receive=0, coset=0)
    >>> plan.steps[1]
    ShuffleStep(send=1, source=1, receive=1, coset=0)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tile.simt.layouts import f2
from tile.simt.layouts.dims import LANE, REGISTER, WARP, bit_positions, log2_of
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.shared_access import distinct_registers

WORD_BITS = 32


@dataclass(frozen=True)
class ShuffleStep:
    """One shuffle: constants that are XORed to the outputs of its `ShufflePlan`'s layouts."""

    send: int
    source: int
    receive: int
    coset: int


@dataclass(frozen=True)
class ShufflePlan:
    """A conversion by several shuffles, each of 32 bits for every lane.

    All layouts are of (lane, warp). In a step a lane sends the register `send`, reads the one that
    lane `source` sends, and writes it to its register `receive`, provided that `coset` is 0, each
    after XOR with the step's own constant. 32 bits hold several registers if `packed` has several
    pairs: the XOR to `send`, and to `receive`, for each register in it. Last, a register that holds
    a copy of another takes its value: `copies` has such pairs.
    """

    send: LinearLayout
    source: LinearLayout
    receive: LinearLayout
    coset: LinearLayout
    steps: tuple[ShuffleStep, ...]
    packed: tuple[tuple[int, int], ...]
    copies: tuple[tuple[int, int], ...]

    @property
    def is_butterfly(self) -> bool:
        """True if lanes read from each other in pairs: the source is the lane XOR `source`.

        A step that XORs with 0 then needs no shuffle.
        """
        return self.source.is_identity_on(LANE)

    @property
    def shuffles(self) -> int:
        """The number of shuffles, of 32 bits each."""
        return sum(not self.is_butterfly or r.source != 0 for r in self.steps)


class _Receivers:
    """The space of receivers: vectors of (register, lane, warp), with the source of each.

    A register that holds a copy of others is not a receiver.
    """

    def __init__(self, src: LinearLayout, dst: LinearLayout) -> None:
        pull = src.invert_and_compose(dst)
        self._columns = list(pull.columns)
        self._dst = dst
        self._at, self._from = bit_positions(dst.indices), bit_positions(src.indices)
        self._lanes = src.in_size(LANE) - 1
        self.first_register = self._at[REGISTER]
        self.threads = f2.units(self.first_register)
        free = dst.select_ins(REGISTER).free_variables()[REGISTER]
        bits = [bit for bit in range(dst.in_bits(REGISTER)) if not free >> bit & 1]
        self.registers = [1 << self.first_register + bit for bit in bits]
        self._spread(src)

    def _spread(self, src: LinearLayout) -> None:
        """Redirect receivers to copies on idle senders where too many share a sender.

        Too many is more than receive in different steps, as different registers, or receive the
        same element. The kernel of `src` leads from any holder of an element to another one.
        """
        space = self.registers + self.threads
        settled = self.registers + self.zeros(self.origin, space)
        of_one_sender = self.zeros(self.sender, space)
        excess = len(of_one_sender) - len(settled)
        if excess <= 0:
            return
        busy, moved = f2.Elimination(), f2.Elimination()
        for unit in space:
            busy.define(self.sender(unit))
        warps = src.in_bits(WARP)
        copies = [same << warps for same in f2.kernel(src.columns[warps:])]
        idle = [copy for copy in copies if busy.define(self._thread(copy)) is None]
        for receiver in settled:
            moved.define(receiver)
        redirected = f2.extend(settled, of_one_sender)[:excess]
        for receiver, copy in zip(redirected, idle, strict=False):
            moved.define(receiver, copy)
        for unit in space:
            moved.define(unit)
        for unit in space:
            self._columns[unit.bit_length() - 1] ^= moved.reduce(unit)[1]

    def _thread(self, holder: int) -> int:
        return holder & (1 << self._from[REGISTER]) - 1

    def origin(self, receiver: int) -> int:
        """Return the (register, lane, warp) that has the element."""
        return f2.multiply(self._columns, receiver)

    def sender(self, receiver: int) -> int:
        """Return the thread that has it, a vector of (lane, warp)."""
        return self._thread(self.origin(receiver))

    def sent(self, receiver: int) -> int:
        """Return the register that it is in there."""
        return self.origin(receiver) >> self._from[REGISTER]

    def lane(self, thread: int) -> int:
        return thread >> self._from[LANE] & self._lanes

    def register(self, receiver: int) -> int:
        """Return the register that is to be filled."""
        return receiver >> self.first_register

    def team(self) -> list[int]:
        """Return the receivers of one step: at most one a thread, of one register on a sender."""
        space = self.threads + self.registers
        twice, of_one_sender = self.zeros(self.origin, space), self.zeros(self.sender, space)
        apart = self.registers + twice
        return twice + f2.common_complement(apart, of_one_sender, within=space)

    def zeros(self, rule: Callable[[int], int], space: Sequence[int]) -> list[int]:
        """Return the kernel of a linear rule in the space that these vectors are a basis of."""
        return [f2.multiply(space, chosen) for chosen in f2.kernel([rule(v) for v in space])]

    def of_thread(self, rule: Callable[[int], int], name: str, bits: int) -> LinearLayout:
        """Return a linear rule of threads as a layout of (lane, warp)."""
        ins = [
            (dim, tuple([rule(1 << self._at[dim] + bit) for bit in range(self._dst.in_bits(dim))]))
            for dim in (LANE, WARP)
        ]
        return LinearLayout(tuple(ins), ((name, bits),))


def by_shuffles(src: LinearLayout, dst: LinearLayout, element_bits: int) -> ShufflePlan:
    """Plan the shuffles that fill the registers of `dst`; `src` has each element in the same warp.

    Both are of (register, lane, warp). Where several lanes hold an element, there may be more
    shuffles than necessary.
    """
    to = _Receivers(src, dst)
    team = to.team()
    # Registers whose elements come from one sender, in every thread, share a 32-bit register.
    packed = log2_of(max(1, WORD_BITS // element_bits), "the elements of a word")
    pack = to.zeros(to.sender, to.registers)[:packed]
    # Each shuffle is a coset of the team. Cosets along threads are for the threads that remain
    # where a team cannot have all threads.
    steps = f2.extend([*team, *pack], to.registers + to.threads)
    cosets = [step for step in steps if not to.register(step)]

    in_team, coset, sent = f2.Elimination(), f2.Elimination(), f2.Elimination()
    for member in team:
        in_team.define(member, member)
        coset.define(member)
        sent.define(to.sender(member), to.sent(member))
    for step in [*pack, *steps]:
        in_team.define(step)
        coset.define(step, 1 << cosets.index(step) if step in cosets else 0)
    for thread in to.threads:
        sent.define(thread)

    def at(rule: f2.Elimination, vector: int) -> int:
        return rule.reduce(vector)[1]

    def source(thread: int) -> int:
        return to.lane(to.sender(at(in_team, thread)))

    def receive(thread: int) -> int:
        return to.register(thread ^ at(in_team, thread))

    def step_away(step: int) -> ShuffleStep:
        sender = to.sender(step)
        send = at(sent, sender) ^ to.sent(step)
        return ShuffleStep(send, to.lane(sender), to.register(step), at(coset, step))

    return ShufflePlan(
        send=to.of_thread(lambda thread: at(sent, thread), REGISTER, src.in_bits(REGISTER)),
        source=to.of_thread(source, LANE, src.in_bits(LANE)),
        receive=to.of_thread(receive, REGISTER, dst.in_bits(REGISTER)),
        coset=to.of_thread(lambda thread: at(coset, thread), "coset", len(cosets)),
        steps=tuple(map(step_away, _sums(steps))),
        packed=tuple([(to.sent(part), to.register(part)) for part in _sums(pack)]),
        copies=tuple(distinct_registers(dst)[1]),
    )


def _sums(space: Sequence[int]) -> list[int]:
    """Return all vectors of a space that these are a basis of."""
    sums = [0]
    for vector in space:
        sums += [vector ^ other for other in sums]
    return sums
