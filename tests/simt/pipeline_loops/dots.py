"""Kernels at the LAID_OUT level with dots in loops, as text."""

from __future__ import annotations

from dataclasses import dataclass

from tile.simt.layouts.axes import permute_axes
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.layouts.mma_fragments import fma_operand_layouts
from tile.simt.ops.layout_inference import broadcast_operand_layout, reduced_layout

ROWS = COLUMNS = 32
INNER = 16
WIDTH = 64  # of the left matrix
ACC = blocked([ROWS, COLUMNS], [2, 4], [4, 8], [4, 1])
LEFT = blocked([ROWS, INNER], [1, 4], [8, 4], [4, 1])
RIGHT = blocked([INNER, COLUMNS], [1, 4], [4, 8], [4, 1])
DOT_LEFT, DOT_RIGHT = fma_operand_layouts(ACC, INNER)

NAMES = {"c": ACC, "a": LEFT, "b": RIGHT, "da": DOT_LEFT, "db": DOT_RIGHT}


def grid(name: str, layout: str, rows: int, columns: int, stride: int, dtype: str) -> str:
    """Pointers `%name_p` to a tile at `%name`, with its coordinates `%name_i` and `%name_j`."""
    shape, L = f"{rows}x{columns}", layout
    return f"""
  %{name}_i0 = arange {{start = 0, end = {rows}}} : tile<{rows}xi32, #{L}r>
  %{name}_i1 = expand_dims %{name}_i0 {{axis = -1}} : tile<{rows}x1xi32, #{L}i>
  %{name}_i = broadcast %{name}_i1 {{shape = ({rows}, {columns})}} : tile<{shape}xi32, #{L}>
  %{name}_j0 = arange {{start = 0, end = {columns}}} : tile<{columns}xi32, #{L}c>
  %{name}_j1 = expand_dims %{name}_j0 {{axis = -2}} : tile<1x{columns}xi32, #{L}j>
  %{name}_j = broadcast %{name}_j1 {{shape = ({rows}, {columns})}} : tile<{shape}xi32, #{L}>
  %{name}_w = const {{value = {stride}}} : tile<{shape}xi32, #{L}>
  %{name}_iw = mul %{name}_i, %{name}_w : tile<{shape}xi32, #{L}>
  %{name}_o = add %{name}_iw, %{name}_j : tile<{shape}xi32, #{L}>
  %{name}_s = splat %{name} {{shape = ({rows}, {columns})}} : tile<{shape}xptr<{dtype}>, #{L}>
  %{name}_p = addptr %{name}_s, %{name}_o {{stride = {SIZES[dtype]}}} : tile<{shape}xptr<{dtype}>, #{L}>"""


SIZES = {"f32": 4, "f16": 2}


def layouts() -> str:
    """The layouts under short names."""
    named: dict[str, LinearLayout] = {}
    for name, layout in NAMES.items():
        rows, columns = layout.shape
        named[name] = layout
        named[f"{name}r"], named[f"{name}c"] = (
            reduced_layout(layout, -1),
            reduced_layout(layout, -2),
        )
        named[f"{name}i"] = broadcast_operand_layout(layout, (rows, 1))
        named[f"{name}j"] = broadcast_operand_layout(layout, (1, columns))
    return "\n".join(f"#{name} = {layout}" for name, layout in named.items())


