"""A reference evaluator of scalar IR for control flow: one program, Python integers, logged stores.

It knows poison, and what may be done with it: as the frontend made it no operation looks at it, and after
passes, which may compute both sides of a branch, nothing that is seen depends on it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tile.ir.core import Block, Function, Operation, Value
from tile.ir.module import Module
from tile.ir.types import Scalar

POISON = object()
COMPARE = {
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
SIMPLE: dict[str, Callable[..., Any]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "neg": operator.neg,
    "shl": operator.lshift,
    "shr": operator.rshift,
    "div": lambda x, y: x / y if isinstance(x, float) else int(x / y),
    "rem": lambda x, y: x - y * int(x / y),
    "min": min,
    "max": max,
    "select": lambda c, x, y: x if c else y,
    "hint": lambda x: x,
}


class PoisonError(AssertionError):
    """A value that must not matter was looked at."""


class ScalarMachine:
    """Runs the kernel of a module; `log` has the (offset, value) of every store, in order."""

    def __init__(self, module: Module, *, strict: bool = True, steps: int = 50_000) -> None:
        self.module = module
        self.strict = strict
        self.log: list[tuple[int, Any]] = []
        self.steps = steps

    def run(self, *args: Any) -> list[tuple[int, Any]]:
        """Run the kernel; pointers are given as offsets."""
        self.call(self.module.kernel, args)
        return self.log

    def call(self, function: Function, args: Any) -> list[Any]:
        env = dict(zip(function.args, args, strict=True))
        return self.block(function.body, env)

    def block(self, block: Block, env: dict[Value, Any]) -> list[Any]:
        """Run a region; the operands of its terminator."""
        for op in block:
            if op.defn.terminator:
                return [env[v] for v in op.inputs]
            results = self.op(op, env)
            env.update(zip(op.results, results, strict=True))
        raise AssertionError("a block has no terminator")

    def op(self, op: Operation, env: dict[Value, Any]) -> list[Any]:
        self.steps -= 1
        assert self.steps > 0, "the program does not end"
        structured = getattr(self, f"on_{op.name}", None)
        args = [env[v] for v in op.inputs]
        if structured is not None:
            return structured(op, env, args)
        if any(x is POISON for x in args):
            if self.strict or not op.defn.pure:
                raise PoisonError(f"{op.name} at {op.loc} reads poison")
            if op.name != "select" or args[0] is POISON:
                return [POISON] * len(op.results)
        return self.plain(op, args)

    def plain(self, op: Operation, args: list[Any]) -> list[Any]:
        if op.name == "const":
            return [op["value"]]
        if op.name == "poison":
            return [POISON]
        if op.name == "store":
            self.log.append((args[0], args[1]))
            return []
        if op.name == "addptr":
            return [args[0] + args[1]]
        if op.name == "cmp":
            return [COMPARE[op["predicate"]](*args)]
        if op.name == "not":
            return [not args[0] if isinstance(args[0], bool) else ~args[0]]
        if op.name == "cast":
            return [_cast(args[0], op["to"])]
        return [SIMPLE[op.name](*args)]

    def condition(self, op: Operation, value: Any) -> bool:
        if value is POISON:
            raise PoisonError(f"{op.name} at {op.loc} decides by poison")
        assert isinstance(value, bool), value
        return value

    def on_if(self, op: Operation, env: dict[Value, Any], args: list[Any]) -> list[Any]:
        taken = op.regions[0 if self.condition(op, args[0]) else 1]
        return self.block(taken, env)

    def on_for(self, op: Operation, env: dict[Value, Any], args: list[Any]) -> list[Any]:
        lower, upper, step, *carried = args
        assert not any(x is POISON for x in (lower, upper, step))
        body = op.regions[0]
        for index in range(lower, upper, step):
            env.update(zip(body.args, [index, *carried], strict=True))
            carried = self.block(body, env)
        return carried

    def on_while(self, op: Operation, env: dict[Value, Any], args: list[Any]) -> list[Any]:
        test, body = op.regions
        carried = args
        while True:
            env.update(zip(test.args, carried, strict=True))
            (goes,) = self.block(test, env)
            if not self.condition(op, goes):
                return carried
            env.update(zip(body.args, carried, strict=True))
            carried = self.block(body, env)

    def on_call(self, op: Operation, env: dict[Value, Any], args: list[Any]) -> list[Any]:
        return self.call(self.module[op["callee"]], args)


def _cast(value: Any, to: Scalar) -> Any:
    if to.is_bool():
        return bool(value)
    return float(value) if to.is_floating() else int(value)
