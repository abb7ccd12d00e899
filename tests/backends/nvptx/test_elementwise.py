"""Every operation on single registers, on every type it takes, is code that ptxas assembles."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

import pytest

from tests.backends.nvptx.assembling import ARCHITECTURES, Use, around, check, fragment
from tests.sampling import sample
from tile.backends.nvptx.emit.math import INSTRUCTIONS
from tile.ir.declare import OPS
from tile.ir.op_definition import OpDef
from tile.ir.ops.arith import NUMBERS, Predicate, Rounding
from tile.ir.semantics.libdevice import SYMBOLS
from tile.ir.types import ALL, F32, F64, I1, I32, I64, U8, U16, U32, U64, Pointer, Scalar


def uses(defn: OpDef) -> Iterator[Use]:
    """An operation on all its types, in fragments of two."""
    if defn.name == "select":
        for element in (*ALL, Pointer(F32)):
            yield Use(defn, (fragment(I1), fragment(element), fragment(element)))
    elif defn.name == "cmp":
        for element, predicate in product(defn.accepts, Predicate):
            yield Use(defn, (fragment(element),) * 2, {"predicate": predicate})
    elif defn.name in ("min", "max"):
        for element, propagate in product(defn.accepts, (False, True)):
            yield Use(defn, (fragment(element),) * 2, {"propagate_nan": propagate})
    elif defn.name == "bitcast":
        for source, to in product(NUMBERS, NUMBERS):
            if source.bits == to.bits:
                yield Use(defn, (fragment(source),), {"to": to})
    elif defn.name == "launder":
        for element in defn.accepts:
            yield Use(defn, (fragment(element), fragment(I32)))
    elif defn.name == "table":
        for element in (U8, U16, U32, U64):
            yield Use(defn, (fragment(I32),), {"of": element, "entries": (3, 1, 4, 1)})
    else:
        for element in defn.accepts:
            yield Use(defn, (fragment(element),) * len(defn.operands))


OTHERS = ("cast", "extern_elementwise")
ELEMENTWISE = [defn for defn in OPS if defn.elementwise and defn.name not in OTHERS]


@pytest.mark.parametrize(
    ("defn", "arch"),
    sample(ELEMENTWISE, ARCHITECTURES),
    ids=lambda value: value.name if isinstance(value, OpDef) else value,
)
def test_elementwise(defn: OpDef, arch: str) -> None:
    cases = list(uses(defn))
    assert cases
    for first in range(0, len(cases), 24):
        check(around(cases[first : first + 24]), arch)


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_functions_of_libdevice(arch: str) -> None:
    """All of them, each on one of the architectures; one depends on the architecture."""
    extern, count = OPS["extern_elementwise"], len(ARCHITECTURES)
    symbols = list(SYMBOLS.values())[ARCHITECTURES.index(arch) :: count]
    symbols.append(SYMBOLS["__nv_fast_tanhf"])
    cases = [
        Use(extern, tuple(map(fragment, symbol.operands)), {"symbol": symbol.name})
        for symbol in symbols
    ]
    for first in range(0, len(cases), 24):
        check(around(cases[first : first + 24]), arch)


@pytest.mark.parametrize(("source", "arch"), sample(ALL, ARCHITECTURES), ids=str)
def test_cast(source: Scalar, arch: str) -> None:
    cast = OPS["cast"]
    cases = [Use(cast, (fragment(source),), {"to": to}) for to in ALL]
    for to in ALL:
        if source.is_floating() and to.is_floating() and to.bits < source.bits:
            cases.append(Use(cast, (fragment(source),), {"to": to, "rounding": Rounding.RTZ}))
    check(around(cases), arch)


@pytest.mark.parametrize("name", ["shl", "shr"])
@pytest.mark.parametrize("element", [I64, U64], ids=str)
def test_counts_of_64_bits_fit_32_before_they_are_cut(name: str, element: Scalar) -> None:
    """LLVM's comparison with the width is no help: it leaves that to PTX, which sees the low half."""
    ptx = check(around([Use(OPS[name], (fragment(element),) * 2)]), "sm_90a")
    limits = re.findall(r"min\.u64 \t(%rd\d+), %rd\d+, 6[34];", ptx)
    assert len(limits) == 2
    assert re.findall(r"cvt\.u32\.u64 \t%r\d+, (%rd\d+);", ptx) == limits


@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("name", ["neg", "sub"])
def test_negations_are_no_part_of_minima_of_three(name: str, arch: str) -> None:
    """An assembler that takes one for that loses it."""
    ptx = check(NEGATIONS[name], arch)
    assert "neg.s32" not in ptx
    assert ptx.count("not.b32") == 4
    assert ptx.count("min.s32") == 3


