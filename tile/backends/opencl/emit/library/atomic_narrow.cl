${carrier} atomic_${kind}_${element}(volatile __global void *p, ${parameters}) {
  volatile __global uint *word = (volatile __global uint *)((size_t)p & ~(size_t)3);
  uint shift = (uint)((size_t)p & ${last}) * 8;
  uint seen = atomic_or(word, 0u), before;
  do {
    before = seen;
    ${carrier} old = (${carrier})(before >> shift);
    uint rest = before & ~(${mask}u << shift);
    seen = atomic_cmpxchg(word, before, rest | (uint)(${carrier})(${combined}) << shift);
  } while (seen != before);
  return (${carrier})(before >> shift);
}
