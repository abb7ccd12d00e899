"""The call graph of a module."""

from __future__ import annotations

from collections.abc import Iterator

from tile.errors import IRError
from tile.ir.core import Function, Operation
from tile.ir.module import Module
from tile.ir.ops import control


class CallGraph:
    """The calls between the functions that a module defines; calls of others are ignored."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.calls: dict[Function, list[Operation]] = {
            function: [op for op in function.walk() if op.defn is control.call]
            for function in module
        }

    def callees(self, function: Function) -> list[Function]:
        """Return the functions that a function calls, each once, in the order of the calls."""
        callees = (self.callee(op) for op in self.calls[function])
        return list(dict.fromkeys(callee for callee in callees if callee is not None))

    def callee(self, call: Operation) -> Function | None:
        return self.module.functions.get(call["callee"])

    def bottom_up(self) -> list[Function]:
        """Return all functions in post-order, callees first. Raises `IRError` on recursion."""
        order: list[Function] = []
        for function in self.module:
            order.extend(self._visit(function, set(order)))
        return order

    def _visit(self, root: Function, done: set[Function]) -> list[Function]:
        """Return the functions reachable from `root` and not done, callees first (iteratively)."""
        order: list[Function] = []
        path = [root] if root not in done else []
        pending = [iter(self.callees(root))]
        while path:
            callee = next(pending[-1], None)
            if callee is None:
                pending.pop()
                order.append(path.pop())
                done.add(order[-1])
            elif callee in path:
                self._refuse([*path[path.index(callee) :], callee])
            elif callee not in done:
                path.append(callee)
                pending.append(iter(self.callees(callee)))
        return order

    def _refuse(self, cycle: list[Function]) -> None:
        call = next(op for op in self.calls[cycle[-2]] if self.callee(op) is cycle[-1])
        chain = " calls ".join(map(str, cycle))
        raise IRError(f"recursion: {chain}; a function cannot call itself", loc=call.loc)

    def reachable(self, roots: list[Function]) -> set[Function]:
        """Return `roots` and the functions that they call, directly or indirectly."""
        visited: set[Function] = set()
        worklist = list(roots)
        while worklist:
            function = worklist.pop()
            if function not in visited:
                visited.add(function)
                worklist.extend(self.callees(function))
        return visited

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for function, calls in self.calls.items():
            callees = dict.fromkeys(f"@{op['callee']}" for op in calls)
            names = ", ".join(callees) or "nothing"
            times = f" ({len(calls)} calls)" if len(calls) > 1 else ""
            yield f"{function} calls {names}{times}"