@dataclass(frozen=True)
class Dot:
    """A loop that sums dots of a tile of `A` (32 x 64) and one of `B` (64 x 32) into `C`.

    The inner dimension goes from `lower` to `upper` by `step`: numbers, or parameters of these
    names. Pointers are carried or computed from the count.
    """

    lower: int | None = None
    upper: int | None = None
    step: int | None = 16
    carried: bool = False
    masked: bool = True
    other: float | None = 0.0
    num_stages: int = 0
    dtype: str = "f32"
    count: str = "i32"
    repeats: int = 1
    nested: bool = False  # inside a loop of two iterations
    before: str = ""  # in the loop
    after: str = ""

    def bound(self, name: str) -> str:
        number = getattr(self, name)
        return "" if number is None else f"  %{name} = const {{value = {number}}} : {self.count}\n"

    def text(self) -> str:
        """The module."""
        missing = [n for n in ("lower", "upper", "step") if getattr(self, n) is None]
        extra = "".join(f", %{name}: {self.count} {{divisible = 16}}" for name in missing)
        loops, total = "", "zero"
        for number in range(self.repeats):
            loops += self.loop(number, total)
            total = f"total{number}"
        if self.nested:
            loops = f"""
  %none = const {{value = 0}} : i32
  %one = const {{value = 1}} : i32
  %two = const {{value = 2}} : i32
  %all = for %o = %none to %two step %one iter(%zero = %start) : tile<32x32xf32, #c> {{{loops}
    yield %{total}
  }}"""
            total = "all"
        start = "start" if self.nested else "zero"
        return f"""{layouts()}
kernel @product(%a: ptr<{self.dtype}> {{divisible = 16}}, %b: ptr<{self.dtype}> {{divisible = 16}}, %c: ptr<f32> {{divisible = 16}}{extra}) {{
{self.bound("lower")}{self.bound("upper")}{self.bound("step")}
{grid("a", "a", ROWS, INNER, WIDTH, self.dtype)}
{grid("b", "b", INNER, COLUMNS, COLUMNS, self.dtype)}
{grid("c", "c", ROWS, COLUMNS, COLUMNS, "f32")}
  %{start} = const {{value = 0.0}} : tile<32x32xf32, #c>
{self.constants()}
{loops}
  store %c_p, %{total}
  return
}}
"""

    def constants(self) -> str:
        """Return the loop-invariant values: the left tile's step, and the right one's."""
        other = ""
        if self.other is not None:
            other = f"""
  %a_other = const {{value = {self.other}}} : tile<32x16x{self.dtype}, #a>
  %b_other = const {{value = {self.other}}} : tile<16x32x{self.dtype}, #b>"""
        return f"""
  %width = const {{value = {COLUMNS}}} : i32
  %step32 = cast %step {{to = i32}} : i32
  %a_step = splat %step32 {{shape = (32, 16)}} : tile<32x16xi32, #a>
  %b_step0 = mul %step32, %width : i32
  %b_step = splat %b_step0 {{shape = (16, 32)}} : tile<16x32xi32, #b>
  %edge = const {{value = {WIDTH - 4}}} : i32{other}"""

    def loop(self, number: int, init: str) -> str:
        n, dtype, size = number, self.dtype, SIZES[self.dtype]
        a, b = f"tile<32x16xptr<{dtype}>, #a>", f"tile<16x32xptr<{dtype}>, #b>"
        masks, operands = "", ("", "")
        if self.masked:
            masks = f"""
    %left{n} = sub %edge, %k32{n} : i32
    %left_a{n} = splat %left{n} {{shape = (32, 16)}} : tile<32x16xi32, #a>
    %left_b{n} = splat %left{n} {{shape = (16, 32)}} : tile<16x32xi32, #b>
    %mask_a{n} = cmp %a_j, %left_a{n} {{predicate = lt}} : tile<32x16xi1, #a>
    %mask_b{n} = cmp %b_i, %left_b{n} {{predicate = lt}} : tile<16x32xi1, #b>"""
            operands = f", %mask_a{n}", f", %mask_b{n}"
            if self.other is not None:
                operands = operands[0] + ", %a_other", operands[1] + ", %b_other"
        here = f"""
    %k32{n} = cast %k{n} {{to = i32}} : i32"""
        first = (
            f"""
  %first{n} = cast %lower {{to = i32}} : i32"""
            if self.carried
            else here
        )
        at = "first" if self.carried else "k32"
        starts = f"""
  %ak{n} = splat %{at}{n} {{shape = (32, 16)}} : tile<32x16xi32, #a>
  %ap{n} = addptr %a_p, %ak{n} {{stride = {size}}} : {a}
  %bk0{n} = mul %{at}{n}, %width : i32
  %bk{n} = splat %bk0{n} {{shape = (16, 32)}} : tile<16x32xi32, #b>
  %bp{n} = addptr %b_p, %bk{n} {{stride = {size}}} : {b}"""
        body = f"""{masks}
    %x{n} = load %ap{n}{"c" if self.carried else ""}{operands[0]} : tile<32x16x{dtype}, #a>
    %y{n} = load %bp{n}{"c" if self.carried else ""}{operands[1]} : tile<16x32x{dtype}, #b>{self.before}
    %xd{n} = convert_layout %x{n} : tile<32x16x{dtype}, #da>
    %yd{n} = convert_layout %y{n} : tile<16x32x{dtype}, #db>
    %d{n} = dot %xd{n}, %yd{n}, %acc{n} : tile<32x32xf32, #c>{self.after}"""
        attribute = f" {{num_stages = {self.num_stages}}}" if self.num_stages else ""
        c = "tile<32x32xf32, #c>"
        if not self.carried:
            return f"""
  %total{n} = for %k{n} = %lower to %upper step %step iter(%acc{n} = %{init}) : {c} {{{here}{starts}{body}
    yield %d{n}
  }}{attribute}"""
        return f"""{first}{starts}
  %total{n}, %ae{n}, %be{n} = for %k{n} = %lower to %upper step %step iter(%acc{n} = %{init}, %ap{n}c = %ap{n}, %bp{n}c = %bp{n}) : {c}, {a}, {b} {{{here}{body}
    %ap{n}n = addptr %ap{n}c, %a_step {{stride = {size}}} : {a}
    %bp{n}n = addptr %bp{n}c, %b_step {{stride = {size}}} : {b}
    yield %d{n}, %ap{n}n, %bp{n}n
  }}{attribute}"""


