"""Branches, loops and exits: the structure of the IR, and the values of names afterwards."""

from __future__ import annotations

import re

import pytest

import tile.language as tl
from tests.frontend.building import INTS, PTR, module_of, ops_of, refusal, stored, text_of
from tile.frontend.python.expressions import warn_unread
from tile.ir.types import F32, I8, I32, I64, U32, Pointer


def squeezed(text: str) -> str:
    """IR text with value numbers and spaces evened out."""
    return re.sub(r"\s+", " ", text)


# -- if


def test_a_tile_of_one_element_is_a_condition():
    def kernel(out, x):
        if tl.zeros((1, 1), tl.int32) + x > 2:
            tl.store(out, 1.0)
        else:
            tl.store(out, 2.0)

    assert [op for op in ops_of(module_of(kernel, PTR, I32)) if op in ("reduce", "if")] == [
        "reduce",
        "if",
    ]


def test_a_compile_time_condition_leaves_one_branch():
    def kernel(out, a, N: tl.constexpr):
        if N > 3:
            x = a
        elif N > 1:
            x = undefined_name  # noqa: F821
        else:
            x = tl.zeros((3,), tl.float32)
        tl.store(out, x)

    assert ops_of(module_of(kernel, INTS, I32, N=4)) == ["store", "return"]


def test_a_constant_condition_counts_as_compile_time():
    def kernel(out, a):
        verbose = False
        if verbose:
            tl.store(out, undefined_name)  # noqa: F821
        tl.store(out, a)

    assert "if" not in ops_of(module_of(kernel, INTS, I32))


def test_what_branches_assign_comes_out_of_the_if():
    def kernel(out, a, b):
        x = a
        if a > b:
            x = b
            y = 1
        else:
            y = 2
        tl.store(out, x + y)

    text = text_of(kernel, INTS, I32, I32)
    assert re.search(r"%x\w*, %y\w* = if %v : i32, i32 \{", text)
    assert stored(kernel, 5, 3) == [4] and stored(kernel, 3, 5) == [5]


def test_names_that_are_alike_in_one_branch_only_are_distinguished():
    def kernel(out, a, b, c):
        if a > 0:
            x, y, z = a, a, a
        else:
            x, y, z = b, c, b
        tl.store(out, x * 100 + y * 10 + z)

    assert text_of(kernel, INTS, I32, I32, I32).count(" = if %v_1 : i32, i32 {") == 1
    assert stored(kernel, 1, 2, 3) == [111] and stored(kernel, -1, 2, 3) == [232]


def test_a_branch_that_changes_nothing_yields_nothing():
    def kernel(out, a):
        x = a
        if a > 0:
            tl.store(out, x)
            x = x
        tl.store(out, x)

    assert " = if" not in text_of(kernel, INTS, I32)


def test_a_scalar_that_is_no_truth_value_is_compared_with_zero():
    def kernel(out, a, f):
        if a:
            tl.store(out, 1)
        if f:
            tl.store(out, 2)

    text = text_of(kernel, INTS, I8, F32)
    assert text.count("cast %a {to = i1}") == 1 and text.count("cast %f {to = i1}") == 1


def test_compile_time_numbers_of_both_branches_merge_at_run_time():
    def kernel(out, a):
        if a > 0:
            n: tl.constexpr = 3
            t = (1, a)
        else:
            n: tl.constexpr = 4
            t = (2, a)
        tl.store(out, n + t[0])

    assert stored(kernel, 1) == [4] and stored(kernel, -1) == [6]


def test_types_that_differ_are_no_error_until_used():
    def kernel(out, a):
        if a > 0:
            x = 1.5
        else:
            x = 2
        x = a
        tl.store(out, x)

    assert stored(kernel, 7) == [7]


# -- early return


def test_an_early_return_puts_the_rest_into_the_other_branch():
    def kernel(out, a):
        if a > 3:
            return
        tl.store(out, a)

    expected = "if %v_1 { yield } else { store %out, %a yield } return"
    assert expected in squeezed(text_of(kernel, INTS, I32))


