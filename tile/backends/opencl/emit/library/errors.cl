double nv_erfcx_positive(double x) {
  if (x < $FAR) return nv_erfcx_near(x);
  double step = -1 / (2 * x * x), total = 1;
  for (int k = 14; k > 0; k--) total = 1 + (2 * k - 1) * step * total;
  return total / (x * $ROOT_PI);
}

double nv_exp_of_square(double x, double factor) {
  double square = x * x, result = exp(factor * square);
  if (!isfinite(result) || !isfinite(square)) return result;
  return result + result * (factor * fma(x, x, -square));
}

double nv_erfcx(double x) {
  double positive = nv_erfcx_positive(fabs(x));
  return x < 0 ? 2 * nv_exp_of_square(x, 1) - positive : positive;
}

double nv_erf(double x) {
  return erf(x);
}

double nv_erfc(double x) {
  if (fabs(x) < 0.25) return 1 - erf(x);
  double tail = fabs(x) > 30 ? 0 : nv_exp_of_square(x, -1) * nv_erfcx_positive(fabs(x));
  return x < 0 ? 2 - tail : tail;
}

double nv_normcdf(double x) {
  if (isnan(x)) return x;
  double scaled = nv_erfcx_positive(fabs(x) * $ROOT_HALF);
  double tail = fabs(x) > 40 ? 0 : 0.5 * nv_exp_of_square(x, -0.5) * scaled;
  return x < 0 ? tail : 1 - tail;
}

double nv_erf_inverse(double y, double z) {
  if (!(z >= 0)) return NAN;
  if (z == 0) return INFINITY;
  if (y == 0) return 0;
  double logarithm = log(z) + log1p(y), half_log = 2 / ($PI * 0.147) + logarithm / 2;
  double start = sqrt(fmax(sqrt(half_log * half_log - logarithm / 0.147) - half_log, 0.0));
  double x = y < 0.01 ? y * ($ROOT_PI / 2) : start;
  for (int k = 0; k < 4; k++) {
    if (y < 0.5) {
      double step = (erf(x) - y) * ($ROOT_PI / 2) * exp(x * x);
      x -= step / (1 + x * step);
    } else {
      double scaled = nv_erfcx_positive(x);
      x += (log(scaled) - x * x - log(z)) * scaled * ($ROOT_PI / 2);
    }
  }
  return x;
}

double nv_erfinv(double y) {
  return copysign(nv_erf_inverse(fabs(y), 1 - fabs(y)), y);
}

double nv_erfcinv(double z) {
  double result = nv_erf_inverse(fabs(1 - z), fmin(z, 2 - z));
  return z > 1 ? -result : result;
}

double nv_normcdfinv(double p) {
  return -$ROOT_TWO * nv_erfcinv(2 * p) + 0.0;
}
