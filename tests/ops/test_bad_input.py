"""A call that an op cannot take raises an error that names the argument, and writes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tile.ops
from tests.runtime.fake_cuda import CudaArray
from tile.errors import ArgumentError

F32 = np.float32
I0 = np.zeros(1, np.int32)


def ones(*shape: int, dtype: Any = F32) -> np.ndarray:
    return np.ones(shape, dtype)


def varlen(q_starts: list[int], k_starts: list[int], longest: int) -> Any:
    starts = [np.array(values, np.int32) for values in (q_starts, k_starts)]
    return tile.ops.varlen_attention(ones(3, 2, 8), ones(5, 1, 8), ones(5, 1, 8), *starts, longest)


def read_only(*shape: int) -> np.ndarray:
    array = ones(*shape)
    array.flags.writeable = False
    return array


Wrong = tuple[str, Callable[[np.ndarray], object], str]

# The op, a call with an array for its output (full of sevens), and the error.
ROWWISE: list[Wrong] = [
    ("softmax", lambda out: tile.ops.softmax([1.0], out=out), "`x` of softmax is of type list"),
    ("softmax", lambda out: tile.ops.softmax(3, out=out), "softmax: `x` is 3; it is an array"),
    (
        "softmax",
        lambda out: tile.ops.softmax(ones(4, 8, dtype=np.int32), out=out),
        "softmax: `x` has dtype int32; it takes float16, bfloat16, float32 or float64",
    ),
    (
        "softmax",
        lambda out: tile.ops.softmax(ones(4, 9), out=out),
        "softmax: `out` has shape (4, 8); it must be (4, 9)",
    ),
    (
        "softmax",
        lambda out: tile.ops.softmax(ones(4, 8, dtype=np.float16), out=out),
        "softmax: `out` has dtype float32; it takes float16",
    ),
    (
        "softmax",
        lambda out: tile.ops.softmax(ones(8, 4).T, out=out),
        "`x` has shape (4, 8) and strides (1, 4) in elements; its last axis must be contiguous",
    ),
    (
        "softmax",
        lambda out: tile.ops.softmax(ones()),
        "`x` has shape (); it must have 1 axis or more",
    ),
    (
        "softmax",
        lambda out: tile.ops.softmax(ones(4, 8), out=read_only(4, 8)),
        "softmax: `out` is read-only",
    ),
    (
        "softmax",
        lambda out: tile.ops.softmax(CudaArray(ones(4, 8)), out=out),
        "softmax: `out` is in host memory, and `x` in cuda; the arrays of a call are on one device",
    ),
    (
        "softmax_backward",
        lambda out: tile.ops.softmax_backward(ones(4, 8), ones(4, 7), out=out),
        "softmax_backward: `y` has shape (4, 7); it must be (4, 8)",
    ),
]
ROWWISE += [
    (
        "layer_norm",
        lambda out: tile.ops.layer_norm(ones(4, 8), ones(8), ones(7), out=out),
        "layer_norm: `bias` has shape (7,); it must be (8,)",
    ),
    (
        "layer_norm",
        lambda out: tile.ops.layer_norm(ones(4, 8), ones(8), ones(8), eps=-1, out=out),
        "layer_norm: `eps` is -1; it must be 0 or more",
    ),
    (
        "rms_norm",
        lambda out: tile.ops.rms_norm(ones(4, 8), ones(8), eps="x", out=out),
        "rms_norm: `eps` is 'x'; it is a number",
    ),
    (
        "rms_norm",
        lambda out: tile.ops.rms_norm(ones(1, 65537), ones(65537)),
        "rms_norm: the rows of `x` have 65537 elements; a program holds at most 65536",
    ),
    (
        "cross_entropy",
        lambda out: tile.ops.cross_entropy(ones(4, 8), np.array([0, 1, 8, 3]), out=out[:, 0]),
        "`target` contains 8; its elements must be 0 to 7 or -100",
    ),
]
ROWWISE += [
    (
        "layer_norm_backward",
        lambda out: tile.ops.layer_norm_backward(out, ones(4, 8), ones(8), mean=ones(4)),
        "layer_norm_backward: `mean` and `rstd` are given together",
    ),
    (
        "rms_norm_backward",
        lambda out: tile.ops.rms_norm_backward(out, ones(4, 8), ones(8), rstd=ones(8)),
        "rms_norm_backward: `rstd` has shape (8,); it must be (4,)",
    ),
]
LINEAR: list[Wrong] = [
    (
        "matmul",
        lambda out: tile.ops.matmul(ones(4, 5), ones(6, 8), out=out),
        "`a` has shape (4, 5) and `b` (6, 8); they must be M x K and K x N",
    ),
    (
        "matmul",
        lambda out: tile.ops.matmul(ones(4, 5), ones(5, 8, dtype=np.float16), out=out),
        "matmul: `b` has dtype float16; it takes float32",
    ),
    (
        "matmul",
        lambda out: tile.ops.matmul(ones(4, 5), ones(5, 8), activation="tan", out=out),
        "matmul: `activation` is 'tan'; it must be one of 'relu', 'silu', 'gelu'",
    ),
    (
        "matmul",
        lambda out: tile.ops.matmul(ones(4, 5), ones(5, 8), precision="f32", out=out),
        "matmul: `precision` is 'f32'; it must be one of 'ieee', 'tf32'",
    ),
    (
        "matmul",
        lambda out: tile.ops.matmul(ones(4), ones(5, 8), out=out),
        "matmul: `a` has shape (4,); it must have 2 axes",
    ),
    (
        "grouped_matmul",
        lambda out: tile.ops.grouped_matmul(
            ones(4, 5), ones(2, 5, 8), np.array([3, 5], np.int32), out=out
        ),
        "`ends` is [3, 5]; it must not decrease, and end with the number of rows, 4",
    ),
]
LINEAR += [
    (
        "grouped_matmul_wgrad",
        lambda out: tile.ops.grouped_matmul_wgrad(ones(4, 5), ones(3, 8), I0),
        "`a` has shape (4, 5) and `dout` (3, 8); they must be rows x K and rows x N",
    ),
    (
        "grouped_matmul_wgrad",
        lambda out: tile.ops.grouped_matmul_wgrad(ones(4, 5), ones(4, 8), I0),
        "grouped_matmul_wgrad: `ends` is [0]; it must not decrease, and end with the number of",
    ),
]
SEQUENCE: list[Wrong] = [
    (
        "attention",
        lambda out: tile.ops.attention(ones(1, 3, 4, 8), ones(1, 2, 4, 8), ones(1, 2, 4, 8)),
        "attention: `q` has 3 heads and `k` 2; the first must be a multiple",
    ),
    (
        "attention",
        lambda out: tile.ops.attention(ones(1, 1, 4, 8), ones(1, 1, 3, 8), ones(1, 1, 3, 8), True),
        "attention: there are 4 queries and 3 keys; each query must see a key",
    ),
    (
        "attention",
        lambda out: tile.ops.attention(ones(1, 1, 4, 8), ones(1, 1, 3, 8), ones(1, 1, 4, 8)),
        "`q` has shape (1, 1, 4, 8), `k` (1, 1, 3, 8) and `v` (1, 1, 4, 8); they must be batch x",
    ),
    (
        "decode_attention",
        lambda out: tile.ops.decode_attention(
            ones(1, 4, 8),
            ones(1, 1, 3, 8),
            ones(1, 1, 3, 8),
            np.array([4], np.int32),
            out=out[None],
        ),
        "decode_attention: `lengths` contains 4; its elements must be 1 to 3",
    ),
    (
        "attention",
        lambda out: tile.ops.attention(*[ones(1, 2, 4, 8)] * 3, bias=ones(1, 2, 4, 5)),
        "attention: `bias` has shape (1, 2, 4, 5); each extent must be 1 or that of (1, 2, 4, 4)",
    ),
    (
        "attention",
        lambda out: tile.ops.attention(*[ones(1, 2, 4, 8)] * 3, window=0),
        "attention: `window` is 0; it must be 1 or more",
    ),
    (
        "attention",
        lambda out: tile.ops.attention(*[ones(1, 2, 4, 8)] * 3, slopes=ones(3)),
        "attention: `slopes` has shape (3,); it must be (2,)",
    ),
    (
        "decode_attention",
        lambda out: tile.ops.decode_attention(
            *(ones(1, 4, 8), ones(3, 1, 2, 8), ones(3, 1, 2, 8), np.array([4], np.int32)),
            table=np.array([[0, 3]], np.int32),
        ),
        "decode_attention: `table` contains 3; its elements must be 0 to 2",
    ),
    (
        "varlen_attention",
        lambda out: varlen([0, 3], [0, 5], 2),
        "varlen_attention: `q_starts` has a sequence of 3 tokens; `longest` or `longest_keys` is 2",
    ),
    (
        "varlen_attention",
        lambda out: varlen([0, 2, 3], [0, 6, 5], 3),
        "varlen_attention: `k_starts` is [0, 6, 5]; it must go from 0 to 5, the number of tokens",
    ),
    (
        "varlen_attention",
        lambda out: varlen([0, 3], [0, 2, 5], 3),
        "varlen_attention: `k_starts` has shape (3,); it must be (2,)",
    ),
    (
        "rope",
        lambda out: tile.ops.rope(ones(1, 4, 1, 7), ones(4, 3), ones(4, 3)),
        "rope: `x` has shape (1, 4, 1, 7); its last axis must be even",
    ),
]
POINTWISE: list[Wrong] = [
    (
        "swiglu",
        lambda out: tile.ops.swiglu(ones(4, 8), ones(4, 16)[:, ::2], out=out),
        "swiglu: `up` has shape (4, 8) and strides (16, 2) in elements; it must be contiguous",
    ),
    (
        "dropout",
        lambda out: tile.ops.dropout(ones(4, 8), 1.0, 0, out=out),
        "dropout: `p` is 1.0; it must be 0 to 1",
    ),
    (
        "dropout",
        lambda out: tile.ops.dropout(ones(4, 8), 0.5, -1, out=out),
        "dropout: `seed` is -1; it is an integer of 64 bits",
    ),
]
POINTWISE += [
    (
        "mse_loss",
        lambda out: tile.ops.mse_loss(ones(0, 8), ones(0, 8)),
        "mse_loss: `x` has shape (0, 8); no elements have no mean",
    ),
    (
        "binary_cross_entropy",
        lambda out: tile.ops.binary_cross_entropy(ones(8), ones(8) * 2),
        "binary_cross_entropy: `target` has elements outside 0 to 1",
    ),
]
POINTWISE += [
    (
        "activate",
        lambda out: tile.ops.activate(ones(4, 8), "relu6", out=out),
        "activate: `function` is 'relu6'; it must be one of 'relu', 'silu', 'gelu', 'gelu_erf',",
    ),
    (
        "activate",
        lambda out: tile.ops.activate(ones(8, 4).T, out=out),
        "activate: `x` has shape (4, 8) and strides (1, 4) in elements; it must be contiguous",
    ),
    (
        "activate_backward",
        lambda out: tile.ops.activate_backward(ones(4, 8), ones(4, 8), "silu", True, out=out),
        "activate_backward: `function` is 'silu', whose derivative does not follow from the result",
    ),
]
IMAGE: list[Wrong] = [
    (
        "conv2d",
        lambda out: tile.ops.conv2d(ones(1, 4, 4, 3), ones(2, 3, 3, 4)),
        "conv2d: `x` has 3 channels and `filters` 4; x is batch x height x width x channels",
    ),
    (
        "conv2d",
        lambda out: tile.ops.conv2d(ones(1, 3, 4, 4), ones(2, 4, 3, 3), layout="NCHW"),
        "conv2d: `x` has 3 channels and `filters` 4; x is batch x channels x height x width, and",
    ),
    (
        "conv2d",
        lambda out: tile.ops.conv2d(ones(1, 4, 4, 3), ones(2, 3, 3, 3), dilation=2),
        "conv2d: the height of `x` with padding is 4; a window of 5 does not fit",
    ),
    (
        "conv2d",
        lambda out: tile.ops.conv2d(ones(1, 4, 4, 3), ones(2, 3, 3, 3), stride=(1, 0)),
        "conv2d: `stride` is (1, 0); it is an integer of 1 or more, or two of them",
    ),
    (
        "shift_conv",
        lambda out: tile.ops.shift_conv(
            ones(1, 4, 4, 2), ones(3, 2), np.array([0, 5], np.int32), np.zeros(2, np.int32)
        ),
        "shift_conv: `shift_h` contains 5; its elements must be -4 to 4",
    ),
    (
        "shift_conv",
        lambda out: tile.ops.shift_conv(
            ones(1, 4, 4, 2), ones(3, 2), np.array([0, 1], np.int32), np.zeros(2, np.int32), 2
        ),
        "shift_conv: `shift_h` has groups of `run` = 2 channels with several shifts",
    ),
    (
        "shift_conv",
        lambda out: tile.ops.shift_conv(
            ones(1, 4, 4, 3), ones(3, 3), np.zeros(3, np.int32), np.zeros(3, np.int32), 2
        ),
        "shift_conv: `run` is 2; it must divide the number of channels, 3",
    ),
    (
        "shift_conv_wgrad",
        lambda out: tile.ops.shift_conv_wgrad(
            ones(1, 4, 4, 2), ones(1, 4, 5, 3), np.zeros(3, np.int32), np.zeros(3, np.int32)
        ),
        "`dy` has shape (1, 4, 4, 2) and `x` (1, 4, 5, 3); all extents but the last must be equal",
    ),
    (
        "shift_conv_dgrad",
        lambda out: tile.ops.shift_conv_dgrad(
            *(ones(1, 4, 4, 3), ones(3, 2), np.array([0, -5], np.int32), np.zeros(2, np.int32))
        ),
        "shift_conv_dgrad: `shift_h` contains -5; its elements must be -4 to 4",
    ),
    (
        "max_pool2d",
        lambda out: tile.ops.max_pool2d(ones(1, 4, 4, 2), 2, 2, padding=2),
        "max_pool2d: `padding` is 2; it must be at most 1",
    ),
]
IMAGE += [
    (
        "conv2d",
        lambda out: tile.ops.conv2d(ones(1, 4, 4, 4), ones(2, 3, 3, 1), groups=4),
        "conv2d: `groups` is 4; it is an integer that divides the channels and filters, 4 and 2",
    ),
    (
        "conv2d",
        lambda out: tile.ops.conv2d(ones(1, 4, 4, 4), ones(2, 3, 3, 4), layout="CHWN"),
        "conv2d: `layout` is 'CHWN'; it must be one of 'NHWC', 'NCHW'",
    ),
    (
        "conv2d_dgrad",
        lambda out: tile.ops.conv2d_dgrad(ones(1, 4, 4, 2), ones(2, 3, 3, 3), (6, 9)),
        "conv2d_dgrad: `size` is (6, 9); its width must be 6 to 6 for 4 windows",
    ),
    (
        "conv2d_wgrad",
        lambda out: tile.ops.conv2d_wgrad(ones(1, 4, 4, 2), ones(1, 4, 4, 3), (3, 3)),
        "conv2d_wgrad: `dy` has shape (1, 4, 4, 2), which is not that of a convolution of `x`",
    ),
    (
        "conv_transpose2d",
        lambda out: tile.ops.conv_transpose2d(
            ones(1, 4, 4, 2), ones(2, 3, 3, 3), stride=(2, 1), output_padding=1
        ),
        "conv_transpose2d: `output_padding` is 1; it must be less than `stride`",
    ),
    (
        "conv_transpose2d",
        lambda out: tile.ops.conv_transpose2d(ones(1, 1, 4, 2), ones(2, 1, 3, 3), padding=1),
        "the result would have the height -1 and the width 4; `x` is too small for `padding`",
    ),
]
IMAGE += [
    (
        "max_pool2d_backward",
        lambda out: tile.ops.max_pool2d_backward(
            ones(1, 2, 2, 3), ones(1, 2, 2, 2, dtype=np.int32), (4, 4), 2, 2
        ),
        "max_pool2d_backward: `index` has shape (1, 2, 2, 2); it must be (1, 2, 2, 3)",
    ),
    (
        "adaptive_avg_pool2d",
        lambda out: tile.ops.adaptive_avg_pool2d(ones(1, 4, 4, 2), (2, 0)),
        "adaptive_avg_pool2d: `size` is (2, 0); it is an integer of 1 or more, or two of them",
    ),
    (
        "adaptive_max_pool2d",
        lambda out: tile.ops.adaptive_max_pool2d(ones(1, 0, 4, 2), 2),
        "adaptive_max_pool2d: `x` has shape (1, 0, 4, 2); it has no pixels",
    ),
    (
        "batch_norm",
        lambda out: tile.ops.batch_norm(ones(0, 4, 2), ones(4), ones(4)),
        "batch_norm: `x` has shape (0, 4, 2); it has no mean",
    ),
    (
        "batch_norm",
        lambda out: tile.ops.batch_norm(out, ones(8), ones(8), mean=ones(8), out=out),
        "batch_norm: `mean` and `variance` are given together",
    ),
    (
        "batch_norm",
        lambda out: tile.ops.batch_norm(ones(2, 3, 4, 5).swapaxes(2, 3), ones(3), ones(3)),
        "`x` has shape (2, 3, 5, 4) and strides (60, 20, 1, 5) in elements; one stride must lead",
    ),
    (
        "group_norm",
        lambda out: tile.ops.group_norm(out, 3, ones(8), ones(8), out=out),
        "group_norm: `groups` is 3; it is an integer that divides the channels, 8",
    ),
    (
        "group_norm",
        lambda out: tile.ops.group_norm(ones(8), 2, ones(8), ones(8)),
        "group_norm: `x` has shape (8,); it must have 2 axes or more",
    ),
]
ROWWISE += [
    (
        "nll_loss",
        lambda out: tile.ops.nll_loss(ones(4, 8), np.array([0, 1, 8, 3]), out=out[:, 0]),
        "nll_loss: `target` contains 8; its elements must be 0 to 7 or -100",
    ),
    (
        "nll_loss",
        lambda out: tile.ops.nll_loss(ones(4, 8), np.array([0, 1, 7, 3]), ones(4)),
        "nll_loss: `weight` has shape (4,); it must be (8,)",
    ),
    (
        "bce_loss",
        lambda out: tile.ops.bce_loss(ones(8) * 2, ones(8)),
        "bce_loss: `x` has elements outside 0 to 1",
    ),
    (
        "huber_loss",
        lambda out: tile.ops.huber_loss(ones(8), ones(8), -1.0),
        "huber_loss: `delta` is -1.0; it must be 0 or more",
    ),
]
LINEAR += [
    (
        "bilinear",
        lambda out: tile.ops.bilinear(ones(4, 3), ones(4, 5), ones(8, 5, 3), out=out),
        "`x1` has shape (4, 3), `x2` (4, 5) and `weight` (8, 5, 3); they must be any axes x I,",
    ),
]
IMAGE += [
    (
        "resize_bilinear",
        lambda out: tile.ops.resize_bilinear(ones(1, 0, 4, 2), 3),
        "resize_bilinear: `x` has shape (1, 0, 4, 2); it has no pixels",
    ),
]
LINEAR += [
    (
        "linear_cross_entropy",
        lambda out: tile.ops.linear_cross_entropy(ones(4, 8), ones(9, 7), np.zeros(4, np.int64)),
        "`x` has shape (4, 8) and `weight` (9, 7); they must be rows x length and classes x",
    ),
    (
        "linear_cross_entropy_backward",
        lambda out: tile.ops.linear_cross_entropy_backward(
            *(ones(4), ones(4, 8), ones(9, 8), np.zeros(4, np.int64), ones(4)),
            logits=ones(4, 10),
        ),
        "`logits` has shape (4, 10); it must be 4 x 9, or have the first of these columns",
    ),
]
SELECTION: list[Wrong] = [
    (
        "embedding",
        lambda out: tile.ops.embedding(np.array([2]), ones(0, 8)),
        "embedding: `indices` contains 2; its elements must be none (the range is empty)",
    ),
    (
        "embedding",
        lambda out: tile.ops.embedding(np.array([0, 3, -1, 1]), ones(3, 8), out=out),
        "embedding: `indices` contains 3; its elements must be 0 to 2",
    ),
    (
        "embedding",
        lambda out: tile.ops.embedding(ones(4), ones(3, 8), out=out),
        "embedding: `indices` has dtype float32; it takes int32 or int64",
    ),
]
LINEAR += [
    (
        "matmul",
        lambda out: tile.ops.matmul(out, ones(8, 8), out=out),
        "matmul: `out` shares memory with `a`, which programs may still read",
    ),
]
LINEAR += [
    (
        "scaled_matmul",
        lambda out: tile.ops.scaled_matmul(
            ones(4, 5, dtype=np.int8), ones(5, 8, dtype=np.int8), ones(4), ones(5), out=out
        ),
        "scaled_matmul: `b_scale` has shape (5,); it must be (8,)",
    ),
    (
        "scaled_matmul",
        lambda out: tile.ops.scaled_matmul(ones(4, 5), ones(5, 8), ones(4), ones(8), out=out),
        "scaled_matmul: `a` has dtype float32; it takes int8 or float8_e4m3fn",
    ),
]
LINEAR += [
    (
        "int4_matmul",
        lambda out: tile.ops.int4_matmul(ones(4, 64), ones(8, 32, dtype=np.uint8), ones(8, 0)),
        "int4_matmul: `scales` has shape (8, 0); it must be 8 x K / group, where K is 64",
    ),
    (
        "pack_int4",
        lambda out: tile.ops.pack_int4(ones(4, 96), 64),
        "the rows of `weight` have 96 elements; they must be a multiple of `group`, 64",
    ),
    (
        "int4_matmul",
        lambda out: tile.ops.int4_matmul(ones(4, 64), ones(8, 32, dtype=np.uint8), ones(8, 3)),
        "int4_matmul: `scales` has shape (8, 3); it must be 8 x K / group, where K is 64",
    ),
]
SELECTION += [
    (
        "topk",
        lambda out: tile.ops.topk(ones(4, 8), 9),
        "topk: `k` is 9; it must be 0 to 8",
    ),
    (
        "sort",
        lambda out: tile.ops.sort(ones(4, 8, dtype=np.int8)),
        "sort: `x` has dtype int8; it takes float16, bfloat16, float32, float64, int32 or int64",
    ),
    (
        "histogram",
        lambda out: tile.ops.histogram(np.array([0, 4]), 4),
        "histogram: `x` contains 4; its elements must be 0 to 3",
    ),
    (
        "cumsum",
        lambda out: tile.ops.cumsum(ones(4, 8)[:, ::-1], out=out),
        "`x` has shape (4, 8) and strides (8, -1) in elements; its last axis must be contiguous",
    ),
    (
        "cumprod",
        lambda out: tile.ops.cumprod(ones(4, 8)[:, ::2], out=out[:, :4]),
        "`x` has shape (4, 4) and strides (8, 2) in elements; its last axis must be contiguous",
    ),
    (
        "cummax_backward",
        lambda out: tile.ops.cummax_backward(out, np.full((4, 8), 8)),
        "cummax_backward: `index` contains 8; its elements must be 0 to 7",
    ),
    (
        "logcumsumexp",
        lambda out: tile.ops.logcumsumexp(ones(4, 8, dtype=np.int32), out=out),
        "logcumsumexp: `x` has dtype int32; it takes float16, bfloat16, float32 or float64",
    ),
    (
        "cumsum",
        lambda out: tile.ops.cumsum(out.ravel()[:31], out=out.ravel()[1:]),
        "cumsum: `out` shares memory with `x`, which programs may still read",
    ),
]
SELECTION += [
    (
        "embedding_bag",
        lambda out: tile.ops.embedding_bag(
            np.zeros(5, np.int64), np.array([0, 3, 2, 1, 5]), ones(3, 8), out=out
        ),
        "`starts` is [0, 3, 2, 1, 5]; it must start with 0, not decrease, and end with the number",
    ),
    (
        "embedding_bag",
        lambda out: tile.ops.embedding_bag(I0, I0, ones(3, 8), "mean", ones(1)),
        "embedding_bag: `scales` are for the mode 'sum', not 'mean'",
    ),
    (
        "foreach_apply",
        lambda out: tile.ops.foreach_apply(len, [out]),
        "foreach_apply: `function` is <built-in function len>; it is a name or a `@tile.jit`",
    ),
    (
        "foreach_apply",
        lambda out: tile.ops.foreach_apply("add", [out, out], [ones(4, 8)]),
        "foreach_apply: `ys` has 1 arrays, and `xs` 2",
    ),
    (
        "foreach_apply",
        lambda out: tile.ops.foreach_apply("add", [ones(3), ones(4)], [ones(3), ones(5)]),
        "foreach_apply: `ys[1]` has shape (5,); it must be (4,)",
    ),
    (
        "foreach_apply",
        lambda out: tile.ops.foreach_apply("scale", [ones(4, 8), out], out=[out, ones(4, 8)]),
        "foreach_apply: `out[0]` shares memory with `xs[1]`, which programs may still read",
    ),
    (
        "foreach_norms",
        lambda out: tile.ops.foreach_norms([]),
        "foreach_norms: `xs` has no arrays",
    ),
]
TRAINING: list[Wrong] = [
    (
        "adamw",
        lambda out: tile.ops.adamw(out, ones(4, 8), ones(4, 8), ones(4, 8), 1.5, 0.1),
        "adamw: `step` is 1.5; it is an integer",
    ),
    (
        "adamw",
        lambda out: tile.ops.adamw(out, ones(4, 8), ones(4, 8), ones(4, 8), 1, 0.1, 0.9),
        "adamw: `betas` is 0.9; it is two numbers",
    ),
    (
        "adamw",
        lambda out: tile.ops.adamw(out, ones(4, 8), ones(4, 8), ones(4, 8), 0, 0.1),
        "adamw: `step` is 0; it must be 1 or more",
    ),
    (
        "adamw",
        lambda out: tile.ops.adamw(out, ones(4, 8), ones(4, 8), read_only(4, 8), 1, 0.1),
        "adamw: `v` is read-only",
    ),
    (
        "quantize",
        lambda out: tile.ops.quantize(ones(4, 8), "int4"),
        "quantize: `dtype` is 'int4'; it must be one of 'int8', 'float8_e4m3fn'",
    ),
]
SPARSE: list[Wrong] = [
    (
        "sddmm",
        lambda out: tile.ops.sddmm(ones(16, 4), ones(4, 24), I0, I0, 16),
        "`a` has shape (16, 4) and `b` (4, 24); they must be M x K and K x N, where M and N are",
    ),
    (
        "spmm",
        lambda out: tile.ops.spmm(ones(1, 16, 16), np.array([0, 0], np.int32), I0, ones(16, 8)),
        "spmm: `starts` must start with 0, not decrease, and end with the number of blocks, 1",
    ),
    (
        "spmm",
        lambda out: tile.ops.spmm(ones(1, 16, 16), np.array([0, 2, 1], np.int32), I0, ones(16, 8)),
        "spmm: `starts` must start with 0, not decrease, and end with the number of blocks, 1",
    ),
    (
        "spmm",
        lambda out: tile.ops.spmm(ones(1, 16, 16), np.array([0, 1], np.int32), I0, ones(24, 8)),
        "spmm: `b` has 24 rows; with blocks of 16, a multiple of that",
    ),
    (
        "sddmm_backward",
        lambda out: tile.ops.sddmm_backward(ones(2, 16, 16), ones(16, 4), ones(4, 16), I0, I0, 16),
        "sddmm_backward: `dvalues` has shape (2, 16, 16); it must be (1, 16, 16)",
    ),
    (
        "spmm_backward",
        lambda out: tile.ops.spmm_backward(
            *(ones(16, 9), ones(1, 16, 16), np.array([0, 1], np.int32), I0, ones(16, 8))
        ),
        "spmm_backward: `dout` has shape (16, 9); it must be (16, 8)",
    ),
]
RECURRENT: list[Wrong] = [
    (
        "gru_cell",
        lambda out: tile.ops.gru_cell(
            ones(4, 3), out, ones(24, 3), ones(24, 8), ones(24), ones(24), out=out
        ),
        "gru_cell: `out` shares memory with `h`, which programs may still read",
    ),
    (
        "lstm_cell",
        lambda out: tile.ops.lstm_cell(ones(4, 3), out, out, ones(24, 3), ones(32, 8), ones(32)),
        "lstm_cell: `w_x` has shape (24, 3); it must be (32, 3)",
    ),
]

SHAPES: list[Wrong] = [
    (
        "decode_attention",
        lambda out: tile.ops.decode_attention(ones(1, 3, 8), *[ones(1, 2, 3, 8)] * 2, I0),
        "decode_attention: `q` has shape (1, 3, 8), `k` (1, 2, 3, 8) and `v` (1, 2, 3, 8); they",
    ),
    (
        "varlen_attention",
        lambda out: tile.ops.varlen_attention(ones(3, 2, 8), *[ones(5, 1, 4)] * 2, I0, I0, 3),
        "varlen_attention: `q` has shape (3, 2, 8) and `k` (5, 1, 4); they must be tokens x heads",
    ),
    (
        "varlen_attention",
        lambda out: varlen([], [], 3),
        "varlen_attention: `q_starts` is empty; it has the end of the last, too",
    ),
    (
        "group_norm",
        lambda out: tile.ops.group_norm(ones(2, 4, 0), 2, ones(4), ones(4)),
        "group_norm: `x` has no elements in a group; they have no mean",
    ),
    (
        "conv2d_dgrad",
        lambda out: tile.ops.conv2d_dgrad(ones(1, 4, 4, 2), ones(3, 3, 3, 3), (6, 6)),
        "conv2d_dgrad: `dy` has 2 channels, and there are 3 filters",
    ),
    (
        "conv2d_dgrad",
        lambda out: tile.ops.conv2d_dgrad(ones(1, 4, 4, 2), ones(2, 3, 3, 3), 6),
        "conv2d_dgrad: `size` is 6; it is a height and a width",
    ),
    (
        "conv_transpose2d",
        lambda out: tile.ops.conv_transpose2d(ones(1, 4, 4, 2), ones(3, 3, 3, 3)),
        "conv_transpose2d: `x` has 2 channels and `filters` 3; x is batch x height x width x",
    ),
    (
        "dropout",
        lambda out: tile.ops.dropout(np.zeros(2**31, np.float16), 0.5, 0),
        "dropout: `x` has 2147483648 elements; at most 2 ** 31 - 1 have an index",
    ),
    (
        "foreach_apply",
        lambda out: tile.ops.foreach_apply("add", [out, out], [out, out], out=[out]),
        "foreach_apply: `out` is a list of 2 arrays",
    ),
    (
        "grouped_matmul",
        lambda out: tile.ops.grouped_matmul(ones(4, 8), ones(1, 7, 8), np.array([4], np.int32)),
        "grouped_matmul: `a` has shape (4, 8) and `b` (1, 7, 8); they must be rows x K and groups",
    ),
    (
        "matmul",
        lambda out: tile.ops.matmul(*[ones(8, 8, dtype=np.int8)] * 2, bias=ones(8)),
        "matmul: int8 operands have no `bias` and no `activation`",
    ),
    (
        "scaled_matmul",
        lambda out: tile.ops.scaled_matmul(
            ones(4, 8, dtype=np.int8), ones(7, 4, dtype=np.int8), ones(4), ones(4), "float16"
        ),
        "scaled_matmul: `a` has shape (4, 8) and `b` (7, 4); they must be M x K and K x N",
    ),
    (
        "decode_attention",
        lambda out: tile.ops.decode_attention(
            ones(1, 4, 8), ones(1, 1, 3, 16)[..., ::2], ones(1, 1, 3, 8), I0
        ),
        "`k` has shape (1, 1, 3, 8) and strides (48, 48, 16, 2) in elements; its last axis must be",
    ),
    (
        "embedding_bag",
        lambda out: tile.ops.embedding_bag(I0, I0[:0], ones(4, 8)),
        "embedding_bag: `starts` has no elements; the last one is the end",
    ),
    (
        "embedding_bag_backward",
        lambda out: tile.ops.embedding_bag_backward(out, I0, np.array([0, 1], np.int32), 4),
        "embedding_bag_backward: `dy` has 4 rows, and `starts` 1 bags",
    ),
]

F8 = np.dtype(ml_dtypes.float8_e4m3fn)
LINEAR += [
    (
        "block_scaled_matmul",
        lambda out: tile.ops.block_scaled_matmul(
            *(ones(4, 200, dtype=F8), ones(200, 8, dtype=F8), ones(4, 1), ones(2, 1)), out=out
        ),
        "block_scaled_matmul: `a_scale` has shape (4, 1); it must be (4, 2)",
    ),
    (
        "block_scaled_matmul",
        lambda out: tile.ops.block_scaled_matmul(
            *(ones(4, 200, dtype=F8), ones(200, 8, dtype=np.int8), ones(4, 2), ones(2, 1)), out=out
        ),
        "block_scaled_matmul: `b` has dtype int8; it takes float8_e4m3fn",
    ),
    (
        "quantize_blocks",
        lambda out: tile.ops.quantize_blocks(ones(4, 8), 2),
        "quantize_blocks: `rows` is 2; it must be one of 1, 128",
    ),
]
CALLS = [
    *ROWWISE,
    *LINEAR,
    *SEQUENCE,
    *POINTWISE,
    *IMAGE,
    *SELECTION,
    *TRAINING,
    *SPARSE,
    *RECURRENT,
    *SHAPES,
]


@pytest.mark.parametrize(("op", "call", "message"), CALLS)
def test_bad_input(op: str, call: Callable[[np.ndarray], object], message: str) -> None:
    out = np.full((4, 8), 7, F32)
    with pytest.raises(ArgumentError, match=re.escape(message)):
        call(out)
    assert (out == 7).all()


def test_a_result_too_large_for_any_memory() -> None:
    with pytest.raises(ArgumentError, match=r"`out` would have the shape .*, too large"):
        tile.ops.conv2d(ones(1, 4, 4, 3), ones(2, 3, 3, 3), padding=2**31 - 1)


def test_a_library_without_empty() -> None:
    with pytest.raises(ArgumentError, match=r"softmax: tests has no `empty\(shape, dtype\)`"):
        tile.ops.softmax(CudaArray(ones(4, 8)))


@pytest.mark.parametrize(
    "call",
    [
        lambda splits: tile.ops.matmul(ones(0, 4), ones(4, 3), splits=splits),
        lambda splits: tile.ops.int4_matmul(
            ones(0, 32), np.zeros((2, 16), np.uint8), ones(2, 1), splits=splits
        ),
        lambda splits: tile.ops.conv2d_wgrad(
            ones(1, 4, 4, 0), ones(1, 4, 4, 2), window=1, splits=splits
        ),
    ],
    ids=["matmul", "int4_matmul", "conv2d_wgrad"],
)
def test_empty_results_excuse_no_splits(call: Callable[[Any], np.ndarray]) -> None:
    assert call(1).size == 0
    for splits in (0, 1.5, "all"):
        with pytest.raises(ArgumentError, match="`splits`"):
            call(splits)


@pytest.mark.parametrize(
    "call",
    [
        lambda: tile.ops.matmul(ones(2, 3), ones(4, 5)),  # has a gradient, and plans
        lambda: tile.ops.histogram(ones(4), 8),  # has plans
        lambda: tile.ops.foreach_norms(3),  # has neither
    ],
    ids=["matmul", "histogram", "foreach_norms"],
)
def test_tracebacks_have_the_users_frames_alone(call: Callable[[], object]) -> None:
    with pytest.raises(ArgumentError) as caught:
        call()
    assert {entry.path.name for entry in caught.traceback} == {"test_bad_input.py"}
