"""Programs to debug; the first line of each is line 5 of its file."""

from __future__ import annotations

# 5: scaled   12: kernel   24: launch
CALLS = """
@tile.jit
def scaled(v, k):
    w = v * k
    if k > 1:
        w = w + 1
    return w

@tile.jit
def kernel(x_ptr, o_ptr, n, B: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    mask = i < n
    x = tl.load(x_ptr + i, mask=mask, other=0.0)
    if pid > 1:
        x = x + 100
    for k in range(pid):
        x = scaled(x, k)
    tl.store(o_ptr + i, x, mask=mask)

x = np.arange(14, dtype=np.float32)
o = np.zeros(14, np.float32)
kernel[(4,)](x, o, 14, B=4)
print("sum", o.sum())
"""

# 5: collatz   16: breakpoint
WHILE = """
@tile.jit
def collatz(x_ptr, o_ptr):
    pid = tl.program_id(0)
    n = tl.load(x_ptr + pid)
    steps = 0
    while n != 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps += 1
    tl.store(o_ptr + pid, steps)

x = np.array([1, 2, 3, 7, 9], np.int32)
o = np.zeros(5, np.int32)
collatz[(5,)](x, o)
print(o)
"""

FAULT = """
@tile.jit
def inner(p, i):
    q = p + 2 * i
    return tl.load(q)

@tile.jit
def kernel(x_ptr, o_ptr, B: tl.constexpr):
    pid = tl.program_id(0)
    i = pid * B + tl.arange(0, B)
    tl.atomic_add(o_ptr, 1.0)
    x = inner(x_ptr, i)
    tl.store(o_ptr + i, x)

x = np.arange(20, dtype=np.float32)
o = np.zeros(16, np.float32)
kernel[(4,)](x, o, B=4)
print("never printed")
"""
