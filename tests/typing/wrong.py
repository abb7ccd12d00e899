"""Mistakes that a type checker finds: it reports each line that ends in `# wrong`, and no other."""

import tile
import tile.language as tl


@tile.jit
def called(x, n=3, BLOCK: tl.constexpr = 4):
    return x + n


@tile.jit
def kernel(x_ptr, n, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    x.summ()  # wrong
    x.load([0, 0])  # wrong
    x @ x  # wrong
    x[3.5]  # wrong
    x["a"]  # wrong
    x + "a"  # wrong
    tl.load()  # wrong
    tl.load(x_ptr, maks=x)  # wrong
    tl.arange(0)  # wrong
    tl.sum(x, axis=0).sun()  # wrong
    tl.exp3(x)  # wrong
    tl.store(x, "a")  # wrong
    called()  # wrong
    called(x, 3, 4, 5)  # wrong
    x.dtype.is_flaoting()  # wrong
    desc = tl.make_tensor_descriptor(x_ptr, [n], [1], [BLOCK])
    desc.sum()  # wrong
    called(x).to(tl.float32)
