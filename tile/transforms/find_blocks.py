"""Find the blocks of arrays that pointers address, so that they may be copied by TMA.

See `tile.analysis.pointer_blocks` for what is proven.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from tile.analysis.dot_tiles import feeds_dot
from tile.analysis.index_forms import IndexForms, NoFormError, Remainder
from tile.analysis.pointer_blocks import PointerBlock, PointerBlocks
from tile.analysis.polynomial import Polynomial
from tile.ir.builder import Builder
from tile.ir.core import Function, Operation, Value
from tile.ir.module import Module
from tile.ir.op_definition import OpDef, Trait
from tile.ir.ops import arith, descriptor, memory, shape
from tile.ir.ops.descriptor import block_pointers_of
from tile.ir.passes import module_pass
from tile.ir.types import I32, I64, Scalar, Tile
from tile.tracebacks import warn
from tile.transforms.canonicalize import canonicalize
from tile.transforms.cse import cse
from tile.transforms.dce import dce, dependences
from tile.transforms.licm import licm


@module_pass("find-blocks")
def find_blocks(
    module: Module,
    *,
    pointer_blocks: bool = False,
    warn_unproven: bool = False,
    without_dots: bool = False,
    least_bytes: int = 0,
    simplify: bool = True,
) -> None:
    """State which loads and stores through pointers access a block of an array, as descriptors do.

    Loads and stores through `descriptor_pointers` may be done by TMA. The operation is the
    identity, so the kernel computes the same without TMA. Of a tile whose first axis is contiguous,
    the transpose is loaded or stored. Blocks of more axes than the tile has, as those of an array
    of matrices, are reshaped. Of vectors, those that a loop loads for its dots are stated. Unless
    `without_dots`, kernels without dots stay as they are, and loads do if none of a loop for its
    dots is proven: TMA pays in loops whose operands it loads, and for results, which go through
    shared memory. Where others are not proven, which threads copy, the proven ones have to be of
    `least_bytes`, and others may not depend on what their loop loads. Off unless `pointer_blocks`,
    which targets with TMA and wgmma set unless the launch option `tma` names other uses. With
    `warn_unproven`, which `tma="pointers"` sets, a warning says why a load in a loop with its dot
    is not proven.

        %p = addptr %rows, %columns {stride = 2} : tile<64x32xptr<f16>>
        %x = load %p, %inside, %zero : tile<64x32xf16>

    becomes, if the rows start at `%i` and the columns at `%k`, and the mask is of an array of
    `%M` x `%K` elements with a stride of `%s`:

        %q = descriptor_pointers %p, %a, %M, %K, %s, %i, %k : tile<64x32xptr<f16>>
        %x = load %q, %inside, %zero : tile<64x32xf16>
    """
    if not pointer_blocks:
        return
    kernels = [function for function in module if function.kernel]
    changed = [
        _state_blocks(function, warn_unproven, without_dots, least_bytes) for function in kernels
    ]
    if any(changed) and simplify:
        for clean in (canonicalize, cse, licm, dce):
            clean(module)


def _state_blocks(
    function: Function, warn_unproven: bool, without_dots: bool, least_bytes: int
) -> bool:
    """State the blocks of a kernel's loads and stores; return True if there are some."""
    if not (without_dots or any(op.has_trait(Trait.DOT) for op in function.walk())):
        return False
    accesses = [op for op in function.walk() if op.defn in (memory.load, memory.store)]
    operands = {op for op in accesses if _is_loaded_for_dot(op) and block_pointers_of(op) is None}
    blocks = PointerBlocks(function)
    proven: list[tuple[Operation, PointerBlock]] = []
    for op in accesses:
        if block_pointers_of(op) is None and (op in operands or op["ptr"].type.rank > 1):
            try:
                proven.append((op, blocks.of(op)))
            except NoFormError as reason:
                if warn_unproven and op in operands:
                    warn(f"this load is not proven to be that of a TMA block: {reason}", op.loc)
    if not (without_dots or _pays(operands, {op for op, _ in proven}, least_bytes)):
        proven = [(op, block) for op, block in proven if op.defn is memory.store]
    for op, block in proven:
        _state(op, block, blocks.forms)
    return bool(proven)


