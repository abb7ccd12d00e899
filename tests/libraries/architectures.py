"""Models of torch's layers with random weights: transformers of words and of images, and a ResNet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True)
class Size:
    """Sizes of models: of a batch, of transformers and of ResNets.

    dense: the width of a transformer's dense layers, in widths; blocks: of each stage of a ResNet.
    """

    batch: int
    tokens: int
    width: int
    heads: int
    layers: int
    image: int
    patch: int
    channels: int
    vocabulary: int
    dense: int = 4
    blocks: tuple[int, ...] = (1, 1)
    classes: int = 10


_FULL = Size(4, 4096, 2048, 16, 16, 224, 16, 64, 32000)
_BASE = replace(_FULL, width=768, heads=12, layers=12)
# Sizes by their name, and by the model where they differ from the one of ALL.
ALL = ""
SIZES: Mapping[str, Mapping[str, Size]] = {
    "tiny": {ALL: Size(2, 16, 32, 2, 1, 16, 2, 8, 64)},
    "small": {ALL: Size(4, 256, 256, 4, 2, 64, 8, 32, 1024)},
    "full": {
        ALL: _FULL,
        "llama": replace(_FULL, tokens=1024, heads=32, vocabulary=128256),  # of 1B
        "bert": replace(_BASE, batch=32, tokens=512, vocabulary=30522),  # base
        "vit": replace(_BASE, batch=64),  # B/16
        "resnet": replace(_FULL, batch=64, blocks=(3, 4, 6, 3), classes=1000),  # 50
        "gpt2 training": replace(_BASE, batch=8, tokens=1024, vocabulary=50257),
    },
}


class Norm(nn.Module):
    """RMS norm, as Llama has it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-5) * self.weight


def rotated(x: Any) -> Any:
    """Apply rotary embeddings to the heads of a sequence."""
    half = x.shape[-1] // 2
    steps = torch.arange(half, device=x.device, dtype=torch.float32) / half
    angles = torch.arange(x.shape[-2], device=x.device)[:, None] * 10000.0**-steps
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x[..., :half], x[..., half:]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


class Attention(nn.Module):
    """Multi-head attention, written out or by torch's function."""

    def __init__(self, size: Size, *, causal: bool, rotary: bool = False) -> None:
        super().__init__()
        self.heads, self.causal, self.rotary = size.heads, causal, rotary
        self.qkv = nn.Linear(size.width, 3 * size.width)
        self.out = nn.Linear(size.width, size.width)

    def forward(self, x: Any) -> Any:
        batch, tokens, width = x.shape
        shape = (batch, tokens, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        if self.rotary:
            q, k = rotated(q), rotated(k)
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(y.transpose(1, 2).reshape(x.shape))


class Gated(nn.Module):
    """The SwiGLU layer of Llama."""

    def __init__(self, width: int, wide: int) -> None:
        super().__init__()
        self.up, self.gate = nn.Linear(width, wide), nn.Linear(width, wide)
        self.down = nn.Linear(wide, width)

    def forward(self, x: Any) -> Any:
        return self.down(functional.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self, size: Size, *, llama: bool = False, causal: bool = True) -> None:
        super().__init__()
        norm: Any = Norm if llama else nn.LayerNorm
        wide = size.dense * size.width
        self.norms = nn.ModuleList([norm(size.width), norm(size.width)])
        self.attention = Attention(size, causal=causal, rotary=llama)
        self.dense: nn.Module = Gated(size.width, wide)
        if not llama:
            layers = (nn.Linear(size.width, wide), nn.GELU(), nn.Linear(wide, size.width))
            self.dense = nn.Sequential(*layers)

    def forward(self, x: Any) -> Any:
        x = x + self.attention(self.norms[0](x))
        return x + self.dense(self.norms[1](x))


class Words(nn.Module):
    """A transformer of words: Llama, GPT-2 or BERT, by its blocks."""

    def __init__(self, size: Size, *, llama: bool = False, causal: bool = True) -> None:
        super().__init__()
        self.words = nn.Embedding(size.vocabulary, size.width)
        self.places = None if llama else nn.Embedding(size.tokens, size.width)
        blocks = [Block(size, llama=llama, causal=causal) for _ in range(size.layers)]
        norm = Norm(size.width) if llama else nn.LayerNorm(size.width)
        self.rest = nn.Sequential(*blocks, norm, nn.Linear(size.width, size.vocabulary))

    def forward(self, words: Any) -> Any:
        x = self.words(words)
        if self.places is not None:
            x = x + self.places(torch.arange(words.shape[1], device=words.device))
        return self.rest(x)


class Picture(nn.Module):
    """A vision transformer."""

    def __init__(self, size: Size) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, size.width, size.patch, size.patch)
        self.token = nn.Parameter(torch.randn(1, 1, size.width))
        count = (size.image // size.patch) ** 2
        self.places = nn.Parameter(torch.randn(count + 1, size.width))
        blocks = [Block(size, causal=False) for _ in range(size.layers)]
        self.rest = nn.Sequential(*blocks, nn.LayerNorm(size.width))
        self.head = nn.Linear(size.width, size.classes)

    def forward(self, image: Any) -> Any:
        x = self.patches(image).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.rest(x)[:, 0])


class Residual(nn.Module):
    """A bottleneck of a ResNet."""

    def __init__(self, channels: int, wide: int, stride: int) -> None:
        super().__init__()
        self.rest = nn.Sequential(
            nn.Conv2d(channels, wide // 4, 1, bias=False),
            nn.BatchNorm2d(wide // 4),
            nn.ReLU(),
            nn.Conv2d(wide // 4, wide // 4, 3, stride, 1, bias=False),
            nn.BatchNorm2d(wide // 4),
            nn.ReLU(),
            nn.Conv2d(wide // 4, wide, 1, bias=False),
            nn.BatchNorm2d(wide),
        )
        self.short: nn.Module = nn.Identity()
        if channels != wide or stride != 1:
            short = nn.Conv2d(channels, wide, 1, stride, bias=False)
            self.short = nn.Sequential(short, nn.BatchNorm2d(wide))

    def forward(self, x: Any) -> Any:
        return functional.relu(self.rest(x) + self.short(x))


def resnet(size: Size) -> nn.Module:
    """Return a ResNet; stages after the first halve the image and double the channels."""
    layers: list[nn.Module] = []
    channels, wide = size.channels, 4 * size.channels
    for stage, count in enumerate(size.blocks):
        for block in range(count):
            layers.append(Residual(channels, wide, 2 if stage and not block else 1))
            channels = wide
        wide *= 2
    return nn.Sequential(
        nn.Conv2d(3, size.channels, 7, 2, 3, bias=False),
        nn.BatchNorm2d(size.channels),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
        *layers,
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, size.classes),
    )
