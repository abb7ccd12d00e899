"""The error, gamma and Bessel functions of libdevice, in OpenCL C.

They are those of `tile/ir/semantics/libdevice`. Names in capitals stand for numbers and
polynomials, and functions that end in `_near` evaluate the tables of these modules.
"""

from __future__ import annotations

ERRORS = """
double nv_erfcx_positive(double x) {
  if (x < FAR) return nv_erfcx_near(x);
  double step = -1 / (2 * x * x), total = 1;
  for (int k = 14; k > 0; k--) total = 1 + (2 * k - 1) * step * total;
  return total / (x * ROOT_PI);
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
  double scaled = nv_erfcx_positive(fabs(x) * ROOT_HALF);
  double tail = fabs(x) > 40 ? 0 : 0.5 * nv_exp_of_square(x, -0.5) * scaled;
  return x < 0 ? tail : 1 - tail;
}

double nv_erf_inverse(double y, double z) {
  if (!(z >= 0)) return NAN;
  if (z == 0) return INFINITY;
  if (y == 0) return 0;
  double logarithm = log(z) + log1p(y), half_log = 2 / (PI * 0.147) + logarithm / 2;
  double start = sqrt(fmax(sqrt(half_log * half_log - logarithm / 0.147) - half_log, 0.0));
  double x = y < 0.01 ? y * (ROOT_PI / 2) : start;
  for (int k = 0; k < 4; k++) {
    if (y < 0.5) {
      double step = (erf(x) - y) * (ROOT_PI / 2) * exp(x * x);
      x -= step / (1 + x * step);
    } else {
      double scaled = nv_erfcx_positive(x);
      x += (log(scaled) - x * x - log(z)) * scaled * (ROOT_PI / 2);
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
  return -ROOT_TWO * nv_erfcinv(2 * p) + 0.0;
}
"""

GAMMA = """
double nv_stirling(double x) {
  double square = 1 / (x * x);
  return STIRLING / x;
}

double nv_lgamma_positive(double x) {
  if (x < FIRST) return nv_lgamma_near(x + 1) - log(x);
  if (x < LAST) return nv_lgamma_near(x);
  return (x - 0.5) * (log(x) - 1) + (HALF_LOG + nv_stirling(x));
}

double nv_lgamma(double x) {
  if (isnan(x)) return x;
  double size = fabs(x);
  if (isinf(x) || (x <= 0 && size == floor(size))) return INFINITY;
  double positive = nv_lgamma_positive(size);
  if (x > 0 || size < 1e-300) return positive;
  return log(PI / (size * fabs(nv_sinpi(size)))) - positive;
}

double nv_tgamma(double x) {
  double size = fabs(x), first = 1, second;
  if (x == 0 || size < 1e-300) return 1 / x;
  if (isnan(x) || (x < 0 && size == floor(size))) return NAN;
  if (size < FIRST) second = nv_gamma_near(size + 1) / size;
  else if (size < LAST) second = nv_gamma_near(size);
  else {
    double limited = fmin(size, 180.0);
    first = pow(limited, limited / 2 - 0.25);
    second = first * (exp(-limited) * (ROOT_TWO_PI * exp(nv_stirling(limited))));
    if (size > 180) second = INFINITY;
  }
  return x > 0 ? first * second : -PI / (size * nv_sinpi(size)) / second / first;
}
"""

BESSEL = """
double nv_hankel(double x, int order, bool second) {
  if (isinf(x)) return 0;
  double square = -1 / (x * x), p, q;
  if (order == 0) {
    p = HANKEL_P0;
    q = HANKEL_Q0 / x;
  } else {
    p = HANKEL_P1;
    q = HANKEL_Q1 / x;
  }
  double sine = sin(x), cosine = cos(x);
  double near = order == 0 ? cosine + sine : sine - cosine;
  double far = order == 0 ? sine - cosine : -cosine - sine;
  return (second ? p * far + q * near : p * near - q * far) / sqrt(PI * x);
}

double nv_j0(double x) {
  return fabs(x) < FAR ? nv_j0_near(fabs(x)) : nv_hankel(fabs(x), 0, false);
}

double nv_j1(double x) {
  double result = fabs(x) < FAR ? nv_j1_near(fabs(x)) : nv_hankel(fabs(x), 1, false);
  return copysign(1.0, x) * result;
}

double nv_y0(double x) {
  if (!(x > 0)) return x == 0 ? -INFINITY : NAN;
  if (x >= FAR) return nv_hankel(x, 0, true);
  if (x >= NEAR) return nv_y0_near(x);
  double square = x * x;
  return REGULAR_0 + 2 / PI * log(x) * nv_j0(x);
}

double nv_y1(double x) {
  if (!(x > 0)) return x == 0 ? -INFINITY : NAN;
  if (x >= FAR) return nv_hankel(x, 1, true);
  if (x >= NEAR) return nv_y1_near(x);
  double square = x * x;
  return REGULAR_1 * x + 2 / PI * log(x) * nv_j1(x) - 2 / PI / x;
}

double nv_cyl_bessel_i0(double x) {
  double size = fabs(x);
  if (size < FAR) return nv_i0_near(size);
  if (isinf(size)) return INFINITY;
  double step = -1 / size, root = exp(size / 2);
  return root * (HANKEL_I0 / sqrt(2 * PI * size)) * root;
}

double nv_cyl_bessel_i1(double x) {
  double size = fabs(x), result = INFINITY;
  double step = -1 / size, root = exp(size / 2);
  if (size < FAR) result = nv_i1_near(size);
  else if (!isinf(size)) result = root * (HANKEL_I1 / sqrt(2 * PI * size)) * root;
  return copysign(1.0, x) * result;
}

double nv_yn(int n, double x) {
  if (n < 0) return NAN;
  double before = nv_y0(x), value = nv_y1(x);
  if (n == 0) return before;
  for (int k = 1; k < n && !isinf(value); k++) {
    double next = 2.0 * k / x * value - before;
    before = value;
    value = next;
  }
  return value;
}

double nv_jn(int n, double x) {
  if (n < 0 || isnan(x)) return NAN;
  double size = fabs(x), before = nv_j0(size), value = nv_j1(size);
  if (n == 0) return before;
  if (isinf(size) || size == 0) value = 0;
  else if (n <= size || n == 1) {
    for (int k = 1; k < n; k++) {
      double next = 2.0 * k / size * value - before;
      before = value;
      value = next;
    }
  } else if (size < 1e-6) {
    value = exp(n * log(size / 2) - lgamma(n + 1.0));
  } else {
    double above = 0, sum = 0, wanted = 0;
    value = 1e-300;
    for (int k = 2 * ((n + (int)sqrt(60.0 * (n + 10)) + 30) / 2); k > 0; k--) {
      double next = 2.0 * k / size * value - above;
      above = value;
      value = next;
      if (fabs(value) > 1e200) {
        above *= 1e-200;
        value *= 1e-200;
        wanted *= 1e-200;
        sum *= 1e-200;
      }
      if (k - 1 == n) wanted = value;
      if (k % 2 == 1 && k > 1) sum += 2 * value;
    }
    value = wanted / (sum + value);
  }
  return x < 0 && n % 2 == 1 ? -value : value;
}
"""
