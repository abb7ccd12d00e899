"""Uses of flex attention: functions to compile, with their arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention


@dataclass(frozen=True)
class Case:
    """A step to compile, with its arguments; `gradients` compares those of these tensors."""

    step: Callable[..., Any]
    arguments: tuple[Any, ...]
    gradients: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Shape:
    """The sizes of an attention; `shared` query heads read one head of keys."""

    batch: int
    heads: int
    tokens: int
    width: int
    shared: int = 1

    def keys(self) -> Any:
        return torch.randn(self.batch, self.heads // self.shared, self.tokens, self.width)

    def queries(self, tokens: int | None = None) -> Any:
        return torch.randn(self.batch, self.heads, tokens or self.tokens, self.width)


# -- masks and scores


def causal(batch: Any, head: Any, row: Any, column: Any) -> Any:
    return row >= column


def sloped(score: Any, batch: Any, head: Any, row: Any, column: Any) -> Any:
    return score + (column - row) * 0.01


def capped(score: Any, batch: Any, head: Any, row: Any, column: Any) -> Any:
    return torch.tanh(score / 4) * 4


def documents(shape: Shape) -> Callable[..., Any]:
    """Return a mask of causal attention inside of documents, whose numbers it captures."""
    numbers = torch.arange(shape.tokens) // 100

    def same(batch: Any, head: Any, row: Any, column: Any) -> Any:
        return (numbers[row] == numbers[column]) & (row >= column)

    return same


def window(batch: Any, head: Any, row: Any, column: Any) -> Any:
    return (row - column).abs() < 200


def biased(shape: Shape) -> Callable[..., Any]:
    """Return a score that adds a captured number for each head."""
    bias = torch.randn(shape.heads)

    def add(score: Any, batch: Any, head: Any, row: Any, column: Any) -> Any:
        # A larger number in bfloat16 would have an error of more than the scores' differences.
        return score + bias[head] * ((row - column).abs() / 64)

    return add


# -- cases


def attention(
    shape: Shape,
    *,
    score: Callable[..., Any] | None = None,
    mask: Callable[..., Any] | None = None,
    backward: bool = False,
    decode: bool = False,
) -> Case:
    """Return a case; `decode` has one query, the last of the sequence."""
    q = shape.queries(1 if decode else None)
    k, v = shape.keys(), shape.keys()
    inputs = tuple(one.requires_grad_(backward) for one in (q, k, v))
    blocks: BlockMask | None = None
    if mask is not None:
        blocks = create_block_mask(
            mask, None, None, q.shape[-2], shape.tokens, device=str(q.device)
        )

    def step(q: Any, k: Any, v: Any) -> Any:
        result: Any = flex_attention(
            q, k, v, score_mod=score, block_mask=blocks, enable_gqa=shape.shared > 1
        )
        return result.square().sum() if backward else result

    return Case(step, inputs, inputs if backward else ())


def odd(shape: Shape) -> Shape:
    """Return a shape whose sequence is no multiple of a block."""
    return Shape(shape.batch, shape.heads, shape.tokens + 40, shape.width)


def grouped(shape: Shape) -> Shape:
    """Return a shape whose query heads share heads of keys in pairs."""
    return Shape(shape.batch, shape.heads, shape.tokens, shape.width, 2)


CASES: dict[str, Callable[[Shape], Case]] = {
    "flex forward": lambda s: attention(s, score=sloped, mask=causal),
    "flex backward": lambda s: attention(s, score=sloped, mask=causal, backward=True),
    "flex decode": lambda s: attention(s, score=sloped, decode=True),
    "flex grouped": lambda s: attention(grouped(s), mask=causal, backward=True),
    "flex grouped decode": lambda s: attention(grouped(s), score=capped, decode=True),
    "flex captured": lambda s: attention(odd(s), score=biased(s), mask=window, backward=True),
    "flex documents": lambda s: attention(s, mask=documents(s), score=capped, backward=True),
}
