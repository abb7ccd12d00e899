"""Operations of one thread among those of its warp and program.

A scalar here is a register of each thread; a fragment is several: the thread's part of a tile.
Offsets into a buffer count elements, in the order of the buffer's layout.
"""

from __future__ import annotations

from tile.ir.core import Operation, Value
from tile.ir.declare import shared_op, thread_op
from tile.ir.extents import is_power_of_two
from tile.ir.op_definition import Effect, Trait
from tile.ir.ops.debug import unpadded
from tile.ir.ops.memory import CacheModifier, Eviction, pointee
from tile.ir.ops.reduce import EXTREMES, ReduceKind
from tile.ir.shared_type import Shared
from tile.ir.types import (
    F32,
    I1,
    I32,
    I64,
    U32,
    Fragment,
    Pointer,
    Scalar,
    Type,
    require,
    with_element,
)
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops.shared import buffer


def fragment(name: str, x: Type) -> Fragment:
    """Return the type of a fragment; raise for another type."""
    require(isinstance(x, Fragment), f"{name} takes a fragment, not {x}")
    assert isinstance(x, Fragment)
    return x


@thread_op(examples=("%t = thread_id : i32",))
def thread_id(*, no_cse: bool = False) -> Type:
    """Return the number of this thread in its program: lane + lanes of a warp * warp.

    With `no_cse`, emitters do not reuse an earlier computation of it (no CSE).
    """
    return I32


@thread_op(
    examples=(
        "%i = layout_index {layout = #linear{register = [[1]], lane = [[2],[4]], warp = [[0]] "
        "-> dim0 = 8}} : frag<2xi32>",
    ),
)
def layout_index(*, layout: LinearLayout, no_cse: bool = False) -> Type:
    """Return the image of each register of this thread under a layout of (register, lane, warp).

    The outputs are packed in one number, the last one lowest (row-major). A layout of (lane, warp)
    alone gives a scalar. `no_cse` is as for `thread_id`.
    """
    dims = ("register", "lane", "warp")
    require(
        set(layout.in_dims) <= {*dims} and {"lane", "warp"} <= set(layout.in_dims),
        f"layout_index takes a layout of register, lane and warp, not {list(layout.in_dims)}",
    )
    if "register" not in layout.in_dims:
        return I32
    return Fragment(layout.in_size("register"), I32)


@thread_op(
    examples=(
        "%x: i64 | %y = opaque %x : i64",
        "%p: frag<4xptr<f32>> | %q = opaque %p : frag<4xptr<f32>>",
    ),
)
def opaque(x: Type) -> Type:
    """Return `x` as a value of which the compilers behind an emitter know nothing.

    They then neither fold it into the operations that use it, nor compute it in another way.
    """
    require(
        isinstance(x.element, Pointer) or x.element in (I32, I64),
        f"opaque takes pointers, i32 or i64, not {x}",
    )
    return x


@thread_op(
    semantics=lambda ptr, offset: ptr + offset,
    examples=("%p: frag<4xptr<f32>>, %o: frag<4xi64> | %q = ptradd %p, %o : frag<4xptr<f32>>",),
)
def ptradd(ptr: Type, offset: Type) -> Type:
    """Advance a pointer by `offset` bytes."""
    pointee("ptradd", ptr)
    require(offset == with_element(ptr, I64), f"ptradd on {ptr} takes no offset of {offset}")
    return ptr


@thread_op(examples=("%x: f32 | %r = frag_splat %x {count = 4} : frag<4xf32>",))
def frag_splat(x: Type, *, count: int) -> Type:
    """Return a fragment every register of which is the scalar `x`."""
    require(not isinstance(x, Fragment), f"frag_splat takes a scalar, not {x}")
    return Fragment(count, x.element)


def splatted(value: Value) -> Value | None:
    """Return the scalar that all registers of a value hold; None unless it is one or a splat."""
    if not isinstance(value.type, Fragment):
        return value
    op = value.op
    return op.inputs[0] if op is not None and op.defn is frag_splat else None


