"""`tile.ops.use`: PyTorch's operators computed by `tile.ops`, with PyTorch for the other calls."""

from __future__ import annotations

import pytest
import torch

import tile.ops
from tile.errors import ArgumentError
from tile.ops.aten import operators, row_norms
from tile.ops.aten.arguments import by_schema


def model(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.addmm(b, x, w), -1).cumsum(-1).square().sum()


def gradients() -> list[torch.Tensor]:
    torch.manual_seed(0)
    inputs = [torch.randn(*shape, requires_grad=True) for shape in ((5, 7), (7, 9), (9,))]
    loss = model(*inputs)
    return [loss, *torch.autograd.grad(loss, inputs)]


def test_a_model_and_its_gradients() -> None:
    expected = gradients()
    with tile.ops.use("cpu") as replaced:
        results = gradients()
    torch.testing.assert_close(results, expected)
    assert set(replaced.computed) >= {"aten::addmm", "aten::_softmax", "aten::mm", "aten::cumsum"}
    assert "aten::_softmax: 1 by tile, 0 by PyTorch" in repr(replaced)
    calls = replaced.computed.total()
    gradients()
    assert replaced.computed.total() == calls, "the operators are PyTorch's again"


def test_other_calls_are_left_to_pytorch() -> None:
    x, integers = torch.randn(3, 4, 5), torch.arange(12).reshape(3, 4)
    calls = (
        lambda: torch.softmax(x, 1),
        lambda: integers @ integers.T,
        lambda: integers.cumsum(-1),
        lambda: torch.addmm(torch.ones(3, 3), torch.ones(3, 2), torch.ones(2, 3), beta=2),
        lambda: x.topk(2, largest=False).values,
        lambda: torch.nn.functional.mse_loss(x, x + 1, reduction="none"),
    )
    expected = [call() for call in calls]
    with tile.ops.use("cpu") as replaced:
        results = [call() for call in calls]
    torch.testing.assert_close(results, expected)
    assert replaced.left.total() == len(calls)


def test_order_embedding_and_loss() -> None:
    x, table = torch.randn(4, 33), torch.randn(6, 5, requires_grad=True)
    index = torch.tensor([[0, 5], [5, 2]])

    def results() -> list[torch.Tensor]:
        rows = torch.nn.functional.embedding(index, table)
        return [
            *x.topk(3),
            *x.sort(stable=True, descending=True),
            *torch.autograd.grad(torch.nn.functional.mse_loss(rows, torch.ones_like(rows)), table),
        ]

    expected = results()
    with tile.ops.use("cpu") as replaced:
        torch.testing.assert_close(results(), expected)
    assert not replaced.left


def layers() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, stride=2, padding=1),
        torch.nn.BatchNorm2d(4),
        torch.nn.MaxPool2d(2),
        torch.nn.ConvTranspose2d(4, 4, 2, stride=2),
        torch.nn.GroupNorm(2, 4),
        torch.nn.Upsample(scale_factor=2, mode="bilinear"),
        torch.nn.AvgPool2d(2),
    )


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_a_model_of_images(memory_format: torch.memory_format) -> None:
    x = torch.randn(2, 3, 13, 12).to(memory_format=memory_format)
    expected, ours = layers(), layers()
    expected(x).square().mean().backward()
    with tile.ops.use("cpu") as replaced:
        result = ours(x)
        result.square().mean().backward()
    torch.testing.assert_close(
        [p.grad for p in ours.parameters()], [p.grad for p in expected.parameters()]
    )
    torch.testing.assert_close([*ours.buffers()], [*expected.buffers()])  # running statistics
    assert not replaced.left
    assert replaced.computed["aten::convolution_backward"] == 2


@pytest.mark.parametrize("masked", [True, False])
def test_attention(masked: bool) -> None:
    inputs = [torch.randn(2, 3, 5, 8, requires_grad=True) for _ in range(3)]
    mask = torch.randn(2, 1, 5, 5) if masked else None

    def results() -> list[torch.Tensor]:
        call = torch.nn.functional.scaled_dot_product_attention
        out = call(*inputs, attn_mask=mask, is_causal=not masked)
        return [out, *torch.autograd.grad(out.sum(), inputs)]

    expected = results()
    with tile.ops.use("cpu") as replaced:
        torch.testing.assert_close(results(), expected)
    assert not replaced.left and replaced.computed.total() == 2


