"""Clusters of CTAs: their barrier and numbers, arrives on mbarriers of two, multicast TMA loads.

The kernel asks for the size of its cluster when it runs, so that it also runs without clusters. An
address in the shared memory of the other CTA is that of one's own memory, mapped to its rank
(`mapa`). (PTX ISA, "barrier.cluster", "mapa", "cp.async.bulk.tensor" with `.multicast::cluster`.)
"""

from __future__ import annotations

from tile.backends.nvptx.emit.elect import elect_one
from tile.backends.nvptx.emit.function_builder import FunctionBuilder
from tile.backends.nvptx.emit.inline_asm import assemble
from tile.backends.nvptx.emit.memory import SHARED
from tile.backends.nvptx.emit.registers import special
from tile.backends.nvptx.emit.shared import MEMORY
from tile.backends.nvptx.emit.tma import (
    MBARRIER_BYTES,
    copy_by_tma,
    first_warp,
    load_text,
    mbarrier_address,
    pointer_of,
    strips_of,
    tensor_map_of,
)
from tile.codegen.llvm.function_builder import THREAD, Rule
from tile.codegen.llvm.types import llvm_type
from tile.ir.core import Operation
from tile.ir.op_definition import OpDef
from tile.simt import ops
from tile.simt.ops.cluster import EXCHANGE_STAGES, PAIR

_BOTH = (1 << PAIR) - 1  # a bit for each CTA that multicast writes to


def cluster_size(builder: FunctionBuilder, op: Operation) -> None:
    """Read the number of CTAs in the cluster; a launch without clusters has clusters of one."""
    builder.set(op, [special(builder, "cluster.nctarank")])


def cluster_arrive(builder: FunctionBuilder, op: Operation) -> None:
    """Arrive by each thread; a relaxed arrive needs no fence of all memory."""
    text = "barrier.cluster.arrive.release;"
    if op["relaxed"]:
        text = "fence.mbarrier_init.release.cluster; barrier.cluster.arrive.relaxed;"
    assemble(builder, text, [], [], memory=True, convergent=True)


def cluster_wait(builder: FunctionBuilder, op: Operation) -> None:
    """Wait in each thread until all threads of the cluster have arrived that have not exited."""
    assemble(builder, "barrier.cluster.wait.acquire;", [], [], memory=True, convergent=True)


def cluster_exchange_init(builder: FunctionBuilder, op: Operation) -> None:
    """Initialize the mbarriers by one thread: each expects an arrive, and bytes."""
    address = builder.buffers[op["mem"]]
    text = [
        f"mbarrier.init.shared::cta.b64 [$1+{address.offset + MBARRIER_BYTES * stage}], 1"
        for stage in range(EXCHANGE_STAGES)
    ]
    operands = [("i1", first_warp(builder, None)), (SHARED, pointer_of(builder, address))]
    elect_one(builder, text, operands, op)


def cluster_exchange(builder: FunctionBuilder, op: Operation) -> None:
    """Write by one thread for each CTA, to the stage of this exchange, and wait for all CTAs.

    The writes complete bytes of the CTA's mbarrier. That orders no accesses of global memory, for
    which barriers of the cluster would wait. LLVM keeps the count of exchanges in a register.
    """
    _, *values = op.inputs
    size, results = op["size"], len(op.results)
    types = [llvm_type(value.type.element) for value in values]
    bits = values[0].type.element.bits
    stride = len(values) * bits // 8  # bytes of a program
    address = builder.buffers[op["mem"]]
    bars, data = address.offset, address.offset + EXCHANGE_STAGES * MBARRIER_BYTES
    own, thread, count = (f"${results + number}" for number in range(3))
    store = f"st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b{bits}"
    lines = [
        "{ .reg .pred p; .reg .b32 s, m, d, n, r;",
        f"bar.sync 0; and.b32 s, {count}, {EXCHANGE_STAGES - 1};",
        f"mad.lo.u32 m, s, {MBARRIER_BYTES}, {own}; mad.lo.u32 d, s, {size * stride}, {own};",
        f"setp.eq.u32 p, {thread}, 0;",
        f"@p mbarrier.arrive.expect_tx.shared::cta.b64 _, [m+{bars}], {size * stride};",
        f"setp.lt.u32 p, {thread}, {size};",
        f"mov.u32 r, %cluster_ctarank; mad.lo.u32 r, r, {stride}, d;",
        f"@p mapa.shared::cluster.u32 r, r, {thread};",
        f"@p mapa.shared::cluster.u32 n, m, {thread}; add.u32 n, n, {bars};",
    ]
    for number in range(len(values)):
        at = data + number * bits // 8
        lines.append(f"@p {store} [r+{at}], ${results + 3 + number}, [n];")
    lines += [
        f"shr.u32 s, {count}, {EXCHANGE_STAGES.bit_length() - 1}; and.b32 s, s, 1;",
        f"again: mbarrier.try_wait.parity.shared::cta.b64 p, [m+{bars}], s; @!p bra again;",
    ]
    for number in range(results):
        value, rank = divmod(number, size)
        at = data + rank * stride + value * bits // 8
        lines.append(f"ld.shared.b{bits} ${number}, [d+{at}];")
    variable = builder.name()
    builder.entry_lines.append(f"  {variable} = alloca i32")
    builder.entry_lines.append(f"  store i32 0, ptr {variable}")
    done = builder.new_unique(f"load i32, ptr {variable}")
    operands = [(SHARED, pointer_of(builder, address)), ("i32", THREAD), ("i32", done)]
    operands += [(ty, builder.scalar(value)) for ty, value in zip(types, values, strict=True)]
    registers = assemble(
        builder,
        " ".join([*lines, "}"]),
        [ty for ty in types for _ in range(size)],
        operands,
        memory=True,
        convergent=True,
        early_clobber=True,
    )
    builder.do(f"store i32 {builder.new_unique(f'add i32 {done}, 1')}, ptr {variable}")
    for result, register in zip(op.results, registers, strict=True):
        builder.values[result] = [register]


