"""PyTorch's tensors, and what PyTorch itself asks of Triton; only where it is installed."""

from collections.abc import Iterator

import pytest

from tests.torch.forking import Server, serving, start

pytest.importorskip("torch")

# How programs begin; they are run for Triton.
HEAD = """
import torch
import torch._inductor.compile_fx
import torch._inductor.config as config

import triton
import triton.language as tl

config.cpu_backend, config.compile_threads = "triton", 1
"""
TRITON = ("-m", "tile", "triton")

PROGRAM = """
from torch.utils._triton import has_triton, has_triton_package


@triton.jit
def scale(x_ptr, out_ptr, n: tl.int64, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0).to(tl.float32)
    tl.store(out_ptr + i, (x * 2).to(out_ptr.dtype.element_ty), mask=i < n)


assert has_triton_package() and has_triton()
assert triton.runtime.driver.active.get_active_torch_device() == torch.device("cpu")
for dtype in (torch.float32, torch.bfloat16, torch.float16):
    x = torch.randn(100, dtype=dtype)
    out = torch.empty_like(x)
    scale[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, out, 100, BLOCK=32)
    assert torch.equal(out, x * 2)
bits = torch.tensor([0x38, 0xB8], dtype=torch.uint8)
wide = torch.empty(2)
scale[1,](triton.reinterpret(bits, tl.float8e4nv), wide, 2, BLOCK=2)
assert wide.tolist() == [2.0, -2.0]
print("torch: equal")
"""

INDUCTOR = """
x, y = torch.randn(2, 8, 100)
for function in (
    lambda x, y: (torch.sin(x) + y).sum(1),
    lambda x, y: torch.softmax(x, 1).cumsum(1),
    lambda x, y: torch.sort(x, 1),
    lambda x, y: x.amin(0) + y.min(1)[1].sum(),
):
    torch.testing.assert_close(torch.compile(function)(x, y), function(x, y))
    torch._dynamo.reset()
print("inductor: close")
"""

POOL = """
import torch
import torch._inductor.config as config
from torch._inductor.async_compile import AsyncCompile

config.cpu_backend, config.compile_threads = "triton", 2
config.worker_start_method = "subprocess"
if __name__ == "__main__":
    AsyncCompile.warm_pool()
    AsyncCompile.wait_pool_ready()
    assert AsyncCompile.use_process_pool()
    x = torch.randn(4, 33)
    function = lambda x: (torch.softmax(x * 1.5, 1), x.sin().sum(0))
    torch.testing.assert_close(torch.compile(function)(x), function(x))
    print("pool: close")
"""

KERNEL = """
NOTHING: tl.constexpr = tl.constexpr(0.0)


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, i < n, other=0.0)
    tl.store(out_ptr + i, x + tl.load(y_ptr + i, i < n, other=NOTHING), i < n)


def function(x, y):
    out = torch.empty_like(x)
    add[(triton.cdiv(x.numel(), 32),)](x.sin(), y, out, x.numel(), BLOCK=32)
    return out * 2


x, y = torch.randn(2, 100)
for backend in ("eager", "aot_eager", "inductor"):
    torch._dynamo.reset()
    got = torch.compile(function, fullgraph=True, backend=backend)(x, y)
    torch.testing.assert_close(got, (x.sin() + y) * 2)


def in_place(x, y):
    add[(triton.cdiv(x.numel(), 32),)](x, y, x, x.numel(), BLOCK=32)
    return x + y


import torch._higher_order_ops.triton_kernel_wrap as wrap

arguments = dict(x_ptr=x, y_ptr=y, out_ptr=y, n=3, BLOCK=8)
if hasattr(wrap, "identify_mutated_tensors"):  # in PyTorch 2.11
    assert wrap.identify_mutated_tensors(add, arguments, {}) == ["out_ptr"]
else:
    accesses = wrap.identify_accessed_tensors(add, arguments, {})
    accesses = getattr(accesses, "read_writes", accesses)
    assert [dep.name for dep in accesses.writes] == ["out_ptr"]
compiled = torch.compile(in_place, fullgraph=True, dynamic=True)
for n in (50, 100):
    a, b = x[:n].clone(), y[:n]
    torch.testing.assert_close(compiled(a, b), x[:n] + 2 * b)
    torch.testing.assert_close(a, x[:n] + b)
print("kernel: close")
"""