def test_padding_index_and_threshold() -> None:
    table, index = torch.randn(6, 5, requires_grad=True), torch.tensor([[0, 5], [5, 2]])

    def gradient() -> torch.Tensor:
        rows = torch.nn.functional.embedding(index, table, padding_idx=5)
        loss = torch.nn.functional.smooth_l1_loss(rows, torch.zeros_like(rows), beta=0.3)
        return torch.stack([loss, *torch.autograd.grad(loss, table)[0].ravel()])

    expected = gradient()
    with tile.ops.use("cpu") as replaced:
        torch.testing.assert_close(gradient(), expected)
    assert not replaced.left and replaced.computed.total() == 4


def test_reasons() -> None:
    x = torch.rand(3, 4, requires_grad=True)
    with tile.ops.use("cpu") as replaced:
        torch.softmax(x, 0)
        torch.softmax(x, 0)
        whole = torch.ones(1, 2, 4, 4, dtype=torch.int64)
        torch.nn.functional.conv2d(whole, whole)
    assert {"aten::_softmax", "aten::native_layer_norm"} <= {*replaced.operators}
    text = repr(replaced)
    assert "aten::_softmax: 0 by tile, 2 by PyTorch\n    2: `dim` is not the last axis" in text
    assert "conv2d: `x` has dtype int64" in text


def test_a_query_that_sees_no_key_is_left() -> None:
    q = torch.rand(1, 1, 2, 4)
    mask = torch.tensor([[True, True], [False, False]])
    call = torch.nn.functional.scaled_dot_product_attention
    with tile.ops.use("cpu") as replaced:
        result = call(q, q, q, attn_mask=mask)
    torch.testing.assert_close(result, call(q, q, q, attn_mask=mask), equal_nan=True)
    assert replaced.left.total() == 1


def test_indices_out_of_range() -> None:
    """PyTorch's own error is raised, and nothing is computed."""
    with tile.ops.use("cpu") as replaced:
        with pytest.raises(IndexError):
            torch.nn.functional.embedding(torch.tensor([7]), torch.rand(3, 2))
        with pytest.raises(IndexError):
            torch.nn.functional.nll_loss(torch.rand(2, 3), torch.tensor([0, 3]))
    assert not replaced.computed


def test_a_result_of_another_shape_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(operators.OPERATORS, "aten::mm", lambda args: args.self)
    a, b = torch.rand(2, 3), torch.rand(3, 4)
    with tile.ops.use("cpu") as replaced:
        assert (a @ b).shape == (2, 4)
    assert "1: tile returned torch.float32 of shape [2, 3], and PyTorch's" in repr(replaced)


def test_no_such_device() -> None:
    with pytest.raises(ArgumentError, match="use takes the kind of a device, 'cpu' or 'cuda'"):
        tile.ops.use("tpu")


def optimized(**options: object) -> list[torch.Tensor]:
    """Return parameters and moments after two steps of AdamW, with clipped gradients."""
    torch.manual_seed(0)
    layers = torch.nn.Sequential(torch.nn.Linear(7, 5), torch.nn.GELU(), torch.nn.LayerNorm(5))
    optimizer = torch.optim.AdamW(layers.parameters(), lr=0.1, weight_decay=0.1, **options)
    for _ in range(2):
        optimizer.zero_grad()
        layers(torch.randn(3, 7)).exp().sum().backward()
        torch.nn.utils.clip_grad_norm_(layers.parameters(), 0.5, foreach=True)
        optimizer.step()
    moments = [s[name] for s in optimizer.state.values() for name in ("exp_avg", "exp_avg_sq")]
    return [*layers.parameters(), *moments]


@pytest.mark.parametrize("options", [{"fused": True}, {"foreach": True}], ids=["fused", "foreach"])
def test_steps_of_adamw(options: dict[str, bool]) -> None:
    expected = optimized(**options)
    with tile.ops.use("cpu") as replaced:
        torch.testing.assert_close(optimized(**options), expected)
    assert replaced.computed["aten::_foreach_norm.Scalar"] == 2
    if "fused" in options:
        assert replaced.computed["aten::_fused_adamw_"] == 2
    else:
        assert replaced.computed["aten::_foreach_lerp_.Scalar"] == 2


