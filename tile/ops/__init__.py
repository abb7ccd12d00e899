"""A library of kernels: the operators of deep learning, in a few readable lines each.

    import numpy as np
    import tile.ops

    y = tile.ops.softmax(np.random.rand(4096, 1000).astype(np.float32))

Arrays are NumPy's, torch's, CuPy's or pyopencl's, and results are of the same kind and on the same
device as the first argument; the backend follows from the arrays as in any launch. Functions check
their arguments before they write: an error names the argument. Each op is a file that states the
mathematics, the kernels, the table of their configurations and a NumPy reference. A name is
imported when it is first used. docs/ops.md lists them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    "pointwise": "dropout",
    "recurrent": "gru_cell gru_cell_backward lstm_cell lstm_cell_backward",
    "rowwise": (
        "cross_entropy* layer_norm* log_softmax* nll_loss nll_loss_backward rms_norm* softmax*"
    ),
    "selection": (
        "cummax_backward cumprod* cumsum embedding* embedding_bag embedding_bag_backward histogram "
        "logcumsumexp* sort topk"
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
    "pointwise.probability_losses": (
        "bce_loss bce_loss_backward binary_cross_entropy binary_cross_entropy_backward kl_div "
        "kl_div_backward"
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

if TYPE_CHECKING:
    from tile.ops.channels.batch_norm import batch_norm as batch_norm
    from tile.ops.channels.batch_norm import batch_norm_backward as batch_norm_backward
    from tile.ops.channels.group_norm import group_norm as group_norm
    from tile.ops.channels.group_norm import group_norm_backward as group_norm_backward
    from tile.ops.image.adaptive_pooling import adaptive_avg_pool2d as adaptive_avg_pool2d
    from tile.ops.image.adaptive_pooling import (
        adaptive_avg_pool2d_backward as adaptive_avg_pool2d_backward,
    )
    from tile.ops.image.adaptive_pooling import adaptive_max_pool2d as adaptive_max_pool2d
    from tile.ops.image.adaptive_pooling import (
        adaptive_max_pool2d_backward as adaptive_max_pool2d_backward,
    )
    from tile.ops.image.avg_pool2d import avg_pool2d as avg_pool2d
    from tile.ops.image.avg_pool2d import avg_pool2d_backward as avg_pool2d_backward
    from tile.ops.image.conv2d import conv2d as conv2d
    from tile.ops.image.conv2d_dgrad import conv2d_dgrad as conv2d_dgrad
    from tile.ops.image.conv2d_wgrad import conv2d_wgrad as conv2d_wgrad
    from tile.ops.image.conv_transpose2d import conv_transpose2d as conv_transpose2d
    from tile.ops.image.max_pool2d import max_pool2d as max_pool2d
    from tile.ops.image.max_pool2d import max_pool2d_backward as max_pool2d_backward
    from tile.ops.image.resize import resize_bilinear as resize_bilinear
    from tile.ops.image.resize_backward import resize_bilinear_backward as resize_bilinear_backward
    from tile.ops.image.shift_conv import shift_conv as shift_conv
    from tile.ops.image.shift_conv_dgrad import shift_conv_dgrad as shift_conv_dgrad
    from tile.ops.image.shift_conv_wgrad import shift_conv_wgrad as shift_conv_wgrad
    from tile.ops.linear.bilinear import bilinear as bilinear
    from tile.ops.linear.bilinear_backward import bilinear_backward as bilinear_backward
    from tile.ops.linear.block_scaled_matmul import block_scaled_matmul as block_scaled_matmul
    from tile.ops.linear.grouped_matmul import grouped_matmul as grouped_matmul
    from tile.ops.linear.grouped_matmul_wgrad import grouped_matmul_wgrad as grouped_matmul_wgrad
    from tile.ops.linear.int4_matmul import int4_matmul as int4_matmul
    from tile.ops.linear.int4_weights import pack_int4 as pack_int4
    from tile.ops.linear.linear_cross_entropy import linear_cross_entropy as linear_cross_entropy
    from tile.ops.linear.linear_cross_entropy_backward import (
        linear_cross_entropy_backward as linear_cross_entropy_backward,
    )
    from tile.ops.linear.matmul import matmul as matmul
    from tile.ops.linear.scaled_matmul import scaled_matmul as scaled_matmul
    from tile.ops.lists.foreach import foreach_apply as foreach_apply
    from tile.ops.lists.foreach_norms import foreach_norms as foreach_norms
    from tile.ops.pointwise.activation import activate as activate
    from tile.ops.pointwise.activation import activate_backward as activate_backward
    from tile.ops.pointwise.dropout import dropout as dropout
    from tile.ops.pointwise.gated import geglu as geglu
    from tile.ops.pointwise.gated import geglu_backward as geglu_backward
    from tile.ops.pointwise.gated import swiglu as swiglu
    from tile.ops.pointwise.gated import swiglu_backward as swiglu_backward
    from tile.ops.pointwise.huber_loss import huber_loss as huber_loss
    from tile.ops.pointwise.huber_loss import huber_loss_backward as huber_loss_backward
    from tile.ops.pointwise.huber_loss import smooth_l1_loss as smooth_l1_loss
    from tile.ops.pointwise.huber_loss import smooth_l1_loss_backward as smooth_l1_loss_backward
    from tile.ops.pointwise.losses import l1_loss as l1_loss
    from tile.ops.pointwise.losses import l1_loss_backward as l1_loss_backward
    from tile.ops.pointwise.losses import mse_loss as mse_loss
    from tile.ops.pointwise.losses import mse_loss_backward as mse_loss_backward
    from tile.ops.pointwise.probability_losses import bce_loss as bce_loss
    from tile.ops.pointwise.probability_losses import bce_loss_backward as bce_loss_backward
    from tile.ops.pointwise.probability_losses import binary_cross_entropy as binary_cross_entropy
    from tile.ops.pointwise.probability_losses import (
        binary_cross_entropy_backward as binary_cross_entropy_backward,
    )
    from tile.ops.pointwise.probability_losses import kl_div as kl_div
    from tile.ops.pointwise.probability_losses import kl_div_backward as kl_div_backward
    from tile.ops.recurrent.gru_cell import gru_cell as gru_cell
    from tile.ops.recurrent.gru_cell_backward import gru_cell_backward as gru_cell_backward
    from tile.ops.recurrent.lstm_cell import lstm_cell as lstm_cell
    from tile.ops.recurrent.lstm_cell_backward import lstm_cell_backward as lstm_cell_backward
    from tile.ops.replacements import enable as enable
    from tile.ops.replacements import use as use
    from tile.ops.rowwise.cross_entropy import cross_entropy as cross_entropy
    from tile.ops.rowwise.cross_entropy import cross_entropy_backward as cross_entropy_backward
    from tile.ops.rowwise.layer_norm import layer_norm as layer_norm
    from tile.ops.rowwise.layer_norm import layer_norm_backward as layer_norm_backward
    from tile.ops.rowwise.log_softmax import log_softmax as log_softmax
    from tile.ops.rowwise.log_softmax import log_softmax_backward as log_softmax_backward
    from tile.ops.rowwise.nll_loss import nll_loss as nll_loss
    from tile.ops.rowwise.nll_loss_backward import nll_loss_backward as nll_loss_backward
    from tile.ops.rowwise.rms_norm import rms_norm as rms_norm
    from tile.ops.rowwise.rms_norm import rms_norm_backward as rms_norm_backward
    from tile.ops.rowwise.softmax import softmax as softmax
    from tile.ops.rowwise.softmax import softmax_backward as softmax_backward
    from tile.ops.selection.cummax import cummax as cummax
    from tile.ops.selection.cummax import cummin as cummin
    from tile.ops.selection.cummax_backward import cummax_backward as cummax_backward
    from tile.ops.selection.cumprod import cumprod as cumprod
    from tile.ops.selection.cumprod import cumprod_backward as cumprod_backward
    from tile.ops.selection.cumsum import cumsum as cumsum
    from tile.ops.selection.embedding import embedding as embedding
    from tile.ops.selection.embedding import embedding_backward as embedding_backward
    from tile.ops.selection.embedding_bag import embedding_bag as embedding_bag
    from tile.ops.selection.embedding_bag_backward import (
        embedding_bag_backward as embedding_bag_backward,
    )
    from tile.ops.selection.histogram import histogram as histogram
    from tile.ops.selection.logcumsumexp import logcumsumexp as logcumsumexp
    from tile.ops.selection.logcumsumexp import logcumsumexp_backward as logcumsumexp_backward
    from tile.ops.selection.sort import sort as sort
    from tile.ops.selection.topk import topk as topk
    from tile.ops.sequence.attention import attention as attention
    from tile.ops.sequence.attention_backward import attention_backward as attention_backward
    from tile.ops.sequence.decode_attention import decode_attention as decode_attention
    from tile.ops.sequence.rope import rope as rope
    from tile.ops.sequence.varlen_attention import varlen_attention as varlen_attention
    from tile.ops.sequence.varlen_attention_backward import (
        varlen_attention_backward as varlen_attention_backward,
    )
    from tile.ops.sparse.sddmm import sddmm as sddmm
    from tile.ops.sparse.sddmm import sddmm_backward as sddmm_backward
    from tile.ops.sparse.spmm import spmm as spmm
    from tile.ops.sparse.spmm import spmm_backward as spmm_backward
    from tile.ops.training.adamw import adamw as adamw
    from tile.ops.training.block_quantization import quantize_blocks as quantize_blocks
    from tile.ops.training.quantization import dequantize as dequantize
    from tile.ops.training.quantization import quantize as quantize
else:
    __getattr__ = LazyNames(__name__, SOURCES)
    __dir__ = __getattr__.names