@thread_op(
    examples=(
        "%x: frag<4xf32> | %r = frag_shuffle %x {registers = (2, 0)} : frag<2xf32>",
        "%x: frag<16xf32> | %r = frag_shuffle %x {registers = linear[2, 4, 8, 1]} : frag<16xf32>",
        "%x: frag<1xf32>, %y: frag<1xf32> | %r = frag_shuffle %x, %y {registers = (0, 1)} : "
        "frag<2xf32>",
    ),
)
def frag_shuffle(*xs: Type, registers: tuple[int, ...]) -> Type:
    """Return registers of fragments; registers are numbered consecutively over all fragments."""
    require(len(xs) > 0, "frag_shuffle takes at least one fragment")
    first = fragment("frag_shuffle", xs[0])
    for x in xs:
        require(
            x.element == first.of,
            f"frag_shuffle takes fragments of one element, not {first} and {x}",
        )
    total = sum(fragment("frag_shuffle", x).count for x in xs)
    require(
        not registers or (min(registers) >= 0 and max(registers) < total),
        f"frag_shuffle of {total} registers takes numbers from 0 to {total - 1}, not {registers}",
    )
    return Fragment(len(registers), first.of)


@thread_op(examples=("%x: frag<4xf32>, %i: frag<2xi32> | %r = frag_gather %x, %i : frag<2xf32>",))
def frag_gather(x: Type, index: Type) -> Type:
    """Return registers of a fragment by numbers computed by this thread, which must be in range."""
    require(index.element == I32, f"frag_gather takes an index of i32, not {index}")
    return Fragment(fragment("frag_gather", index).count, fragment("frag_gather", x).of)


@thread_op(examples=("%x: frag<4xf32> | %r = frag_extract %x {register = 2} : f32",))
def frag_extract(x: Type, *, register: int = 0) -> Type:
    """Return one register of a fragment as a scalar."""
    count = fragment("frag_extract", x).count
    require(0 <= register < count, f"{x} has no register {register}")
    return x.element


@thread_op(examples=("%x: frag<4xf32>, %l: i32 | %r = shuffle_idx %x, %l : frag<4xf32>",))
def shuffle_idx(x: Type, lane: Type) -> Type:
    """Return `x` of lane `lane` of this warp. All lanes of the warp take part."""
    require(lane == I32, f"shuffle_idx takes a lane of type i32, not {lane}")
    return x


@thread_op(examples=("%x: frag<4xf32> | %r = shuffle_xor %x {mask = 1} : frag<4xf32>",))
def shuffle_xor(x: Type, *, mask: int) -> Type:
    """Return `x` of the lane whose number differs in the bits of `mask`."""
    require(mask >= 0, f"shuffle_xor takes a mask of lane bits, not {mask}")
    return x


@thread_op(examples=("%x: frag<2xi32> | %r = warp_reduce %x {kind = sum} : frag<2xi32>",))
def warp_reduce(x: Type, *, kind: ReduceKind, propagate_nan: bool = False) -> Type:
    """Reduce `x` over all lanes of this warp; each of them takes part and gets the result.

    `propagate_nan` is for the extrema of floats, as in `max` and `min`.
    """
    floats = isinstance(x.element, Scalar) and x.element.is_floating()
    allowed = EXTREMES if floats else _OF_INTEGERS
    require(
        x.element in (I32, U32, F32) and kind in allowed,
        f"warp_reduce has no {kind} of {x.element}",
    )
    return x


_OF_INTEGERS = (*EXTREMES, ReduceKind.SUM, ReduceKind.AND, ReduceKind.OR, ReduceKind.XOR)


