"""Where pointers may point: through which parameters, or to memory that nothing is known of.

    %q = addptr %p, %o       // %q: %p
    %r = select %c, %q, %x   // %r: %p, %x
    %s = load %pp            // %s: unknown (a pointer that was in memory)
    local_store %m, %q       // %m: a buffer of this program
    %t = local_load %m       // %t: %p

Two parameters of a kernel are taken for different memory: whether a launch passes one array for
both is not known here. Two of a device function *meet* if a call passes pointers that do:

    call %p, %x, %p {callee = @g}      // in @g the first and the third meet, the second neither
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from tile.analysis.call_graph import CallGraph
from tile.analysis.dataflow import Forward
from tile.ir.core import Function, Module, Operation, Value
from tile.ir.opdef import Effect
from tile.ir.ops import arith, control, memory
from tile.ir.types import Descriptor, Pointer, Shared, Type


@dataclass(frozen=True, slots=True)
class PointsTo:
    """The parameters (by position) whose memory a pointer may reach, and whether others too."""

    parameters: frozenset[int] = frozenset()
    unknown: bool = False

    def __or__(self, other: PointsTo) -> PointsTo:
        return PointsTo(self.parameters | other.parameters, self.unknown or other.unknown)

    def meets(self, other: PointsTo) -> bool:
        """Whether both name a parameter in common, or one of them memory that may be any."""
        return self.unknown or other.unknown or not self.parameters.isdisjoint(other.parameters)

    def through(self, arguments: Sequence[PointsTo]) -> PointsTo:
        """What this means to a caller that passes pointers to these."""
        passed = (arguments[index] for index in self.parameters)
        return reduce(PointsTo.__or__, passed, PointsTo(unknown=self.unknown))


NOWHERE = PointsTo()
UNKNOWN = PointsTo(unknown=True)


@dataclass(frozen=True)
class Summary:
    """What a call of a function does, in terms of its parameters."""

    reads: PointsTo = NOWHERE
    writes: PointsTo = NOWHERE
    results: tuple[PointsTo, ...] = ()


Summaries = Mapping[str, Summary]


@dataclass(frozen=True)
class Alias:
    """Points-to sets of a function's values, and what the function reads and writes.

    `names` has for each parameter those that may lead to the same memory, itself among them.
    """

    function: Function
    facts: Mapping[Value, PointsTo]
    summary: Summary
    names: tuple[PointsTo, ...]
    callees: Summaries = field(repr=False)

    def of(self, value: Value) -> PointsTo:
        """Where a value points; nowhere if it is no pointer."""
        return self.facts[value]

    def read(self, op: Operation) -> PointsTo:
        """What an operation may read, leaving aside its regions."""
        return _accessed(op, Effect.READ, self.facts, self.callees)

    def written(self, op: Operation) -> PointsTo:
        """What an operation may write, leaving aside its regions."""
        return _accessed(op, Effect.WRITE, self.facts, self.callees)

    def named(self, where: PointsTo) -> PointsTo:
        """All names that memory may have here: what meets this may be the same memory."""
        return where.through(self.names)

    def share(self, x: Value, y: Value) -> bool:
        """Whether two pointers may reach the same memory."""
        return self.named(self.facts[x]).meets(self.facts[y])


def alias(function: Function, callees: Summaries | None = None) -> Alias:
    """The points-to sets of a function. A call of a function without summary may do anything.

    As nothing is known of its callers, any parameters of a device function may meet.
    """
    known = callees or {}
    walk = _Alias(known)
    facts = walk.run(function)
    reads, writes = NOWHERE, NOWHERE
    for op in function.walk():
        reads |= _accessed(op, Effect.READ, facts, known)
        writes |= _accessed(op, Effect.WRITE, facts, known)
    assert function.body.last is not None
    results = tuple(facts[value] for value in function.body.last.inputs)
    names = _apart(function) if function.kernel else _together(function)
    return Alias(function, facts, Summary(reads, writes, results), names, known)


def module_aliases(module: Module) -> dict[str, Alias]:
    """The points-to sets of all functions by name, calls followed.

    Raises `IRError` on recursion.
    """
    graph = CallGraph(module)
    order = graph.bottom_up()
    found: dict[str, Alias] = {}
    summaries: dict[str, Summary] = {}
    for function in order:
        found[function.name] = alias(function, summaries)
        summaries[function.name] = found[function.name].summary
    _meet_in_calls(graph, order, found)
    return found


def _meet_in_calls(graph: CallGraph, order: Sequence[Function], found: dict[str, Alias]) -> None:
    """Replace the names of parameters by those that the calls of a function give them."""
    called: dict[str, tuple[PointsTo, ...]] = {}
    for function in reversed(order):
        caller = found[function.name]
        if function.name in called:
            caller = found[function.name] = replace(caller, names=called[function.name])
        for call in graph.calls[function]:
            callee = graph.callee(call)
            if callee is not None:
                before = called.get(callee.name, _apart(callee))
                passed = _named_alike(caller, call)
                called[callee.name] = tuple(map(PointsTo.__or__, before, passed))


def _named_alike(caller: Alias, call: Operation) -> list[PointsTo]:
    """For each argument of a call, which ones are pointers that it shares memory with."""
    pointers = {i: caller.of(v) for i, v in enumerate(call.inputs) if _is_pointer(v.type)}
    named = {index: caller.named(fact) for index, fact in pointers.items()}
    return [
        PointsTo(frozenset(j for j in pointers if i in named and named[i].meets(pointers[j])))
        for i in range(len(call.inputs))
    ]


def _apart(function: Function) -> tuple[PointsTo, ...]:
    """Names of parameters of which no two meet."""
    return tuple(PointsTo(frozenset({index})) for index in range(len(function.args)))


def _together(function: Function) -> tuple[PointsTo, ...]:
    """Names of parameters that may all meet."""
    every = PointsTo(frozenset(range(len(function.args))))
    return tuple(every for _ in function.args)


def written_arguments(module: Module, kernel: Function) -> frozenset[str]:
    """The names of the parameters through which a kernel may write memory, itself or in its calls.

    A pointer that was loaded from memory may be anything that a pointer to pointers leads to, so
    a write through it counts for every such parameter.
    """
    writes = module_aliases(module)[kernel.name].summary.writes
    return frozenset(
        value.name
        for index, value in enumerate(kernel.args)
        if index in writes.parameters or (writes.unknown and _leads_to_pointers(value.type))
    )


def _leads_to_pointers(ty: Type) -> bool:
    element = ty.element
    return isinstance(element, Pointer) and isinstance(element.pointee, Pointer)


def _is_pointer(ty: Type) -> bool:
    """Whether a value leads to memory: a pointer, a tile of them, or a descriptor."""
    return isinstance(ty, Descriptor) or isinstance(ty.element, Pointer)


def _accessed(
    op: Operation, effect: Effect, facts: Mapping[Value, PointsTo], callees: Summaries
) -> PointsTo:
    if effect not in op.defn.effect:
        return NOWHERE
    if op.defn is control.call:
        summary = callees.get(op["callee"])
        if summary is None:
            return reduce(PointsTo.__or__, (facts[value] for value in op.inputs), UNKNOWN)
        accessed = summary.reads if effect is Effect.READ else summary.writes
        return accessed.through([facts[value] for value in op.inputs])
    through = "ptr" if "ptr" in op.defn.positions else op.defn.operands[0]  # or a descriptor
    return facts[op[through]]


class _Alias(Forward[PointsTo]):
    def __init__(self, callees: Summaries) -> None:
        super().__init__()
        self.callees = callees

    def argument(self, function: Function, index: int) -> PointsTo:
        if not _is_pointer(function.args[index].type):
            return NOWHERE
        return PointsTo(frozenset({index}))

    def unknown(self, ty: Type) -> PointsTo:
        return UNKNOWN if _is_pointer(ty) else NOWHERE

    def join(self, x: PointsTo, y: PointsTo) -> PointsTo:
        return x | y

    def transfer(self, op: Operation) -> Sequence[PointsTo]:
        if op.defn is control.call:
            return self.call(op)
        return [self.result(op) if _is_pointer(v.type) else NOWHERE for v in op.results]

    def result(self, op: Operation) -> PointsTo:
        """Pointers come from pointers, but for those that were in memory or made of integers."""
        if op.defn is arith.poison:
            return NOWHERE
        if op.defn is memory.load:
            other = op["other"]
            return UNKNOWN if other is None else UNKNOWN | self.facts[other]
        return reduce(PointsTo.__or__, self.sources(op), NOWHERE)

    def sources(self, op: Operation) -> list[PointsTo]:
        if op.inputs and isinstance(op.inputs[0].type, Shared):
            return self.stored(op.inputs[0])
        facts = [self.facts[value] for value in op.inputs if _is_pointer(value.type)]
        return facts or [UNKNOWN]

    def stored(self, buffer: Value) -> list[PointsTo]:
        """What was stored to a buffer that is used in one block alone; else it may be anything."""
        stores = [op for op in buffer.users if not op.results]
        values = [value for op in stores for value in op.inputs[1:]]
        known = (
            all(op.block is buffer.block for op in buffer.users)
            and all(value in self.facts for value in values)
            and not any(isinstance(v.type, Shared) for op in buffer.users for v in op.results)
            and not any(op.defn.effect & Effect.READ for op in stores)
        )
        return [self.facts[value] for value in values] if known else [UNKNOWN]

    def call(self, op: Operation) -> Sequence[PointsTo]:
        summary = self.callees.get(op["callee"])
        if summary is None:
            return [self.unknown(value.type) for value in op.results]
        arguments = self.present(op)
        return [fact.through(arguments) for fact in summary.results]
