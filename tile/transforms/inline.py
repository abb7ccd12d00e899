"""Inlining of calls."""

from __future__ import annotations

from tile.analysis.call_graph import CallGraph
from tile.ir.core import Function, Operation, Value, clone
from tile.ir.module import Module
from tile.ir.ops import control
from tile.ir.passes import module_pass
from tile.location import Loc
from tile.transforms.region_utils import renamed


@module_pass("inline")
def inline(module: Module) -> None:
    """Replace calls by the bodies of the called functions, except calls of `noinline` functions.

    In a combine region, all calls are inlined, `noinline` or not. The location of an inlined
    operation is its location in the callee, with the call's location as its caller. `dce` removes
    functions that are no longer called. Recursion raises `IRError`.

        func @twice(%x: f32) -> (f32) {           kernel @k(%p: ptr<f32>) {
          %y = add %x, %x : f32                     %a = load %p : f32
          return %y                                 %y = add %a, %a : f32
        }                                           store %p, %y
        kernel @k(%p: ptr<f32>) {                   return
          %a = load %p : f32                      }
          %b = call %a {callee = @twice} : f32
          store %p, %b
          return
        }
    """
    graph = CallGraph(module)
    for function in graph.bottom_up():
        worklist = list(graph.calls[function])
        while worklist:
            op = worklist.pop()
            callee = graph.callee(op)
            if callee is not None and (not callee.noinline or _in_combine_region(op)):
                worklist.extend(_inline(op, callee))


def _in_combine_region(call: Operation) -> bool:
    return any(outer.defn.isolated for outer in call.ancestors())


def _inline(call: Operation, callee: Function) -> list[Operation]:
    """Replace a call by the callee's body, and return the calls in the inlined body."""
    mapping: dict[Value, Value] = dict(zip(callee.args, call.inputs, strict=True))

    def relocated(loc: Loc | None) -> Loc | None:
        return call.loc if loc is None else loc.called_from(call.loc)

    end = callee.body.last
    assert end is not None
    copies = [clone(op, mapping, relocated) for op in callee.body if op is not end]
    for copy in copies:
        copy.move_before(call)
    call.replace_by(renamed(end.inputs, mapping))
    return [op for copy in copies for op in copy.walk() if op.defn is control.call]
