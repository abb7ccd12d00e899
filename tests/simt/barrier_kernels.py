"""Kernels at the LAID_OUT level, written by hand, with the fewest barriers that each can have."""

from __future__ import annotations

from dataclasses import dataclass

from tile.ir.module import Module
from tile.ir.parser import parse_module
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.dims import named
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.swizzle import swizzled

LANES, WARPS = 4, 2

# Tiles of 8x8 and 64 elements, held by two warps of four lanes each.
LAYOUTS: dict[str, object] = {
    "rows": blocked([8, 8], [1, 8], [4, 1], [2, 1]),
    "columns": blocked([8, 8], [8, 1], [1, 4], [1, 2], [0, 1]),
    "blocks": blocked([8, 8], [2, 4], [2, 2], [2, 1]),
    "line": blocked([64], [8], [4], [2]),
    "spread": blocked([64], [1], [4], [2]),
    "few": blocked([4], [1], [4], [2]),
    "one": blocked([1], [1], [4], [2]),
    "square": swizzled([8, 8], 1, 1, 8),
    "vector": LinearLayout((("offset", (1, 2, 4, 8, 16, 32)),), named([64])),
    "bins": LinearLayout((("offset", (1, 2)),), named([4])),
    "single": LinearLayout((("offset", ()),), named([1])),
}
HEADER = "".join(f"#{name} = {layout}\n" for name, layout in LAYOUTS.items())

TYPES = {
    "R": "tile<8x8xf32, #rows>",
    "C": "tile<8x8xf32, #columns>",
    "B": "tile<8x8xf32, #blocks>",
    "M": "shared<8x8xf32, #square>",
    "L": "tile<64xf32, #line>",
    "S": "tile<64xf32, #spread>",
    "V": "shared<64xf32, #vector>",
    "F": "tile<4xi32, #few>",
    "N": "shared<4xi32, #bins>",
}
# All kernels take a count, a condition, and pointers to different places.
PARAMETERS = """%n: i32, %c: i1,
    %p: tile<8x8xptr<f32>, #rows>, %q: tile<8x8xptr<f32>, #columns>,
    %l: tile<64xptr<f32>, #line>, %f: tile<4xptr<i32>, #few>, %g: ptr<i32>"""


@dataclass(frozen=True)
class Kernel:
    """The text of a kernel, and how many barriers it needs outside loops, in one, in two."""

    text: str
    barriers: tuple[int, ...]

    def module(self) -> Module:
        return parse_module(self.text, "kernel")


KERNELS: dict[str, Kernel] = {}


def typed(text: str) -> str:
    """IR text with short names for the types of this file, each behind a `$`."""
    for short, ty in TYPES.items():
        for stages in (2, 3, 4):
            multi_buffer = ty.replace(">", f", stages = {stages}>")
            text = text.replace(f"${short}{stages}", multi_buffer)
        text = text.replace(f"${short}", ty)
    return text


def kernel(name: str, body: str, *barriers: int, also: str = "") -> None:
    """Declare a kernel by its body; at first there is a 0 and a 1."""
    text = (
        f"{HEADER}kernel @k({PARAMETERS}) {{\n%zero = const {{value = 0}} : i32\n"
        f"%one = const {{value = 1}} : i32\n{body}\nreturn\n}}\n{also}"
    )
    KERNELS[name] = Kernel(typed(text), barriers)


