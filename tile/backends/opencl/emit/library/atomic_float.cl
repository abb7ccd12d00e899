${ty} atomic_${kind}_f${bits}(volatile __global ${ty} *p, ${ty} value) {
  volatile __global ${unsigned} *word = (volatile __global ${unsigned} *)p;
  ${unsigned} seen = ${read}, before;
  do {
    before = seen;
    seen = ${prefix}_cmpxchg(word, before, as_${unsigned}(${combined}));
  } while (seen != before);
  return as_${ty}(before);
}
