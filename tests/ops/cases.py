"""Calls of every op, with arguments that its reference takes as well.

A case makes the arguments of one call from random numbers. Its result, an array or a tuple of them,
must be within `ulps` units in the last place (of the largest number of the reference's result).
The first case of each op, and those that say so, in float32 and float16, also run on the other
backends.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

import tile.ops
from tile.ops.core import reference

Array = np.ndarray[Any, Any]
DTYPES = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}
# Their 2 to the power of 1 - p, with p bits of mantissa.
EPSILON = {
    "float8_e4m3fn": 2.0**-3,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float32": 2.0**-23,
    "float64": 2.0**-52,
}
ALL = tuple(DTYPES)
NARROW = ("float16", "bfloat16", "float32")


@dataclass(frozen=True)
class Random:
    """Random arrays; floats are of the dtype under test, from a normal distribution."""

    dtype: np.dtype[Any]
    generator: np.random.Generator = field(default_factory=lambda: np.random.default_rng(0))

    def normal(self, *shape: int) -> Array:
        return self.generator.standard_normal(shape).astype(self.dtype)

    def integers(self, low: int, high: int, *shape: int, dtype: Any = np.int64) -> Array:
        return self.generator.integers(low, high, shape).astype(dtype)


Arguments = tuple[tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True)
class Case:
    """One call of the op `op`, in each of `dtypes`."""

    op: str
    label: str
    make: Callable[[Random], Arguments]
    dtypes: tuple[str, ...] = ALL
    ulps: float = 4.0
    floor: float = 0.0  # the largest number counts as at least this: that of terms that cancel
    everywhere: bool = False  # on the other backends, too, as the first case of each op

    def arguments(self, dtype: str) -> Arguments:
        return self.make(Random(DTYPES[dtype]))

    def check(self, dtype: str) -> None:
        """Call the op, and compare its results with those of the reference."""
        args, kwargs = self.arguments(dtype)
        before = [np.array(arg) if isinstance(arg, np.ndarray) else None for arg in args]
        results = several(function_of(self.op)(*args, **kwargs))
        for argument, copy in zip(args, before, strict=True):
            if copy is not None and self.op not in IN_PLACE:
                assert argument.tobytes() == copy.tobytes(), "an input was overwritten"
        again = [arg if copy is None else copy for arg, copy in zip(args, before, strict=True)]
        with warnings.catch_warnings(action="ignore"):  # means of no elements
            expected = several(reference_of(self.op)(*again, **kwargs))
        assert len(results) == len(expected)
        for index, (result, wanted) in enumerate(zip(results, expected, strict=True)):
            assert_close(result, np.asarray(wanted), self.ulps, f"result {index}", self.floor)


IN_PLACE = frozenset({"adamw"})


def several(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def function_of(op: str) -> Callable[..., Any]:
    function: Callable[..., Any] = getattr(tile.ops, op)
    return function


def reference_of(op: str) -> Callable[..., Any]:
    """Return the reference of an op, which takes the same arguments."""
    return reference.reference_of(function_of(op))


def assert_close(
    actual: Array, expected: Array, ulps: float, label: str, floor: float = 0.0
) -> None:
    """Integers are equal; floats differ by at most `ulps` of the largest expected number."""
    assert actual.shape == expected.shape, label
    if actual.dtype.kind in "iub":
        assert np.array_equal(actual, expected), label
        return
    epsilon = EPSILON[actual.dtype.name]
    actual, expected = actual.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(expected)
    special = ~finite
    assert np.array_equal(actual[special], expected[special], equal_nan=True), label
    largest = np.abs(expected[finite]).max(initial=floor)
    error = np.abs(actual[finite] - expected[finite]).max(initial=0.0)
    allowed = ulps * epsilon * largest
    assert error <= allowed, f"{label}: {error} exceeds {allowed}"


def rows(
    op: str, *more: Callable[[Random, tuple[int, ...]], Any], **options: Any
) -> Iterator[Case]:
    """Yield cases of a function of rows: odd sizes, several axes, one element, none.

    Of 801 short rows, programs have several.
    """
    for shape in ((3, 37), (2, 3, 130), (5, 1), (0, 4), (2, 0), (7,), (801, 9)):
        yield Case(
            op,
            "x".join(map(str, shape)),
            lambda random, shape=shape: (tuple(make(random, shape) for make in more), {}),
            everywhere=shape[0] == 801,
            **options,
        )


def like_x(random: Random, shape: tuple[int, ...]) -> Array:
    return random.normal(*shape)


def strided(random: Random, shape: tuple[int, ...]) -> Array:
    """Return rows that are further apart than they are long."""
    return random.normal(*shape[:-1], 2 * shape[-1])[..., : shape[-1]]


def normal(*shapes: tuple[int, ...], more: tuple[Any, ...] = ()) -> Callable[[Random], Arguments]:
    """Return the maker of arrays of these shapes, followed by other arguments."""
    return lambda random: ((*[random.normal(*shape) for shape in shapes], *more), {})


def int32(bound: int, shape: tuple[int, ...], *more: Any) -> Callable[[Random], Arguments]:
    """Return the maker of integers from -bound to bound - 1, followed by other arguments."""
    return lambda random: ((random.integers(-bound, bound, *shape, dtype=np.int32), *more), {})


def equal_elements(length: int, k: int) -> Callable[[Random], Arguments]:
    """Return the maker of a row of small integers, and k."""
    return lambda random: ((random.integers(-50, 50, 1, length).astype(random.dtype), k), {})


def infinite(random: Random) -> Arguments:
    return (infinite_rows(random, 16999),), {}


def rowwise() -> Iterator[Case]:
    yield from rows("softmax", like_x)
    yield Case("softmax", "strided", lambda random: ((strided(random, (3, 37)),), {}))
    for op in ("softmax", "log_softmax"):
        # Several programs share each of two rows.
        for count, dtype, everywhere in ((2, "float32", True), (67, "float16", False)):
            make = normal((count, 16999))
            yield Case(op, f"{count} long", make, (dtype,), everywhere=everywhere)
        yield Case(op, "infinite, long", infinite, ("float32",))
        # Each of so many rows is of one program, and no row but the first begins with a vector.
        yield Case(op, "140 odd", normal((140, 16387)), ("float16",))
        odd = normal((3, 9001), (3, 9001))
        yield Case(f"{op}_backward", "odd", odd, ("float16", "float32"), ulps=40, floor=1.0)
    yield from rows("softmax_backward", like_x, like_x)
    two = normal((2, 16999), (2, 16999))
    yield Case("softmax_backward", "long", two, ("float32",), ulps=40)
    yield from rows("log_softmax", like_x)
    yield Case("log_softmax", "strided", lambda random: ((strided(random, (3, 37)),), {}))
    yield from rows("log_softmax_backward", like_x, like_x, floor=1.0)
    yield Case("log_softmax_backward", "long", two, ("float32",), ulps=40)
    yield from rows("layer_norm", like_x, last_axis, last_axis)
    yield from rows("layer_norm_backward", like_x, like_x, last_axis, ulps=8, floor=1.0)
    yield from rows("rms_norm", like_x, last_axis)
    yield from rows("rms_norm_backward", like_x, like_x, last_axis, ulps=8, floor=1.0)
    for shape in ((3, 37), (7,), (0, 4)):
        label = f"statistics {'x'.join(map(str, shape))}"
        for op in ("layer_norm", "rms_norm"):
            yield Case(op, label, with_statistics(op, shape), ulps=8)
            make = with_statistics(op, shape, gradient=True)
            yield Case(f"{op}_backward", label, make, ulps=8, floor=1.0)
    yield Case("cross_entropy", "9001", logits(9001), ("float16", "float32"))
    make = logits_and_loss(9001)
    yield Case("cross_entropy_backward", "9001", make, ("float16", "float32"), ulps=16)
    yield Case("cross_entropy", "16999", logits(16999), ("float32",), everywhere=True)
    for op, make in (("cross_entropy", logits), ("nll_loss_backward", weighted_gradient)):
        many = logits(5, 801)
        yield Case(op, "801 rows", many if make is logits else make(many), everywhere=True)
    yield Case("cross_entropy_backward", "801 rows", logits_and_loss(5, 801), ulps=16)
    for classes in (37, 5000):
        yield Case("nll_loss", str(classes), weighted(logits(classes)))
        yield Case("nll_loss_backward", str(classes), weighted_gradient(logits(classes)))
        yield Case("cross_entropy", str(classes), logits(classes))
        yield Case("cross_entropy_backward", str(classes), logits_and_loss(classes), ulps=16)


def with_statistics(
    op: str, shape: tuple[int, ...], gradient: bool = False
) -> Callable[[Random], Arguments]:
    """Return the maker of a call that returns means and deviations, or of one that takes them."""

    def make(random: Random) -> Arguments:
        x, weight = random.normal(*shape), random.normal(shape[-1])
        bias = (random.normal(shape[-1]),) if op == "layer_norm" else ()
        if not gradient:
            return (x, weight, *bias), {"statistics": True}
        _, *statistics = reference_of(op)(x, weight, *bias, statistics=True)
        kind = np.float64 if random.dtype == np.float64 else np.float32
        names = ("mean", "rstd")[-len(statistics) :]
        options = {n: np.asarray(s, kind) for n, s in zip(names, statistics, strict=True)}
        return (random.normal(*shape), x, weight), options

    return make


def last_axis(random: Random, shape: tuple[int, ...]) -> Array:
    return random.normal(shape[-1])


def infinite_rows(random: Random, length: int) -> Array:
    """Return rows with infinities: many, all, one that is positive; then one with NaN."""
    x = random.normal(4, length)
    x[0, : length // 2] = x[1] = -np.inf
    x[2, length - 1], x[3, 5] = np.inf, np.nan
    return x


def logits(classes: int, rows: int = 5) -> Callable[[Random], Arguments]:
    """Return the maker of rows of which the second is ignored."""

    def make(random: Random) -> Arguments:
        target = random.integers(0, classes, rows)
        target[1] = -100
        return (random.normal(rows, classes), target), {}

    return make


def weighted(make: Callable[[Random], Arguments]) -> Callable[[Random], Arguments]:
    """Return the maker with a weight for each class of more than 100."""

    def make_more(random: Random) -> Arguments:
        (x, target), options = make(random)
        weights = (random.normal(x.shape[1]),) if x.shape[1] > 100 else ()
        return (x, target, *weights), options

    return make_more


def weighted_gradient(make: Callable[[Random], Arguments]) -> Callable[[Random], Arguments]:
    def make_gradient(random: Random) -> Arguments:
        (x, target, *weights), _ = weighted(make)(random)
        wide = np.float64 if x.dtype == np.float64 else np.float32
        dloss = random.normal(len(x)).astype(wide)
        return (dloss, target, x.shape[1], *weights), {"dtype": x.dtype.name}

    return make_gradient


def logits_and_loss(classes: int, rows: int = 5) -> Callable[[Random], Arguments]:
    def make(random: Random) -> Arguments:
        (x, target), _ = logits(classes, rows)(random)
        wide = np.dtype(np.float64 if x.dtype == np.float64 else np.float32)
        loss = reference_of("cross_entropy")(x, target).astype(wide)
        return (random.normal(rows).astype(wide), x, target, loss), {}

    return make


def linear() -> Iterator[Case]:
    for label, make in {
        "bias": lambda r: ((r.normal(5, 50), r.normal(50, 40), r.normal(40)), {}),
        "layouts": lambda r: ((r.normal(70, 33).T, r.normal(50, 70).T, r.normal(50), "gelu"), {}),
        "batched": lambda r: ((r.normal(2, 70, 40), r.normal(2, 40, 65)), {"activation": "relu"}),
        "shared": lambda r: ((r.normal(3, 5, 40), r.normal(40, 9)), {"activation": "silu"}),
        "splits": lambda r: ((r.normal(5, 200), r.normal(200, 7), r.normal(7)), {"splits": 3}),
        "stream": lambda r: (
            (r.normal(70, 300), r.normal(300, 90), r.normal(90), "gelu"),
            {"splits": "stream"},
        ),
        "stream, layouts": lambda r: (
            (r.normal(2, 300, 130).swapaxes(1, 2), r.normal(90, 300).T),
            {"splits": "stream"},
        ),
        "stream, inner 0": lambda r: ((r.normal(5, 0), r.normal(0, 7)), {"splits": "stream"}),
        "row": lambda r: ((r.normal(1, 300), r.normal(70, 300).T, r.normal(70), "gelu"), {}),
        "column": lambda r: ((r.normal(70, 300), r.normal(300, 1), r.normal(1)), {}),
        "rows of batches": lambda r: ((r.normal(3, 1, 40), r.normal(3, 9, 40).swapaxes(1, 2)), {}),
        "inner 0": lambda r: ((r.normal(5, 0), r.normal(0, 7), r.normal(7)), {}),
        "rows 0": lambda r: ((r.normal(0, 9), r.normal(9, 7)), {}),
    }.items():
        yield Case("matmul", label, make, ulps=8 if "stream" in label else 4)
    yield Case("matmul", "int8", lambda r: ((bytes_(r, 5, 40), bytes_(r, 40, 9)), {}), ("float32",))
    op = "linear_cross_entropy"
    for label, size, largest in (("odd", (9, 70, 37), 2**20), ("ranges", (5, 150, 20), 300)):
        make = vocabulary(*size, largest)
        yield Case(op, label, lambda r, make=make: ((make(r)[0][1:4]), {}), ulps=8)
        yield Case(f"{op}_backward", label, make, ulps=24)
    for label, stored in (("stored logits", 70), ("stored logits of a range", 30)):
        make = vocabulary(9, 70, 37, 2**20, stored)
        yield Case(f"{op}_backward", label, make, ulps=24)
    yield Case(op, "logits", lambda r, make=make: (make(r)[0][1:4], {"logits": True}), ulps=8)
    make = vocabulary(3, 4, 5, 3)  # one class at a time
    yield Case(f"{op}_backward", "classes one by one", make, ("float32",), ulps=24)
    make = vocabulary(0, 7, 5, 2**20)
    yield Case(op, "no rows", lambda r, make=make: ((make(r)[0][1:4]), {}), ("float32",))
    yield Case(f"{op}_backward", "no rows", make, ("float32", "float16"))
    for label, (rows_, i, j, k) in {"odd": (37, 5, 40, 9), "narrow": (70, 33, 3, 2)}.items():
        yield Case("bilinear", label, forms(rows_, i, j, k), ulps=8)
        yield Case("bilinear_backward", label, form_gradients(rows_, i, j, k), ulps=8)
    yield Case("bilinear", "no rows", forms(0, 3, 4, 5), ("float32",))
    for ends in ([0, 17, 17, 50], [50], [0]):
        yield Case("grouped_matmul", str(ends), groups(ends))
        yield Case("grouped_matmul_wgrad", str(ends), group_gradients(ends))

    for kind in ("int8", "float8_e4m3fn"):
        for m, n, k in ((5, 9, 40), (70, 65, 33), (0, 5, 4)):
            make = scaled(m, n, k, kind)
            yield Case("scaled_matmul", f"{kind} {m}x{n}x{k}", make, ("float32",))

    op = "block_scaled_matmul"
    for kind in ("int8", "float8_e4m3fn"):
        for m, n, k in ((5, 150, 200), (70, 65, 128), (130, 9, 33), (0, 5, 4), (3, 4, 0)):
            make, everywhere = scaled_blocks(m, n, k, kind), m == 5
            label = f"{kind} {m}x{n}x{k}"
            yield Case(op, label, make, ("float32",), ulps=2, everywhere=everywhere)

    for m, n, k, group, splits in (
        (5, 40, 128, 32, 2),
        (33, 70, 192, 64, None),
        (70, 40, 256, 128, 1),
        (0, 5, 32, 32, 1),
    ):
        label = f"{m}x{n}x{k}, groups of {group}"
        yield Case("pack_int4", label, floats((n, k), group), NARROW)
        yield Case("int4_matmul", label, packed(m, n, k, group, splits), NARROW)


def vocabulary(
    rows_: int, classes: int, length: int, largest: int, stored: int = 0
) -> Callable[[Random], Arguments]:
    """Return the maker of arguments of the gradient; the second row is ignored.

    stored: classes whose logits are stored, if any.
    """

    def make(random: Random) -> Arguments:
        x, weight = random.normal(rows_, length), random.normal(classes, length) / 4
        target = random.integers(0, classes, rows_)
        target[1:2] = -100
        weight = weight.astype(random.dtype)
        kind = np.float64 if random.dtype == np.float64 else np.float32
        sums = reference_of("linear_cross_entropy")(x, weight, target)[1].astype(kind)
        dloss = random.normal(rows_).astype(kind)
        options: dict[str, Any] = {"largest": largest}
        if stored:
            options["logits"] = np.ascontiguousarray((x @ weight.T)[:, :stored]).astype(x.dtype)
        return (dloss, x, weight, target, sums), options

    return make


def forms(rows_: int, i: int, j: int, k: int) -> Callable[[Random], Arguments]:
    weight = (j, k, i)  # transposed
    return lambda r: (
        (
            r.normal(rows_, i),
            r.normal(rows_, j),
            r.normal(*weight).transpose(1, 2, 0),
            r.normal(k),
        ),
        {},
    )


def form_gradients(rows_: int, i: int, j: int, k: int) -> Callable[[Random], Arguments]:
    def make(random: Random) -> Arguments:
        (x1, x2, weight, _), _ = forms(rows_, i, j, k)(random)
        return (random.normal(rows_, k), x1, x2, weight), {}

    return make


def packed(m: int, n: int, k: int, group: int, splits: int | None) -> Callable[[Random], Arguments]:
    def make(random: Random) -> Arguments:
        weights = reference_of("pack_int4")(random.normal(n, k), group)
        return (random.normal(m, k), *weights), {"splits": splits}

    return make


def scaled(m: int, n: int, k: int, kind: str) -> Callable[[Random], Arguments]:
    def make(random: Random) -> Arguments:
        a, a_scale = reference_of("quantize")(random.normal(m, k), kind)
        b, b_scale = reference_of("quantize")(random.normal(n, k), kind)
        return (a, b.T, a_scale, b_scale, "float16"), {}

    return make


def scaled_blocks(m: int, n: int, k: int, kind: str) -> Callable[[Random], Arguments]:
    def make(random: Random) -> Arguments:
        spread = np.exp(random.generator.standard_normal((m, k)))  # blocks differ
        a, a_scale = reference_of("quantize_blocks")(random.normal(m, k) * spread, 1, kind)
        b, b_scale = reference_of("quantize_blocks")(random.normal(n, k), 128, kind)
        return (a, b.T, a_scale, b_scale.T, "float16"), {}

    return make


def bytes_(random: Random, *shape: int) -> Array:
    return random.integers(-128, 128, *shape, dtype=np.int8)


def groups(ends: list[int]) -> Callable[[Random], Arguments]:
    """Return the maker of rows, and of matrices for groups of them that end so."""
    last = np.array(ends, np.int32)
    return lambda r: ((r.normal(ends[-1], 40), r.normal(len(ends), 40, 20), last), {})


def group_gradients(ends: list[int]) -> Callable[[Random], Arguments]:
    """Return the maker of rows of `a`, of which every other one in memory, and of the result."""
    last = np.array(ends, np.int32)
    return lambda r: ((r.normal(2 * ends[-1], 40)[::2], r.normal(20, ends[-1]).T, last), {})


def sequence() -> Iterator[Case]:
    for label, heads, queries, keys, size, options in (
        ("whole", 2, 40, 40, 16, {}),
        ("causal", 4, 37, 37, 24, {"causal": True, "log_sums": True}),
        ("more keys", 2, 33, 70, 16, {"causal": True, "scale": 0.5}),
        ("one query", 2, 1, 45, 16, {"causal": True}),
        ("window", 2, 70, 90, 24, {"causal": True, "window": 20}),
        ("window both ways", 2, 40, 70, 24, {"window": 9}),
        ("bias", 4, 33, 50, 24, {"bias": (1, 4, 33, 50)}),
        ("slopes", 4, 33, 50, 24, {"causal": True, "slopes": True}),
        ("no query", 2, 0, 45, 16, {}),
    ):
        make = heads_of(heads, queries, keys, size, options)
        yield Case("attention", label, make, NARROW)
        # The reference rounds as often: with a bias, it is 2.6 ulps from the result in 80 bits, the
        # op 3.2 on the other side.
        yield Case("attention", label, make, ("float64",), ulps=6)
        if "log_sums" not in options and queries != 1:
            make = with_gradient(heads, queries, keys, size, options)
            yield Case("attention_backward", label, make, ulps=16)
    for label, batches, options in (
        ("whole bias", 2, {"bias": (2, 4, 33, 50)}),
        ("shared bias", 2, {"bias": (1, 4, 33, 50), "causal": True}),
        ("bias of keys", 2, {"bias": (2, 1, 1, 50), "window": 9}),
        ("bias of queries", 2, {"bias": (1, 1, 33, 1)}),
        ("bias of heads", 2, {"bias": (1, 4, 1, 1), "slopes": True, "causal": True}),
        ("slopes", 2, {"slopes": True, "window": 20}),
        ("no batch", 0, {"bias": (1, 4, 33, 1), "slopes": True}),
    ):
        make = with_gradient(4, 33, 50, 24, {**options, "bias_gradients": True}, batches)
        # A bias that is the same for all keys changes nothing: terms of its gradient cancel.
        dtypes = ("float32", "float64") if "slopes" in options else ALL
        op = "attention_backward"
        everywhere = label in ("shared bias", "bias of keys", "slopes")
        yield Case(op, f"gradient of {label}", make, dtypes, 16, 8.0, everywhere)
        if "slopes" in options:  # float32, of numbers of float16
            yield Case(op, f"narrow, {label}", make, ("float16",), 16 * 2**13, 8.0)
    for label, options in (
        ("causal", {"causal": True}),
        ("window", {"causal": True, "window": 9}),
        ("log_sums", {"log_sums": True}),
    ):
        yield Case("varlen_attention", label, sequences(options))
        if "log_sums" not in options:
            make = sequences(options, gradient=True)
            yield Case("varlen_attention_backward", label, make, ulps=16)
    yield Case("decode_attention", "three lengths", decoding(3, 4, 300))
    yield Case("decode_attention", "pages", decoding(3, 4, 300, page=20))
    yield Case("decode_attention", "no batch", decoding(0, 4, 10))
    for interleaved in (False, True):
        for inverse in (False, True):
            options = {"interleaved": interleaved, "inverse": inverse}
            yield Case("rope", "-".join(n for n, on in options.items() if on), angles(options))


def heads_of(
    heads: int, queries: int, keys: int, size: int, options: dict[str, Any], batches: int = 2
) -> Callable[[Random], Arguments]:
    """Return the maker of q, k and v, of which two heads of q share one of k and v."""

    def make(random: Random) -> Arguments:
        k, v = (random.normal(batches, heads // 2, keys, size) for _ in range(2))
        arrays: dict[str, Any] = dict(options)
        if "bias" in options:
            arrays["bias"] = random.normal(*options["bias"])
        if "slopes" in options:
            arrays["slopes"] = np.exp2(-np.arange(heads), dtype=np.float32)
        return (random.normal(batches, heads, queries, size), k, v), arrays

    return make


def sequences(options: dict[str, Any], gradient: bool = False) -> Callable[[Random], Arguments]:
    """Return the maker of sequences, of which one is empty, and one has more queries than keys."""
    q_starts, k_starts = (np.array(s, np.int32) for s in ((0, 5, 5, 50, 60), (0, 40, 47, 97, 100)))

    def make(random: Random) -> Arguments:
        q = random.normal(60, 4, 24)
        k, v = (random.normal(100, 2, 24) for _ in range(2))
        if not gradient:
            return (q, k, v, q_starts, k_starts, 45), options
        result, logs = reference_of("varlen_attention")(
            *(q, k, v, q_starts, k_starts, 45), **options, log_sums=True
        )
        sums = np.float64 if q.dtype == np.float64 else np.float32
        inputs = (random.normal(*q.shape), q, k, v, result.astype(q.dtype), logs.astype(sums))
        return (*inputs, q_starts, k_starts, 45, 50), options

    return make


def with_gradient(
    heads: int, queries: int, keys: int, size: int, options: dict[str, Any], batches: int = 2
) -> Callable[[Random], Arguments]:
    def make(random: Random) -> Arguments:
        (q, k, v), arrays = heads_of(heads, queries, keys, size, options, batches)(random)
        scores = {name: value for name, value in arrays.items() if name != "bias_gradients"}
        result, logs = reference_of("attention")(q, k, v, **scores, log_sums=True)
        sums = np.float64 if q.dtype == np.float64 else np.float32
        return (
            random.normal(*q.shape),
            q,
            k,
            v,
            result.astype(q.dtype),
            logs.astype(sums),
        ), arrays

    return make


def decoding(batches: int, heads: int, keys: int, page: int = 0) -> Callable[[Random], Arguments]:
    def make(random: Random) -> Arguments:
        k, v = (random.normal(batches, keys, heads // 2, 24).swapaxes(1, 2) for _ in range(2))
        lengths = np.array([1, keys, 130][:batches], np.int32)
        q = random.normal(batches, heads, 24)
        if not page:
            return (q, k, v, lengths), {}
        pages, most = 50, keys // page
        k, v = (random.normal(pages, page, heads // 2, 24).swapaxes(1, 2) for _ in range(2))
        table = random.integers(0, pages, batches, most, dtype=np.int32)
        return (q, k, v, lengths), {"table": table}

    return make


def angles(options: dict[str, bool]) -> Callable[[Random], Arguments]:
    return lambda r: ((r.normal(2, 5, 3, 12), r.normal(5, 6), r.normal(5, 6)), options)


def pointwise() -> Iterator[Case]:
    for shape in ((3, 417), (1,), (0, 5)):
        label = "x".join(map(str, shape))
        for op, count in (
            ("swiglu", 2),
            ("geglu", 2),
            ("swiglu_backward", 3),
            ("geglu_backward", 3),
        ):
            yield Case(op, label, normals(count, shape))
        yield Case(
            "dropout", label, lambda r, shape=shape: ((r.normal(*shape), 0.3, 2**40 + 7), {})
        )

    for function in ("relu", "silu", "gelu", "gelu_erf", "sigmoid", "tanh"):
        options = {"function": function}
        make = lambda r, options=options: ((r.normal(3, 417),), options)  # noqa: E731
        yield Case("activate", function, make)
        two = lambda r, options=options: ((r.normal(3, 417), r.normal(3, 417)), options)  # noqa: E731
        yield Case("activate_backward", function, two)
        if function in ("relu", "sigmoid", "tanh"):
            make = from_result(function)
            yield Case("activate_backward", f"{function} of the result", make)
    yield Case("activate", "none", lambda r: ((r.normal(0, 5),), {}), ("float32",))

    logits = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy")
    for op in (*logits, "bce_loss", "kl_div"):
        probable = op == "bce_loss"
        for shape in ((5, 700), (1,)):
            label = "x".join(map(str, shape))
            yield Case(
                op, label, lambda r, s=shape, p=probable: ((values(r, s, p), uniform(r, s)), {})
            )
            yield Case(f"{op}_backward", label, loss_gradient(shape, probable))
    delta = {"delta": 0.3}
    yield Case("huber_loss", "0.3", lambda r: ((r.normal(5), r.normal(5)), delta), ("float32",))
    for op in ("bce_loss", "kl_div"):
        yield Case(op, "0 and 1", lambda r: ((SURE.astype(r.dtype), SURE.astype(r.dtype)), {}))


def from_result(function: str) -> Callable[[Random], Arguments]:
    def make(random: Random) -> Arguments:
        y = reference_of("activate")(random.normal(3, 417) / 2, function).astype(random.dtype)
        return (random.normal(3, 417), y, function, True), {}

    return make


def uniform(random: Random, shape: tuple[int, ...]) -> Array:
    return random.generator.random(shape).astype(random.dtype)


SURE = np.array([0.0, 1.0])


def values(random: Random, shape: tuple[int, ...], probable: bool) -> Array:
    return uniform(random, shape) if probable else random.normal(*shape)


def loss_gradient(shape: tuple[int, ...], probable: bool) -> Callable[[Random], Arguments]:
    def make(random: Random) -> Arguments:
        wide = np.float64 if random.dtype == np.float64 else np.float32
        return (np.array(-0.7, wide), values(random, shape, probable), uniform(random, shape)), {}

    return make


def normals(count: int, shape: tuple[int, ...]) -> Callable[[Random], Arguments]:
    return lambda random: (tuple(random.normal(*shape) for _ in range(count)), {})


def image() -> Iterator[Case]:
    for label, shape, filters, options in (
        ("groups", (2, 6, 5, 6), (8, 3, 3, 3), {"groups": 2, "stride": 2, "padding": 1}),
        ("3x3", (2, 7, 6, 5), (9, 3, 3, 5), {"padding": 1}),
        ("strided", (1, 9, 8, 32), (20, 3, 2, 32), {"stride": (2, 1), "dilation": (1, 3)}),
        ("1x1", (2, 4, 4, 33), (70, 1, 1, 33), {"activation": "relu"}),
        ("no batch", (0, 4, 4, 3), (7, 3, 3, 3), {}),
        ("depthwise", (2, 6, 5, 6), (12, 3, 2, 1), {"groups": 6, "dilation": (2, 1)}),
        ("one pixel", (1, 1, 1, 8), (3, 3, 3, 8), {"padding": 1}),
        (
            "depthwise, less wide than the stride",
            (2, 6, 5, 6),
            (6, 3, 1, 1),
            {"groups": 6, "stride": 2},
        ),
        ("depthwise, by rows", (2, 6, 5, 6), (6, 3, 3, 1), {"groups": 6, "padding": 1}),
        ("wide, depthwise", (2, 3, 9, 5), (5, 2, 7, 1), {"groups": 5, "padding": 3, "stride": 2}),
    ):
        for layout in ("NHWC", "NCHW"):
            # Their kernels differ in addresses only.
            every = layout == "NHWC" and label in ("groups", "depthwise", "depthwise, by rows")
            dtypes = ALL if every else ("float32",)
            for op, make in convolutions(shape, filters, options, layout).items():
                yield Case(op, f"{label} {layout}", make, ALL if op == "conv2d" else dtypes)
    for shape, count in (
        ((2, 5, 7, 9), 11),
        ((1, 7, 7, 64), 20),
        ((0, 5, 5, 3), 4),
        ((2, 1, 1, 3), 1),
    ):
        for op, make in shifted(shape, count).items():
            yield Case(op, "x".join(map(str, shape)), make)
    for op, make in shifted((1, 7, 5, 40), 20, run=8, splits=2, most=5).items():
        yield Case(op, "runs, far", make)
    yield from pooling()
    yield from resizing()
    for op in ("max_pool2d", "avg_pool2d"):
        yield Case(op, "3x2", lambda r: ((r.normal(2, 9, 8, 5), (3, 2), 2, 1), {}))
        planes = lambda r: r.normal(2, 5, 9, 8).transpose(0, 2, 3, 1)  # noqa: E731
        yield Case(op, "planes", lambda r, planes=planes: ((planes(r), 3, (1, 2)), {}))
        yield Case(op, "no batch", lambda r: ((r.normal(0, 9, 8, 5), 3, 1), {}))


def resizing() -> Iterator[Case]:
    """Yield images that become larger and smaller, and their gradients."""
    for image, size, layout in (
        ((5, 4), (9, 7), "NHWC"),
        ((9, 7), (2, 3), "NCHW"),
        ((1, 6), (4, 1), "NHWC"),
    ):
        for aligned in (False, True):
            options = {"layout": layout, "align_corners": aligned}
            label = f"{image} to {size} {layout}{' aligned' if aligned else ''}"
            dtypes = ("float32",) if aligned else ALL
            yield Case("resize_bilinear", label, resized(image, size, options), dtypes)
            make = resized(size, image, options)
            yield Case("resize_bilinear_backward", label, make, dtypes)


def resized(
    image: tuple[int, int], size: tuple[int, int], options: dict[str, Any]
) -> Callable[[Random], Arguments]:
    shape = (2, 3, *image) if options["layout"] == "NCHW" else (2, *image, 3)
    return lambda random: ((random.normal(*shape), size), options)


def pooling() -> Iterator[Case]:
    """Yield gradients of pooling, and pooling with adaptive windows."""
    for layout in ("NHWC", "NCHW"):
        dtypes = ALL if layout == "NHWC" else ("float32",)
        for args in (((3, 2), 2, 1), (2, (3, 1))):
            label = f"{args} {layout}"
            yield from pooling_of("max_pool2d", label, args, {"layout": layout}, dtypes)
            yield from pooling_of("avg_pool2d", label, args, {"layout": layout}, dtypes)
        for size in ((4, 3), (1, 1), (10, 9)):
            label = f"{size} {layout}"
            yield from pooling_of("adaptive_max_pool2d", label, (size,), {"layout": layout}, dtypes)
            yield from pooling_of("adaptive_avg_pool2d", label, (size,), {"layout": layout}, dtypes)
    options = {"padded": False}
    yield from pooling_of("avg_pool2d", "unpadded", (3, 2, 1), options, ("float32",))
    yield Case(
        "adaptive_max_pool2d", "no batch", lambda r: ((r.normal(0, 9, 8, 5), 3), {}), ("float32",)
    )


def pooling_of(
    op: str, label: str, args: tuple[Any, ...], options: dict[str, Any], dtypes: tuple[str, ...]
) -> Iterator[Case]:
    """Yield pooling with indices, if it has them, and its gradient, of an image of 9 x 8 pixels."""
    shape = (2, 5, 9, 8) if options.get("layout") == "NCHW" else (2, 9, 8, 5)
    maximum = "max" in op

    def gradient(random: Random) -> Arguments:
        more = {"indices": True} if maximum else {}
        results = several(reference_of(op)(random.normal(*shape), *args, **options, **more))
        return (random.normal(*results[0].shape), *results[1:], (9, 8), *args[args_from:]), options

    args_from = 1 if "adaptive" in op else 0
    more = {"indices": True} if maximum else {}
    yield Case(op, label, lambda r: ((r.normal(*shape), *args), options | more), dtypes)
    yield Case(f"{op}_backward", label, gradient, dtypes)


def convolutions(
    shape: tuple[int, ...], filters: tuple[int, ...], options: dict[str, Any], layout: str
) -> dict[str, Callable[[Random], Arguments]]:
    """Return makers of a convolution, its gradients, and the transposed convolution, by op."""
    planes = layout == "NCHW"

    def image(random: Random, *extents: int) -> Array:
        batch, height, width, channels = extents
        return random.normal(batch, channels, height, width) if planes else random.normal(*extents)

    def weights(random: Random) -> Array:
        count, r, s, depth = filters
        return random.normal(count, depth, r, s) if planes else random.normal(*filters)

    steps = {key: value for key, value in options.items() if key != "activation"} | {
        "layout": layout
    }
    zeros = np.zeros(shape), np.zeros(filters)
    sizes = reference_of("conv2d")(*zeros, **(steps | {"layout": "NHWC"})).shape
    window = tuple(filters[1:3])
    wide = options.get("groups", 1) * filters[3]
    return {
        "conv2d": lambda r: (
            (image(r, *shape), weights(r), r.normal(filters[0])),
            options | {"layout": layout},
        ),
        "conv2d_dgrad": lambda r: ((image(r, *sizes), weights(r), shape[1:3]), steps),
        "conv2d_wgrad": lambda r: (
            (image(r, *sizes), image(r, *shape), window),
            steps | {"splits": 3 if planes else None},
        ),
        "conv_transpose2d": lambda r: ((image(r, *sizes), weights(r), r.normal(wide)), steps),
    }


def shifted(
    shape: tuple[int, ...], count: int, run: int = 1, splits: int | None = None, most: int = 1
) -> dict[str, Callable[[Random], Arguments]]:
    """Return makers of a shift convolution by at most so many pixels, and its gradients, by op."""

    def shifts(random: Random) -> Iterator[Any]:
        for _ in range(2):
            group = random.integers(-most, most + 1, shape[3] // run + 1, dtype=np.int32)
            yield np.repeat(group, run)[: shape[3]]
        yield run

    filters, grad = (count, shape[3]), (*shape[:3], count)
    return {
        "shift_conv": lambda r: ((r.normal(*shape), r.normal(*filters), *shifts(r)), {}),
        "shift_conv_dgrad": lambda r: ((r.normal(*grad), r.normal(*filters), *shifts(r)), {}),
        "shift_conv_wgrad": lambda r: (
            (r.normal(*grad), r.normal(*shape), *shifts(r)),
            {"splits": splits},
        ),
    }


def channels() -> Iterator[Case]:
    for label, shape, axis, dtypes in (
        ("planes", (3, 6, 5, 7), 1, ALL),
        ("last", (2, 5, 7, 6), -1, ALL),
        ("vectors", (37, 6), 1, ("float32",)),
        ("long", (2, 2, 3000), 1, ("float32",)),
        ("strided", (2, 6, 9), 1, ("float32",)),
    ):
        for op in ("batch_norm", "group_norm"):
            if label != "vectors" or op == "batch_norm":
                yield Case(op, label, normalized(op, shape, axis), dtypes, ulps=8)
                make = normalized(op, shape, axis, gradient=True)
                yield Case(f"{op}_backward", label, make, dtypes, ulps=16, floor=1.0)
    for label, shape, axis in (
        ("odd planes, contiguous", (9, 6, 5, 7), 1),
        ("planes, contiguous", (2, 6, 16, 32), 1),
        ("long planes, contiguous", (2, 3, 70, 90), 1),
        ("last, contiguous", (3, 5, 7, 96), -1),
    ):
        for op in ("batch_norm", "group_norm"):
            make, some = normalized(op, shape, axis, step=1), ("float16", "float32")
            yield Case(op, label, make, some, ulps=8)
            make = normalized(op, shape, axis, gradient=True, step=1)
            yield Case(f"{op}_backward", label, make, some, ulps=16, floor=1.0)
    constant = {"constant": True}
    make = normalized("batch_norm", (3, 6, 5), 1, gradient=True, options=constant)
    yield Case("batch_norm_backward", "constant", make, ("float32",), ulps=16, floor=1.0)
    yield Case("batch_norm", "given", given_moments, ("float16", "float64"))
    yield Case("group_norm", "no batch", normalized("group_norm", (0, 6, 5), 1), ("float32",))
    make = normalized("group_norm", (0, 6, 5), 1, gradient=True)
    yield Case("group_norm_backward", "no batch", make, ("float32",))


def normalized(
    op: str,
    shape: tuple[int, ...],
    axis: int,
    gradient: bool = False,
    options: dict[str, Any] | None = None,
    step: int = 2,
) -> Callable[[Random], Arguments]:
    """Return the maker of an array with a large mean, whose elements are `step` apart."""

    def make(random: Random) -> Arguments:
        count = shape[axis]
        x = (random.normal(*shape, step) + random.dtype.type(3))[..., 0]
        groups = (min(count, 3),) if op == "group_norm" else ()
        weight, bias = random.normal(count), random.normal(count)
        if not gradient:
            return (x, *groups, weight, bias), {"axis": axis}
        _, mean, variance = reference_of(op)(x, *groups, weight, bias, axis=axis)
        kind = np.float64 if random.dtype == np.float64 else np.float32
        moments = mean.astype(kind), variance.astype(kind)
        return (random.normal(*shape), x, *groups, weight, *moments), {
            "axis": axis,
            **(options or {}),
        }

    return make


def given_moments(random: Random) -> Arguments:
    kind = np.float64 if random.dtype == np.float64 else np.float32
    mean, variance = np.arange(4, dtype=kind), np.arange(1, 5, dtype=kind)
    weights = random.normal(4), random.normal(4)
    return (random.normal(0, 4, 3), *weights, mean, variance), {}


def selection() -> Iterator[Case]:
    for shape in ((4, 3), (0,)):
        for rows, length in ((9, 5), (3, 1100)):
            label = f"{'x'.join(map(str, shape))} of {rows}x{length}"
            yield Case("embedding", label, table(shape, rows, length))
            yield Case("embedding_backward", label, table_gradient(shape, rows, length))
    # Runs of equal indices that end in other chunks, and several sorted runs.
    for rows, count in ((2, 100), (40, 100), (7, 9000)):
        label = f"{count} of {rows}x5"
        yield Case("embedding_backward", label, table_gradient((count,), rows, 5), ("float32",))

    for mode in ("sum", "mean", "max"):
        yield Case("embedding_bag", mode, bags(mode, 300), ALL if mode != "mean" else ("float32",))
        if mode != "max":
            yield Case("embedding_bag_backward", mode, bags_gradient(mode, 300))
    yield Case("embedding_bag", "one column", bags("sum", 1), ("float32",))
    yield Case("embedding_bag", "no bags", bags("sum", 5, (0,)), ("float32",))
    yield Case("embedding_bag_backward", "no bags", bags_gradient("sum", 5, (0,)), ("float32",))
    for length in (9, 130):
        for k in (1, 5):
            yield Case("topk", f"{k} of {length}", greatest(length, k), NARROW, ulps=0)
        for descending in (False, True):
            label = f"{length} {'down' if descending else 'up'}"
            yield Case("sort", label, some_equal(length, descending), ulps=0)
            for kind in (np.int32, np.int64):
                make = extreme_integers(kind, (3, length), descending)
                yield Case("sort", f"{label} {kind.__name__}", make, ("float32",))
    for length in (1000, 16385, 33000):
        yield Case("sort", f"{length}", some_equal(length, length > 20000), ulps=0)
        make = extreme_integers(np.int64, (2, length), length > 20000)
        yield Case("sort", f"{length} int64", make, ("float32",), everywhere=length < 20000)
    yield Case("topk", "long", greatest(2500, 7), NARROW, ulps=0, everywhere=True)
    yield Case("topk", "long, many", greatest(3000, 1100), ulps=0)
    yield Case("topk", "very long, many", greatest(17000, 1100), ("float32",), ulps=0)
    yield Case("topk", "int64", extreme_integers(np.int64, (3, 1000), 7), ("float32",))
    yield Case("topk", "float64", greatest(130, 5), ("float64",), ulps=0)
    yield Case("topk", "almost all of a part", greatest(2055, 1010), ("float32",), ulps=0)
    yield Case("topk", "one of several parts", greatest(20011, 1), NARROW, ulps=0)
    yield Case("topk", "several passes", greatest(40000, 700), NARROW, ulps=0)
    yield Case("topk", "wide", greatest(70000, 3), ("float16",), ulps=0)
    yield Case("topk", "wide, equal", equal_elements(70000, 700), ("float16", "bfloat16"), ulps=0)
    yield Case("topk", "integers", int32(2**31, (2, 3000), 9), ("float32",))
    for op, arguments in (("topk", (2,)), ("sort", ())):
        yield Case(op, "short", normal((801, 3), more=arguments), NARROW, ulps=0, everywhere=True)
    yield Case("topk", "none", lambda r: ((r.normal(2, 5), 0), {}), ("float32",))
    for reverse in (False, True):
        make = normal((2, 16999), more=(reverse,))
        yield Case("cumsum", f"long {reverse}", make, ("float32",), ulps=32, everywhere=reverse)
    yield Case("cumsum", "long, integers", int32(9, (1, 16999)), ("float32",))
    for shape in ((3, 37), (2, 4100), (801, 3), (0, 4), (2, 0)):
        label = "x".join(map(str, shape))
        yield Case("cumsum", label, lambda r, shape=shape: ((r.normal(*shape),), {}), ulps=16)
        yield Case("cumsum", f"{label} reverse", backwards(shape), ulps=16)
        yield from scans(shape, label)
    for kind in (np.int32, np.int64):
        integers = lambda r, kind=kind: ((r.integers(-9, 9, 2, 50, dtype=kind),), {})  # noqa: E731
        for op in ("cumsum", "cumprod", "cummax", "cummin"):
            yield Case(op, kind.__name__, integers, ("float32",))
    for op in ("cummax", "cummin"):
        for length in (70, 2500):
            make = lambda r, n=length: ((some_equal(n, False)(r)[0][0],), {})  # noqa: E731
            yield Case(op, f"equal elements, NaN, {length}", make, ulps=0, everywhere=length > 70)
    make = lambda r: ((np.array([-np.inf, -np.inf, 2, np.inf, 1], r.dtype),), {})  # noqa: E731
    yield Case("logcumsumexp", "infinite", make)
    for size, bins in ((5000, 37), (300, 2000), (0, 3)):
        yield Case("histogram", f"{size} in {bins}", counted(size, bins), ("float32",))


def scans(shape: tuple[int, ...], label: str) -> Iterator[Case]:
    """Yield scans of rows and their gradients. Elements of products are near 1, but for a zero."""

    def near_1(random: Random) -> Array:
        x = (1 + random.generator.standard_normal(shape) / 64).astype(random.dtype)
        x[..., 9:10] = 0
        return x

    blocks = shape[-1] > 1000  # several of a row
    dtypes = ("float32", "float16") if blocks else ALL
    yield Case("cumprod", label, lambda r: ((near_1(r),), {}), dtypes, ulps=16)
    for op in ("cummax", "cummin", "logcumsumexp"):
        yield Case(op, label, lambda r: ((r.normal(*shape),), {}), dtypes, ulps=8)
    for op, elements in (("cumprod", near_1), ("logcumsumexp", lambda r: r.normal(*shape))):
        make = scan_gradient(op, shape, elements)
        yield Case(f"{op}_backward", label, make, dtypes, ulps=32, everywhere=blocks)
    yield Case("cummax_backward", label, maximum_gradient(shape), dtypes, everywhere=blocks)


def scan_gradient(
    op: str, shape: tuple[int, ...], elements: Callable[[Random], Array]
) -> Callable[[Random], Arguments]:
    def make(random: Random) -> Arguments:
        x = elements(random)
        return (random.normal(*shape), x, reference_of(op)(x).astype(x.dtype)), {}

    return make


def maximum_gradient(shape: tuple[int, ...]) -> Callable[[Random], Arguments]:
    def make(random: Random) -> Arguments:
        _, index = reference_of("cummax")(random.normal(*shape))
        return (random.normal(*shape), index), {}

    return make


def greatest(length: int, k: int) -> Callable[[Random], Arguments]:
    """Return the maker of rows with equal elements, infinities and NaN."""
    return lambda random: ((some_equal(length, False)(random)[0][0], k), {})


def some_equal(length: int, descending: bool) -> Callable[[Random], Arguments]:
    def make(random: Random) -> Arguments:
        x = (random.integers(-3, 4, 3, length) / 2).astype(random.dtype)
        x[0, [1, 3, 4, 8]] = [np.nan, -np.inf, np.inf, -0.0]
        return (x, descending), {}

    return make


def extreme_integers(
    kind: type[np.signedinteger[Any]], shape: tuple[int, ...], *more: Any
) -> Callable[[Random], Arguments]:
    """Return the maker of integers with any bits, of which the first are the least and greatest."""
    ends = np.iinfo(kind)

    def make(random: Random) -> Arguments:
        x = random.generator.integers(ends.min, ends.max, shape, kind, endpoint=True)
        x[0, :4] = ends.max, ends.min, 0, -1
        return (x, *more), {}

    return make


def backwards(shape: tuple[int, ...]) -> Callable[[Random], Arguments]:
    return lambda random: ((random.normal(*shape),), {"reverse": True})


def counted(size: int, bins: int) -> Callable[[Random], Arguments]:
    return lambda random: ((random.integers(0, bins, size), bins), {})


def bags(
    mode: str, length: int, starts: tuple[int, ...] = (0, 3, 3, 4, 9)
) -> Callable[[Random], Arguments]:
    """Return the maker of bags, one of which is empty; with scales for sums."""

    def make(random: Random) -> Arguments:
        count = starts[-1]
        scales = random.normal(count) if mode == "sum" else None
        indices = random.integers(0, 7, count)
        return (indices, np.array(starts), random.normal(7, length), mode, scales), {}

    return make


def bags_gradient(
    mode: str, length: int, starts: tuple[int, ...] = (0, 3, 3, 4, 9)
) -> Callable[[Random], Arguments]:
    def make(random: Random) -> Arguments:
        (indices, first, _, *options), _ = bags(mode, length, starts)(random)
        return (random.normal(len(starts) - 1, length), indices, first, 7, *options), {}

    return make


def table(shape: tuple[int, ...], rows: int, length: int) -> Callable[[Random], Arguments]:
    return lambda r: ((r.integers(0, rows, *shape), r.normal(rows, length)), {})


def table_gradient(shape: tuple[int, ...], rows: int, length: int) -> Callable[[Random], Arguments]:
    return lambda r: ((r.normal(*shape, length), r.integers(0, rows, *shape), rows), {})


def training() -> Iterator[Case]:
    for shape in ((3, 417), (0,)):
        yield Case("adamw", "x".join(map(str, shape)), parameters(shape), NARROW)
    for kind in ("int8", "float8_e4m3fn"):
        for shape in ((3, 37), (2, 5000), (7,), (0, 3)):
            label = f"{kind} {'x'.join(map(str, shape))}"
            yield Case("quantize", label, floats(shape, kind), NARROW, ulps=0.5)
            yield Case("dequantize", label, quantized(shape, kind), ("float32",))
        for shape in ((40, 300), (130, 128), (3, 7), (0, 3), (3, 0)):
            for rows_ in (1, 128):
                label = f"{kind} {rows_} of {'x'.join(map(str, shape))}"
                make = lambda r, s=shape, n=rows_, k=kind: ((r.normal(*s), n, k), {})  # noqa: E731
                yield Case("quantize_blocks", label, make, NARROW, ulps=0.5)


def parameters(shape: tuple[int, ...]) -> Callable[[Random], Arguments]:
    def make(random: Random) -> Arguments:
        p, g, m, v = (random.normal(*shape) for _ in range(4))
        return (p, g, m.astype(np.float32), np.square(v).astype(np.float32), 3, 0.01), {}

    return make


def floats(shape: tuple[int, ...], kind: str | int) -> Callable[[Random], Arguments]:
    return lambda random: ((random.normal(*shape), kind), {})


def quantized(shape: tuple[int, ...], kind: str) -> Callable[[Random], Arguments]:
    return lambda random: (reference_of("quantize")(random.normal(*shape), kind), {})


def lists() -> Iterator[Case]:
    sizes = ((3, 700), (1,), (0,), (1024,), (5, 5))
    many = tuple((n,) for n in range(1, 20))
    for function in ("add", "mul", "scale", "lerp"):
        dtypes = NARROW if function == "add" else ("float32",)
        yield Case("foreach_apply", function, pairs(function, sizes), dtypes, floor=1.0)
    yield Case("foreach_apply", "many", pairs("add", many), ("float32",), floor=1.0)
    none = lambda random: (("add", []), {})  # noqa: E731
    yield Case("foreach_apply", "none", none, ("float32",))
    for label, shapes in (("several", sizes), ("many", many)):
        make = lambda r, shapes=shapes: (([r.normal(*shape) for shape in shapes],), {})  # noqa: E731
        yield Case("foreach_norms", label, make, NARROW)


def pairs(function: str, shapes: tuple[tuple[int, ...], ...]) -> Callable[[Random], Arguments]:
    def make(random: Random) -> Arguments:
        xs, ys = ([random.normal(*shape) for shape in shapes] for _ in range(2))
        return (function, xs, None if function == "scale" else ys, -0.75), {}

    return make


def sparse() -> Iterator[Case]:
    for label, count, k in (("blocks of 16", 4, 40), ("none", 0, 40), ("many", 70, 20)):
        yield Case("sddmm", label, sampled(16, 3, 2, k, count))
        yield Case("sddmm_backward", label, sampled(16, 3, 2, k, count, gradient=True), ulps=8)
    for label, n in (("blocks of 16", 50), ("no columns", 0)):
        yield Case("spmm", label, blocks(16, 3, 4, n))
        yield Case("spmm_backward", label, blocks(16, 3, 4, n, gradient=True))


def sampled(
    size: int, rows: int, columns: int, k: int, count: int, gradient: bool = False
) -> Callable[[Random], Arguments]:
    """Return the maker of blocks in any order, of which some are at the same position."""

    def make(random: Random) -> Arguments:
        first = random.integers(0, rows, count, dtype=np.int32)
        second = random.integers(0, columns, count, dtype=np.int32)
        a, b = random.normal(rows * size, k), random.normal(columns * size, k).T
        values = (random.normal(count, size, size),) if gradient else ()
        return (*values, a, b, first, second, size), {}

    return make


def blocks(
    size: int, rows: int, columns: int, n: int, gradient: bool = False
) -> Callable[[Random], Arguments]:
    """Return the maker of a matrix whose second row of blocks is empty."""

    def make(random: Random) -> Arguments:
        starts = np.array([0, 2, 2, 5][: rows + 1], np.int32)
        second = random.integers(0, columns, int(starts[-1]), dtype=np.int32)
        values = random.normal(int(starts[-1]), size, size)
        grad = (random.normal(n, rows * size).T,) if gradient else ()
        return (*grad, values, starts, second, random.normal(columns * size, n)), {}

    return make


def recurrent() -> Iterator[Case]:
    for rows, inputs, units in ((5, 20, 37), (17, 3, 5), (0, 3, 5)):
        label = f"{rows} rows, {units} units"
        yield Case("lstm_cell", label, cell(rows, inputs, units, 4), ulps=8)
        yield Case("gru_cell", label, cell(rows, inputs, units, 3), ulps=8)
        yield Case("gru_cell", f"{label}, gates", gru_gates(rows, inputs, units), ulps=8)
        dtypes = NARROW if rows == 5 else ("float32",)
        # Sums of gates are rounded to their type.
        make = lstm_gradient(rows, inputs, units)
        yield Case("lstm_cell_backward", label, make, dtypes, ulps=32)
        make = gru_gradient(rows, inputs, units)
        yield Case("gru_cell_backward", label, make, dtypes, ulps=8)


def lstm_gradient(rows: int, inputs: int, units: int) -> Callable[[Random], Arguments]:
    def make(random: Random) -> Arguments:
        gradients = (random.normal(rows, units) for _ in range(2))
        return (*gradients, *cell(rows, inputs, units, 4)(random)[0]), {}

    return make


def gru_gates(rows: int, inputs: int, units: int) -> Callable[[Random], Arguments]:
    return lambda random: (cell(rows, inputs, units, 3)(random)[0], {"gates": True})


def gru_gradient(rows: int, inputs: int, units: int) -> Callable[[Random], Arguments]:
    def make(random: Random) -> Arguments:
        arguments = cell(rows, inputs, units, 3)(random)[0]
        _, gates = reference_of("gru_cell")(*arguments, gates=True)
        gates = gates.astype(random.dtype)
        return (random.normal(rows, units), *arguments[:4], gates), {}

    return make


def cell(rows: int, inputs: int, units: int, gates: int) -> Callable[[Random], Arguments]:
    def make(random: Random) -> Arguments:
        states = [random.normal(rows, units) for _ in range(gates - 2)]
        weights = random.normal(gates * units, inputs), random.normal(gates * units, units)
        biases = [random.normal(gates * units) for _ in range(5 - gates)]
        return (random.normal(rows, inputs), *states, *weights, *biases), {}

    return make


CASES = [
    *rowwise(),
    *linear(),
    *sequence(),
    *pointwise(),
    *image(),
    *channels(),
    *selection(),
    *training(),
    *lists(),
    *sparse(),
    *recurrent(),
]
FIRST = list({case.op: case for case in reversed(CASES)}.values())
EVERYWHERE = [case for case in CASES if case.everywhere or case in FIRST]
