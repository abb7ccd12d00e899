"""Lower laid-out tiles to per-thread fragments, and legalize THREAD IR.

decompose           reductions, scans, sorts and the like, in terms of what one warp can do
distribute          LAID_OUT to THREAD: tiles to fragments
legalize            arithmetic that a target lacks
divide_by_invariants
                    reciprocals, computed once, of divisors of many elements
share_reciprocals   reciprocals, computed once, of floats that divide many elements
guard_division      integer divisions by 0, and of the least integer by -1
split_dot_chains    chains of dots in slices, where a thread lacks registers
split_promoted_dots
                    dots that threads add up in parts of columns, where registers are short
rematerialize       cheap values computed again after a loop
narrow_branches     branches that each warp takes or leaves by itself
skip_idle_loops     branches around loops of loads that are masked in all registers of a thread
sink_casts          conversions to wider floats at their first use
hoist_base_pointers
                    pointers as a base that is computed once, and a small offset
carry_base_pointers
                    one pointer and 32-bit offsets in loops that lack registers
strength_reduce_pointers
                    pointers in loops with wgmma advanced by additions alone
infer_invariant_loads
                    loads of memory that nothing writes while the kernel runs
reassociate_xor     one register for indices that differ by constants, where registers are short
warn_slow_code      dots without tensor cores, and narrow loads in their loops
unroll_slices       the k-slices of FMA dots in a row
xor_to_add          sums instead of XORs, for compilers that vectorize
"""