def mbarrier_arrive_pair(builder: FunctionBuilder, op: Operation) -> None:
    """Arrive by one thread of each warp, once here and once at the peer, or here again.

    The arrive has the default semantics, which need no fence of the GPU: what it releases has been
    read, and is written by TMA only.
    """
    address = mbarrier_address(builder, op)
    builder.call("@llvm.nvvm.bar.warp.sync", "void", ("i32", "-1"))
    here = builder.new(f"ptrtoint {SHARED} {MEMORY} to i32")
    paired = builder.scalar(op["paired"])
    remote = builder.new(f"select i1 {paired}, i32 {_peer_memory(builder)}, i32 {here}")
    if address.base != "0":
        remote = builder.new(f"add i32 {remote}, {address.base}")
    lines = [
        f"mbarrier.arrive.shared::cta.b64 _, [$1+{address.offset}]",
        f"mbarrier.arrive.shared::cluster.b64 _, [$2+{address.offset}]",
    ]
    own = pointer_of(builder, address)
    elect_one(builder, lines, [("i1", "true"), (SHARED, own), ("i32", remote)], op)


def _peer_memory(builder: FunctionBuilder) -> str:
    """Return the address of the peer's shared memory, which is computed once."""
    name = "@llvm.nvvm.read.ptx.sreg.cluster.ctarank"
    builder.module.declare(name, f"declare i32 {name}()")
    rank = builder.in_prologue(f"call i32 {name}()")
    other = builder.in_prologue(f"xor i32 {rank}, 1")
    mapa = "mapa.shared::cluster.u32 $0, $1, $2;"
    return builder.in_prologue(f'call i32 asm "{mapa}", "=r,r,r"({SHARED} {MEMORY}, i32 {other})')


def tma_load_multicast(builder: FunctionBuilder, op: Operation) -> None:
    """Emit an instruction for each TMA box of the half that this CTA loads."""
    strips = strips_of(op)
    split = strips.split
    assert split is not None, f"{op['mem'].type} has no split"
    mbarrier = mbarrier_address(builder, op)
    rank = special(builder, "cluster.ctarank")
    second = builder.new(f"and i32 {rank}, 1")
    shift = builder.new(f"mul i32 {second}, {split.middle}")
    buffer = builder.new(
        f"getelementptr i8, {SHARED} {pointer_of(builder, builder.buffers[op['mem']])}, i32 {shift}"
    )
    _, _, index, _ = ops.tma.array_operands(op)
    first = [builder.scalar(value) for value in index]
    boxes = []
    for low, high in split.pairs:
        start = []
        for value, ours, theirs in zip(first, low.start, high.start, strict=True):
            moved = builder.new(f"add i32 {value}, {ours}") if ours else value
            if theirs != ours:
                more = builder.new(f"mul i32 {second}, {theirs - ours}")
                moved = builder.new(f"add i32 {moved}, {more}")
            start.append(moved)
        boxes.append((low.byte, start))
    copy_by_tma(
        builder,
        op,
        load_text(mbarrier, multicast=".multicast::cluster", operands=", $4"),
        first_warp(builder, op["active"]),
        tensor_map_of(op, strips, split.box_dim),
        boxes,
        ((SHARED, pointer_of(builder, mbarrier)), ("i16", str(_BOTH))),
        buffer=buffer,
    )


RULES: dict[OpDef, Rule] = {
    ops.cluster.cluster_size: cluster_size,
    ops.cluster.cluster_arrive: cluster_arrive,
    ops.cluster.cluster_wait: cluster_wait,
    ops.cluster.cluster_exchange_init: cluster_exchange_init,
    ops.cluster.cluster_exchange: cluster_exchange,
    ops.cluster.mbarrier_arrive_pair: mbarrier_arrive_pair,
    ops.cluster.tma_load_multicast: tma_load_multicast,
}
