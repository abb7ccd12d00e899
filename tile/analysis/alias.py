"""Points-to analysis: the parameters to whose memory a pointer may point, or unknown memory.

    %q = addptr %p, %o       // %q: %p
    %r = select %c, %q, %x   // %r: %p, %x
    %s = load %pp            // %s: unknown (a pointer that was in memory)
    local_store %m, %q       // %m: a buffer of this program
    %t = local_load %m       // %t: %p

Two parameters of a kernel are assumed not to alias unless both are `aliased`. A pass that relies on
the assumption records it (`rely_on_disjoint`), and a launch whose arrays overlap takes code that
was compiled without it. Two parameters of a device function may alias if a call passes pointers
that may alias:

    call %p, %x, %p {callee = @g}      // in @g, the first and third alias, the second does not

Two parameters that are `unordered` may alias, but threads need no order among them
(`Alias.ordered`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from tile.analysis.call_graph import CallGraph
from tile.analysis.dataflow import Forward
from tile.ir.core import Function, Operation, Value
from tile.ir.descriptor_type import addresses_memory
from tile.ir.module import Module
from tile.ir.op_definition import Effect
from tile.ir.ops import arith, control, memory
from tile.ir.ops.inline_asm import inline_asm
from tile.ir.shared_type import Shared
from tile.ir.types import Pointer, Type


@dataclass(frozen=True, slots=True)
class PointsTo:
    """The parameters (by position) whose memory a pointer may reach; `unknown`: others as well."""

    parameters: frozenset[int] = frozenset()
    unknown: bool = False

    def __or__(self, other: PointsTo) -> PointsTo:
        if other.parameters <= self.parameters and other.unknown <= self.unknown:
            return self
        return PointsTo(self.parameters | other.parameters, self.unknown or other.unknown)

    def may_alias(self, other: PointsTo) -> bool:
        """Return True if both have a parameter in common, or one of them is unknown."""
        return self.unknown or other.unknown or not self.parameters.isdisjoint(other.parameters)

    def through(self, arguments: Sequence[PointsTo]) -> PointsTo:
        """Translate to the caller: replace each parameter by the memory its argument points to."""
        passed = (arguments[index] for index in self.parameters)
        return reduce(PointsTo.__or__, passed, PointsTo(unknown=self.unknown))


def disjoint_pairs(x: PointsTo, y: PointsTo) -> frozenset[tuple[int, int]]:
    """Return the pairs of parameters that must be disjoint for two points-to sets to be so.

    There are none if the sets may alias.
    """
    if x.may_alias(y):
        return frozenset()
    return frozenset((i, j) for i in x.parameters for j in y.parameters)


NOWHERE = PointsTo()
UNKNOWN = PointsTo(unknown=True)


@dataclass(frozen=True)
class Summary:
    """The memory effects and results of a call of a function, in terms of its parameters."""

    reads: PointsTo = NOWHERE
    writes: PointsTo = NOWHERE
    results: tuple[PointsTo, ...] = ()


Summaries = Mapping[str, Summary]


@dataclass(frozen=True)
class Alias:
    """Points-to sets of a function's values, and the memory that the function reads and writes.

    `names` has, for each parameter, the parameters that may alias it, itself included;
    `ordered_names` those of which a program's threads must order their accesses.
    """

    function: Function
    facts: Mapping[Value, PointsTo]
    summary: Summary
    names: tuple[PointsTo, ...]
    ordered_names: tuple[PointsTo, ...]
    callees: Summaries = field(repr=False)

    def of(self, value: Value) -> PointsTo:
        """Return the points-to set of a value; it is empty for anything but a pointer."""
        return self.facts[value]

    def read(self, op: Operation) -> PointsTo:
        """Return the memory that an operation may read, its regions excluded."""
        return _accessed(op, Effect.READ, self.facts, self.callees)

    def written(self, op: Operation) -> PointsTo:
        """Return the memory that an operation may write, its regions excluded."""
        return _accessed(op, Effect.WRITE, self.facts, self.callees)

    def with_aliases(self, where: PointsTo) -> PointsTo:
        """Extend a points-to set by the parameters that may alias it."""
        return where.through(self.names)

    def ordered(self, where: PointsTo) -> PointsTo:
        """Extend it by the parameters to which accesses must be in order among threads."""
        return where.through(self.ordered_names)

    def may_alias(self, x: Value, y: Value) -> bool:
        """Return True if two pointers may reach the same memory."""
        return self.with_aliases(self.facts[x]).may_alias(self.facts[y])

    def assumed(self, x: Value, y: Value) -> frozenset[tuple[int, int]]:
        """Return the pairs of parameters that must be disjoint for two pointers not to alias.

        There are none if the pointers may alias.
        """
        return disjoint_pairs(self.with_aliases(self.facts[x]), self.facts[y])


def alias(function: Function, callees: Summaries | None = None) -> Alias:
    """Return the points-to sets of a function.

    A call of a function without summary may access any memory. Callers are unknown here, so any
    parameters of a device function may alias.
    """
    summaries = callees or {}
    walk = _Alias(summaries)
    facts = walk.run(function)
    reads, writes = NOWHERE, NOWHERE
    for op in function.walk():
        reads |= _accessed(op, Effect.READ, facts, summaries)
        writes |= _accessed(op, Effect.WRITE, facts, summaries)
    results = tuple(facts[value] for value in function.body.yielded)
    names = _kernel_aliases(function) if function.kernel else _all_alias(function)
    ordered = _ordered_aliases(function, names) if function.kernel else names
    return Alias(function, facts, Summary(reads, writes, results), names, ordered, summaries)


def module_aliases(module: Module) -> dict[str, Alias]:
    """Return the interprocedural points-to sets of all functions, by name.

    Raises `IRError` on recursion.
    """
    graph = CallGraph(module)
    order = graph.bottom_up()
    aliases: dict[str, Alias] = {}
    summaries: dict[str, Summary] = {}
    for function in order:
        aliases[function.name] = alias(function, summaries)
        summaries[function.name] = aliases[function.name].summary
    _propagate_to_callees(graph, order, aliases)
    return aliases


def _propagate_to_callees(
    graph: CallGraph, order: Sequence[Function], aliases: dict[str, Alias]
) -> None:
    """Set the aliases of each function's parameters to those that its calls pass."""
    called: dict[str, tuple[PointsTo, ...]] = {}
    for function in reversed(order):
        caller = aliases[function.name]
        if function.name in called:
            names = called[function.name]
            caller = aliases[function.name] = replace(caller, names=names, ordered_names=names)
        for call in graph.calls[function]:
            callee = graph.callee(call)
            if callee is not None:
                before = called.get(callee.name, _no_alias(callee))
                passed = _aliasing_arguments(caller, call)
                called[callee.name] = tuple(map(PointsTo.__or__, before, passed))


