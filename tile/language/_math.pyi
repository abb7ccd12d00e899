"""The functions of `tl.math`, as type checkers and editors see them.

Made by `tile reference math-stub` from `tile.language.math`.
"""


from tile.language import (
    abs as abs,
    ceil as ceil,
    cos as cos,
    div_rn as div_rn,
    erf as erf,
    exp as exp,
    exp2 as exp2,
    fdiv as fdiv,
    floor as floor,
    fma as fma,
    log as log,
    log2 as log2,
    rsqrt as rsqrt,
    sin as sin,
    sqrt as sqrt,
    sqrt_rn as sqrt_rn,
    tanh as tanh,
    umulhi as umulhi,
)
