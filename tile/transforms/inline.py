"""Inlining of calls."""

from __future__ import annotations

from tile.analysis.call_graph import CallGraph
from tile.errors import Loc
from tile.ir.core import Function, Module, Operation, Value, clone
from tile.ir.passes import module_pass
from tile.transforms.regions import renamed


@module_pass("inline")
def inline(module: Module) -> None:
    """Put the bodies of called functions in place of the calls; a `noinline` function stays called.

    An inlined operation's location is that in the callee, called from that of the call. Functions that
    nobody calls any more are left for `dce`. Recursion is refused.

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
        for op in graph.calls[function]:
            callee = graph.callee(op)
            if callee is not None and not callee.noinline:
                _inline(op, callee)


def _inline(call: Operation, callee: Function) -> None:
    assert call.block is not None
    mapping: dict[Value, Value] = dict(zip(callee.args, call.inputs, strict=True))

    def relocated(loc: Loc | None) -> Loc | None:
        return call.loc if loc is None else loc.called_from(call.loc)

    end = callee.body.last
    assert end is not None
    for op in callee.body:
        if op is not end:
            call.block.insert(clone(op, mapping, relocated), call)
    call.replace_by(renamed(end.inputs, mapping))
