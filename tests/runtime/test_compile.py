from __future__ import annotations

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.runtime.kernels import add, copy_pair, fill, scale
from tile.errors import ArgumentError, ArgumentTypeError, ArgumentValueError, BackendError

POINTERS = {"x_ptr": "*fp32", "y_ptr": "*fp32", "out_ptr": "*fp32"}


def compiled(**changes):
    signature = {**POINTERS, "n": "i32", **changes}
    return tile.compile(
        add,
        signature={name: text for name, text in signature.items() if text},
        constexprs={"BLOCK": 32},
        options={"num_warps": 4, "num_stages": 3},
        target="interp",
    )


def three(n: int = 64, dtype=np.float32) -> list[np.ndarray]:
    x = np.arange(n).astype(dtype)
    return [x, x[::-1].copy(), np.zeros_like(x)]


def test_compiles_and_launches() -> None:
    kernel = compiled()
    x, y, out = three()
    kernel[2,](x, y, out, 64)
    np.testing.assert_array_equal(out, x + y)
    out[:] = 0
    kernel[lambda meta: (tile.cdiv(meta["n"], meta["BLOCK"]),)](x, y, out_ptr=out, n=np.int64(40))
    np.testing.assert_array_equal(out[:40], (x + y)[:40])
    assert kernel.signature == {**POINTERS, "n": "i32", "BLOCK": "constexpr"}
    assert kernel.written == {"out_ptr"}


def test_a_signature_makes_what_a_launch_makes() -> None:
    x, y, out = three()
    for n in (1, 7, 32):
        launched = tile.jit(add.fn).warmup(x, y, out, n, BLOCK=32)
        signature = {p: t for p, t in launched.signature.items() if t != "constexpr"}
        again = tile.compile(add, signature=signature, constexprs=launched.constants)
        assert again.asm == launched.asm
    ones = tile.compile(
        add, signature={**launched.signature, "n": "i32:1"}, constexprs={"BLOCK": 32}
    )
    assert ones.constants == {"n": 1, "BLOCK": 32}


def test_defaults_are_constants() -> None:
    ints = dict.fromkeys(("rows", "cols", "stride_row", "stride_col"), "i32")
    kernel = tile.compile(scale, signature={"x_ptr": "*fp32", **ints, "factor": "fp32"})
    assert kernel.constants == {"BLOCK": 16}


def test_runtime_parameters_may_be_constants() -> None:
    kernel = tile.compile(fill, signature={"out_ptr": "*i32"}, constexprs={"value": 5, "BLOCK": 4})
    out = np.zeros(4, np.int32)
    kernel[1,](out)
    assert out.tolist() == [5] * 4


def test_tuples() -> None:
    kernel = tile.compile(
        copy_pair, signature={"pair": ("*fp32", "*fp32"), "n": "i32"}, constexprs={"BLOCK": 16}
    )
    x, _, out = three(16)
    kernel[1,]((x, out), 16)
    np.testing.assert_array_equal(out, x)
    with pytest.raises(ArgumentTypeError, match="compiled for a tuple of 2"):
        kernel[1,]((x,), 16)
    with pytest.raises(ArgumentTypeError, match=r"item 1 of argument 'pair' of copy_pair\(\) is 3"):
        kernel[1,]((x, 3), 16)


def test_wrapped_kernels() -> None:
    tuned = tile.autotune([tile.Config({"BLOCK": 32})], key=["n"])(add)
    kernel = tile.compile(tuned, signature={**POINTERS, "n": "i32"}, constexprs={"BLOCK": 8})
    assert kernel.constants == {"BLOCK": 8}


@pytest.mark.parametrize(
    ("error", "arguments", "words"),
    [
        (ArgumentTypeError, {"signature": POINTERS}, "must give 'n' and 'BLOCK'"),
        (
            ArgumentTypeError,
            {"signature": {**POINTERS, "N": "i32"}, "constexprs": {"BLOKC": 1}},
            "it has no parameter 'N', 'BLOKC' (did you mean 'BLOCK'?); "
            "the signature or constexprs must give 'n' and 'BLOCK'\n"
            "  note: it is add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr)",
        ),
        (
            ArgumentTypeError,
            {"signature": {**POINTERS, "n": "i32"}, "constexprs": {"n": 3, "BLOCK": 4}},
            "given both a type and a value: 'n'",
        ),
        (
            ArgumentTypeError,
            {"signature": {**POINTERS, "n": "i32", "BLOCK": "i32"}},
            "values belong in constexprs, and the signature has types for 'BLOCK'",
        ),
        (
            ArgumentValueError,
            {"signature": {**POINTERS, "n": "int"}, "constexprs": {"BLOCK": 4}},
            "this is the type given for 'n'",
        ),
        (
            ArgumentTypeError,
            {"signature": {**POINTERS, "n": 32}, "constexprs": {"BLOCK": 4}},
            "text such as '*fp32', not 32\n  note: this is the type given for 'n'",
        ),
        (
            ArgumentTypeError,
            {"signature": {**POINTERS, "n": "i32"}, "constexprs": {"BLOCK": np.zeros(3)}},
            "parameter 'BLOCK' of add() is a tl.constexpr",
        ),
        (
            ArgumentTypeError,
            {
                "signature": {**POINTERS, "n": "i32"},
                "constexprs": {"BLOCK": 4},
                "options": {"warps": 4},
            },
            "there is no option 'warps'; options are debug,",
        ),
        (
            ArgumentValueError,
            {
                "signature": {**POINTERS, "n": "i32"},
                "constexprs": {"BLOCK": 4},
                "options": {"num_warps": 5},
            },
            "num_warps must be a power of two",
        ),
        (
            BackendError,
            {"signature": {**POINTERS, "n": "i32"}, "constexprs": {"BLOCK": 4}, "target": "cuda"},
            "there is no backend 'cuda'; this version has",
        ),
    ],
)
def test_refusals(error, arguments, words: str) -> None:
    with pytest.raises(error) as caught:
        tile.compile(add, **arguments)
    assert words in str(caught.value)