def _aliasing_arguments(caller: Alias, call: Operation) -> list[PointsTo]:
    """Return, for each argument of a call, the positions of the pointers that may alias it."""
    pointers = {i: caller.of(v) for i, v in enumerate(call.inputs) if addresses_memory(v.type)}
    named = {index: caller.with_aliases(fact) for index, fact in pointers.items()}
    return [
        PointsTo(frozenset(j for j in pointers if i in named and named[i].may_alias(pointers[j])))
        for i in range(len(call.inputs))
    ]


def _no_alias(function: Function) -> tuple[PointsTo, ...]:
    """Return `Alias.names` for parameters that do not alias."""
    return tuple(PointsTo(frozenset({index})) for index in range(len(function.args)))


def _kernel_aliases(function: Function) -> tuple[PointsTo, ...]:
    """Return `Alias.names` of a kernel, as its parameters' attributes say."""
    aliased = frozenset(
        i for i, one in enumerate(function.arguments) if one.aliased and not one.noalias
    )
    return tuple(
        PointsTo(aliased if index in aliased else frozenset({index}))
        for index in range(len(function.args))
    )


def _ordered_aliases(function: Function, names: tuple[PointsTo, ...]) -> tuple[PointsTo, ...]:
    """Return `Alias.ordered_names` of a kernel: `names` without pairs that are unordered."""
    unordered = {i for i, one in enumerate(function.arguments) if one.unordered}
    return tuple(
        PointsTo(each.parameters - (unordered - {index})) if index in unordered else each
        for index, each in enumerate(names)
    )


def _all_alias(function: Function) -> tuple[PointsTo, ...]:
    """Return `Alias.names` for parameters that may all alias."""
    every = PointsTo(frozenset(range(len(function.args))))
    return tuple(every for _ in function.args)


