"""The cases of `benchmarks/goals.py`: arrays, and functions of this project and of its peers."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import torch
from compiler_peers import kernels_of
from gpu_timing import Run
from paper_figures import TASKS
from torch.nn import functional

import tile
import tile.ops
from tile.ops.core.batched_grid import persistent_programs

Tiles = tuple[int, int, int, int, int]  # BM, BN, BK, warps, stages
PROGRAMS = 132  # of persistent kernels: the multiprocessors of an H200
f16, bf16, f32, f64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
e4m3 = torch.float8_e4m3fn
LARGE: tuple[Tiles, ...] = ((128, 256, 64, 8, 4), (128, 256, 64, 8, 3))


@dataclass
class Case:
    """One problem: what computes it here (`ours`) and elsewhere (`peers`), by name.

    Functions write `out`, or return a result of its shape. hot: it is also measured on a hot card.
    """

    name: str
    goal: str
    unit: str  # GB/s or TFLOP/s
    work: float  # bytes or operations
    expected: torch.Tensor
    out: torch.Tensor
    ours: dict[str, Run] = field(default_factory=dict)
    peers: dict[str, Run] = field(default_factory=dict)
    tolerance: float = 2e-3  # of the norm of the difference to that of the result
    hot: bool = False

    def rate(self, seconds: float) -> float:
        return self.work / seconds / (1e9 if self.unit == "GB/s" else 1e12)


def normal(*shape: int, dtype: torch.dtype = f16) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").to(dtype)


def empty(*shape: int, dtype: torch.dtype = f16) -> torch.Tensor:
    return torch.empty(*shape, device="cuda", dtype=dtype)


@dataclass(frozen=True)
class Matmul:
    """A matmul of `goal_kernels`, of A, M x K, and B, K x N or by columns N x K."""

    a: torch.Tensor
    b: torch.Tensor
    c: torch.Tensor
    by_columns: bool = False
    bias: torch.Tensor | None = None  # then gelu follows
    precision: str | None = None
    imprecise: int | None = None
    sums: str = "float32"

    def sizes(self) -> tuple[int, int, int]:
        rows, columns = self.c.shape
        return rows, columns, self.a.shape[1]

    def count(self, tiles: Tiles) -> int:
        return math.prod(map(math.ceil, (self.c.shape[0] / tiles[0], self.c.shape[1] / tiles[1])))

    def persistent(self, tiles: Tiles) -> int:
        """Return the number of programs, of which none has more tiles than by `PROGRAMS`."""
        return persistent_programs(self.count(tiles), PROGRAMS)

    def pointers(self, peer: str, tiles: Tiles, persistent: bool = False) -> Run:
        module = kernels_of(peer, "goal_kernels")
        programs = self.persistent(tiles) if persistent else self.count(tiles)
        return functools.partial(
            module.pointers_kernel[(programs,)],
            *(self.a, self.b, self.bias, self.c, *self.sizes()),
            **constants(tiles),
            B_BY_COLUMNS=self.by_columns,
            PRECISION=self.precision,
            IMPRECISE=self.imprecise,
            SUMS=getattr(module.tl, self.sums),
            GELU=self.bias is not None,
            PERSISTENT=persistent,
        )

    def columns(self, tiles: Tiles) -> Run:
        """Return a persistent matmul whose tiles may have any number of columns."""
        return functools.partial(
            kernels_of("tile", "goal_kernels").columns_kernel[(self.persistent(tiles),)],
            *(self.a, self.b, self.c, *self.sizes()),
            **constants(tiles),
            COLUMNS=1 << (tiles[1] - 1).bit_length(),
            IMPRECISE=self.imprecise,
        )

    def descriptors(self, tiles: Tiles) -> Run:
        module = kernels_of("tile", "goal_kernels")
        bm, bn, bk, *_ = tiles
        blocks = [bm, bk], [bn, bk] if self.by_columns else [bk, bn], [bm, bn]
        make = module.TensorDescriptor.from_tensor
        a, b, c = map(make, (self.a, self.b, self.c), blocks)
        return functools.partial(
            module.descriptors_kernel[(self.persistent(tiles),)],
            *(a, b, self.bias, c, *self.sizes()),
            **constants(tiles),
            IMPRECISE=self.imprecise,
            B_BY_COLUMNS=self.by_columns,
            GELU=self.bias is not None,
        )


def constants(tiles: Tiles) -> dict[str, int]:
    names = ("BM", "BN", "BK", "num_warps", "num_stages")
    return {"GROUP": 8, **dict(zip(names, tiles, strict=True))}


def named(kind: str, tiles: Sequence[int]) -> str:
    return f"{kind} {' '.join(map(str, tiles))}"


# -- matmuls of one type


def plain(m: int, n: int, k: int, dtype: torch.dtype, title: str, goal: str) -> tuple[Case, Matmul]:
    """Return a matmul with cuBLAS as its peer, and no function of this project yet."""
    a, b, c, other = (
        normal(m, k, dtype=dtype),
        normal(k, n, dtype=dtype),
        *(empty(m, n, dtype=dtype) for _ in range(2)),
    )
    case = Case(title, goal, "TFLOP/s", 2.0 * m * n * k, a @ b, c)
    case.peers["cuBLAS"] = lambda: torch.matmul(a, b, out=other)
    case.tolerance = 1e-2 if dtype is bf16 else 2e-3
    return case, Matmul(a, b, c)


def by_descriptors(m: int, n: int, k: int, dtype: torch.dtype, title: str, goal: str) -> Case:
    case, matmul = plain(m, n, k, dtype, title, goal)
    case.hot = k >= 4096
    for tiles in LARGE:
        case.ours[named("descriptors", tiles)] = matmul.descriptors(tiles)
    return case


def by_pointers(
    m: int, n: int, k: int, choices: Sequence[Tiles], title: str, goal: str, persistent: bool = True
) -> Case:
    case, matmul = plain(m, n, k, f16, title, goal)
    for tiles in choices:
        case.ours[named("a tile a program", tiles)] = matmul.pointers("tile", tiles)
        if persistent:
            case.ours[named("persistent", tiles)] = matmul.pointers("tile", tiles, True)
        case.peers[named("Triton", tiles)] = matmul.pointers("triton", tiles)
    return case


def with_gelu(n: int, title: str, goal: str) -> Case:
    a, b, bias, c = normal(n, n), normal(n, n), normal(n), empty(n, n)
    expected = functional.gelu(a.float() @ b.float() + bias.float(), approximate="tanh")
    case = Case(title, goal, "TFLOP/s", 2.0 * n**3, expected, c)
    case.peers["cuBLAS's epilogue"] = lambda: torch._addmm_activation(bias, a, b, use_gelu=True)
    case.peers["cuBLAS and torch"] = lambda: functional.gelu(
        torch.addmm(bias, a, b), approximate="tanh"
    )
    matmul = Matmul(a, b, c, bias=bias)
    for tiles in LARGE:
        case.ours[named("descriptors", tiles)] = matmul.descriptors(tiles)
        case.ours[named("pointers, persistent", tiles)] = matmul.pointers("tile", tiles, True)
    return case


def of_words(
    n: int, dtype: torch.dtype, precision: str, choices: Sequence[Tiles], title: str, goal: str
) -> Case:
    """Return a matmul of 32-bit or 64-bit floats, B by rows."""
    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    case, matmul = plain(n, n, n, dtype, title, goal)
    cublas = case.peers["cuBLAS"]

    def run() -> torch.Tensor:
        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        return cublas()

    case.peers["cuBLAS"] = run
    matmul = Matmul(
        *(matmul.a, matmul.b, matmul.c),
        precision=precision,
        sums="float64" if dtype is f64 else "float32",
    )
    for tiles in choices:
        case.ours[named("a tile a program", tiles)] = matmul.pointers("tile", tiles)
        if precision == "tf32":
            case.ours[named("persistent", tiles)] = matmul.pointers("tile", tiles, True)
        elif dtype is f32:
            case.peers[named("Triton", tiles)] = matmul.pointers("triton", tiles)
    return case


# -- 8-bit floats

FP8: tuple[Tiles, ...] = (
    (128, 256, 128, 8, 3), (128, 256, 128, 8, 4), (128, 128, 128, 4, 4), (128, 128, 128, 8, 5),
)  # fmt: skip
# Columns that leave fewer multiprocessors idle: 2048 tiles of 256 columns (8192 cubed) take as
# long as 2112 do.
FP8_COLUMNS: tuple[Tiles, ...] = ((128, 224, 128, 8, 4), (128, 192, 128, 8, 4))
BLOCKS: tuple[Tiles, ...] = (
    (128, 128, 128, 4, 3), (128, 128, 128, 8, 3), (128, 128, 128, 8, 4), (64, 128, 128, 4, 4),
)  # fmt: skip


def fp8(n: int, imprecise: int | None, title: str, goal: str) -> Case:
    """Return a matmul with B by columns, whose sums are promoted every `imprecise` elements."""
    a, b, c = normal(n, n, dtype=e4m3), normal(n, n, dtype=e4m3), empty(n, n, dtype=bf16)
    one = torch.ones((), device="cuda")
    case = Case(title, goal, "TFLOP/s", 2.0 * n**3, a.float() @ b.float().t(), c, tolerance=1e-2)
    case.peers["cuBLAS"] = lambda: torch._scaled_mm(
        a, b.t(), scale_a=one, scale_b=one, out_dtype=bf16, use_fast_accum=imprecise is None
    )
    matmul = Matmul(a, b, c, by_columns=True, imprecise=imprecise)
    for tiles in FP8:
        case.ours[named("a tile a program", tiles)] = matmul.pointers("tile", tiles)
        case.ours[named("persistent", tiles)] = matmul.pointers("tile", tiles, True)
        case.ours[named("descriptors", tiles)] = matmul.descriptors(tiles)
        if tiles[4] < 5:
            case.peers[named("Triton", tiles)] = matmul.pointers("triton", tiles)
    for tiles in FP8_COLUMNS:
        case.ours[named("persistent", tiles)] = matmul.columns(tiles)
    return case


def scaled_by_blocks(n: int, title: str, goal: str) -> Case:
    a, b, c = normal(n, n, dtype=e4m3), normal(n, n, dtype=e4m3), empty(n, n, dtype=bf16)
    a_scale = torch.rand(n, n // 128, device="cuda") + 0.5
    b_scale = torch.rand(n // 128, n // 128, device="cuda") + 0.5
    left = a.float() * a_scale.repeat_interleave(128, 1)
    right = b.float().t() * b_scale.repeat_interleave(128, 0).repeat_interleave(128, 1)
    case = Case(title, goal, "TFLOP/s", 2.0 * n**3, left @ right, c, tolerance=1e-2)
    for tiles in BLOCKS:
        grid = (math.ceil(n / tiles[0]) * math.ceil(n / tiles[1]),)
        for peer, functions in (("tile", case.ours), ("triton", case.peers)):
            kernel = kernels_of(peer, "goal_kernels").block_scaled_kernel[grid]
            arguments = (a, b, a_scale, b_scale, c, n, n, n)
            functions[named(peer, tiles)] = functools.partial(
                kernel, *arguments, **constants(tiles)
            )
    return case


def weights_of_4_bits(m: int, n: int, k: int, title: str, goal: str) -> Case:
    packed = torch.randint(0, 256, (k // 128, n, 64), dtype=torch.uint8, device="cuda")
    scales = torch.rand(k // 128, n, device="cuda") * 0.02
    numbers = torch.cat([packed & 15, packed >> 4], dim=-1).swapaxes(0, 1).reshape(n, k).float() - 8
    weights = (numbers * scales.T.repeat_interleave(128, dim=1)).half().T
    a, out, other = normal(m, k), empty(m, n), empty(m, n)
    case = Case(title, goal, "TFLOP/s", 2.0 * m * n * k, a @ weights, out)
    case.peers["cuBLAS, float16"] = lambda: torch.matmul(a, weights, out=other)
    arguments = (a, packed.swapaxes(0, 1), scales.T)
    case.ours["tile.ops.int4_matmul"] = lambda: tile.ops.int4_matmul(*arguments, out=out)
    return case


# -- convolutions and rows

CONVOLUTIONS: dict[int, tuple[str, tuple[Tiles, ...]]] = {
    1: ("1.00", ((128, 128, 64, 8, 3), (128, 128, 64, 4, 3), (64, 128, 64, 4, 3))),
    2: ("1.00", ((128, 128, 64, 4, 3), (64, 128, 64, 4, 3), (128, 256, 64, 8, 3))),
    3: (".95", ((64, 256, 64, 4, 5), (64, 256, 64, 4, 4), (64, 128, 64, 4, 4))),
    4: (".85", ((64, 64, 128, 4, 5), (64, 64, 128, 4, 6), (64, 64, 128, 4, 4))),
    5: (".75", ((16, 64, 256, 4, 4), (64, 32, 128, 4, 6), (16, 64, 128, 4, 4))),
    6: ("3.0", ((256, 64, 32, 4, 2), (128, 64, 32, 4, 2), (128, 64, 32, 4, 3))),
    7: ("1.00", ((128, 32, 32, 4, 4), (128, 32, 32, 4, 3), (256, 32, 32, 8, 3))),
}  # fmt: skip


def convolution(task: int, title: str, goal: str) -> Case:
    """Return a task of the paper's table 1, float16, channels last."""
    h, w, c, batch, filters, r, s = TASKS[task]
    edges = (r // 2, s // 2) if task <= 5 else (0, 0)
    p, q = h + 2 * edges[0] - r + 1, w + 2 * edges[1] - s + 1
    pixels = batch * p * q
    x, kernels, y = normal(batch, h, w, c), normal(filters, r, s, c), empty(batch, p, q, filters)
    torch.backends.cudnn.benchmark = True
    images, by_rows = x.permute(0, 3, 1, 2), kernels.permute(0, 3, 1, 2)

    def cudnn() -> torch.Tensor:
        return functional.conv2d(images, by_rows, padding=edges).permute(0, 2, 3, 1)

    case = Case(title, goal, "TFLOP/s", 2.0 * pixels * filters * r * s * c, cudnn().clone(), y)
    case.peers["cuDNN"] = cudnn
    for bm, bn, bk, warps, stages in CONVOLUTIONS[task][1]:
        grid = (math.ceil(filters / bn), math.ceil(pixels / bm))
        case.ours[named("", (bm, bn, bk, warps, stages))] = functools.partial(
            kernels_of("tile", "goal_kernels").convolution_kernel[grid],
            *(x, kernels, y, pixels, h, w, p, q, filters, *edges),
            R=r,
            S=s,
            C=c,
            BM=bm,
            BN=bn,
            BK=bk,
            num_warps=warps,
            num_stages=stages,
        )
    return case


ROWS = ((4096, 4), (4096, 8), (8192, 8), (8192, 16), (16384, 16))  # BLOCK and warps


def softmax(columns: int, title: str, goal: str) -> Case:
    x, out = normal(4096, columns), empty(4096, columns)
    case = Case(title, goal, "GB/s", 4.0 * x.numel(), torch.softmax(x, -1), out)
    case.peers["torch"] = lambda: torch.softmax(x, -1)
    for block, warps in ROWS:
        for peer, functions in (("tile", case.ours), ("triton", case.peers)):
            kernel = kernels_of(peer).looped_softmax_kernel[(4096,)]
            functions[named(peer, (block, warps))] = functools.partial(
                kernel, out, x, columns, columns, BLOCK=block, num_warps=warps
            )
    return case


def cross_entropy(columns: int, title: str, goal: str) -> Case:
    x, out = normal(4096, columns), empty(4096, dtype=f32)
    target = torch.randint(0, columns, (4096,), device="cuda")
    expected = functional.cross_entropy(x.float(), target, reduction="none")
    case = Case(title, goal, "GB/s", 2.0 * x.numel(), expected, out)
    case.peers["torch"] = lambda: functional.cross_entropy(x, target, reduction="none")
    for block, warps in ROWS:
        for peer, functions in (("tile", case.ours), ("triton", case.peers)):
            kernel = kernels_of(peer, "goal_kernels").cross_entropy_kernel[(4096,)]
            functions[named(peer, (block, warps))] = functools.partial(
                kernel, x, target, out, columns, BLOCK=block, num_warps=warps
            )
    return case


def dropout(power: int, title: str, goal: str) -> Case:
    """Return dropout of float32 numbers; Triton draws the same random numbers."""
    x, out = normal(1 << power, dtype=f32), empty(1 << power, dtype=f32)
    case = Case(title, goal, "GB/s", 8.0 * x.numel(), out, out, tolerance=1e-6)
    for block, warps in ((1024, 4), (2048, 4), (2048, 8), (4096, 8)):
        for peer, functions in (("tile", case.ours), ("triton", case.peers)):
            kernel = kernels_of(peer, "goal_kernels").dropout_kernel[(x.numel() // block,)]
            functions[named(peer, (block, warps))] = functools.partial(
                kernel, x, out, x.numel(), 0.3, 7, BLOCK=block, num_warps=warps
            )
    next(iter(case.peers.values()))()
    case.expected = out.clone()
    return case


def depthwise(title: str, goal: str) -> Case:
    batch, height, width, channels = 32, 56, 56, 256
    x, filters = normal(batch, height, width, channels), normal(channels, 3, 3, 1)
    y, by_taps = empty(*x.shape), filters.reshape(channels, 9).t().contiguous()
    torch.backends.cudnn.benchmark = True
    images, by_rows = x.permute(0, 3, 1, 2), filters.permute(0, 3, 1, 2)

    def cudnn() -> torch.Tensor:
        return functional.conv2d(images, by_rows, padding=1, groups=channels).permute(0, 2, 3, 1)

    case = Case(title, goal, "GB/s", 4.0 * x.numel(), cudnn().clone(), y)
    case.peers["cuDNN"] = cudnn
    pixels = batch * height * width
    for bm, bc, warps in ((16, 256, 4), (8, 256, 4), (16, 64, 4), (32, 64, 4), (16, 128, 4)):
        for peer, functions in (("tile", case.ours), ("triton", case.peers)):
            kernel = kernels_of(peer, "goal_kernels").depthwise_kernel
            functions[named(peer, (bm, bc, warps))] = functools.partial(
                kernel[(math.ceil(pixels / bm), channels // bc)],
                *(x, by_taps, y, pixels, height, width, channels),
                R=3,
                BM=bm,
                BC=bc,
                num_warps=warps,
            )
    case.ours["tile.ops.conv2d"] = lambda: tile.ops.conv2d(x, filters, padding=1, groups=channels)
    return case


Maker = Callable[[str, str], Case]


def makers() -> Iterator[tuple[str, str, Maker]]:
    """Yield the name of each case, its goal, and the function that makes it."""
    for kind, dtype in (("f16", f16), ("bf16", bf16)):
        for n, goal in ((4096, "1.00 / .985"), (8192, "1.01")):
            name = f"{kind} {n} cubed, descriptors, persistent"
            yield name, goal, functools.partial(by_descriptors, n, n, n, dtype)
    for n, goal in ((4096, ".98"), (8192, "1.00")):
        yield f"f16 {n} cubed, pointers", goal, functools.partial(by_pointers, n, n, n, LARGE)
    long = functools.partial(by_descriptors, 8192, 8192, 512, f16)
    yield "f16 8192 x 8192 x 512, descriptors", "1.00", long
    yield "f16 4096 cubed, bias and gelu", "1.00", functools.partial(with_gelu, 4096)
    few = tuple((64, 128, 64, 4, stages) for stages in (4, 6, 8))
    yield "f16 1024 cubed, pointers", "1.00", functools.partial(by_pointers, 1024, 1024, 1024, few)
    yield (
        *("f16 2048 x 7000 x 2048, pointers", ".80"),
        functools.partial(by_pointers, 2048, 7000, 2048, LARGE),
    )
    odd = ((128, 128, 32, 8, 3), (128, 256, 32, 8, 3), (128, 128, 32, 4, 3))
    odd_sizes = functools.partial(by_pointers, 4097, 4097, 4097, odd, persistent=False)
    yield "f16 4097 cubed, pointers", ".90", odd_sizes
    rounded = ((256, 128, 32, 8, 4), (256, 128, 32, 8, 3))
    for n in (4096, 8192):
        case = functools.partial(of_words, n, f32, "tf32", rounded)
        yield f"tf32 {n} cubed, B by rows", ".90", case
    single = ((128, 128, 32, 8, 2), (128, 128, 32, 8, 3), (128, 64, 16, 4, 4))
    yield "f32 ieee 4096 cubed", ".90", functools.partial(of_words, 4096, f32, "ieee", single)
    double = ((64, 64, 16, 4, 4), (128, 64, 16, 4, 3), (128, 128, 16, 8, 4), (64, 64, 16, 2, 3))
    yield "f64 4096 cubed", ".95", functools.partial(of_words, 4096, f64, "ieee", double)
    for n in (4096, 8192):
        yield f"fp8 {n} cubed, fast", "1.00", functools.partial(fp8, n, None)
        yield f"fp8 {n} cubed, promoted every 128", "1.00", functools.partial(fp8, n, 128)
    yield "fp8 4096 cubed, scaled by blocks", "1.10", functools.partial(scaled_by_blocks, 4096)
    for task, (goal, _) in CONVOLUTIONS.items():
        yield f"convolution, task {task}", goal, functools.partial(convolution, task)
    yield "cross entropy 4096 x 32000", "1.00", functools.partial(cross_entropy, 32000)
    yield "looped softmax 4096 x 32000", "1.00", functools.partial(softmax, 32000)
    yield "dropout 2^25", "1.00", functools.partial(dropout, 25)
    yield "depthwise 3 x 3, 32 x 56 x 56 x 256", ".95", functools.partial(depthwise)
    for m, goal in ((16, "2.5"), (2048, ".90")):
        name = f"W4A16 {m} x 8192 x 8192, of float16"
        yield name, goal, functools.partial(weights_of_4_bits, m, 8192, 8192)