@pytest.mark.parametrize("thing", [add.fn, 3, None])
def test_what_is_no_kernel(thing) -> None:
    with pytest.raises(ArgumentTypeError, match=r"takes a @tile\.jit function"):
        tile.compile(thing, signature={})


# -- launching what was compiled before its arguments were seen


@pytest.mark.parametrize(
    ("changes", "call", "words"),
    [
        ({}, lambda k, x, y, out: k[1,](x, y, out), "takes 'x_ptr', 'y_ptr', 'out_ptr' and 'n'"),
        ({}, lambda k, x, y, out: k[1,](x, y, out, 1, 32, 3), "it was passed 6 by position"),
        (
            {},
            lambda k, x, y, out: k[1,](x, y, out, 1, 64),
            "'BLOCK' of add() is 64, and the kernel was compiled for 32",
        ),
        (
            {},
            lambda k, x, y, out: k[1,](x, y, out, 1, BLOCK=32),
            "note: its constants are BLOCK=32",
        ),
        (
            {},
            lambda k, x, y, out: k[1,](x, y, out, out_ptr=out),
            "3 by position and 'out_ptr' by name",
        ),
        (
            {},
            lambda k, x, y, out: k[1,](x, y, out.astype(int), 1),
            "'out_ptr' of add() is an array of int64",
        ),
        ({}, lambda k, x, y, out: k[1,](x, y, 3, 1), "argument 'out_ptr' of add() is 3"),
        ({}, lambda k, x, y, out: k[1,](x, y, None, 1), "argument 'out_ptr' of add() is None"),
        (
            {},
            lambda k, x, y, out: k[1,](x, y, out, x),
            "an array of float32, and the kernel was compiled for i32",
        ),
        ({}, lambda k, x, y, out: k[1,](x, y, out, 1.5), "argument 'n' of add() is 1.5"),
        ({}, lambda k, x, y, out: k[1,](x, y, out, True), "argument 'n' of add() is True"),
        ({}, lambda k, x, y, out: k[1,](x, y, out, [1]), "is of type list"),
        ({}, lambda k, x, y, out: k[1,](x, y, out, 2**31), "holds -2147483648 to 2147483647"),
        ({"n": "u8"}, lambda k, x, y, out: k[1,](x, y, out, -1), "holds 0 to 255"),
        (
            {"n": "i32:16"},
            lambda k, x, y, out: k[1,](x, y, out, 8),
            "is 8, and the kernel was compiled for i32:16",
        ),
        (
            {"x_ptr": "*fp32:16"},
            lambda k, x, y, out: k[1,](x[1:], y, out, 8),
            "not divisible by 16",
        ),
        ({}, lambda k, x, y, out: k[-1,](x, y, out, 8), "has -1 programs"),
    ],
)
def test_arguments_that_do_not_fit(changes, call, words: str) -> None:
    kernel = compiled(**changes)
    x, y, out = three()
    with pytest.raises(ArgumentError) as caught:
        call(kernel, x, y, out)
    assert words in str(caught.value)
    assert not out.any()


def test_a_read_only_array() -> None:
    x, y, out = three()
    out.flags.writeable = False
    with pytest.raises(ArgumentValueError, match=r"'out_ptr' of add\(\) is read-only"):
        compiled()[1,](x, y, out, 8)


@pytest.mark.parametrize(
    ("text", "value", "dtype"),
    [
        ("fp16", 0.1, np.float16),
        ("fp16", 1e6, np.float16),
        ("fp64", 3, np.float64),
        ("i64", np.int8(-3), np.int64),
        ("u64", 2**64 - 1, np.uint64),
        ("i1", np.bool_(True), np.bool_),
    ],
)
def test_numbers_take_the_type_of_the_signature(text: str, value, dtype) -> None:
    spelt = {"i1": "*i1"}.get(text, f"*{text}")
    kernel = tile.compile(
        fill, signature={"out_ptr": spelt, "value": text}, constexprs={"BLOCK": 4}
    )
    out = np.zeros(4, dtype)
    kernel[1,](out, value)
    with np.errstate(over="ignore"):
        assert out.tolist() == [dtype(value)] * 4


@tile.jit
def annotated(x_ptr: tl.pointer_type(tl.float32), n: tl.int32, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(x_ptr + i, i.to(tl.float32), i < n)


def test_parameters_annotated_with_a_type_can_be_left_out():
    x = np.zeros(16, np.float32)
    tile.compile(annotated, {"n": "i32"}, {"N": 16}, target="interp")[(1,)](x, 5)
    assert x.tolist() == [0, 1, 2, 3, 4, *[0] * 11]