def test_a_return_in_else_puts_the_rest_into_then():
    def kernel(out, a):
        if a > 3:
            x = 1
        else:
            return
        tl.store(out, x)

    text = squeezed(text_of(kernel, INTS, I32))
    assert "if %v_1 { %x = const {value = 1} : i32 store %out, %x yield } return" in text


def test_an_early_return_under_a_compile_time_condition_is_as_simple():
    def kernel(out, a, CHECK: tl.constexpr):
        if CHECK:
            if a > 3:
                return
        tl.store(out, a)

    assert "} else { store %out, %a yield } return" in squeezed(
        text_of(kernel, INTS, I32, CHECK=True)
    )
    assert ops_of(module_of(kernel, INTS, I32, CHECK=False)) == ["store", "return"]


def test_a_return_that_is_only_possible_is_a_flag():
    def kernel(out, a):
        if a > 3:
            if a > 5:
                return
            tl.store(out, 1)
        tl.store(out, 2)

    text = squeezed(text_of(kernel, INTS, I32))
    assert re.search(r"= if %v_1 : i1 \{ .* if %(\w+) \{ yield \} else \{ .*store", text)
    assert stored(kernel, 7) == []
    assert stored(kernel, 4) == [1, 2]
    assert stored(kernel, 2) == [2]


def test_statements_after_an_exit_are_not_looked_at():
    def kernel(out, a):
        if a > 0:
            return
            undefined_name()  # noqa: F821
        for _ in range(a):
            continue
            undefined_name()  # noqa: F821
        return
        undefined_name()  # noqa: F821

    module_of(kernel, INTS, I32)


# -- for


def test_a_plain_for():
    def kernel(out, n):
        total = 0
        for i in range(2, n, 3):
            total += i
        tl.store(out, total)

    text = text_of(kernel, INTS, I32)
    head = r"%total_1 = for %i = %\w+ to %n step %\w+ iter\(%total_2 = %total\) : i32 \{"
    assert re.search(head, text)
    assert stored(kernel, 12) == [2 + 5 + 8 + 11]


@pytest.mark.parametrize("start, stop, step", [(5, 0, -2), (0, 5, 2), (0, 0, 1), (3, -3, -1)])
def test_a_run_time_step(start, stop, step):
    def kernel(out, start, stop, step):
        for i in range(start, stop, step):
            tl.store(out, i)

    def leaving(out, start, stop, step):
        for i in range(start, stop, step):
            tl.store(out, i)
            if i == 2:
                break

    expected = list(range(start, stop, step))
    assert stored(kernel, start, stop, step) == expected
    cut = expected[: expected.index(2) + 1] if 2 in expected else expected
    assert stored(leaving, start, stop, step) == cut


def test_loop_options_are_attributes():
    def kernel(out, n):
        for i in tl.range(0, n, num_stages=3, loop_unroll_factor=2, flatten=True):
            tl.store(out, i)
        for j in tl.range(
            n, disallow_acc_multi_buffer=True, warp_specialize=True, disable_licm=True
        ):
            tl.store(out, j)

    warn_unread.cache_clear()
    with pytest.warns(RuntimeWarning, match="of tl.range ha(s|ve) no effect"):
        text = text_of(kernel, INTS, I32)
    assert "{num_stages = 3, unroll = 2, flatten = true}" in text
    assert "warp_specialize = on, disallow_acc_multi_buffer = true, disable_licm = true" in text


@pytest.mark.parametrize(
    "types, expected",
    [((I32, I32), I32), ((I64, I32), I64), ((I32, I64), I64), ((U32, I32), U32), ((I8, I8), I8)],
)
def test_the_type_a_loop_counts_in(types, expected):
    def kernel(out, a, b):
        for i in range(a, b):
            tl.store(out, i.to(tl.int32))

    (loop,) = (op for op in module_of(kernel, INTS, *types).walk() if op.name == "for")
    assert loop.regions[0].args[0].type == expected


