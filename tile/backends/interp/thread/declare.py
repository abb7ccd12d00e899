"""A decorator with which a file of rules fills its table."""

from __future__ import annotations

from collections.abc import Callable

from tile.backends.interp.code import Rules, Run
from tile.ir.core import Operation
from tile.ir.opdef import OpDef

Maker = Callable[[Operation], Run]


def rule_in(rules: Rules) -> Callable[[OpDef], Callable[[Maker], Maker]]:
    """Return a decorator that adds the rule of an operation to `rules`."""

    def rule(defn: OpDef) -> Callable[[Maker], Maker]:
        def declare(make: Maker) -> Maker:
            rules[defn] = make
            return make

        return declare

    return rule
