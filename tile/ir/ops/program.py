"""The position of a program in its grid and on the device, its cluster, time, the next launch."""

from __future__ import annotations

from tile.ir.declare import op
from tile.ir.extents import is_power_of_two
from tile.ir.op_definition import Effect
from tile.ir.types import I32, I64, Scalar, Type, listed, require

MAX_AXES = 3
LARGEST_CLUSTER = 16
GATHERED_BITS = (32, 64)


def _axis(axis: int) -> None:
    require(0 <= axis < MAX_AXES, f"a grid has axes 0, 1 and 2, not {axis}")


@op(effect=Effect.NONE, examples=("%r = program_id {axis = 0} : i32",))
def program_id(*, axis: int) -> Type:
    """The index of this program along an axis of the grid."""
    _axis(axis)
    return I32


@op(effect=Effect.NONE, examples=("%r = num_programs {axis = 0} : i32",))
def num_programs(*, axis: int) -> Type:
    """The extent of the grid along an axis."""
    _axis(axis)
    return I32


@op(effect=Effect.NONE, examples=("%r = multiprocessor_id : i32",))
def multiprocessor_id() -> Type:
    """The number of the multiprocessor that runs this program; 0 on a device without numbers.

    It is `%smid` of the PTX ISA. The interpreter has one multiprocessor.
    """
    return I32


@op(effect=Effect.SYNC, examples=("%r = global_timer : i64",))
def global_timer() -> Type:
    """The nanoseconds of a clock that all programs of a device share.

    It is `%globaltimer` of the PTX ISA, and the host's monotonic clock on the interpreter. It never
    goes back, and its resolution is the device's. Accesses of memory stay on their side of it.
    """
    return I64


@op(effect=Effect.OUTPUT, examples=("launch_dependents",))
def launch_dependents() -> None:
    """Let the programs of the next launch become resident, once all programs have come here.

    It is `griddepcontrol.launch_dependents` of the PTX ISA, for launches with `launch_pdl`, and
    nothing for others and on other devices. It orders no accesses: the next launch waits for them.
    """


@op(
    effect=Effect.OUTPUT,
    examples=("%x: f32 | %r, %s = cluster_gather %x {size = 2} : f32, f32",),
)
def cluster_gather(*values: Type, size: int) -> tuple[Type, ...]:
    """Return the values of numbers in all programs of this one's cluster, in their order.

    Each `size` consecutive programs along axis 0 of the grid are a cluster, of which all come here
    as often. Results are those of the first number, then those of the next one. It orders no
    accesses of memory.
    """
    require(
        is_power_of_two(size) and 2 <= size <= LARGEST_CLUSTER,
        f"a cluster has 2, 4, 8 or {LARGEST_CLUSTER} programs, not {size}",
    )
    require(
        len({*values}) == 1 and isinstance(values[0], Scalar) and values[0].bits in GATHERED_BITS,
        f"cluster_gather takes numbers of one type of 32 or 64 bits, not ({listed(values)})",
    )
    return tuple(ty for ty in values for _ in range(size))
