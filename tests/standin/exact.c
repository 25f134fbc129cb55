/* Floating-point arithmetic that NumPy lacks: fused multiply-add, and every rounding of PTX's (rn, rz, rm, rp).

   Each function works on n elements. `mode` is 0 to 3 in that order. Compiled with -frounding-math. */
#include <fenv.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>

static const int modes[] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

#define EACH(body)                         \
    {                                      \
        int before = fegetround();         \
        fesetround(modes[mode]);           \
        for (size_t i = 0; i < n; i++) {   \
            body;                          \
        }                                  \
        fesetround(before);                \
    }

#define BINARY(name, type, expression) \
    void name(size_t n, int mode, type *r, const type *x, const type *y) EACH(r[i] = expression)
#define UNARY(name, type, expression) void name(size_t n, int mode, type *r, const type *x) EACH(r[i] = expression)
#define TERNARY(name, type, expression) \
    void name(size_t n, int mode, type *r, const type *x, const type *y, const type *z) EACH(r[i] = expression)
#define CONVERT(name, to, from) void name(size_t n, int mode, to *r, const from *x) EACH(r[i] = (to)x[i])

BINARY(add_f32, float, x[i] + y[i])
BINARY(add_f64, double, x[i] + y[i])
BINARY(sub_f32, float, x[i] - y[i])
BINARY(sub_f64, double, x[i] - y[i])
BINARY(mul_f32, float, x[i] * y[i])
BINARY(mul_f64, double, x[i] * y[i])
BINARY(div_f32, float, x[i] / y[i])
BINARY(div_f64, double, x[i] / y[i])
UNARY(sqrt_f32, float, sqrtf(x[i]))
UNARY(sqrt_f64, double, sqrt(x[i]))
TERNARY(fma_f32, float, fmaf(x[i], y[i], z[i]))
TERNARY(fma_f64, double, fma(x[i], y[i], z[i]))
CONVERT(f64_to_f32, float, double)
CONVERT(s64_to_f32, float, int64_t)
CONVERT(u64_to_f32, float, uint64_t)
CONVERT(s64_to_f64, double, int64_t)
CONVERT(u64_to_f64, double, uint64_t)

/* The upper half of a product of 64-bit integers. */
void mulhi_u64(size_t n, int mode, uint64_t *r, const uint64_t *x, const uint64_t *y)
    EACH(r[i] = (uint64_t)(((unsigned __int128)x[i] * y[i]) >> 64))
void mulhi_s64(size_t n, int mode, int64_t *r, const int64_t *x, const int64_t *y)
    EACH(r[i] = (int64_t)(((__int128)x[i] * y[i]) >> 64))