def _vectors(name: str, offset: Type, value: Fragment, vector: int) -> None:
    require(
        is_power_of_two(vector) and value.count % vector == 0,
        f"{name} of {value} takes vectors of a power of two registers, not of {vector}",
    )
    required = Fragment(value.count // vector, I32)
    require(
        offset == required,
        f"{name} of {value} in vectors of {vector} takes offsets {required}, not {offset}",
    )


def _mask(name: str, offset: Type, mask: Type | None) -> None:
    require(
        mask in (None, with_element(offset, I1)),
        f"{name} takes a mask of {with_element(offset, I1)}, one for each vector, not {mask}",
    )


_MEM = "%m: shared<8xf32, #linear{offset = [[1],[2],[4]] -> dim0 = 8}>"
_ROWS = "%m: shared<64xf16, #linear{offset = [[1],[2],[4],[8],[16],[32]] -> dim0 = 64}>"


@shared_op(
    traits={Trait.READS_SHARED},
    examples=(f"{_MEM}, %o: frag<1xi32> | %x = shared_load %m, %o {{vector = 4}} : frag<4xf32>",),
)
def shared_load(mem: Type, offset: Type, *, vector: int = 1) -> Type:
    """Read vectors of a buffer: register v * `vector` + i is the element `offset[v]` + i."""
    held = buffer("shared_load", mem)
    result = Fragment(fragment("shared_load", offset).count * vector, held.of)
    _vectors("shared_load", offset, result, vector)
    return result


def is_ldmatrix_element(ty: Type) -> bool:
    """Return True if ldmatrix loads such elements; it is not used for pointers and booleans."""
    return isinstance(ty, Scalar) and ty.bits in (8, 16, 32)


@shared_op(
    traits={Trait.READS_SHARED},
    examples=(
        f"{_ROWS}, %o: frag<1xi32> | %x = ldmatrix %m, %o : frag<8xf16>",
        f"{_ROWS}, %o: frag<2xi32> | "
        "%x = ldmatrix %m, %o {matrices = 2, transposed = true} : frag<8xf16>",
    ),
)
def ldmatrix(mem: Type, offset: Type, *, matrices: int = 4, transposed: bool = False) -> Type:
    """Read matrices of 8 rows of 16 bytes (ldmatrix); a warp of 32 lanes does it together.

    For each of the offsets it reads 1, 2 or 4 matrices. Lane l gives the offset of row l mod 8 of
    matrix l / 8, a multiple of 16 bytes; offsets of lanes beyond the last row are ignored. Of each
    matrix in order, lane l gets the four bytes number l mod 4 of row l / 4: of 16-bit elements,
    columns 2 * (l mod 4) and the next. `transposed` is for these alone: lane l gets the elements of
    column l / 4 in the rows 2 * (l mod 4) and the next.
    """
    held = buffer("ldmatrix", mem)
    return Fragment(_matrix_registers("ldmatrix", held, offset, matrices, transposed), held.of)


def _matrix_registers(
    name: str, held: Shared, offset: Type, matrices: int, transposed: bool
) -> int:
    """Return the registers of a lane for matrices of a buffer at some offsets."""
    require(
        is_ldmatrix_element(held.of),
        f"{name} takes elements of 8, 16 or 32 bits, not {held.of}",
    )
    require(
        not transposed or held.of.storage_bits == 16,
        f"{name} transposes elements of 16 bits, not {held.of}",
    )
    require(matrices in (1, 2, 4), f"{name} takes 1, 2 or 4 matrices, not {matrices}")
    rows = fragment(name, offset)
    require(rows.of == I32, f"{name} takes offsets of i32, not {offset}")
    return rows.count * matrices * (32 // held.of.storage_bits)


@shared_op(
    examples=(
        f"{_ROWS}, %o: frag<1xi32>, %x: frag<8xf16> | stmatrix %m, %o, %x",
        f"{_ROWS}, %o: frag<2xi32>, %x: frag<8xf16> | "
        "stmatrix %m, %o, %x {matrices = 2, transposed = true}",
    ),
)
def stmatrix(
    mem: Type, offset: Type, value: Type, *, matrices: int = 4, transposed: bool = False
) -> None:
    """Write matrices of 8 rows of 16 bytes (stmatrix): the inverse of `ldmatrix`."""
    held = buffer("stmatrix", mem)
    count = _matrix_registers("stmatrix", held, offset, matrices, transposed)
    required = Fragment(count, held.of)
    require(value == required, f"stmatrix of these takes {required}, not {value}")


@shared_op(
    examples=(
        f"{_MEM}, %o: frag<1xi32>, %x: frag<4xf32> | shared_store %m, %o, %x {{vector = 4}}",
    ),
)
def shared_store(
    mem: Type, offset: Type, value: Type, mask: Type | None = None, *, vector: int = 1
) -> None:
    """Write vectors to a buffer, as `shared_load` reads them, where the vector's mask is true."""
    held = buffer("shared_store", mem)
    stored = fragment("shared_store", value)
    require(stored.of == held.of, f"{mem} takes no {stored}")
    _vectors("shared_store", offset, stored, vector)
    _mask("shared_store", offset, mask)


@shared_op(
    examples=(
        "%m: shared<4xi32, #linear{offset = [[1],[2]] -> dim0 = 4}>, %o: frag<2xi32>, "
        "%c: frag<2xi1> | shared_atomic_inc %m, %o, %c",
    ),
)
def shared_atomic_inc(mem: Type, offset: Type, mask: Type | None = None) -> None:
    """Atomically add 1 to the elements of a buffer of i32 where the mask is true."""
    held = buffer("shared_atomic_inc", mem)
    require(held.of == I32, f"shared_atomic_inc counts in i32, not in {held.of}")
    require(
        fragment("shared_atomic_inc", offset).of == I32,
        f"shared_atomic_inc takes offsets of i32, not {offset}",
    )
    _mask("shared_atomic_inc", offset, mask)


@shared_op(
    examples=(
        "%m: shared<4xi32, #linear{offset = [[1],[2]] -> dim0 = 4}>, %o: frag<2xi32> | "
        "%r = shared_ordered_inc %m, %o {bits = 2} : frag<2xi32>",
    ),
)
def shared_ordered_inc(mem: Type, offset: Type, *, bits: int) -> Type:
    """Add 1 to the elements of a buffer of i32, and return the numbers before.

    The registers of a warp come one after the other, and of each its lanes; all of them take part.
    `bits` is as in `local_ordered_inc`.
    """
    held = buffer("shared_ordered_inc", mem)
    require(held.of == I32, f"shared_ordered_inc counts in i32, not in {held.of}")
    require(
        fragment("shared_ordered_inc", offset).of == I32,
        f"shared_ordered_inc takes offsets of i32, not {offset}",
    )
    require(bits >= 0, f"shared_ordered_inc compares 0 bits or more, not {bits}")
    return offset


@thread_op(
    effect=Effect.SHARED | Effect.READ,
    examples=(
        f"{_MEM}, %o: frag<1xi32>, %p: frag<4xptr<f32>>, %c: frag<1xi1>, %a: i1 | "
        "shared_cp_async %m, %o, %p, %c, %a {vector = 4}",
    ),
)
def shared_cp_async(
    mem: Type,
    offset: Type,
    ptr: Type,
    mask: Type | None = None,
    active: Type | None = None,
    *,
    vector: int = 1,
    cache: CacheModifier = CacheModifier.NONE,
    eviction: Eviction = Eviction.NONE,
) -> None:
    """Begin an async copy of vectors from global memory to a buffer; zeros where the mask is false.

    The pointers of a vector are contiguous. A thread for which `active` is false copies nothing,
    zeros neither: no two threads may copy to one offset. See `local_cp_async` for completion, and
    for the hints.
    """
    held = buffer("shared_cp_async", mem)
    require(pointee("shared_cp_async", ptr) == held.of, f"{mem} takes no copy of {ptr}")
    _vectors("shared_cp_async", offset, fragment("shared_cp_async", ptr), vector)
    _mask("shared_cp_async", offset, mask)
    require(active in (None, I1), f"shared_cp_async takes an i1 that says who copies, not {active}")


@thread_op(
    effect=Effect.OUTPUT,
    examples=(
        '%x: frag<2xf32> | thread_print %x {prefix = "x", layouts = (#linear{register = [[1]], '
        "lane = [[2]], warp = [] -> dim0 = 4})}",
    ),
)
def thread_print(
    *values: Type,
    prefix: str,
    hex: bool = False,
    bounds: tuple[Type, ...] = (),
    layouts: tuple[LinearLayout, ...] = (),
) -> None:
    """Print a text and values. The layouts map registers of fragments to tile elements.

    There is one for each fragment, in order; scalars are those of the first thread. `bounds` is as
    for `device_print`.
    """
    unpadded(values, bounds)
    count = sum(isinstance(value, Fragment) for value in values)
    require(len(layouts) == count, f"thread_print of {count} fragments takes as many layouts")


def printed_shapes(print_: Operation) -> list[tuple[int, ...]]:
    """Return the shape of the elements of each fragment that a `thread_print` prints."""
    fragments = [at for at, x in enumerate(print_.inputs) if isinstance(x.type, Fragment)]
    if print_["bounds"]:
        return [print_["bounds"][at].shape for at in fragments]
    return [layout.shape for layout in print_["layouts"]]
