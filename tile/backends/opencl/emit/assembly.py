"""Helper functions in inline PTX, which NVIDIA's OpenCL C compiler accepts in `__asm__` statements.

NVIDIA's OpenCL has no sub-groups, no asynchronous copies by single work-items and no warp
reductions. Its instruction set has all three ("PTX ISA", section "Instruction set"). 32 adjacent
work-items are a warp. All lanes of a warp take part in shuffles and reductions: the member mask
is -1.
"""

from __future__ import annotations

from collections.abc import Iterator

from tile.backends.opencl.capabilities import COPIES, LANE_REDUCTIONS, ROUNDING, SHUFFLES
from tile.backends.opencl.emit.library import Entry
from tile.ir.ops.reduce import ReduceKind


def _shuffle(name: str, lane: str, mode: str) -> Iterator[tuple[str, Entry]]:
    """Yield a shuffle of 32-bit words, and one of 64-bit values as two such words."""
    text = f"""
uint {name}(uint x, uint {lane}) {{
  uint result;
  __asm__ volatile("shfl.sync.{mode}.b32 %0, %1, %2, 31, -1;" : "=r"(result) : "r"(x), "r"({lane}));
  return result;
}}"""
    yield name, Entry(text.strip("\n"), assembly=SHUFFLES)
    both = f"(uint2)({name}(parts.x, {lane}), {name}(parts.y, {lane}))"
    text = f"""
ulong {name}_64(ulong x, uint {lane}) {{
  uint2 parts = as_uint2(x);
  return as_ulong({both});
}}"""
    yield f"{name}_64", Entry(text.strip("\n"), (name,), SHUFFLES)


_INSTRUCTIONS = {
    ReduceKind.SUM: "add",
    ReduceKind.MAX: "max",
    ReduceKind.MIN: "min",
    ReduceKind.AND: "and",
    ReduceKind.OR: "or",
    ReduceKind.XOR: "xor",
}


def reduction(kind: ReduceKind, signed: bool) -> str:
    """Return the name of the helper that reduces 32-bit integers over all lanes of a warp."""
    if kind in (ReduceKind.MAX, ReduceKind.MIN):
        return f"lane_{_INSTRUCTIONS[kind]}_{'s' if signed else 'u'}32"
    return f"lane_{_INSTRUCTIONS[kind]}_{'u32' if kind is ReduceKind.SUM else 'b32'}"


def _reductions() -> Iterator[tuple[str, Entry]]:
    for kind in _INSTRUCTIONS:
        for name in dict.fromkeys((reduction(kind, False), reduction(kind, True))):
            _, operator, suffix = name.split("_")
            text = f"""
uint {name}(uint x) {{
  uint result;
  __asm__ volatile("redux.sync.{operator}.{suffix} %0, %1, -1;" : "=r"(result) : "r"(x));
  return result;
}}"""
            yield name, Entry(text.strip("\n"), assembly=LANE_REDUCTIONS)


def _rounded() -> Iterator[tuple[str, Entry]]:
    """Yield f32 division and square root that round to nearest regardless of build options."""
    for name, operands in (("div", "xy"), ("sqrt", "x")):
        parameters = ", ".join(f"float {x}" for x in operands)
        registers = ", ".join(f"%{number}" for number in range(1 + len(operands)))
        inputs = ", ".join(f'"f"({x})' for x in operands)
        text = f"""
float {name}_rn_f32({parameters}) {{
  float result;
  __asm__("{name}.rn.f32 {registers};" : "=f"(result) : {inputs});
  return result;
}}"""
        yield f"{name}_rn_f32", Entry(text.strip("\n"), assembly=ROUNDING)


def _copies() -> Iterator[tuple[str, Entry]]:
    """Yield copies of 4, 8 and 16 bytes, each also with a condition that writes zeros if false.

    Only a copy of 16 bytes can bypass the L1 cache (`.cg`), and it does.
    """
    for size in (4, 8, 16):
        cache = "cg" if size == 16 else "ca"
        condition, source_size = ", bool in_bounds", f', "r"(in_bounds ? {size} : 0)'
        for name, parameter, register, operand in (
            (f"async_copy_{size}", "", "", ""),
            (f"async_copy_{size}_if", condition, ", %2", source_size),
        ):
            text = f"""
void {name}(__local void *to, __global const void *from{parameter}) {{
  __asm__ volatile("cp.async.{cache}.shared.global [%0], [%1], {size}{register};"
               : : "r"((uint)(size_t)to), "l"((ulong)from){operand} : "memory");
}}"""
            yield name, Entry(text.strip("\n"), assembly=COPIES)
    text = """
void async_commit(void) {
  __asm__ volatile("cp.async.commit_group;" : : : "memory");
}"""
    yield "async_commit", Entry(text.strip("\n"), assembly=COPIES)
    text = """
#define async_wait(pending) __asm__ volatile("cp.async.wait_group " #pending ";" : : : "memory")"""
    yield "async_wait", Entry(text.strip("\n"), assembly=COPIES)


ASSEMBLY: dict[str, Entry] = dict(
    [
        *_shuffle("lane_shuffle", "lane", "idx"),
        *_shuffle("lane_shuffle_xor", "mask", "bfly"),
        *_reductions(),
        *_rounded(),
        *_copies(),
    ]
)
"""The helper functions by name."""