MINIMA = """
kernel @minima(%x: ptr<i32>) {{
  %zero = const {{value = 0}} : i32
  %a = load %x {{volatile = true}} : i32
  %b = load %x {{volatile = true}} : i32
  %c = load %x {{volatile = true}} : i32
  %d = load %x {{volatile = true}} : i32
  %e = {negate} %a : i32
  %f = {negate} %b : i32
  %g = {negate} %c : i32
  %h = {negate} %d : i32
  %i = min %e, %f : i32
  %j = min %g, %h : i32
  %k = min %i, %j : i32
  store %x, %k
  return
}}
"""
NEGATIONS = {"neg": MINIMA.format(negate="neg"), "sub": MINIMA.format(negate="sub %zero,")}


RECIPROCALS = """
kernel @reciprocals(%x: ptr<f32>) {{
  %one = const {{value = 1.0}} : f32
  %v = load %x : f32
  %w = {divisor} %v : f32
  %y = div %one, %w : f32
  store %x, %y
  return
}}
"""


@pytest.mark.parametrize(("divisor", "kind"), [("sqrt", "rsqrt"), ("exp2", "rcp")])
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_one_over_something(divisor: str, kind: str, arch: str) -> None:
    ptx = check(RECIPROCALS.format(divisor=divisor), arch)
    assert f"\t{kind}.approx.f32" in ptx
    assert "div." not in ptx
    assert "sqrt.approx" not in ptx.replace("rsqrt.approx", "")


def test_instructions_are_as_close_as_the_language_promises() -> None:
    for defn, instruction in INSTRUCTIONS.items():
        assert defn.ulp is not None
        assert instruction.ulp <= defn.ulp


def test_functions_of_libdevice_select_coefficients() -> None:
    """No branch for each coefficient: one in `erf`, whose last step takes an exponential."""
    ptx = check(around([Use(OPS["erf"], (fragment(F32),))]), "sm_90a")
    elements = ptx.count("ex2.approx")
    assert elements and ptx.count("\tbra") + ptx.count(" bra") <= elements
    assert "__nvvm_reflect" not in ptx


@pytest.mark.parametrize("element", [F32, F64], ids=str)
def test_reductions_of_large_arguments_stay_loops(element: Scalar) -> None:
    """Neither LLVM nor ptxas, for which the pragma is, unrolls a loop of rare arguments."""
    ptx = check(around([Use(OPS["sin"], (fragment(element),))]), "sm_90a")
    back = [branch for branch in re.findall(r"bra\.uni \t(\S+);", ptx) if _is_loop(ptx, branch)]
    assert back
    for label in back:
        assert f'{label}:\n\t.pragma "nounroll";' in ptx


def _is_loop(ptx: str, label: str) -> bool:
    """Return True if a branch to a label goes back to it."""
    return ptx.index(f"{label}:") < ptx.index(f"bra.uni \t{label};")


def test_a_pass_builder_runs_passes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run with it calls what the first has left on the stack, and may end the process."""
    llvm = pytest.importorskip("llvmlite.binding")
    from tile.backends.nvptx import libdevice

    used: list[object] = []
    run = llvm.ModulePassManager.run

    def run_once(passes: object, module: object, builder: object) -> None:
        assert all(builder is not each for each in used)
        used.append(builder)
        run(passes, module, builder)

    monkeypatch.setattr(llvm.ModulePassManager, "run", run_once)
    libdevice.prepare_llvm()
    for extract in (libdevice._extract, libdevice._common):
        extract.cache_clear()
    for names in (["__nv_erff"], ["__nv_expf", "__nv_sinf"], ["__nv_erfinvf", "__nv_exp"]):
        defined = {f.name for f in libdevice.functions(names).functions if not f.is_declaration}
        assert defined >= set(names)
    assert used


def test_what_the_chip_only_approximates_is_done_by_libdevice() -> None:
    names = ("exp", "log", "log2", "sin", "cos", "tanh", "erf")
    ptx = check(around([Use(OPS[name], (fragment(F32),)) for name in names]), "sm_90a")
    for loose in ("lg2.approx", "tanh.approx"):
        assert loose not in ptx


def test_powers_of_two_are_one_instruction() -> None:
    ptx = check(around([Use(OPS["exp2"], (fragment(F32),))]), "sm_90a")
    assert "ex2.approx.ftz.f32" in ptx
    assert "ex2.approx.f32" not in ptx
