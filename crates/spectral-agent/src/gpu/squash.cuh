// Compressions of values and their inverses, as in spectral-core's squash.rs, where the formulas are explained.

struct Squash {
    enum Kind { SQRT = 0, LOG = 1, SYMLOG = 2 };
    int kind;
    double epsilon;

    __device__ float forward(float x) const {
        const float a = fabsf(x), slope = (float)epsilon;
        float compressed;
        if (kind == SQRT) {
            compressed = a / (sqrtf(a + 1.0f) + 1.0f) + slope * a;
        } else if (kind == LOG) {
            compressed = log1pf(a) + slope * a;
        } else {
            compressed = log1pf(a);
        }
        return copysignf(compressed, x);
    }

    __device__ float inverse(float y) const {
        const float largest = 3.402823466e+38f;
        const float a = fabsf(y), slope = (float)epsilon;
        float value;
        if (kind == SQRT) {
            value = sqrt_inverse(a > largest ? largest : a, slope, largest);
        } else if (kind == LOG && epsilon > 0.0) {
            value = (float)log_inverse((double)a, (double)slope);
        } else {
            value = expm1f(a);
        }
        return copysignf(value > largest ? largest : value, y);
    }

private:
    static __device__ float sqrt_inverse(float y, float slope, float largest) {
        const float half = 0.5f + slope;
        const float radicand = half * half + slope * y;
        const float s = radicand <= largest ? y / (half + sqrtf(radicand)) : sqrtf(y / slope);
        return s * (s + 2.0f);
    }

    // Newton's method from the right of the root, in double precision.
    static __device__ __noinline__ double log_inverse(double y, double slope) {
        const double largest = 709.78;
        if (!(y <= 1e300)) return y / slope;
        double u = fmin(fmin(y, log1p(y / slope)), largest);
        for (int i = 0; i < 64; i++) {
            const double grown = slope * expm1(u);
            const double descent = (u + grown - y) / (1.0 + slope + grown);
            u = fmin(u - descent, largest);
            if (descent <= 1e-7 * u) break;
        }
        const double x = expm1(u);
        return fmax(x + (y - log1p(x) - slope * x) / (1.0 / (1.0 + x) + slope), 0.0);
    }
};
