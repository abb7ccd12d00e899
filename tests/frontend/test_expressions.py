"""Expressions: their results and their IR."""

from __future__ import annotations

import enum
import math
from collections import namedtuple
from pathlib import Path

import pytest

import tile.language as tl
from tests.frontend.building import INTS, PTR, module_of, ops_of, refusal, stored, text_of
from tile.frontend.python.constexpr_function import constexpr_function
from tile.frontend.python.source import DeviceFunction
from tile.ir.types import F16, F32, I1, I32, I64, Pointer

LIMIT = tl.constexpr(5)
ANNOTATED: tl.constexpr = 6
HALF = tl.float16
NESTED = (tl.constexpr(2), (tl.float32, "text" and tl.constexpr("text")))
Pair = namedtuple("Pair", "left right")


class Mode(enum.Enum):
    FAST = 1
    SAFE = 2


@constexpr_function
def doubled(x, plus=0):
    return 2 * x + plus


def attributes(module, name, key):
    return [op[key] for op in module.walk() if op.name == name]


# -- operators


def test_every_operator_means_what_it_says():
    def kernel(out, a, b):
        tl.store(out, a + b)
        tl.store(out, a - b)
        tl.store(out, a * b)
        tl.store(out, a // b)
        tl.store(out, a % b)
        tl.store(out, a & b)
        tl.store(out, a | b)
        tl.store(out, a ^ b)
        tl.store(out, a << b)
        tl.store(out, a >> b)
        tl.store(out, -a)
        tl.store(out, +a)
        tl.store(out, ~a)

    assert stored(kernel, -7, 2) == [-5, -9, -14, -3, -1, 0, -5, -5, -28, -2, 7, -7, 6]


def test_operands_are_evaluated_from_left_to_right():
    def kernel(out, a, b):
        tl.store(out, (a + b) * (a - b) // (a % b))

    assert ops_of(module_of(kernel, INTS, I32, I32))[:5] == ["add", "sub", "mul", "rem", "div"]


def test_compile_time_numbers_are_computed_at_compile_time():
    def kernel(out, N: tl.constexpr):
        tl.store(out, N * 3 + 10 // 3 - (-7) // 2 + 2**3)

    assert stored(kernel, N=4) == [4 * 3 + 3 + 4 + 8]
    assert ops_of(module_of(kernel, INTS, N=4)) == ["const", "store", "return"]


@pytest.mark.parametrize("args", [(1, 2, 3), (1, 3, 2), (2, 1, 3), (2, 2, 2)])
def test_chained_comparison(args):
    def kernel(out, a, b, c):
        tl.store(out, 1 if a < b <= c else 0)
        tl.store(out, 1 if a == b == c else 0)
        tl.store(out, 1 if 0 < a < 3 > b else 0)

    a, b, c = args
    expected = [a < b <= c, a == b == c, 0 < a < 3 > b]
    assert stored(kernel, *args) == list(map(int, expected))


def test_the_middle_of_a_chain_is_evaluated_once():
    def kernel(out, a):
        tl.store(out, 1 if 0 < tl.load(out + a) < 9 else 0)

    assert ops_of(module_of(kernel, INTS, I32)).count("load") == 1


def test_a_chain_that_is_false_at_compile_time_stops():
    def kernel(out, a, N: tl.constexpr):
        if 5 < N < tl.load(out + a):
            tl.store(out, 1)

    assert "load" not in ops_of(module_of(kernel, INTS, I32, N=3))
    assert "load" in ops_of(module_of(kernel, INTS, I32, N=7))


@pytest.mark.parametrize("a, b", [(0, 0), (0, 3), (2, 0), (2, 3)])
def test_and_or_not_of_runtime_values(a, b):
    def kernel(out, a, b):
        tl.store(out, 1 if a and b else 0)
        tl.store(out, 1 if a or b else 0)
        tl.store(out, 1 if not a else 0)
        tl.store(out, 1 if not (a > 1 and b > 1) or a == b else 0)

    expected = [a and b, a or b, not a, not (a > 1 and b > 1) or a == b]
    assert stored(kernel, a, b) == [int(bool(x)) for x in expected]


def test_compile_time_and_or_decide_if_the_right_is_evaluated():
    def kernel(out, a, X: tl.constexpr):
        tl.store(out, 1 if X is not None and a > X else 0)
        tl.store(out, X or 7)
        tl.store(out, (X and 8) or 9)

    assert stored(kernel, 5, X=None) == [0, 7, 9]
    assert stored(kernel, 5, X=3) == [1, 3, 8]


def test_is_and_in_are_for_compile_time_values():
    def kernel(out, a, KIND: tl.constexpr, T: tl.constexpr):
        tl.store(out, 1 if KIND in ("gelu", "relu") else 0)
        tl.store(out, 1 if KIND not in ("gelu", "relu") else 0)
        tl.store(out, 1 if T is tl.float32 else 0)
        tl.store(out, 1 if a is None else 0)
        tl.store(out, 1 if T == tl.float16 else 0)

    assert stored(kernel, 1, KIND="relu", T=tl.float32) == [1, 0, 1, 0, 0]
    assert stored(kernel, 1, KIND="tanh", T=tl.float16) == [0, 1, 0, 0, 1]


# -- conditional expressions


def test_a_compile_time_choice_evaluates_one_side_only():
    def kernel(out, a, N: tl.constexpr):
        tl.store(out, a if N > 2 else undefined_name)  # noqa: F821

    assert ops_of(module_of(kernel, INTS, I32, N=3)) == ["store", "return"]


def test_choice_at_run_time_is_an_if():
    def kernel(out, a, b):
        x = tl.load(out + a) if a > b else 7
        tl.store(out, x)

    text = text_of(kernel, INTS, I32, I32)
    assert "%x = if %v : i32 {" in text
    assert text.index("if %v") < text.index("load")


def test_choice_between_a_number_and_a_value_takes_the_value_s_type():
    def kernel(out, a, x):
        tl.store(out, x if a else 0)
        tl.store(out, 1 if a else x)

    module = module_of(kernel, Pointer(F16), I32, F16)
    assert [op.result.type for op in module.walk() if op.name == "if"] == [F16, F16]


def test_choice_between_tuples():
    def kernel(out, a, b):
        x, y = (a, 1) if a > b else (b, 2)
        tl.store(out, x)
        tl.store(out, y)

    assert stored(kernel, 5, 3) == [5, 1]
    assert stored(kernel, 3, 5) == [5, 2]


# -- attributes, subscripts, tuples


def test_attributes_of_values_types_and_modules():
    def kernel(out, x):
        tl.static_assert(x.dtype == tl.float16)
        tl.static_assert(x.dtype.is_floating() and not x.dtype.is_int())
        tl.static_assert(x.dtype.primitive_bitwidth == 16)
        tl.static_assert(out.dtype.element_ty == tl.float32)
        tl.static_assert(out.dtype == tl.pointer_type(tl.float32))
        tl.static_assert(tl.zeros((4,), x.dtype).type == tl.block_type(tl.float16, [4]))
        tl.static_assert(x.shape == ())
        tl.static_assert(tl.PropagateNan.ALL is not tl.PropagateNan.NONE)
        tl.store(out, x.to(tl.float32))

    assert ops_of(module_of(kernel, PTR, F16)) == ["const", "cast", "store", "return"]


def test_attributes_of_compile_time_values():
    def kernel(out, N: tl.constexpr):
        tl.static_assert(N.value == 4 and N.type == tl.constexpr_type(4))
        tl.static_assert(N.logical_and(0) == 0 and N.logical_or(0) == 4)
        tl.static_assert(N < tl.TRITON_MAX_TENSOR_NUMEL)
        tl.static_assert(tl.dtype("fp32") == tl.float32)
        tl.static_assert(tl.tuple([3, 4])[tl.slice(0, 1)] == (3,))
        tl.store(out, N.value)

    assert stored(kernel, N=4) == [4]


def test_new_axes_of_one_pointer():
    def kernel(out):
        tl.store(out[None, None], tl.load(out[None] + 0)[None])

    assert "store" in ops_of(module_of(kernel, PTR))


def test_logical_methods_are_elementwise():
    def kernel(out):
        x = tl.arange(0, 4)
        middle = (x > 0).logical_and(x < 3).logical_or(0)
        tl.static_assert(middle.dtype == tl.int1)
        (out + x).store(middle.to(tl.float32))

    assert "and" in ops_of(module_of(kernel, PTR))


def test_comprehensions_are_tuples():
    def kernel(out, x, N: tl.constexpr):
        i = 7
        parts = [x * i for i in range(1, N)]
        pairs = tuple((j, k) for j in (1, 2) for k in tl.static_range(3) if j != k if k > 0)
        tl.static_assert(pairs == ((1, 2), (2, 1)))
        tl.store(out, i)
        tl.static_assert(sum(a for a, b in pairs) == 3)
        for part in parts:
            tl.store(out, part)

    assert stored(kernel, 2, N=4) == [7, 2, 4, 6]


def test_a_name_of_a_comprehension_is_bound_only_inside():
    def kernel(out):
        a = [WIDTH * 1 for WIDTH in (1, 2)]
        tl.store(out, WIDTH + a[0])
        b = [unbound * 1 for unbound in a]
        tl.store(out, b[0] + unbound)  # noqa: F821

    assert "`unbound`" in refusal(kernel, PTR).message


WIDTH = tl.constexpr(3)


def test_comprehensions_of_values_known_only_at_run_time():
    def endless(out, n):
        tl.store(out, max([i * 2 for i in range(n)]))

    def doubtful(out, n):
        tl.store(out, max([i for i in (1, 2) if n > 0]))

    def large(out, n):
        tl.store(out, max([i * 2 for i in range(1 << 20)]))

    for kernel, message in (
        (endless, "a bound of the range of a comprehension must be known"),
        (doubtful, "the condition of a comprehension must be known"),
        (large, "the tuple of this comprehension is too large"),
    ):
        assert message in refusal(kernel, PTR, I32).message


def test_jitted_functions_in_tuples():
    def kernel(out, x):
        tl.store(out, compose((double, increment), x))
        tl.store(out, compose(FUNCTIONS, x))

    assert stored(kernel, 3) == [7, 8]


@DeviceFunction
def double(x):
    return x * 2


@DeviceFunction
def increment(x):
    return x + 1


@DeviceFunction
def compose(functions, x):
    return functions[1](functions[0](x))


FUNCTIONS = (increment, double)


def test_subscripts_make_axes_and_take_items():
    def kernel(out, SHAPE: tl.constexpr):
        rows = tl.arange(0, SHAPE[0])[:, None]
        columns = tl.arange(0, SHAPE[-1])[None, :]
        tl.store(out + rows * 8 + columns, tl.zeros(SHAPE, tl.float32))
        tl.static_assert(SHAPE[1:] == (8,))

    text = text_of(kernel, PTR, SHAPE=(4, 8))
    assert "expand_dims" in text and "tile<4x8xptr<f32>>" in text


def test_lists_are_tuples_and_stars_spread():
    def kernel(out, N: tl.constexpr):
        shape = [N, 4]
        tl.static_assert((*shape, 1) == (8, 4, 1))
        tl.store(out + tl.arange(0, 8), tl.sum(tl.zeros(shape, tl.float32), axis=1))

    assert "const {value = 0.0} : tile<8x4xf32>" in text_of(kernel, PTR, N=8)


def test_named_tuples_keep_their_names():
    def kernel(out, a, P: tl.constexpr):
        left, right = P
        tl.store(out, left + a * P.right + right)

    assert stored(kernel, 3, P=Pair(1, 10)) == [1 + 30 + 10]


# -- names


def test_captured_constants():
    factor = tl.constexpr(3)

    def kernel(out, a):
        tl.store(out, a * LIMIT + ANNOTATED + factor + NESTED[0])
        tl.static_assert(HALF == tl.float16 and NESTED[1] == (tl.float32, "text"))
        tl.static_assert(Mode.FAST is not Mode.SAFE)

    assert stored(kernel, 2) == [2 * 5 + 6 + 3 + 2]


def test_python_s_functions():
    def kernel(out, a, b, N: tl.constexpr):
        tl.store(out, max(a, b, 3))
        tl.store(out, min(a, N))
        tl.store(out, max(N, 5) + len((1, 2)) + int(2.9) + abs(-3))
        tl.store(out, math.ceil(N / 3) + doubled(N, plus=1) + round(2.6))
        tl.static_assert(
            float("inf") > 1 and bool(N) and str(N) == "4" and isinstance(a, tl.tensor)
        )
        tl.static_assert(isinstance(N, tl.constexpr) and not isinstance(a, tl.constexpr))
        tl.static_assert(isinstance(N, int) and "x".upper() == "X" and math.pi > 3)

    assert stored(kernel, 7, 2, N=4) == [7, 4, 5 + 2 + 2 + 3, 2 + 9 + 3]


def test_messages_may_be_formatted(capsys):
    def kernel(out, a, N: tl.constexpr):
        tl.static_print(f"N is {N:>4}, {N!r}, {'text'!s} and a", a, sep="|")
        tl.store(out, a)

    module_of(kernel, INTS, I32, N=4)
    assert capsys.readouterr().out == "N is    4, 4, text and a|<value of type i32>\n"


# -- names in the IR


def test_values_are_called_after_python_s_names():
    def kernel(out, n):
        twice = n * 2
        both = (twice, n + 1)
        for step in range(n):
            twice += step
        tl.store(out, twice + both[1])

    text = text_of(kernel, INTS, I32)
    assert "%twice = mul" in text and "%both.1 = add" in text and "for %step" in text


def test_every_operation_has_its_place():
    def kernel(out, a):
        x = a * 2 + \
            a  # fmt: skip
        tl.store(out, x)

    module = module_of(kernel, INTS, I32)
    first = kernel.__code__.co_firstlineno
    mul, add, store = (
        next(op for op in module.walk() if op.name == n) for n in ("mul", "add", "store")
    )
    assert (mul.loc.line, mul.loc.column, mul.loc.end_column) == (first + 1, 12, 17)
    assert (add.loc.line, add.loc.column, add.loc.function) == (first + 1, 12, "kernel")
    assert store.loc.line == first + 3


def test_columns_count_characters_not_bytes():
    def kernel(out, a):
        tl.store(out, a + (1 if "ärger" != "öl" else 2))

    module = module_of(kernel, INTS, I32)
    add, store = (next(op for op in module.walk() if op.name == n) for n in ("add", "store"))
    text = Path(__file__).read_text(encoding="utf-8").splitlines()[add.loc.line - 1]
    assert text[add.loc.column : add.loc.end_column] == 'a + (1 if "ärger" != "öl" else 2)'
    assert text[store.loc.column : store.loc.end_column] == text.strip()


def test_i1_and_wide_constants():
    def kernel(out, a):
        flag = True
        wide = 1 << 40
        tl.store(out, wide + a)
        tl.store(out, flag)

    module = module_of(kernel, Pointer(I64), I32)
    types = {op.result.name: op.result.type for op in module.walk() if op.name == "const"}
    assert types["flag"] == I1 and types["wide"] == I64
    assert F32 not in types.values()


def test_names_of_any_alphabet_print_and_parse():
    def größe(out, ö):
        for ü in range(ö):
            ä = ö * ü
            tl.store(out, ä)

    text = text_of(größe, INTS, I32)
    assert "kernel @größe(%out: ptr<i32>, %_ö: i32)" in text
    assert "for %_ü" in text and "%_ä = mul" in text


def test_the_kind_of_a_type_is_a_call():
    def kernel(out, a):
        tl.static_assert(a.dtype.kind() == tl.dtype.KIND.INTEGRAL)
        tl.static_assert(a.dtype.kind() < tl.float32.kind())
        tl.store(out, a)

    assert stored(kernel, 3) == [3]


# -- getattr and hasattr


def test_attributes_by_name():
    def kernel(out, a, b):
        pair = Pair(a, b)
        tl.store(out, getattr(pair, "right"))  # noqa: B009
        tl.store(out, getattr(a, "dtype").primitive_bitwidth)  # noqa: B009
        tl.store(out, getattr(pair, "middle", 5))
        tl.store(out, getattr(tl, "maximum")(a, b))  # noqa: B009
        if hasattr(pair, "left") and hasattr(a, "to") and not hasattr(a, "nothing"):
            tl.store(out, 7)
        if not hasattr(tl, "nothing") and not hasattr(pair, "middle"):
            tl.store(out, 8)

    assert stored(kernel, 1, 2) == [2, 32, 5, 2, 7, 8]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("getattr(math, 'pi')", "takes no attribute of module `math`; write `math.pi`"),
        ("hasattr(Mode, 'FAST')", "; write `Mode.FAST`"),
        ("getattr(pair, 'lefd')", "has no attribute `lefd`; did you mean `left`?"),
        ("getattr(pair, 3)", "the name in `getattr` is a text, not"),
        ("hasattr(pair, 'left', 1)", "`hasattr` takes an object and a name"),
        ("getattr(pair)", "`getattr` takes an object and a name, and a default"),
    ],
)
def test_attributes_by_name_are_refused(tmp_path, call, message):
    path = tmp_path / "kernel.py"
    path.write_text(f"def kernel(out, a, b):\n    pair = Pair(a, b)\n    tl.store(out, {call})\n")
    scope = {"tl": tl, "math": math, "Pair": Pair, "Mode": Mode}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    error = refusal(scope["kernel"], out=PTR, a=I32, b=I32)
    assert message in error.message