def _pays(operands: set[Operation], proven: set[Operation], least_bytes: int) -> bool:
    """Return True if TMA loads enough of the operands of dots; threads copy those not proven."""
    by_tma, by_threads = operands & proven, operands - proven
    if not by_threads:
        return bool(operands)
    tiles = [op.result.type for op in by_tma]
    size = sum(ty.of.bytes_of(ty.numel) for ty in tiles if isinstance(ty, Tile))
    return bool(by_tma) and size >= least_bytes and not any(map(_is_indirect, by_threads))


def _is_indirect(load: Operation) -> bool:
    """Return True if the address of a load depends on what its loop loads."""
    ops, _ = dependences(load.inputs, ())
    return any(op.defn is memory.load and op.block is load.block for op in ops)


def _is_loaded_for_dot(op: Operation) -> bool:
    return op.defn is memory.load and op.in_loop and feeds_dot(op.result)


def _state(op: Operation, block: PointerBlock, forms: IndexForms) -> None:
    """Make an access one through `descriptor_pointers`."""
    build = Builder.before(op)
    emit = _Emitter(build, forms, op)
    extents = [emit.number(axis.extent, I32) for axis in block.axes]
    strides = [emit.number(axis.stride, I64) for axis in block.axes[:-1]]
    starts = [emit.number(axis.start, I32) for axis in block.axes]
    operands = [None if value is None else _as_block(build, value, block) for value in op.operands]
    numbers = (*extents, *strides, *starts)
    at = op.defn.positions["ptr"]
    operands[at] = build(descriptor.descriptor_pointers, operands[at], block.base, *numbers)
    new = build.op(op.defn, *operands, **op.attributes)
    rank = op["ptr"].type.rank
    op.replace_by([_as_tile(build, value, block, rank) for value in new.results])


def _as_block(build: Builder, tile: Value, block: PointerBlock) -> Value:
    """Return an operand of an access with the axes of the block."""
    if block.transposed:
        tile = build(shape.trans, tile, order=(1, 0))
    for _ in block.axes[tile.type.rank :]:
        tile = build(shape.expand_dims, tile, axis=-tile.type.rank - 1)
    return tile


def _as_tile(build: Builder, loaded: Value, block: PointerBlock, rank: int) -> Value:
    """Return a loaded block with the axes of the tile."""
    if len(block.axes) > rank:
        loaded = build(shape.reshape, loaded, shape=loaded.type.shape[-rank:])
    return build(shape.trans, loaded, order=(1, 0)) if block.transposed else loaded


class _Emitter:
    """Computes polynomials by scalar operations before an access, or takes what is computed."""

    def __init__(self, build: Builder, forms: IndexForms, op: Operation) -> None:
        self.build = build
        self.forms = forms
        self.scalars = {
            (form.polynomial, value.type): value
            for value, form in forms.computed()
            if not isinstance(value.type, Tile) and value.dominates(op)
        }

    def number(self, polynomial: Polynomial, ty: Scalar) -> Value:
        """Return a polynomial as a scalar of a type, which wraps."""
        computed = self.scalars.get((polynomial, ty))
        if computed is not None:
            return computed
        terms = [self.term(m, n, ty) for m, n in polynomial.terms]
        return self.combined(arith.add, terms) if terms else self.build.constant(0, ty)

    def term(self, monomial: tuple[int, ...], number: int, ty: Scalar) -> Value:
        operands = [self.atom(atom, ty) for atom in monomial]
        if number != 1 or not operands:
            wrapped = (number - ty.min_value) % (1 << ty.bits) + ty.min_value
            operands.append(self.build.constant(wrapped, ty))
        return self.combined(arith.mul, operands)

    def atom(self, number: int, ty: Scalar) -> Value:
        atom = self.forms.atoms[number]
        if isinstance(atom, Remainder):
            parts = (atom.dividend, atom.divisor)
            value = self.build(arith.rem, *[self.number(part, I32) for part in parts])
        else:
            assert isinstance(atom, Value)
            value = atom
        return value if value.type == ty else self.build(arith.cast, value, to=ty)

    def combined(self, defn: OpDef, values: Iterable[Value]) -> Value:
        return reduce(lambda x, y: self.build(defn, x, y), values)
