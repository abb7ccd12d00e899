"""Why a kernel is compiled again: what differs from the nearest kernel that was compiled before.

With TILE_PRINT_COMPILES=1, each compilation writes a line to the standard error:

    tile: compiling add for interp: no other one is in memory
    tile: compiling add for interp again: n is i32, not i32:16; num_warps is 8, not 4
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields

from tile.backends.base import Options, Target
from tile.runtime.kernel import CompiledKernel
from tile.runtime.specialize import Constant, Leaf, spell_leaf
from tile.short_repr import short_repr


def compile_reason(
    name: str,
    leaves: Mapping[str, Leaf],
    target: Target,
    options: Options,
    earlier: Iterable[CompiledKernel],
) -> str:
    """Return the line for the compilation of a kernel, after `earlier` ones of the same function.

    leaves: the specialization of each parameter.
    """
    each = [_differences(leaves, target, options, kernel) for kernel in earlier]
    head = f"tile: compiling {name} for {target}"
    if not each:
        return f"{head}: no other one is in memory"
    nearest = min(each, key=len)
    return f"{head} again: {'; '.join(nearest) or 'a setting changed'}"


def _differences(
    leaves: Mapping[str, Leaf], target: Target, options: Options, earlier: CompiledKernel
) -> list[str]:
    """Return what differs from an earlier kernel, each as a clause."""
    clauses = [] if target == earlier.target else [f"the target is {target}, not {earlier.target}"]
    for name, leaf in leaves.items():
        new, old = _spelled(leaf), _spelled(earlier.leaves[name])
        if new != old:
            clauses.append(f"{name} is {new}, not {old}")
    for field in fields(Options):
        new, old = (short_repr(getattr(one, field.name)) for one in (options, earlier.options))
        if new != old:
            clauses.append(f"{field.name} is {new}, not {old}")
    return clauses


def _spelled(leaf: Leaf) -> str:
    return short_repr(leaf.value) if isinstance(leaf, Constant) else str(spell_leaf(leaf))