MXFP = """
from triton.tools.mxfp import MXFP4Tensor, MXScaleTensor, fp8e8m0_to_float32

f32 = torch.float32
every = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])
every = torch.cat([every, -every])
codes = MXFP4Tensor(data=every)
assert codes.data.tolist() == list(range(16)) and codes.data.dtype == torch.uint8
assert torch.equal(codes.to(f32), every) and torch.signbit(codes.to(f32)[8])
middles = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, -5.0])
assert MXFP4Tensor(data=middles).to(f32).tolist() == [0, 1, 1, 2, 2, 4, 4, -4]
far = torch.tensor([0.26, 100, float("inf"), -float("inf"), float("nan"), -1e-9])
assert MXFP4Tensor(data=far).to(f32).tolist() == [0.5, 6, 6, -6, 6, 0]
for shape, dim in (((8, 6), 0), ((8, 6), 1), ((3, 5, 7), 1), ((5,), 0)):
    x = MXFP4Tensor(size=shape, device="cpu").random()
    packed = x.to_packed_tensor(dim)
    assert packed.shape[dim] == (shape[dim] + 1) // 2
    assert torch.equal(x.unpack_packed_tensor(packed, dim, shape), x.data)
first = x.to_packed_tensor(0)[0]
assert first == x.data[0] | x.data[1] << 4
powers = torch.tensor([1.0, 1.99, 2.0, 0.5, 2.0**127, 2.0**-126, 0, -1, float("nan")])
scales = MXScaleTensor(data=powers)
assert scales.data.tolist() == [127, 127, 128, 126, 254, 1, 255, 255, 255]
assert scales.to(f32)[:6].tolist() == [1, 1, 2, 0.5, 2.0**127, 2.0**-126]
assert scales.to(f32)[6:].isnan().all()
some = MXScaleTensor(size=(100,)).random(low=0.25, high=4)
assert some.data.min() >= 125 and some.data.max() <= 129
assert torch.equal(fp8e8m0_to_float32(some.data), some.to(f32))
wrong = {
    "takes data or a size": lambda: MXFP4Tensor(),
    "the data of MXFP4Tensor is a torch tensor, not [1.0]": lambda: MXFP4Tensor(data=[1.0]),
    "converts to torch.float32, not to torch.float16": lambda: codes.to(torch.float16),
    "a tensor of rank 1 has no dimension 1": lambda: codes.to_packed_tensor(1),
    "the least scale 4 is greater than 2": lambda: MXScaleTensor(size=9).random(low=4, high=2),
}
for message, refused in wrong.items():
    try:
        refused()
    except (TypeError, ValueError) as error:
        assert message in str(error), error
    else:
        raise AssertionError(message)
print("mxfp: right")
"""

STORAGE = """
import tile


def look(x, y, first: tl.constexpr, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(y + at, tl.load(x + first + at))


def fault(kernel, *args):
    try:
        kernel[1,](*args, N=32)
    except tile.errors.OutOfBoundsError as error:
        return error.message
    return "none"


base, out = torch.arange(64.0), torch.zeros(32)
under_triton, under_tile = triton.jit(look), tile.jit(look)
for x in (base[16:24], base[16:48:2], base.view(8, 8)[:, 2], base[32:]):
    start = x.storage_offset()
    for first in (0, 32):
        under_triton[1,](x, out, first - start, N=32)
        assert torch.equal(out, base[first : first + 32])
    assert fault(under_triton, x, out, 40 - start).endswith("1 past the end of its storage")
    assert "before the start of its storage" in fault(under_triton, x, out, -1 - start)
    assert "before its start" in fault(under_tile, x, out, -start)
repeated = base.view(8, 8)[:1].expand(8, 8)
under_triton[1,](repeated, out, 20, N=32)
assert torch.equal(out, base[20:52])
compiled = under_triton[1,](base[40:48], out, -40, N=32)
compiled[1,](base[40:48], out)
assert torch.equal(out, base[:32])
narrow, few = torch.arange(64).to(torch.bfloat16), torch.zeros(32, dtype=torch.bfloat16)
under_triton[1,](narrow[40:], few, -40, N=32)
assert torch.equal(few, narrow[:32])
target = torch.zeros(64)
under_triton[1,](base, target[8:16], 0, N=32)
assert torch.equal(target[8:40], base[:32]) and not target[40:].any()
print("storage: found")
"""


# The program that checks models refuses results that are no numbers.
MODELS = """
from tests.libraries.models import worst

one, nan = torch.ones(2), torch.tensor([1.0, float("nan")])
print(worst([one, one], [one, 2 * one]), worst([one, nan], [one, one]))
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server"), HEAD, TRITON) as server:
        yield server


@pytest.mark.parametrize(
    ("text", "output"),
    [
        (PROGRAM, "torch: equal"),
        (INDUCTOR, "inductor: close"),
        (KERNEL, "kernel: close"),
        (STORAGE, "storage: found"),
        (MXFP, "mxfp: right"),
        (MODELS, "0.5 nan"),
    ],
)
def test_programs(tmp_path, server: Server, text, output) -> None:
    done = server.run(tmp_path, text, {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)})
    assert output in done.stdout, done.stderr


def test_processes_of_inductor(tmp_path) -> None:
    output, errors = start(tmp_path, POOL, TRITON).communicate(timeout=300)
    assert output.endswith("pool: close\n"), errors
