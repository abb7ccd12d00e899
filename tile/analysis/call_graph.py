"""Who calls whom."""

from __future__ import annotations

from collections.abc import Iterator

from tile.errors import IRError
from tile.ir.core import Function, Module, Operation
from tile.ir.ops import control


class CallGraph:
    """The calls of a module. Calls of functions that the module lacks are left to the verifier."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.calls: dict[Function, list[Operation]] = {
            function: [op for op in function.walk() if op.defn is control.call]
            for function in module
        }

    def callees(self, function: Function) -> list[Function]:
        """The functions that a function calls, each once, in the order of the calls."""
        found = (self.callee(op) for op in self.calls[function])
        return list(dict.fromkeys(callee for callee in found if callee is not None))

    def callee(self, call: Operation) -> Function | None:
        return self.module.functions.get(call["callee"])

    def bottom_up(self) -> list[Function]:
        """All functions, each after those it calls. Raises `IRError` if a function calls itself."""
        order: list[Function] = []
        for function in self.module:
            order.extend(self._visit(function, set(order)))
        return order

    def _visit(self, root: Function, done: set[Function]) -> list[Function]:
        """Those reachable from `root` and not done, callees first; without Python recursion."""
        order: list[Function] = []
        path = [root] if root not in done else []
        waiting = [iter(self.callees(root))]
        while path:
            callee = next(waiting[-1], None)
            if callee is None:
                waiting.pop()
                order.append(path.pop())
                done.add(order[-1])
            elif callee in path:
                self._refuse([*path[path.index(callee) :], callee])
            elif callee not in done:
                path.append(callee)
                waiting.append(iter(self.callees(callee)))
        return order

    def _refuse(self, cycle: list[Function]) -> None:
        call = next(op for op in self.calls[cycle[-2]] if self.callee(op) is cycle[-1])
        chain = " calls ".join(map(str, cycle))
        raise IRError(f"recursion: {chain}; a function cannot call itself", loc=call.loc)

    def reachable(self, roots: list[Function]) -> set[Function]:
        """The functions that `roots` call, directly or not, and `roots` themselves."""
        found: set[Function] = set()
        waiting = list(roots)
        while waiting:
            function = waiting.pop()
            if function not in found:
                found.add(function)
                waiting.extend(self.callees(function))
        return found

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        for function, calls in self.calls.items():
            names = ", ".join(map(str, self.callees(function))) or "nothing"
            times = f" ({len(calls)} calls)" if len(calls) > 1 else ""
            yield f"{function} calls {names}{times}"
