"""The functions of `tl.random`, as type checkers and editors see them.

Made by `tile reference random-stub` from `tile.language.random`.
"""


from tile.language import (
    pair_uniform_to_normal as pair_uniform_to_normal,
    philox as philox,
    philox_impl as philox_impl,
    rand as rand,
    rand4x as rand4x,
    randint as randint,
    randint4x as randint4x,
    randn as randn,
    randn4x as randn4x,
    uint_to_uniform_float as uint_to_uniform_float,
)
