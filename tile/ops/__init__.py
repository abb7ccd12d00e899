"""A library of kernels: the operators of deep learning, in a few readable lines each.

    import numpy as np
    import tile.ops

    y = tile.ops.softmax(np.random.rand(4096, 1000).astype(np.float32))

Arrays are NumPy's, torch's, CuPy's or pyopencl's, and results are of the same kind and on the same
device as the first argument; the backend follows from the arrays as in any launch. Functions check
their arguments before they write: an error names the argument. Each op is a file that states the
mathematics, the kernels, the table of their configurations and a NumPy reference. A name is
imported when it is first used; `__init__.pyi` has their types. docs/ops.md lists them.
"""

from __future__ import annotations

from tile._lazy import LazyNames

# The files whose function has their name, by family; with a star also NAME_backward.
FAMILIES = {
    "channels": "batch_norm* group_norm*",
    "image": (
        "avg_pool2d* conv2d conv2d_dgrad conv2d_wgrad conv_transpose2d max_pool2d* shift_conv "
        "shift_conv_dgrad shift_conv_wgrad"
    ),
    "linear": (
        "bilinear bilinear_backward block_scaled_matmul grouped_matmul grouped_matmul_wgrad "
        "int4_matmul linear_cross_entropy linear_cross_entropy_backward matmul scaled_matmul"
    ),
    "lists": "foreach_norms",
    "pointwise": "dropout kl_div*",
    "recurrent": "gru_cell gru_cell_backward lstm_cell lstm_cell_backward",
    "rowwise": (
        "cross_entropy cross_entropy_backward layer_norm* log_softmax* nll_loss nll_loss_backward "
        "rms_norm* softmax*"
    ),
    "selection": (
        "cummax_backward cumprod* cumsum embedding embedding_backward embedding_bag "
        "embedding_bag_backward histogram logcumsumexp logcumsumexp_backward sort topk"
    ),
    "sequence": (
        "attention attention_backward decode_attention rope varlen_attention "
        "varlen_attention_backward"
    ),
    "sparse": "sddmm* spmm*",
    "training": "adamw",
}
# The functions of other files.
FILES = {
    "image.adaptive_pooling": (
        "adaptive_avg_pool2d adaptive_avg_pool2d_backward adaptive_max_pool2d "
        "adaptive_max_pool2d_backward"
    ),
    "image.resize": "resize_bilinear",
    "image.resize_backward": "resize_bilinear_backward",
    "linear.int4_weights": "pack_int4",
    "lists.foreach": "foreach_apply",
    "pointwise.activation": "activate activate_backward",
    "pointwise.gated": "geglu geglu_backward swiglu swiglu_backward",
    "pointwise.huber_loss": (
        "huber_loss huber_loss_backward smooth_l1_loss smooth_l1_loss_backward"
    ),
    "pointwise.losses": "l1_loss l1_loss_backward mse_loss mse_loss_backward",
    "pointwise.binary_cross_entropy": (
        "bce_loss bce_loss_backward binary_cross_entropy binary_cross_entropy_backward"
    ),
    "replacements": "enable use",
    "selection.cummax": "cummax cummin",
    "training.block_quantization": "quantize_blocks",
    "training.quantization": "dequantize quantize",
}
SOURCES = {
    **{name: f"{__name__}.{file}" for file, names in FILES.items() for name in names.split()},
    **{
        f"{file.rstrip('*')}{suffix}": f"{__name__}.{family}.{file.rstrip('*')}"
        for family, files in FAMILIES.items()
        for file in files.split()
        for suffix in (("", "_backward") if file.endswith("*") else ("",))
    },
}
__all__: list[str] = []
__all__ += list(dict(sorted(SOURCES.items())))

__getattr__ = LazyNames(__name__, SOURCES)
__dir__ = __getattr__.names