def test_numbers_that_do_not_fit_widen_the_count():
    def kernel(out, a):
        for i in range(0, 1 << 40, a):
            tl.store(out, i)

    (loop,) = (op for op in module_of(kernel, Pointer(I64), I32).walk() if op.name == "for")
    assert loop.regions[0].args[0].type == I64


def test_bounds_are_evaluated_once_and_the_index_is_new_in_each_iteration():
    def kernel(out, n):
        for i in range(n):
            tl.store(out, i)
            n += 5
            i += 7
        tl.store(out, n)

    assert stored(kernel, 3) == [0, 1, 2, 18]


def test_an_index_that_was_a_name_before_keeps_its_last_value():
    def kernel(out, n):
        i = 77
        for i in range(n):
            tl.store(out, i)
        tl.store(out, i)

    assert stored(kernel, 3) == [0, 1, 2, 2]
    assert stored(kernel, 0) == [77]


def test_a_loop_without_exits_stays_a_for_and_one_with_exits_becomes_a_while():
    def kernel(out, n, LEAVE: tl.constexpr):
        for i in range(n):
            if i == 2:
                continue
            if LEAVE:
                if i > 3:
                    break
            tl.store(out, i)

    assert "while" not in ops_of(module_of(kernel, INTS, I32, LEAVE=False))
    assert "for" not in ops_of(module_of(kernel, INTS, I32, LEAVE=True))
    assert stored(kernel, 9, LEAVE=True) == [0, 1, 3]


def test_what_does_not_change_is_not_carried():
    def kernel(out, n, FLAG: tl.constexpr):
        a, b = n, n
        for i in range(n):
            if FLAG:
                a += 1
            b += a
            c = i
            tl.store(out, c)
        tl.store(out, a + b)

    text = text_of(kernel, INTS, I32, FLAG=False)
    assert re.search(r"iter\(%\w+ = %\w+\) : i32 \{", text)


def test_what_is_overwritten_before_it_is_read_may_change_its_type():
    def kernel(out, n):
        x = 1
        for i in range(n):
            x = i * 1.5
            tl.store(out, x)

    def used_after(out, n):
        x = 1
        for i in range(n):
            x = i * 1.5
        tl.store(out, x)

    assert "iter" not in text_of(kernel, PTR, I32)
    error = refusal(used_after, PTR, I32)
    assert error.message.startswith("`x` is i32 on one path to here and f32 on another")


def test_tuples_and_constants_are_carried():
    def kernel(out, n):
        pair = (0, 1)
        kind: tl.constexpr = "sum"
        step: tl.constexpr = 2
        for _ in range(n):
            pair = (pair[1], pair[0] + pair[1])
            kind: tl.constexpr = "sum"
            step: tl.constexpr = 2
        tl.static_assert(kind == "sum")
        tl.store(out, pair[0] + tl.sum(tl.arange(0, step)))

    text = text_of(kernel, INTS, I32)
    assert "iter(%pair.0" in text and "arange {start = 0, end = 2}" in text


def test_nested_loops_are_compiled_once_each():
    def kernel(out, n):
        for a in range(n):
            for b in range(n):
                for c in range(n):
                    for d in range(n):
                        for e in range(n):
                            if a + b + c + d + e > n:
                                break
                            tl.store(out, e)

    assert ops_of(module_of(kernel, INTS, I32)).count("store") == 1


# -- while


def test_a_plain_while():
    def kernel(out, n):
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            tl.store(out, n)

    text = text_of(kernel, INTS, I32)
    assert re.search(r"%n_1 = while iter\(%n_2 = %n\) : i32 \{", text)
    assert stored(kernel, 6) == [3, 10, 5, 16, 8, 4, 2, 1]


def test_a_while_that_is_false_at_compile_time():
    def kernel(out, n, GO: tl.constexpr):
        while GO:
            undefined_name()  # noqa: F821
        tl.store(out, n)

    assert ops_of(module_of(kernel, INTS, I32, GO=False)) == ["store", "return"]