def rely_on_disjoint(
    aliases: Mapping[str, Alias], function: Function, pairs: Iterable[tuple[int, int]]
) -> None:
    """Record in a module's kernels that code of a function relies on disjoint parameters.

    pairs: parameters of the function, as `Alias.assumed` returns them. Those of a device function
        stand for all pairs of parameters of which a kernel writes one.
    """
    pairs = list(pairs)
    if function.kernel:
        _record(function, pairs)
    elif pairs:
        for each in aliases.values():
            if each.function.kernel:
                _record(each.function, _written_pairs(each))


def _record(kernel: Function, pairs: Iterable[tuple[int, int]]) -> None:
    for first, second in map(sorted, pairs):
        argument = kernel.arguments[first]
        if argument.aliased and kernel.arguments[second].aliased:
            continue  # they need not be disjoint: their accesses are unordered
        argument.disjoint = tuple(sorted({*argument.disjoint, second}))


def disjoint_parameters(kernel: Function) -> frozenset[tuple[str, str]]:
    """Return the names of the parameters that `rely_on_disjoint` has recorded, in pairs."""
    names = [value.name for value in kernel.args]
    return frozenset(
        (names[index], names[other])
        for index, argument in enumerate(kernel.arguments)
        for other in argument.disjoint
    )


def _written_pairs(kernel: Alias) -> Iterator[tuple[int, int]]:
    summary = kernel.summary
    for one in summary.reads.parameters | summary.writes.parameters:
        for other in summary.writes.parameters - {one}:
            if not kernel.names[one].may_alias(PointsTo(frozenset({other}))):
                yield one, other


def written_arguments(module: Module, kernel: Function) -> frozenset[str]:
    """Return the names of the parameters through which a kernel or its callees may write memory.

    A loaded pointer may be any pointer reachable through a pointer to pointers, so a write through
    it counts for every such parameter.
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


def _accessed(
    op: Operation, effect: Effect, facts: Mapping[Value, PointsTo], callees: Summaries
) -> PointsTo:
    if op.defn is inline_asm and op["volatile"]:  # may access what its operands lead to
        pointers = (facts[value] for value in op.inputs if addresses_memory(value.type))
        return reduce(PointsTo.__or__, pointers, UNKNOWN)
    if op.defn.pure or effect not in op.defn.effect:  # most are pure, and flags are slow
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
        if not addresses_memory(function.args[index].type):
            return NOWHERE
        return PointsTo(frozenset({index}))

    def unknown(self, ty: Type) -> PointsTo:
        return UNKNOWN if addresses_memory(ty) else NOWHERE

    def join(self, x: PointsTo, y: PointsTo) -> PointsTo:
        return x | y

    def transfer(self, op: Operation) -> Sequence[PointsTo]:
        if op.defn is control.call:
            return self.call(op)
        return [self.result(op) if addresses_memory(v.type) else NOWHERE for v in op.results]

    def result(self, op: Operation) -> PointsTo:
        """Return the union over the pointer operands; loaded and cast pointers are unknown."""
        if op.defn is arith.poison:
            return NOWHERE
        if op.defn is memory.load:
            other = op["other"]
            return UNKNOWN if other is None else UNKNOWN | self.facts[other]
        return reduce(PointsTo.__or__, self.sources(op), NOWHERE)

    def sources(self, op: Operation) -> list[PointsTo]:
        if op.inputs and isinstance(op.inputs[0].type, Shared):
            return self.stored(op.inputs[0])
        facts = [self.facts[value] for value in op.inputs if addresses_memory(value.type)]
        return facts or [UNKNOWN]

    def stored(self, buffer: Value) -> list[PointsTo]:
        """Return the facts of the values stored to a buffer if all its uses are in one block.

        Otherwise the contents are unknown.
        """
        stores = [op for op in buffer.users if not op.results]
        values = [value for op in stores for value in op.inputs[1:]]
        traceable = (
            all(op.block is buffer.block for op in buffer.users)
            and all(value in self.facts for value in values)
            and not any(isinstance(v.type, Shared) for op in buffer.users for v in op.results)
            and not any(op.defn.effect & Effect.READ for op in stores)
        )
        return [self.facts[value] for value in values] if traceable else [UNKNOWN]

    def call(self, op: Operation) -> Sequence[PointsTo]:
        summary = self.callees.get(op["callee"])
        if summary is None:
            return [self.unknown(value.type) for value in op.results]
        arguments = self.present(op)
        return [fact.through(arguments) for fact in summary.results]
