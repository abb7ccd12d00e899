"""Aliasing of parameters, by the pointers that calls pass."""

from __future__ import annotations

import itertools

import pytest

from tile.analysis.alias import (
    alias,
    disjoint_parameters,
    module_aliases,
    rely_on_disjoint,
)
from tile.ir.parser import parse_module

CALLS = """
kernel @k(%a: ptr<f32>, %b: ptr<f32>, %t: ptr<ptr<f32>>, %n: i32) {
  call %a, %b, %a, %n {callee = @same}
  call %b, %a, %b, %n {callee = @same}
  call %a, %b {callee = @swapped}
  call %b, %a {callee = @swapped}
  %q = addptr %b, %n {stride = 4} : ptr<f32>
  call %b, %q {callee = @chosen}
  %u = load %t : ptr<f32>
  call %a, %u, %b {callee = @loaded}
  return
}
func noinline @same(%p: ptr<f32>, %q: ptr<f32>, %r: ptr<f32>, %n: i32) {
  call %p, %q, %r {callee = @deeper}
  return
}
func noinline @deeper(%p: ptr<f32>, %q: ptr<f32>, %r: ptr<f32>) {
  return
}
func noinline @swapped(%p: ptr<f32>, %q: ptr<f32>) {
  return
}
func noinline @chosen(%p: ptr<f32>, %q: ptr<f32>) {
  return
}
func noinline @loaded(%p: ptr<f32>, %q: ptr<f32>, %r: ptr<f32>) {
  return
}
func noinline @nobody(%p: ptr<f32>, %q: ptr<f32>) {
  return
}
"""


@pytest.mark.parametrize(
    ("function", "aliasing"),
    [
        ("k", set()),
        ("same", {"pr"}),
        ("deeper", {"pr"}),
        ("swapped", set()),
        ("chosen", {"pq"}),
        ("loaded", {"pq", "qr"}),
        ("nobody", {"pq"}),
    ],
)
def test_parameters_that_share_memory(function: str, aliasing: set[str]) -> None:
    aliases = module_aliases(parse_module(CALLS))[function]
    pointers = [value for value in aliases.function.args if value.name not in "tn"]
    assert all(aliases.may_alias(value, value) for value in pointers)
    pairs = {f"{x.name}{y.name}" for x, y in itertools.combinations(pointers, 2)}
    assert len(pairs) == len(pointers) * (len(pointers) - 1) // 2
    shared = {
        f"{x.name}{y.name}"
        for x, y in itertools.permutations(pointers, 2)
        if aliases.may_alias(x, y)
    }
    assert shared == aliasing | {pair[::-1] for pair in aliasing}


def test_parameters_of_a_function_alone_may_all_alias() -> None:
    function = parse_module(CALLS)["swapped"]
    assert alias(function).may_alias(*function.args)


def test_summaries_name_what_was_passed() -> None:
    """Parameters that alias in one call do not add writes to other calls."""
    module = parse_module("""
kernel @k(%a: ptr<f32>, %b: ptr<f32>, %v: f32) {
  call %a, %a, %v {callee = @stores}
  call %a, %b, %v {callee = @stores}
  return
}
func noinline @stores(%p: ptr<f32>, %q: ptr<f32>, %v: f32) {
  store %p, %v
  return
}
""")
    aliases = module_aliases(module)
    assert aliases["k"].summary.writes.parameters == {0}
    assert aliases["stores"].may_alias(*aliases["stores"].function.args[:2])


FLAGGED = """
kernel @k(%a: ptr<f32> {aliased}, %b: ptr<f32> {aliased}, %c: ptr<f32>, %d: ptr<f32> {noalias, aliased}) {
  return
}
"""


def test_aliased_parameters_of_a_kernel_may_alias_each_other() -> None:
    module = parse_module(FLAGGED)
    found = module_aliases(module)["k"]
    args = module.kernel.args
    aliasing = {
        x.name + y.name for x, y in itertools.combinations(args, 2) if found.may_alias(x, y)
    }
    assert aliasing == {"ab"}
    assert found.assumed(args[0], args[1]) == set()
    assert found.assumed(args[0], args[2]) == {(0, 2), (1, 2)}


def test_code_of_a_function_relies_on_all_that_its_kernels_write() -> None:
    module = parse_module(CALLED)
    aliases = module_aliases(module)
    rely_on_disjoint(aliases, module["store"], [])
    assert not disjoint_parameters(module.kernel)
    rely_on_disjoint(aliases, module["store"], [(0, 1)])
    assert disjoint_parameters(module.kernel) == {("a", "b")}


CALLED = """
kernel @k(%a: ptr<f32>, %b: ptr<f32>, %c: ptr<f32>) {
  call %a, %b {callee = @store}
  return
}
func noinline @store(%p: ptr<f32>, %q: ptr<f32>) {
  %x = load %p : f32
  store %q, %x
  return
}
"""
