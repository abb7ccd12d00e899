"""The problems of losses, recurrent cells and their gradients of `benchmarks/ops.py`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ops_cases import Args, Arrays, Problem, bytes_of

import tile.ops

Maker = Callable[[Arrays], Args]
Peer = Callable[..., Any]


def once(function: Peer) -> Peer:
    """Return a function that computes its result at the first call only, as a forward pass does."""
    results: list[Any] = []

    def stored(*args: Any) -> Any:
        if not results:
            results.append(function(*args))
        return results[0]

    return stored


def by_autograd(forward: Peer, count: int) -> Peer:
    """Return PyTorch's gradients of `forward` by its first `count` arguments.

    The first argument of the problem is the gradient of the result. The forward pass is not part
    of a call.
    """

    @once
    def graph(torch: Any, args: Args) -> tuple[Any, list[Any]]:
        leaves = [arg.detach().requires_grad_() for arg in args[:count]]
        with torch.enable_grad():
            result = forward(torch, *leaves, *args[count:])
        return result, leaves

    def gradients(torch: Any, dy: Any, *args: Any) -> Any:
        result, leaves = graph(torch, args)
        dy = dy.to(result.dtype).reshape(result.shape)
        return torch.autograd.grad(result, leaves, dy, retain_graph=True)

    return gradients


def fractions(a: Arrays, *shape: int) -> Any:
    """Return probabilities, none of which is 0 or 1."""
    return (a.integers(98, *shape, dtype="float16") + 1) / 100


def scalar(a: Arrays) -> Any:
    return a.normal(1, dtype="float32").reshape(())


def means(rows: int, length: int) -> Iterator[Problem]:
    """Yield losses that are means over all elements, and their gradients."""
    label, count = f"{rows}x{length}", rows * length

    # In float16, the gradients of so many elements would be 0.
    def numbers(a: Arrays) -> Args:
        x, y = (a.normal(rows, length, dtype="bfloat16") for _ in range(2))
        return x, y

    def probable(a: Arrays) -> Args:
        return (fractions(a, rows, length), fractions(a, rows, length))

    def logits(a: Arrays) -> Args:
        return (a.normal(rows, length), fractions(a, rows, length))

    losses: dict[str, tuple[Maker, Peer]] = {
        "mse_loss": (numbers, lambda t, x, y: t.nn.functional.mse_loss(x, y)),
        "smooth_l1_loss": (numbers, lambda t, x, y: t.nn.functional.smooth_l1_loss(x, y)),
        "huber_loss": (numbers, lambda t, x, y: t.nn.functional.huber_loss(x, y)),
        "l1_loss": (numbers, lambda t, x, y: t.nn.functional.l1_loss(x, y)),
        "bce_loss": (probable, lambda t, x, y: t.nn.functional.binary_cross_entropy(x, y)),
        "binary_cross_entropy": (
            logits,
            lambda t, x, y: t.nn.functional.binary_cross_entropy_with_logits(x, y),
        ),
        "kl_div": (logits, lambda t, x, y: t.nn.functional.kl_div(x, y, reduction="mean")),
    }
    for op, (make, function) in losses.items():
        yield Problem(op, label, "GB/s", bytes_of(2 * count), make, function)

        def back(a: Arrays, make: Maker = make) -> Args:
            return (scalar(a), *make(a))

        name, work = f"{op}_backward", bytes_of(3 * count)
        yield Problem(name, label, "GB/s", work, back, by_autograd(function, 1))


def classes(rows: int, length: int) -> Iterator[Problem]:
    """Yield losses of classes that are numbers of each row, and their gradients."""
    label, count = f"{rows}x{length}", rows * length

    def pair(a: Arrays) -> Args:
        return (a.normal(rows, length), a.integers(length, rows))

    def entropy(a: Arrays) -> Args:
        x, target = pair(a)
        loss = tile.ops.cross_entropy(x, target)
        return a.normal(rows, dtype="float32"), x, target, loss

    def of_torch(t: Any, x: Any, y: Any, *_: Any) -> Any:
        return t.nn.functional.cross_entropy(x, y, reduction="none")

    def likelihood(t: Any, x: Any, y: Any) -> Any:
        return t.nn.functional.nll_loss(x, y, reduction="none")

    empty = once(lambda d, n: d.new_empty(len(d), n).half())

    def likelihood_backward(t: Any, d: Any, y: Any, n: int) -> Any:
        total = d.new_ones(()).half()
        return t.ops.aten.nll_loss_backward(d.half(), empty(d, n), y, None, 0, -100, total)

    yield Problem(
        *("cross_entropy_backward", label, "GB/s", bytes_of(2 * count), entropy),
        by_autograd(of_torch, 1),
    )
    yield Problem("nll_loss", label, "GB/s", 14.0 * rows, pair, likelihood)
    yield Problem(
        *("nll_loss_backward", label, "GB/s", bytes_of(count)),
        lambda a: (a.normal(rows, dtype="float32"), a.integers(length, rows), length),
        likelihood_backward,
        {"dtype": "float16"},
    )


def vocabularies(rows: int, length: int, words: int) -> Iterator[Problem]:
    """Yield the fused linear cross entropy and its gradients."""
    label, operations = f"{rows}x{length}x{words}", 2.0 * rows * length * words

    def make(a: Arrays) -> Args:
        return a.normal(rows, length), a.normal(words, length) / 32, a.integers(words, rows)

    def gradient(a: Arrays) -> Args:
        x, weight, target = make(a)
        _, log_sums, logits = tile.ops.linear_cross_entropy(x, weight, target, logits=True)
        return a.normal(rows, dtype="float32"), x, weight, target, log_sums, -100, logits

    def of_torch(t: Any, x: Any, weight: Any, y: Any, *_: Any) -> Any:
        return t.nn.functional.cross_entropy(x @ weight.T, y, reduction="none")

    yield Problem("linear_cross_entropy", label, "TFLOP/s", operations, make, of_torch)
    yield Problem(
        *("linear_cross_entropy_backward", label, "TFLOP/s", 3 * operations, gradient),
        by_autograd(of_torch, 2),
    )


def cells(rows: int, units: int) -> Iterator[Problem]:
    """Yield a step of an LSTM and of a GRU, and their gradients."""
    label, operations = f"{rows}x{units}", 4.0 * rows * units * units

    def state(a: Arrays) -> Any:
        return a.normal(rows, units)

    def weight(a: Arrays, gates: int) -> Any:
        return a.normal(gates * units, units) / 32

    def bias(a: Arrays, gates: int) -> Any:
        return a.normal(gates * units)

    def lstm(a: Arrays) -> Args:
        return (state(a), state(a), state(a), weight(a, 4), weight(a, 4), bias(a, 4))

    def gru(a: Arrays) -> Args:
        return (*(state(a), state(a), weight(a, 3), weight(a, 3), bias(a, 3), bias(a, 3)),)

    zeros = once(lambda t, b: t.zeros_like(b))

    def lstm_of_torch(t: Any, x: Any, h: Any, c: Any, w_x: Any, w_h: Any, b: Any) -> Any:
        return t.lstm_cell(x, (h, c), w_x, w_h, b, zeros(t, b))

    def gru_of_torch(t: Any, *args: Any) -> Any:
        return t.gru_cell(*args)

    yield Problem("lstm_cell", label, "TFLOP/s", 4 * operations, lstm, lstm_of_torch)
    yield Problem("gru_cell", label, "TFLOP/s", 3 * operations, gru, gru_of_torch)
    yield Problem(
        *("lstm_cell_backward", label, "TFLOP/s", 12 * operations),
        lambda a: (state(a), state(a), *lstm(a)),
        None,
    )

    def gru_gradient(a: Arrays) -> Args:
        arguments = gru(a)
        no_bias = [0 * array for array in arguments[4:]]
        gates = tile.ops.gru_cell(*arguments[:4], *no_bias, gates=True)[1]
        return state(a), *arguments[:4], gates

    of_gru = by_autograd(gru_of_torch, 6)
    biases = once(lambda t, w: [w.new_zeros(w.shape[0])] * 2)

    def gru_gradient_of_torch(t: Any, dy: Any, *args: Any) -> Any:
        return of_gru(t, dy, *args[:4], *biases(t, args[2]))

    yield Problem(
        *("gru_cell_backward", label, "TFLOP/s", 6 * operations),
        *(gru_gradient, gru_gradient_of_torch),
    )


def on_gpu() -> Iterator[Problem]:
    """Yield the problems of a GPU."""
    yield from means(4096, 8192)
    yield from classes(4096, 8192)
    yield from vocabularies(4096, 2048, 32000)
    yield from cells(1024, 1024)


def on_cpu() -> Iterator[Problem]:
    """Yield the same with sizes for a CPU."""
    yield from means(64, 100)
    yield from classes(64, 100)
    yield from vocabularies(40, 32, 100)
    yield from cells(16, 32)
