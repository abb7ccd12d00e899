"""Translation of IR to code with checks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from tile.analysis.alias import module_aliases
from tile.backends.interp.checks.assumptions import claiming
from tile.backends.interp.checks.combining import combining
from tile.backends.interp.checks.propagate import propagated
from tile.backends.interp.checks.rules import CHECKED, without_poison
from tile.backends.interp.checks.sources import checked_source
from tile.backends.interp.code import Code, Rules, Translator, translate
from tile.checks import Check, Checks
from tile.ir.core import Module, Operation
from tile.ir.ops import arith, memory
from tile.ir.types import Pointer
from tile.transforms.expand_descriptors import expand_descriptors

Run = Callable[..., Any]


@dataclass(frozen=True, eq=False)
class CheckedCode:
    """Code of a module with checks.

    `written` names the parameters through which it writes (None: it may write all memory).
    `acquires` is True if an atomic may order a program after another one. `min_element_bytes` is
    the least size of elements that pointers are cast to; None if there are no such casts.
    """

    code: Code
    checks: Checks
    written: frozenset[str] | None
    acquires: bool
    min_element_bytes: int | None


def translate_checked(
    module: Module,
    rules: Rules,
    checks: Checks,
    translator: Callable[..., CheckedTranslator] | None = None,
) -> CheckedCode:
    """Translate a module to code with checks; see `translate`.

    Descriptor accesses are expanded to pointer accesses first, which the checks handle.
    """
    module = module.clone()
    expand_descriptors(module, simplify=False)
    code = translate(module, rules, partial(translator or CheckedTranslator, checks=checks))
    return CheckedCode(
        code,
        checks,
        _written_parameters(module),
        any(map(_acquires, module.walk())),
        _min_element_bytes(module),
    )


class CheckedTranslator(Translator):
    """Translates operations to instructions that propagate and check poison."""

    def __init__(self, rules: Rules, checks: Checks) -> None:
        super().__init__(rules)
        self.checks = checks

    def inner(self) -> CheckedTranslator:
        return CheckedTranslator(self.rules, self.checks)

    def run(self, op: Operation) -> Run:
        run = super().run(op)
        checked = CHECKED.get(op.defn)
        if checked is not None:
            return collect_faults(checked(op, run, self.checks))
        if op.defn.isolated:
            return combining(op, self.regions(op))
        if op.defn is arith.hint and Check.ASSUME in self.checks:
            run = claiming(op, run)
        if op.defn in self.rules and op.defn is not arith.bitcast:
            return without_poison(run)
        return propagated(op, checked_source(op, run, self.checks))


def collect_faults(run: Run) -> Run:
    """Return an instruction that reports its faults together, after it has run."""

    def instruction(batch: Any, *values: Any) -> Any:
        with batch.launch.fault_collector:
            return run(batch, *values)

    return instruction


def _written_parameters(module: Module) -> frozenset[str] | None:
    """Return the parameters through which a kernel writes; None if it may write anywhere."""
    kernel = module.kernel
    writes = module_aliases(module)[kernel.name].summary.writes
    if writes.unknown:
        return None
    return frozenset(v.name for index, v in enumerate(kernel.args) if index in writes.parameters)


def _acquires(op: Operation) -> bool:
    if op.defn not in (memory.atomic_rmw, memory.atomic_cas):
        return False
    shared = op["scope"] is not memory.Scope.PROGRAM
    return bool(op.result.uses) and op["order"].acquires and shared


def _min_element_bytes(module: Module) -> int | None:
    """Return the size in bytes of the smallest element that a pointer is cast to; None if none."""
    sizes = [
        op.result.type.element.pointee.itemsize
        for op in module.walk()
        if op.defn is arith.bitcast and isinstance(op.result.type.element, Pointer)
    ]
    return min(sizes, default=None)
