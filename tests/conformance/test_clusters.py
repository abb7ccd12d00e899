"""Dots of programs in clusters, which load what both read once where the target can."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.conformance.running import Device, assert_close
from tile.backends.base import Options

# Tiles of the result by columns, so that adjacent programs have the same columns of %y.
PRODUCT = """
kernel @product(%x: ptr<f16> {divisible = 16}, %y: ptr<f16> {divisible = 16},
                %z: ptr<f16> {divisible = 16},
                %m: i32, %n: i32, %k: i32, %s: i64, %t: i64) {
  %a = make_tensor_descriptor %x, %m, %k, %s {block = (64, 32)} : desc<64x32xf16>
  %b = make_tensor_descriptor %y, %k, %n, %t {block = (32, 64)} : desc<32x64xf16>
  %c = make_tensor_descriptor %z, %m, %n, %t {block = (64, 64)} : desc<64x64xf16>
  %size = const {value = 64} : i32
  %most = const {value = 63} : i32
  %zero = const {value = 0} : i32
  %step = const {value = 32} : i32
  %none = const {value = 0.0} : tile<64x64xf32>
  %m1 = add %m, %most : i32
  %rows = div %m1, %size : i32
  %n1 = add %n, %most : i32
  %columns = div %n1, %size : i32
  %tiles = mul %rows, %columns : i32
  %first = program_id {axis = 0} : i32
  %programs = num_programs {axis = 0} : i32
  for %number = %first to %tiles step %programs {
    %i = rem %number, %rows : i32
    %j = div %number, %rows : i32
    %row = mul %i, %size : i32
    %column = mul %j, %size : i32
    %sum = for %at = %zero to %k step %step iter(%acc = %none) : tile<64x64xf32> {
      %u = descriptor_load %a, %row, %at : tile<64x32xf16>
      %v = descriptor_load %b, %at, %column : tile<32x64xf16>
      %next = dot %u, %v, %acc : tile<64x64xf32>
      yield %next
    }
    %w = cast %sum {to = f16} : tile<64x64xf16>
    descriptor_store %c, %w, %row, %column
    yield
  }
  return
}
"""


@pytest.mark.parametrize("num_ctas", [1, 2, 4])
@pytest.mark.parametrize(
    ("m", "n", "k", "programs"),
    [
        (256, 128, 96, 4),  # pairs share columns
        (192, 128, 64, 2),  # and columns or nothing
        (320, 72, 200, 4),  # two programs have one tile more
        (64, 64, 64, 4),  # three have none
        (130, 72, 40, 3),  # no clusters
    ],
)
@pytest.mark.filterwarnings("ignore:.*launched without clusters")
def test_persistent_dots(
    device: Device, num_ctas: int, m: int, n: int, k: int, programs: int
) -> None:
    """Results do not depend on clusters, and small integers are not rounded."""
    pitch, wide = -(-k // 8) * 8, -(-n // 8) * 8
    random = np.random.default_rng(12)
    x, y = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((m, pitch), (k, wide)))
    out = np.full((m, wide), 7, np.float16)
    sizes = [np.int32(m), np.int32(n), np.int32(k), np.int64(pitch), np.int64(wide)]
    clustered = replace(device, options=Options(num_ctas=num_ctas))
    clustered.run(PRODUCT, (programs, 1, 1), [x.ravel(), y.ravel(), out.reshape(-1), *sizes])
    wanted = np.full((m, wide), 7, np.float16)
    wanted[:, :n] = (x[:, :k].astype(np.float32) @ y[:, :n].astype(np.float32)).astype(np.float16)
    assert_close(out, wanted, 0, "the product")
