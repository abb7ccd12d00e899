"""Random programs that store to buffers and load from them, in loops and branches."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from tests.simt.barrier_kernels import LAYOUTS
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.module import Module
from tile.ir.ops import arith, control, memory
from tile.ir.shared_type import Shared
from tile.ir.types import F32, I1, I32, Pointer, Tile
from tile.simt import ops
from tile.simt.layouts.blocked import blocked
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.ops.layout_inference import LayoutBuilder

COUNTS, CONDITIONS = 3, 4  # how many parameters are counts of loops, and conditions

HELD = [
    *(LAYOUTS[name] for name in ("rows", "columns", "blocks")),
    blocked([8, 8], [8, 1], [1, 4], [2, 1], [0, 1]),  # warps hold copies
    blocked([8, 8], [1, 8], [2, 2], [1, 2]),  # lanes and warps hold copies
]


@dataclass
class Scope:
    """The values that a block can use."""

    buffers: list[Value] = field(default_factory=list)
    multi_buffers: list[Value] = field(default_factory=list)
    tiles: list[Value] = field(default_factory=list)
    iterations: list[Value] = field(default_factory=list)

    def inner(self) -> Scope:
        return Scope([*self.buffers], [*self.multi_buffers], [*self.tiles], [*self.iterations])


class Writer:
    """Writes a kernel with counts, conditions and pointers as parameters."""

    def __init__(self, seed: int, *, memory: bool = False) -> None:
        self.random = random.Random(seed)
        self.memory = memory
        rows = [Tile((8, 8), Pointer(F32), HELD[k]) for k in (0, 0, 1)]  # type: ignore[arg-type]
        self.kernel = Function(
            "k",
            [*[I32] * COUNTS, *[I1] * CONDITIONS, *rows],
            [*[f"n{k}" for k in range(COUNTS)], *[f"c{k}" for k in range(CONDITIONS)], *"pqr"],
            kernel=True,
        )
        self.build = LayoutBuilder(self.kernel.body)
        self.conditions = self.kernel.args[COUNTS : COUNTS + CONDITIONS]
        self.pointers = self.kernel.args[COUNTS + CONDITIONS :]

    def module(self) -> Module:
        self.zero = self.build.constant(0, I32)
        self.one = self.build.constant(1, I32)
        scope = Scope(iterations=[self.zero])
        for layout in HELD:
            number = self.random.random()
            scope.tiles.append(self.build.constant(number, Tile((8, 8), F32, layout)))  # type: ignore[arg-type]
        self.statements(scope, 3, depth=0)
        self.build.op(memory.store, self.pointers[1], self.in_layout(scope, HELD[0]))
        self.build.op(control.return_)
        return Module([self.kernel])

    def statements(self, scope: Scope, least: int, depth: int) -> None:
        for _ in range(self.random.randint(least, least + 4)):
            choices = [self.alloc, self.store, self.load, self.store, self.load]
            choices += [self.loop] * (depth < 2) + [self.branch] * (
                depth < 2 and bool(self.conditions)
            )
            choices += [self.convert] + [self.access] * self.memory
            self.random.choice(choices)(scope, depth)

    def buffer(self, scope: Scope) -> Value | None:
        """A buffer or a stage of a multi-buffer; None if there is none."""
        if scope.multi_buffers and (not scope.buffers or self.random.random() < 0.5):
            multi_buffer = self.random.choice(scope.multi_buffers)
            iteration = self.random.choice(scope.iterations)
            return self.build(
                ops.shared.local_subview,
                multi_buffer,
                iteration,
                stage_offset=self.random.randint(0, 2),
            )
        return self.random.choice(scope.buffers) if scope.buffers else None

    def in_layout(self, scope: Scope, layout: object) -> Value:
        return self.random.choice([x for x in scope.tiles if x.type.layout == layout])  # type: ignore[union-attr]

    def alloc(self, scope: Scope, depth: int) -> None:
        stages = self.random.choice([1, 1, 2, 3])
        layout = LAYOUTS["square"]
        mem = self.build(ops.shared.local_alloc, result=Shared((8, 8), F32, layout, stages))  # type: ignore[arg-type]
        (scope.multi_buffers if stages > 1 else scope.buffers).append(mem)
        for stage in range(stages):  # nothing that is loaded later is undefined
            held = mem
            if stages > 1:
                held = self.build(ops.shared.local_subview, mem, self.zero, stage_offset=stage)
            self.build.op(ops.shared.local_store, held, self.random.choice(scope.tiles))

    def store(self, scope: Scope, depth: int) -> None:
        mem = self.buffer(scope)
        if mem is not None:
            self.build.op(ops.shared.local_store, mem, self.random.choice(scope.tiles))

    def load(self, scope: Scope, depth: int) -> None:
        mem = self.buffer(scope)
        if mem is not None:
            layout = self.random.choice(HELD)
            mask = self.random.choice([(), (), (0, 1), (4, 0)])
            loaded = self.build(
                ops.shared.local_load,
                mem,
                mask=mask,
                result=Tile((8, 8), F32, layout),  # type: ignore[arg-type]
            )
            scope.tiles.append(self.build(arith.add, loaded, self.in_layout(scope, layout)))

    def convert(self, scope: Scope, depth: int) -> None:
        layout = self.random.choice(HELD)
        assert isinstance(layout, LinearLayout)
        scope.tiles.append(self.build.convert(self.random.choice(scope.tiles), layout))

    def access(self, scope: Scope, depth: int) -> None:
        ptr = self.random.choice(self.pointers)
        if self.random.random() < 0.5:
            scope.tiles.append(self.build(memory.load, ptr))
        else:
            self.build.op(memory.store, ptr, self.in_layout(scope, ptr.type.layout))  # type: ignore[union-attr]

    def loop(self, scope: Scope, depth: int) -> None:
        carried = [self.random.choice(scope.tiles), self.random.choice(scope.iterations)]
        body = Block([I32, *(v.type for v in carried)], ["i", "x", "turn"])
        upper = self.kernel.args[self.random.randrange(COUNTS)]
        with self.build.into(body):
            inner = scope.inner()
            inner.tiles.append(body.args[1])
            inner.iterations = [body.args[2]]
            self.statements(inner, 2, depth + 1)
            following = self.build(arith.add, body.args[2], self.one)
            last = [x for x in inner.tiles if x.type == carried[0].type][-1]
            self.build.op(control.yield_, last, following)
        operands = [self.zero, upper, self.one, *carried]
        types = [value.type for value in carried]
        op = Operation(control.for_, operands, control.for_.complete({}), [body], types, None)
        self.build.block.insert(op, self.build.anchor)
        scope.tiles.append(op.results[0])
        if self.random.random() < 0.5:
            scope.iterations.append(op.results[1])

    def branch(self, scope: Scope, depth: int) -> None:
        arms = []
        condition = self.conditions.pop()  # each is used once, so that all paths are possible
        for _ in range(2):
            arm = Block()
            with self.build.into(arm):
                self.statements(scope.inner(), 0, depth + 1)
                self.build.op(control.yield_)
            arms.append(arm)
        self.build.op(control.if_, condition, regions=arms)
