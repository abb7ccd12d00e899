double nv_stirling(double x) {
  double square = 1 / (x * x);
  return $STIRLING / x;
}

double nv_lgamma_positive(double x) {
  if (x < $FIRST) return nv_lgamma_near(x + 1) - log(x);
  if (x < $LAST) return nv_lgamma_near(x);
  return (x - 0.5) * (log(x) - 1) + ($HALF_LOG + nv_stirling(x));
}

double nv_lgamma(double x) {
  if (isnan(x)) return x;
  double size = fabs(x);
  if (isinf(x) || (x <= 0 && size == floor(size))) return INFINITY;
  double positive = nv_lgamma_positive(size);
  if (x > 0 || size < 1e-300) return positive;
  return log($PI / (size * fabs(nv_sinpi(size)))) - positive;
}

double nv_tgamma(double x) {
  double size = fabs(x), first = 1, second;
  if (x == 0 || size < 1e-300) return 1 / x;
  if (isnan(x) || (x < 0 && size == floor(size))) return NAN;
  if (size < $FIRST) second = nv_gamma_near(size + 1) / size;
  else if (size < $LAST) second = nv_gamma_near(size);
  else {
    double limited = fmin(size, 180.0);
    first = pow(limited, limited / 2 - 0.25);
    second = first * (exp(-limited) * ($ROOT_TWO_PI * exp(nv_stirling(limited))));
    if (size > 180) second = INFINITY;
  }
  return x > 0 ? first * second : -$PI / (size * nv_sinpi(size)) / second / first;
}