SQUARE = blocked([16, 16], [1, 4], [8, 4], [1, 1])
SQUARES = {
    "t": SQUARE,
    "tt": permute_axes(SQUARE, (1, 0)),
    "c": blocked([16, 16], [2, 4], [8, 4], [1, 1]),
}
SQUARES["l"], SQUARES["r"] = fma_operand_layouts(SQUARES["c"], 16)
SQUARES |= {
    "s": reduced_layout(SQUARES["c"], -1),
    "si": broadcast_operand_layout(SQUARES["c"], (16, 1)),
    "ti": broadcast_operand_layout(SQUARE, (16, 1)),
    "tj": broadcast_operand_layout(SQUARE, (1, 16)),
    "tr": reduced_layout(SQUARE, -1),
    "tc": reduced_layout(SQUARE, -2),
}
ATTENTION = (
    "\n".join(f"#{name} = {layout}" for name, layout in SQUARES.items())
    + """
kernel @attention(%q: ptr<f32> {divisible = 16}, %k: ptr<f32> {divisible = 16}, %v: ptr<f32> {divisible = 16}, %out: ptr<f32> {divisible = 16}, %n: i32) {
  %start = const {value = 0} : i32
  %step = const {value = 16} : i32
  %i0 = arange {start = 0, end = 16} : tile<16xi32, #tr>
  %i1 = expand_dims %i0 {axis = -1} : tile<16x1xi32, #ti>
  %i = broadcast %i1 {shape = (16, 16)} : tile<16x16xi32, #t>
  %j0 = arange {start = 0, end = 16} : tile<16xi32, #tc>
  %j1 = expand_dims %j0 {axis = -2} : tile<1x16xi32, #tj>
  %j = broadcast %j1 {shape = (16, 16)} : tile<16x16xi32, #t>
  %w = const {value = 16} : tile<16x16xi32, #t>
  %iw = mul %i, %w : tile<16x16xi32, #t>
  %o = add %iw, %j : tile<16x16xi32, #t>
  %qs = splat %q {shape = (16, 16)} : tile<16x16xptr<f32>, #t>
  %qp = addptr %qs, %o {stride = 4} : tile<16x16xptr<f32>, #t>
  %ks = splat %k {shape = (16, 16)} : tile<16x16xptr<f32>, #t>
  %kp = addptr %ks, %o {stride = 4} : tile<16x16xptr<f32>, #t>
  %vs = splat %v {shape = (16, 16)} : tile<16x16xptr<f32>, #t>
  %vp = addptr %vs, %o {stride = 4} : tile<16x16xptr<f32>, #t>
  %os = splat %out {shape = (16, 16)} : tile<16x16xptr<f32>, #t>
  %op = addptr %os, %o {stride = 4} : tile<16x16xptr<f32>, #t>
  %q0 = load %qp : tile<16x16xf32, #t>
  %ql = convert_layout %q0 : tile<16x16xf32, #l>
  %low = const {value = -1000.0} : tile<16xf32, #s>
  %none = const {value = 0.0} : tile<16xf32, #s>
  %zero = const {value = 0.0} : tile<16x16xf32, #c>
  %many = const {value = 256} : tile<16x16xi32, #t>
  %highest, %weights, %total, %vpe = for %at = %start to %n step %step iter(%m = %low, %l = %none, %acc = %zero, %vpc = %vp) : tile<16xf32, #s>, tile<16xf32, #s>, tile<16x16xf32, #c>, tile<16x16xptr<f32>, #t> {
    %row = mul %at, %step : i32
    %rows = splat %row {shape = (16, 16)} : tile<16x16xi32, #t>
    %kpi = addptr %kp, %rows {stride = 4} : tile<16x16xptr<f32>, #t>
    %k0 = load %kpi : tile<16x16xf32, #t>
    %kt = trans %k0 {order = (1, 0)} : tile<16x16xf32, #tt>
    %kr = convert_layout %kt : tile<16x16xf32, #r>
    %scores = dot %ql, %kr, %zero : tile<16x16xf32, #c>
    %top = reduce %scores {axis = -1, kind = max} : tile<16xf32, #s>
    %above = max %m, %top : tile<16xf32, #s>
    %above1 = expand_dims %above {axis = -1} : tile<16x1xf32, #si>
    %above2 = broadcast %above1 {shape = (16, 16)} : tile<16x16xf32, #c>
    %less = sub %scores, %above2 : tile<16x16xf32, #c>
    %powers = exp %less : tile<16x16xf32, #c>
    %less1 = sub %m, %above : tile<16xf32, #s>
    %shrink = exp %less1 : tile<16xf32, #s>
    %l1 = mul %l, %shrink : tile<16xf32, #s>
    %sum = reduce %powers {axis = -1, kind = sum} : tile<16xf32, #s>
    %l2 = add %l1, %sum : tile<16xf32, #s>
    %shrink1 = expand_dims %shrink {axis = -1} : tile<16x1xf32, #si>
    %shrink2 = broadcast %shrink1 {shape = (16, 16)} : tile<16x16xf32, #c>
    %acc1 = mul %acc, %shrink2 : tile<16x16xf32, #c>
    %v0 = load %vpc : tile<16x16xf32, #t>
    %vr = convert_layout %v0 : tile<16x16xf32, #r>
    %pl = convert_layout %powers : tile<16x16xf32, #l>
    %acc2 = dot %pl, %vr, %acc1 : tile<16x16xf32, #c>
    %vpn = addptr %vpc, %many {stride = 4} : tile<16x16xptr<f32>, #t>
    yield %above, %l2, %acc2, %vpn
  }
  %w1 = expand_dims %weights {axis = -1} : tile<16x1xf32, #si>
  %w2 = broadcast %w1 {shape = (16, 16)} : tile<16x16xf32, #c>
  %result = div %total, %w2 : tile<16x16xf32, #c>
  %r = convert_layout %result : tile<16x16xf32, #t>
  store %op, %r
  return
}
"""
)