def test_a_step_of_adamw_that_is_left_is_done_once() -> None:
    """PyTorch does all of a step or none of it."""

    def parameters() -> list[torch.Tensor]:
        wanted = [torch.ones(3), torch.ones(2, 4).T]
        for p in wanted:
            p.grad = torch.ones_like(p)
        torch.optim.AdamW(wanted, lr=0.1, fused=True).step()
        return wanted

    expected = parameters()
    with tile.ops.use("cpu") as replaced:
        torch.testing.assert_close(parameters(), expected)
    assert "1: a tensor is not contiguous" in repr(replaced)


def test_lists_of_tensors() -> None:
    xs, ys = ([torch.randn(n) for n in (3, 40)] for _ in range(2))

    def results() -> list[torch.Tensor]:
        own = [x.clone() for x in xs]
        torch._foreach_add_(own, ys, alpha=0.5)
        torch._foreach_mul_(own, ys)
        torch._foreach_mul_(own, 3)
        torch._foreach_lerp_(own, ys, 0.25)
        return [
            *own,
            *torch._foreach_add(xs, ys),
            *torch._foreach_mul(xs, ys),
            *torch._foreach_mul(xs, 0.5),
            *torch._foreach_lerp(xs, ys, 0.75),
        ]

    expected = results()
    with tile.ops.use("cpu") as replaced:
        torch.testing.assert_close(results(), expected)
    assert not replaced.left and replaced.computed.total() == 8


def test_rms_norm_as_on_a_gpu() -> None:
    """PyTorch has operators of it on a GPU alone; a CPU composes the same results."""
    x, weight = torch.randn(2, 3, 8, requires_grad=True), torch.randn(8, requires_grad=True)
    operator = torch.ops.aten._fused_rms_norm
    forward, backward = (
        by_schema(overload, row_norms.CUDA_OPERATORS[overload.name()])
        for overload in (operator.default, torch.ops.aten._fused_rms_norm_backward.default)
    )
    for eps in (0.1, None):
        expected = torch.nn.functional.rms_norm(x, (8,), weight, eps)
        y, rstd = forward(x.detach(), (8,), weight.detach(), eps)
        torch.testing.assert_close(y, expected.detach())
        gradients = torch.autograd.grad(expected.square().sum(), (x, weight))
        results = backward(2 * y, x.detach(), (8,), rstd, weight.detach(), (True, True))
        torch.testing.assert_close(results, gradients)
    assert rstd.shape == operator(x, (8,), weight, 0.1)[1].shape


def test_activations_in_place_and_with_channels_last() -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last).requires_grad_()

    def results() -> list[torch.Tensor]:
        y = torch.nn.functional.silu(x)
        z = torch.nn.functional.relu(y + 0, inplace=True)
        return [y, z, *torch.autograd.grad((z * z).sum(), x)]

    expected = results()
    with tile.ops.use("cpu") as replaced:
        ours = results()
    torch.testing.assert_close(ours, expected)
    assert [t.stride() for t in ours] == [t.stride() for t in expected]
    assert not replaced.left and replaced.computed["aten::relu_"] == 1


def test_dropout_is_of_the_programs_seed() -> None:
    x = torch.randn(20, 50, requires_grad=True)
    with tile.ops.use("cpu") as replaced:
        torch.manual_seed(3)
        y, mask = torch.native_dropout(x, 0.25, True)
        torch.manual_seed(3)
        again, _ = torch.native_dropout(x, 0.25, True)
        other, _ = torch.native_dropout(x, 0.25, True)
    assert torch.equal(y, again) and not torch.equal(y, other)
    torch.testing.assert_close(y, x * mask / 0.75)
    assert 0.7 < mask.float().mean() < 0.8
    torch.testing.assert_close(torch.autograd.grad(y.sum(), x)[0], mask / 0.75)
    assert replaced.computed["aten::native_dropout"] == 3
