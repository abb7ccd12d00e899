"""Functions in PTX, as NVIDIA's compiler of OpenCL C takes it in `__asm__` statements.

It offers no sub-groups, no copies of single work-items and no reductions of a warp's lanes, which
its instruction set all has ("PTX ISA", section "Instruction set"). 32 work-items that follow each
other are a warp. All of a warp's lanes take part in what they do together: the mask of lanes is -1.
"""

from __future__ import annotations

from collections.abc import Iterator

from tile.backends.opencl.capabilities import COPIES, LANE_REDUCTIONS, ROUNDING, SHUFFLES
from tile.backends.opencl.emit.library import Entry
from tile.ir.ops.reduce import ReduceKind


def _shuffle(name: str, lane: str, mode: str) -> Iterator[tuple[str, Entry]]:
    """Of words of 32 bits, and of 64 as two of these."""
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
    """The name of the function by which all lanes of a warp combine integers of 32 bits."""
    if kind in (ReduceKind.MAX, ReduceKind.MIN):
        return f"lane_{_INSTRUCTIONS[kind]}_{'s' if signed else 'u'}32"
    return f"lane_{_INSTRUCTIONS[kind]}_{'u32' if kind is ReduceKind.SUM else 'b32'}"


def _reductions() -> Iterator[tuple[str, Entry]]:
    for kind in _INSTRUCTIONS:
        for name in dict.fromkeys((reduction(kind, False), reduction(kind, True))):
            _, what, suffix = name.split("_")
            text = f"""
uint {name}(uint x) {{
  uint result;
  __asm__ volatile("redux.sync.{what}.{suffix} %0, %1, -1;" : "=r"(result) : "r"(x));
  return result;
}}"""
            yield name, Entry(text.strip("\n"), assembly=LANE_REDUCTIONS)


def _rounded() -> Iterator[tuple[str, Entry]]:
    """Quotients and roots of f32 to nearest, whatever the program is built with."""
    for name, operands in (("div", "xy"), ("sqrt", "x")):
        given = ", ".join(f"float {x}" for x in operands)
        places = ", ".join(f"%{number}" for number in range(1 + len(operands)))
        taken = ", ".join(f'"f"({x})' for x in operands)
        text = f"""
float {name}_rn_f32({given}) {{
  float result;
  __asm__("{name}.rn.f32 {places};" : "=f"(result) : {taken});
  return result;
}}"""
        yield f"{name}_rn_f32", Entry(text.strip("\n"), assembly=ROUNDING)


def _copies() -> Iterator[tuple[str, Entry]]:
    """Of 16 bytes past the first cache, as fewer cannot; zeros where nothing is `there`."""
    for size in (4, 8, 16):
        by = "cg" if size == 16 else "ca"
        for name, given, taken, operand in (
            (f"async_copy_{size}", "", "", ""),
            (f"async_copy_{size}_if", ", bool there", ", %2", f', "r"(there ? {size} : 0)'),
        ):
            text = f"""
void {name}(__local void *to, __global const void *from{given}) {{
  __asm__ volatile("cp.async.{by}.shared.global [%0], [%1], {size}{taken};"
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
"""By name."""