def test_an_impure_condition_is_not_evaluated_after_a_break():
    def kernel(out, n):
        while tl.load(out + n) > 0:
            n += 1
            if n > 5:
                break
        tl.store(out, n)

    text = squeezed(text_of(kernel, INTS, I32))
    assert re.search(r"= if %\w+ : i1 \{ .*yield %\w+ \} else \{ .*load", text)


def test_a_condition_object_takes_an_option():
    def kernel(out, n):
        while tl.condition(n > 0, disable_licm=True):
            n -= 1
            tl.store(out, n)

    warn_unread.cache_clear()
    with pytest.warns(RuntimeWarning, match=r"disable_licm of tl.condition has no effect"):
        assert stored(kernel, 2) == [1, 0]


def test_forever_until_break_or_return():
    def kernel(out, n):
        while True:
            n -= 1
            if n < 0:
                return
            if n == 5:
                break
            tl.store(out, n)
        tl.store(out, 100)

    assert stored(kernel, 8) == [7, 6, 100]
    assert stored(kernel, 3) == [2, 1, 0]


# -- loops that are unrolled


def test_static_range_is_unrolled():
    def kernel(out, a, N: tl.constexpr):
        for k in tl.static_range(N):
            tl.static_assert(k in (0, 1, 2))
            tl.store(out + k, tl.sum(tl.arange(0, 1 << k)) * a)
        tl.store(out, k)

    assert "for" not in ops_of(module_of(kernel, INTS, I32, N=3))


def test_a_tuple_is_unrolled():
    def kernel(out, a, SIZES: tl.constexpr):
        for number, (left, right) in enumerate(((a, 1), (2, a))):
            tl.store(out, left * 10 + right + number)
        for size in SIZES:
            tl.store(out, size)
        for x, y in zip(SIZES, reversed(SIZES), strict=False):
            tl.store(out, x - y)

    assert stored(kernel, 7, SIZES=(1, 4)) == [71, 28, 1, 4, -3, 3]


def test_exits_of_an_unrolled_loop():
    def kernel(out, a):
        for k in tl.static_range(5):
            if k == a:
                continue
            if k == 3:
                break
            actual = k
            tl.store(out, actual)
        tl.store(out, 100 + k)

    assert stored(kernel, 1) == [0, 2, 103]
    assert stored(kernel, 3) == [0, 1, 2, 4, 104]


def test_a_name_assigned_unless_left_is_usable_where_nobody_left():
    def kernel(out, a):
        for k in tl.static_range(3):
            if a > 2:
                if k == a - 3:
                    continue
                z = 2 * k
            else:
                z = 3 * k
            tl.store(out, z)

    assert stored(kernel, 4) == [0, 4]
    assert stored(kernel, 1) == [0, 3, 6]


def test_assert_now_and_later():
    def kernel(out, a, N: tl.constexpr):
        assert N > 2, "never evaluated"
        assert a > N, f"a is above {N}"
        tl.store(out, a)

    assert '{message = "a is above 4"}' in text_of(kernel, INTS, I32, N=4)


def test_none_may_become_a_value_that_each_iteration_assigns():
    def kernel(out, n):
        mask = None
        for i in range(n):
            mask = i > 2
            tl.store(out, i, mask=mask)

    def looked_at(out, n):
        mask = None
        for i in range(n):
            tl.store(out, i, mask=mask)
            mask = i > 2

    def merged(out, n):
        mask = None
        for i in range(n):
            if i > 5:
                mask = None
            tl.store(out, i, mask=mask)
            mask = i > 2

    def deeper(out, n):
        mask = None
        for i in range(n):
            for j in range(n):
                tl.store(out, j, mask=mask)
                mask = None
            mask = i > 2

    assert "iter" not in text_of(kernel, INTS, I32)
    for wrong in (looked_at, merged, deeper):
        assert refusal(wrong, INTS, I32).message.startswith(
            "`mask` is None before the loop and i1 at the end of its body"
        )