kernel(
    "transpose",
    """
    %x = load %p : $R
    %m = local_alloc : $M
    local_store %m, %x
    %y = local_load %m : $C
    %z = trans %y {order = (1, 0)} : $R
    store %p, %z
    """,
    1,
)
kernel(
    "two conversions, one after the other",
    """
    %x = load %p : $R
    %m = local_alloc : $M
    local_store %m, %x
    %y = local_load %m : $C
    %k = local_alloc : $M
    local_store %k, %y
    %z = local_load %k : $R
    store %p, %z
    """,
    2,
)
kernel(
    "two conversions at once",
    """
    %x = load %p : $R
    %y = load %q : $C
    %m = local_alloc : $M
    %k = local_alloc : $M
    local_store %m, %x
    local_store %k, %y
    %a = local_load %m : $C
    %b = local_load %k : $R
    store %p, %b
    store %q, %a
    """,
    1,
)
kernel(
    "a conversion that stays in its thread",
    """
    %x = load %p : $R
    %m = local_alloc : $M
    local_store %m, %x
    %y = local_load %m : $R
    local_store %m, %y
    %z = local_load %m : $R
    store %p, %z
    """,
    0,
)
kernel(
    "one buffer for two layouts",
    """
    %x = load %p : $R
    %m = local_alloc : $M
    local_store %m, %x
    %y = local_load %m : $C
    %z = local_load %m : $B
    store %q, %y
    """,
    1,
)
kernel(
    "a loop with a conversion",
    """
    %x = load %p : $R
    %r = for %i = %zero to %n step %one iter(%a = %x) : $R {
      %m = local_alloc : $M
      %t = trans %a {order = (1, 0)} : $C
      local_store %m, %t
      %y = local_load %m : $R
      yield %y
    }
    store %p, %r
    """,
    0,
    2,
)
kernel(
    "a loop with a conversion in two buffers by turns",
    """
    %x = load %p : $R
    %m = local_alloc : $M2
    %r, %u = for %i = %zero to %n step %one iter(%a = %x, %turn = %zero) : $R, i32 {
      %s = local_subview %m, %turn : $M
      %t = trans %a {order = (1, 0)} : $C
      local_store %s, %t
      %y = local_load %s : $R
      %next = add %turn, %one : i32
      yield %y, %next
    }
    store %p, %r
    """,
    0,
    1,
)
kernel(
    "a loop that loads what was stored before it",
    """
    %x = load %p : $R
    %o = const {value = 0.0} : $C
    %m = local_alloc : $M
    local_store %m, %x
    %r = for %i = %zero to %n step %one iter(%a = %o) : $C {
      %y = local_load %m : $C
      %b = add %a, %y : $C
      yield %b
    }
    store %q, %r
    """,
    1,
    0,
)
kernel(
    "a branch that converts",
    """
    %x = load %p : $R
    %m = local_alloc : $M
    %r = if %c : $R {
      local_store %m, %x
      %y = local_load %m : $C
      %z = trans %y {order = (1, 0)} : $R
      yield %z
    } else {
      yield %x
    }
    store %p, %r
    """,
    1,
)
kernel(
    "a branch that stores, and a load behind it",
    """
    %x = load %p : $R
    %m = local_alloc : $M
    if %c {
      local_store %m, %x
      yield
    } else {
      %y = add %x, %x : $R
      local_store %m, %y
      yield
    }
    %z = local_load %m : $C
    store %q, %z
    """,
    1,
)
kernel(
    "sums of rows across warps, as a line of partial sums",
    """
    %x = load %l : $L
    %m = local_alloc : $V
    local_store %m, %x
    %y = local_load %m : $S
    %z = local_load %m {mask = (4)} : $S
    %w = add %y, %z : $S
    %k = local_alloc : $V
    local_store %k, %w
    %v = local_load %k : $L
    store %l, %v
    """,
    3,
)
kernel(
    "sums behind one another in buffers of their own",
    """
    %x = load %l : $L
    %m = local_alloc : $V
    %k = local_alloc : $V
    local_store %m, %x
    %y = local_load %m : $S
    local_store %k, %y
    %z = local_load %k {mask = (4)} : $S
    %w = local_load %m : $S
    %v = add %w, %z : $S
    %u = local_load %k : $L
    store %l, %u
    """,
    2,
)
kernel(
    "histogram",
    """
    %x = load %f : $F
    %o = const {value = 0} : $F
    %y = const {value = true} : tile<4xi1, #few>
    %m = local_alloc : $N
    local_store %m, %o
    local_atomic_inc %m, %x, %y
    local_atomic_inc %m, %x, %y
    %h = local_load %m : $F
    store %f, %h
    """,
    2,
)
kernel(
    "gather",
    """
    %x = load %f : $F
    %m = local_alloc : $N
    local_store %m, %x
    %y = local_gather %m, %x {axis = -1} : $F
    store %f, %y
    """,
    1,
)
kernel(
    "the result of a scalar atomic",
    """
    %r = atomic_rmw %g, %one {kind = add} : i32
    %w = splat %r {shape = (4)} : $F
    store %f, %w
    """,
    1,
)
kernel(
    "a flag behind stores",
    """
    %x = load %l : $L
    store %l, %x
    %r = atomic_rmw %g, %one {kind = add} : i32
    """,
    1,
)
kernel(
    "memory overwritten through other pointers",
    """
    %x = load %p : $R
    %y = convert_layout %x : $C
    %pc = convert_layout %p : tile<8x8xptr<f32>, #columns>
    store %pc, %y
    """,
    1,
)
kernel(
    "memory stored and loaded again, in one layout and in another",
    """
    %pc = convert_layout %p : tile<8x8xptr<f32>, #columns>
    %x = load %p : $R
    %y = add %x, %x : $R
    store %p, %y
    %z = load %p : $R
    %v = load %pc : $C
    store %q, %v
    """,
    2,
)


