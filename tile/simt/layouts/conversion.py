"""Plan layout conversions, by the innermost level of the hierarchy that can do them.

The map `src⁻¹ ∘ dst` gives, for each register, lane and warp of `dst`, the position of its element
in `src`. If it preserves lanes and warps, registers are renamed. If it preserves warps, shuffles do
it. Otherwise the tile goes through shared memory. The map is defined from the receiver's side,
since each position of `dst` must be filled, copies too, and one holder of each element in `src` is
enough.

    >>> from tile.simt.layouts.blocked import blocked
    >>> rows = blocked([16, 16], [1, 8], [16, 2], [1, 1])
    >>> plan_conversion(rows, blocked([16, 16], [1, 8], [16, 2], [1, 1], [0, 1]), 16).shuffles
    4

A conversion through shared memory has no bank conflicts. Offsets in shared memory have three parts,
from the lowest bit on: the position in a *vector* that one lane moves at once, the *bank*, and the
*line*, which counts wavefronts' worths of memory. A shared layout is a choice of basis of the
tile's space for each of the parts:

- Registers walk the vectors, on both sides: so vectors span what the registers of both do. Beyond
  that, the vectors of one side can be wider, along what its own registers walk and, on the other
  side, lanes that share a wavefront.
- Lanes that share a wavefront must not differ by lines alone, in the same bank. So lines span what
  meets neither the space that such lanes walk in the store, nor that of the load. These spaces are
  no larger than a line, and any two spaces have a common complement (`f2.common_complement`): so
  conflicts can be avoided whatever the two layouts are.
- Banks are the rest.

A warp converts columns to rows: rows are stored word by word and loaded four words at once.

    >>> columns = blocked([32, 32], [1, 1], [1, 32], [1, 1])
    >>> rows = blocked([32, 32], [1, 1], [32, 1], [1, 1])
    >>> plan = through_shared(columns, rows, element_bits=32)
    >>> plan.store.vector, plan.load.vector
    (1, 4)
    >>> plan.store.conflicts(32), plan.load.conflicts(32)
    (0, 0)

The construction for vectors of one width is from "Linear Layouts: Robust Code Generation of
Efficient Tensor Computation Using F2" (arXiv 2505.23819).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tile.simt.layouts import f2
from tile.simt.layouts.dims import (
    BLOCK,
    LANE,
    OFFSET,
    REGISTER,
    WARP,
    LayoutError,
    axis_name,
    bit_positions,
    bits_of,
    log2_of,
    require,
)
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.shared_access import (
    BANKS,
    AddressLayout,
    Banks,
    SharedAccess,
    address_layouts,
    ldmatrix_access,
    shared_access,
    stmatrix_access,
)
from tile.simt.layouts.swizzle import simd_layout, swizzled
from tile.simt.layouts.warp_shuffle import ShufflePlan, by_shuffles


@dataclass(frozen=True)
class SharedConversion:
    """A conversion: store the tile to shared memory of this layout, synchronize, and load it.

    Threads that hold copies store the same value to the same offset.
    """

    layout: LinearLayout
    store: SharedAccess
    load: SharedAccess

    @property
    def instructions(self) -> int:
        """The number of instructions of a thread."""
        return len(self.store.registers) + len(self.load.registers)


def through_shared(
    src: LinearLayout,
    dst: LinearLayout,
    element_bits: int,
    banks: Banks = BANKS,
    *,
    has_ldmatrix: bool = False,
    has_stmatrix: bool = False,
) -> SharedConversion:
    """Plan the conversion of `src` to `dst`, both of (register, lane, warp), via shared memory.

    With `has_ldmatrix`, warps use ldmatrix if that takes fewer instructions, and with
    `has_stmatrix`, stmatrix; `load`, or `store`, then is the access of the row addresses.
    """
    layout = conflict_free(src, dst, element_bits, banks)
    plans = [_through(src, dst, layout, element_bits, banks)]
    other = through_shared_by_ldmatrix(src, dst, element_bits, banks) if has_ldmatrix else None
    if other is not None:
        # Of plans with as many instructions, prefer one whose registers need not be moved.
        plans.insert(len(plans) if _in_order(plans[0].load) else 0, other)
    back = through_shared_by_ldmatrix(dst, src, element_bits, banks) if has_stmatrix else None
    if back is not None and _stores_by_matrices(src, back.layout, element_bits, banks):
        plans.append(SharedConversion(back.layout, back.load, back.store))
    return min(plans, key=lambda plan: plan.instructions)


def _in_order(load: SharedAccess) -> bool:
    """Return True if a load gives vectors in registers that are consecutive in the layout."""
    return all(
        vector == tuple(range(vector[0], vector[0] + len(vector))) for vector in load.registers
    )


def _stores_by_matrices(
    src: LinearLayout, layout: LinearLayout, element_bits: int, banks: Banks
) -> bool:
    return stmatrix_access(src, layout, element_bits, banks) is not None


def _through(
    src: LinearLayout,
    dst: LinearLayout,
    layout: LinearLayout,
    element_bits: int,
    banks: Banks,
    stores: Banks | None = None,
) -> SharedConversion:
    return SharedConversion(
        layout,
        shared_access(src, layout, element_bits, stores or banks),
        shared_access(dst, layout, element_bits, banks),
    )


def through_shared_by_ldmatrix(
    src: LinearLayout,
    dst: LinearLayout,
    element_bits: int,
    banks: Banks = BANKS,
    head: Sequence[int] = (),
    *,
    exact: bool = False,
) -> SharedConversion | None:
    """Return the conversion that loads by ldmatrix; None if there is none without bank conflicts.

    The vectors of `src` begin with `head`, as in `conflict_free`, and with `exact` are no longer.
    `load` is the access of the row addresses.
    """
    stores = banks.up_to(element_bits << len(head)) if exact else banks
    plans = []
    for asked in address_layouts(dst, element_bits):
        both = min(len(head), asked.row)
        if (*head[:both],) != asked.row_images[:both]:
            continue
        if len(head) < asked.row:
            free = conflict_free(asked.layout, src, element_bits, banks, asked.row_images)
        else:
            free = conflict_free(src, asked.layout, element_bits, banks, head)
        for layout in (*_rows(asked, element_bits, banks), free):
            if ldmatrix_access(dst, layout, element_bits) is None:
                continue
            plan = _through(src, asked.layout, layout, element_bits, banks, stores)
            conflicts = [x.conflicts(element_bits, banks) for x in (plan.store, plan.load)]
            if max(conflicts) <= 0 and plan.store.vector >= 1 << len(head):
                plans.append(plan)
                break
    return min(plans, key=lambda plan: plan.instructions, default=None)


def _rows(asked: AddressLayout, element_bits: int, banks: Banks) -> Iterator[LinearLayout]:
    """Yield rows in the order of the tile, with their vectors swizzled by the row's number.

    Copies from global memory are best to a layout where a row stays in few lines of banks.
    """
    shape = asked.layout.shape
    if len(shape) != 2:
        return
    axis = 1 if asked.row_images[0] == 1 else 0
    at = bit_positions(asked.layout.outs)[axis_name(axis)]
    vector, line = 1 << asked.row, banks.line_bits // element_bits
    in_row = vector <= shape[axis]
    if not in_row or asked.row_images != tuple(1 << at + bit for bit in range(asked.row)):
        return
    phases = min(shape[axis], line) // vector
    yield swizzled(shape, vector, max(1, line // shape[axis]), phases, (axis, 1 - axis))


@dataclass(frozen=True)
class _Side:
    """The spaces that the registers, the lanes and all threads of one side walk."""

    registers: list[int]
    lanes: tuple[int, ...]
    threads: list[int]

    @classmethod
    def of(cls, layout: LinearLayout) -> _Side:
        threads = [c for name, columns in layout.ins if name != REGISTER for c in columns]
        return cls(f2.basis(layout.images(REGISTER)), layout.images(LANE), f2.basis(threads))


def conflict_free(
    src: LinearLayout,
    dst: LinearLayout,
    element_bits: int,
    banks: Banks = BANKS,
    head: Sequence[int] = (),
) -> LinearLayout:
    """Return a shared layout for wide vectors that store `src` and load `dst`.

    There are no bank conflicts on either side.

    The vectors begin with `head`, which the registers of `src` walk and its threads do not. That
    can cost bank conflicts, on the load, where threads that walk it do not share a wavefront.
    """
    if banks.simd_width > 1 and not head:
        return simd_layout(src, (dst,), banks.simd_width)
    widest = log2_of(max(1, banks.vector_bits // element_bits), "the elements of a vector")
    line = log2_of(banks.line_bits // element_bits, "the elements of a line")
    word = log2_of(max(1, banks.word_bits // element_bits), "the elements of a word")
    space = f2.units(bits_of(src.outs))
    store, load = _Side.of(src), _Side.of(dst.transpose_outs(*src.out_dims))

    def together(side: _Side, vector: int) -> list[int]:
        """Return the space walked by lanes that share a wavefront."""
        return f2.basis(side.lanes[: max(0, line - max(vector, word))])

    threads = f2.basis(store.threads + load.threads)
    common = _apart(f2.intersection(store.registers, load.registers), threads)
    alike = next((n for n, unit in enumerate(head) if f2.extend(common, [unit])), len(head))
    vector = [*head[:alike]]
    if alike == len(head):
        vector += f2.extend(head, common)[: widest - len(head)]

    def widened(wide: _Side, narrow: _Side) -> tuple[list[int], _Side, _Side]:
        """Return the vectors that `wide` can add to its own, as lanes of `narrow` walk them."""
        walked = f2.intersection(wide.registers, together(narrow, len(vector)))
        return _apart(walked, wide.threads)[: widest - len(vector)], wide, narrow

    if alike < len(head):
        more, wide, narrow = [*head[alike:]], store, load
    else:
        choices = widened(load, store), widened(store, load)
        more, wide, narrow = max(choices, key=lambda choice: len(choice[0]))
    # The rest of the space. Threads walk it without leaving the start of their vectors.
    rest = threads + f2.extend([*vector, *threads], space)
    rest = wide.threads + f2.extend([*more, *wide.threads], rest)
    in_word = rest[: max(0, word - len(vector) - len(more))]
    # Two accesses of a bank conflict if they differ by lines, and else by positions in a vector or
    # a word at most. The part of the wide side's vectors that the narrow side's lanes walk is
    # within a line.
    same_word = [*vector, *more, *in_word][:word]
    lines = f2.common_complement(
        f2.intersection([*same_word, *together(narrow, len(vector))], rest),
        f2.basis([*in_word, *together(wide, len(vector) + len(more))]),
        within=rest,
    )
    bank = f2.extend([*in_word, *lines], rest)
    offsets = (*vector, *more, *in_word, *bank, *lines)
    return LinearLayout(((OFFSET, offsets),), src.outs)


def _apart(space: list[int], other: list[int]) -> list[int]:
    """Return a largest subspace of a space that intersects another only in 0."""
    return f2.extend(f2.intersection(space, other), space)


THREAD = (REGISTER, LANE, WARP)


@dataclass(frozen=True)
class Renaming:
    """A conversion in which each register takes the value of a register of the same thread."""

    registers: tuple[int, ...]


Conversion = Renaming | ShufflePlan | SharedConversion


def plan_conversion(
    src: LinearLayout,
    dst: LinearLayout,
    element_bits: int,
    *,
    shuffles: bool = True,
    has_ldmatrix: bool = False,
    has_stmatrix: bool = False,
    banks: Banks = BANKS,
) -> Conversion:
    """Plan the cheapest conversion of `element_bits` (8, 16, 32, 64) elements from `src` to `dst`.

    Both are surjective layouts of (register, lane, warp, block), any of which may be left out.
    `shuffles`, `has_ldmatrix` (ldmatrix) and `has_stmatrix` (stmatrix) say which instructions the
    target has. Raises `LayoutError` for layouts of different tiles or different numbers of lanes,
    warps or blocks, and where elements move between blocks.
    """
    require(element_bits in (8, 16, 32, 64), f"elements have 8 to 64 bits, not {element_bits}")
    src, dst = distributed(src), distributed(dst)
    for name in (LANE, WARP, BLOCK):
        both = src.in_size(name), dst.in_size(name)
        require(both[0] == both[1], f"a conversion keeps the {name}s, and does not make {both}")
    pull = src.invert_and_compose(dst)
    renamed = pull.quotient(LANE, WARP, BLOCK)
    if renamed is not None:
        return Renaming(tuple(renamed.table()[REGISTER].tolist()))
    in_block = pull.quotient(BLOCK)
    if in_block is None:
        raise LayoutError(f"elements of {src} would have to change blocks to become {dst}")
    src, dst = src.select_ins(*THREAD), dst.select_ins(*THREAD)
    if shuffles and in_block.select_outs(WARP).is_identity_on(WARP):
        return by_shuffles(src, dst, element_bits)
    if not (src.is_surjective() and dst.is_surjective()):
        raise LayoutError(f"a block does not hold all of {src}, which shared memory takes whole")
    return through_shared(
        src,
        dst,
        element_bits,
        banks,
        has_ldmatrix=has_ldmatrix,
        has_stmatrix=has_stmatrix,
    )


def distributed(layout: LinearLayout) -> LinearLayout:
    """Return the layout with inputs (register, lane, warp, block), in this order."""
    every = (*THREAD, BLOCK)
    others = [name for name in layout.in_dims if name not in every]
    if others:
        raise LayoutError(f"registers, lanes, warps and blocks hold a tile, but not {others}")
    images = dict(layout.ins)
    return LinearLayout(tuple((name, images.get(name, ())) for name in every), layout.outs)
