"""The triple and the data layout of LLVM modules for NVIDIA GPUs."""

from __future__ import annotations

# Pointers to shared, constant and local memory have 32 bits; see `prepare_llvm`.
DATA_LAYOUT = (
    "e-p:64:64:64-p3:32:32:32-p4:32:32:32-p5:32:32:32-p6:32:32:32-p7:32:32:32-i1:8:8-i8:8:8-"
    "i16:16:16-i32:32:32-i64:64:64-i128:128:128-f32:32:32-f64:64:64-f128:128:128-v16:16:16-"
    "v32:32:32-n16:32:64"
)
TRIPLE = "nvptx64-nvidia-cuda"