def multi_buffer(stages: int, surely: bool = False) -> str:
    """A loop that copies ahead, as pipeline-loops makes it."""
    ahead = max(1, stages - 1)
    ty = f"shared<8x8xf32, #square{f', stages = {stages}' if stages > 1 else ''}>"
    first = "".join(
        f"""
        %s{i} = local_subview %m, %zero {{stage_offset = {i}}} : $M
        local_cp_async %s{i}, %p
        cp_async_commit_group"""
        for i in range(ahead)
    )
    return f"""
    %acc = const {{value = 0.0}} : $C
    %m = local_alloc : {ty}{first}
    %r, %t = for %i = %zero to %n step %one iter(%a = %acc, %turn = %zero) : $C, i32 {{
      cp_async_wait_group {{pending = {ahead - 1}}}
      %s = local_subview %m, %turn : $M
      %x = local_load %s : $C
      %b = add %a, %x : $C
      %u = local_subview %m, %turn {{stage_offset = {stages - 1}}} : $M
      local_cp_async %u, %p
      cp_async_commit_group
      %next = add %turn, %one : i32
      yield %b, %next
    }}
    cp_async_wait_group {{pending = 0}}
    """


kernel("ring of 1", multi_buffer(1) + "store %q, %r", 0, 2)
kernel("ring of 2", multi_buffer(2) + "store %q, %r", 0, 1)
kernel("ring of 3", multi_buffer(3) + "store %q, %r", 0, 1)
kernel("ring of 4", multi_buffer(4) + "store %q, %r", 0, 1)
kernel(
    "ring of 3, and a conversion in its place",
    multi_buffer(3)
    + """
    %k = local_alloc : $M
    local_store %k, %r
    %y = local_load %k : $R
    store %p, %y
    """,
    2,
    1,
)
kernel(
    "ring in a loop",
    f"""
    %o = const {{value = 0.0}} : $C
    %two = const {{value = 2}} : i32
    %e = for %j = %zero to %two step %one iter(%sum = %o) : $C {{
      {multi_buffer(3)}
      %more = add %sum, %r : $C
      yield %more
    }}
    store %q, %e
    """,
    0,
    1,
    1,
)
GOING_ON = """
    %acc = const {value = 0.0} : $C
    %two = const {value = 2} : i32
    %m = local_alloc : $MX
    %e, %last = for %j = %zero to %n step %one iter(%sum = %acc, %start = %zero) : $C, i32 {
      %s0 = local_subview %m, %start : $M
      local_cp_async %s0, %p
      cp_async_commit_group
      %r, %t = for %i = %zero to %two step %one iter(%a = %sum, %turn = %start) : $C, i32 {
        %u = local_subview %m, %turn {stage_offset = 1} : $M
        local_cp_async %u, %p
        cp_async_commit_group
        cp_async_wait_group {pending = 1}
        %s = local_subview %m, %turn : $M
        %x = local_load %s : $C
        %b = add %a, %x : $C
        %next = add %turn, %one : i32
        yield %b, %next
      }
      cp_async_wait_group {pending = 0}
      %after = add %t, %one : i32
      yield %r, %after
    }
    store %q, %e
    """
# After the last iteration of the inner loop, two stages on, comes a copy to what that iteration read.
kernel("ring of 3 that goes on in the loop around", GOING_ON.replace("X", "3"), 0, 1, 1)
kernel("ring of 4 that goes on in the loop around", GOING_ON.replace("X", "4"), 0, 0, 1)
kernel(
    "a while loop with a conversion",
    """
    %x = load %p : $R
    %m = local_alloc : $M
    %r, %e = while iter(%a = %x, %i = %zero) : $R, i32 {
      %t = cmp %i, %n {predicate = lt} : i1
      condition %t
    } do {
      %t = trans %a {order = (1, 0)} : $C
      local_store %m, %t
      %y = local_load %m : $R
      %j = add %i, %one : i32
      yield %y, %j
    }
    store %p, %r
    """,
    0,
    2,
)
kernel(
    "a function that converts",
    """
    %x = load %p : $R
    %m = local_alloc : $M
    local_store %m, %x
    %y = call %x {callee = @f} : $C
    %z = local_load %m : $C
    %w = call %x {callee = @f} : $C
    %v = add %y, %z : $C
    %u = add %v, %w : $C
    store %q, %u
    """,
    2,
    also="""
    func noinline @f(%x: $R) -> ($C) {
      %m = local_alloc : $M
      local_store %m, %x
      %y = local_load %m : $C
      return %y
    }
    """,
)
kernel(
    "barriers that are there",
    """
    %x = load %p : $R
    %m = local_alloc : $M
    local_store %m, %x
    barrier
    %y = local_load %m : $C
    store %q, %y
    """,
    1,
)
