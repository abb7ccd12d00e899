"""Whole functions and modules, and the occupancy that ptxas may assume of them.

*Programmatic dependent launch.* With the option `launch_pdl`, the programs of a launch may become
resident while the last ones of the launch before still run. They compute addresses and initialize
mbarriers; then, in front of the first operation that accesses global memory, they wait until that
launch is complete and what it wrote is visible. After that they let the next launch begin the same
way, unless the kernel says where (`launch_dependents`). So every program waits, and a launch that
is complete has waited for the one before: results are those of launches one after the other. (PTX
ISA, "griddepcontrol".)
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import accumulate

from tile.analysis.liveness import Liveness, liveness
from tile.backends.base import Options
from tile.backends.nvptx.emit import RULES
from tile.backends.nvptx.emit.function_builder import FunctionBuilder, ModuleText
from tile.backends.nvptx.emit.registers import LAUNCH_DEPENDENTS
from tile.backends.nvptx.launch_metadata import MAP_ALIGNMENT, MAP_BYTES, LaunchMetadata
from tile.backends.nvptx.target import REGISTERS, WARP, Architecture
from tile.codegen.llvm.control import function_text
from tile.codegen.llvm.function_builder import THREAD
from tile.ir.core import Function, Operation
from tile.ir.effects import effects
from tile.ir.module import Module
from tile.ir.op_definition import Effect, OpDef
from tile.ir.ops import control, memory
from tile.ir.ops.memory import Eviction
from tile.ir.ops.program import launch_dependents
from tile.ir.types import count_of
from tile.simt.memory.allocate_shared import shared_bytes
from tile.simt.ops import cluster
from tile.simt.ops.warp_specialize import warp_specialize
from tile.simt.schedule.resources import tile_registers
from tile.simt.target import SimtTarget

RESERVED_SHARED_BYTES = 1024  # of each program, from sm_80 on; CUDA programming guide
# A tensor map is read from the parameter itself, without a local copy.
_MAP = f'ptr byval([{MAP_BYTES} x i8]) align {MAP_ALIGNMENT} "nvvm.grid_constant"'


@dataclass(frozen=True)
class EmittedModule:
    """The text of an LLVM module, and what the host must know of it."""

    text: str
    metadata: LaunchMetadata
    libdevice_functions: frozenset[str]  # names of those that it calls
    has_alwaysinline: bool = False  # True if it defines functions that must be inlined


def emit_module(module: Module, arch: Architecture, options: Options) -> EmittedModule:
    """Emit the functions of a THREAD module, whose only kernel is launched."""
    shared = max(shared_bytes(module), _least_shared_bytes(options.max_programs, arch.simt))
    partitions = [op for op in module.walk() if op.defn is warp_specialize]
    producer_warps = sum(op["num_warps"] for op in partitions)
    text = ModuleText(arch, options, WARP * options.num_warps, WARP * producer_warps)
    for function in module:
        text.name_function(function)
    programs = resident_programs(module, text.threads, arch.simt)
    for function in module:
        emit_function(text, function, programs=programs)
    return EmittedModule(
        text.text(),
        LaunchMetadata(
            kernel=text.symbol(module.kernel.name)[1:],
            threads=text.all_threads,
            shared_bytes=shared,
            assertions=tuple(text.assertions),
            maps=tuple(text.maps),
            gathers=any(op.defn is cluster.cluster_exchange for op in module.walk()),
        ),
        frozenset(text.libdevice_functions),
        text.has_alwaysinline,
    )


def emit_function(text: ModuleText, function: Function, *, programs: int | None = None) -> None:
    """Emit a function, and add it to a module.

    programs: the number of programs that a multiprocessor runs at a time, at least; None if it is
        unknown.
    """
    kind = "ptx_kernel " if function.kernel else "internal "
    attributes = ["nounwind", "convergent"]
    if not function.kernel:
        attributes.append("noinline")
    else:
        attributes.append(f'"nvvm.reqntid"="{text.all_threads}"')
        if text.options.maxnreg is not None:
            attributes.append(f'"nvvm.maxnreg"="{text.options.maxnreg}"')
        elif programs is not None:
            attributes.append(f'"nvvm.minctasm"="{programs}"')
    name = "@llvm.nvvm.read.ptx.sreg.tid.x"
    text.declare(name, f"declare i32 {name}()")
    thread = f"{THREAD} = call range(i32 0, {text.all_threads}) i32 {name}()"

    def maps() -> list[str]:
        count = len(text.maps) if function.kernel else 0
        return [f"{_MAP} %map{number}" for number in range(count)]

    builder = FunctionBuilder(text, function, RULES)
    prologue = [thread]
    if function.kernel and text.dependent_launch:
        says_when = any(op.defn is launch_dependents for op in function.walk())
        overlap = (WAIT,) if says_when else (WAIT, LAUNCH_DEPENDENTS)
        first = first_access(function)
        if first is None:
            prologue += overlap
        else:
            builder.before[first] = overlap
    text.functions.append(function_text(builder, kind, attributes, prologue, maps))


# -- occupancy


def resident_programs(module: Module, threads: int, target: SimtTarget) -> int | None:
    """Return the number of programs that a multiprocessor runs at least; None to let ptxas guess.

    With a producer partition it follows from the registers that the partitions are given: ptxas
    ignores setmaxnreg unless it knows the registers at entry.
    """
    for op in module.walk():
        if op.defn is warp_specialize:
            producer, program = op["registers"]
            used: int = op["num_warps"] * WARP * producer + threads * program
            return target.register_file // used
    return 1 if _runs_alone(module, threads, target) else _enough_programs(module, threads, target)


def _least_shared_bytes(programs: int | None, target: SimtTarget) -> int:
    """Return the shared memory by which at most so many programs fit a multiprocessor."""
    if programs is None:
        return 0
    available = target.shared_bytes + RESERVED_SHARED_BYTES
    return available // (programs + 1) - RESERVED_SHARED_BYTES + 1


def _runs_alone(module: Module, threads: int, target: SimtTarget) -> bool:
    """Return True if two programs of a THREAD module cannot be co-resident, or its tiles spill.

    ptxas chooses the number of registers by a guess of the occupancy. It knows neither the dynamic
    shared memory nor that a kernel spills anyway: a kernel whose tiles exceed the registers of a
    thread got 32 registers and 4264 bytes of spill stores, and with `.minnctapersm 1` 255 registers
    and 1012 bytes (ptxas 13.0, sm_90a: 32768 f32 elements added by 128 threads).

    For other kernels the directive costs occupancy, since ptxas then stops saving registers: an
    addition of 4096 elements by 128 threads has 96 registers instead of 64.

    threads: those of a program.
    """
    program = shared_bytes(module) + RESERVED_SHARED_BYTES
    if 2 * program > target.shared_bytes + RESERVED_SHARED_BYTES:
        return True
    available = min(REGISTERS, target.register_file // threads)
    return _peak(module.kernel) > available


def _enough_programs(module: Module, threads: int, target: SimtTarget) -> int | None:
    """Return how many programs have enough loads in flight, if a later loop reads the same again.

    Caches keep what it reads (`evict_last`) if that is not of too many programs. With fewer of them
    a thread has more registers, by which ptxas issues more of its loads at once.

    None if ptxas may guess: where a multiprocessor has threads for no more programs than that, and
    where registers suffice for one only.
    """
    loads: dict[Operation, list[Operation]] = {}
    for op in module.kernel.walk():
        loop, keeps = op.parent, op.attributes.get("eviction") is Eviction.LAST
        if keeps and op.defn is memory.load and loop is not None and loop.defn is control.for_:
            loads.setdefault(loop, []).append(op)
    if not loads:
        return None
    live, tuning = liveness(module.kernel), target.tuning
    size = threads * min(sum(map(_loaded_bytes, ops)) for ops in loads.values())
    enough = max(2, -(-tuning.enough_loaded_bytes // size))
    tiles = max(1, *(_live_registers(live, live.end(ops[-1])) for ops in loads.values()))
    each = target.register_file // threads  # registers of a thread of all programs
    # A second program is worth a few spills: ptxas with all registers of two gains by itself.
    fitting = max(each // (tiles + tuning.least_other_registers), min(2, each // tiles))
    is_fewer = enough * threads * _LEAST_REGISTERS < target.register_file
    return min(enough, fitting) if is_fewer and fitting > 1 else None


_LEAST_REGISTERS = 32  # of a thread, if as many are resident as a multiprocessor has


def _loaded_bytes(load: Operation) -> int:
    """Return the bytes that a thread loads."""
    ty = load.result.type
    return int(ty.element.bytes_of(count_of(ty)))


def _live_registers(live: Liveness, number: int) -> int:
    """Return the 32-bit registers that tiles of a thread take at an operation."""
    spans = live.ranges.items()
    return sum(tile_registers(value) for value, span in spans if span.start <= number < span.end)


def _peak(function: Function) -> int:
    """Return the most 32-bit registers that a thread needs for tiles at one time."""
    changes: Counter[int] = Counter()
    for value, span in liveness(function).ranges.items():
        registers = tile_registers(value)
        changes[span.start] += registers
        changes[span.end] -= registers
    return max(accumulate(changes[number] for number in sorted(changes)), default=0)


WAIT = 'call void asm sideeffect "griddepcontrol.wait;", "~{memory}"()'

_LOCAL = Effect.SHARED | Effect.ASSUME  # effects within the program
_BARRIERS: tuple[OpDef, ...] = (memory.barrier, cluster.cluster_arrive, cluster.cluster_wait)
_NO_ACCESSES = {*_BARRIERS, memory.prefetch}


def first_access(kernel: Function) -> Operation | None:
    """Return the first operation of a kernel's body that may access global memory, or None.

    It may do so in its regions.
    """
    return next((op for op in kernel.body if _may_access(op)), None)


def _may_access(op: Operation) -> bool:
    if Effect.NESTED in op.defn.effect:
        return any(_may_access(inner) for region in op.regions for inner in region)
    return bool(effects(op) & ~_LOCAL) and op.defn not in _NO_ACCESSES and not op.defn.terminator
