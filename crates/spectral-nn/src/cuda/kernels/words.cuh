// Numbers as the kernels store and multiply them. MODE is 0 (fp32), 1 (TF32 products) or 2 (bf16 products and
// activations); sums and parameters are fp32 in all of them.
//
// Tiles in shared memory are made of 32-bit *words*: one number, or in bf16 two neighbours along the reduction. A tensor
// core instruction takes 8 words along the reduction either way, so one piece of code serves both.
//
// Before this text stands what the host generates from its own structures (net.rs): the names of integers, and Net.

struct bf16 {
    unsigned short bits;
};

#if MODE == 2
typedef bf16 act_t;
#define PER_WORD 2
#else
typedef float act_t;
#define PER_WORD 1
#endif

__device__ __forceinline__ float to_float(float x) { return x; }
__device__ __forceinline__ float to_float(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
__device__ __forceinline__ float to_float(u8 x) { return (float)x; }

// HOST_EMULATION: tests compile this text for the CPU, and say themselves what a device's own instructions do.
#ifndef HOST_EMULATION
// Two floats as a pair of bf16, the first in the low half.
__device__ __forceinline__ u32 pack(float low, float high) {
    u32 word;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
    return word;
}
#endif

__device__ __forceinline__ u32 single(float x) {
#if MODE == 1
    u32 word;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(word) : "f"(x));
    return word;
#else
    return __float_as_uint(x);
#endif
}

// N neighbouring elements, loaded at once where they are aligned.
template <class T, int N>
struct __align__(sizeof(T) * N >= 16 ? 16 : sizeof(T) * N) Raw {
    T e[N];
};

// Four bytes as floats; a byte becomes the low bits of 2^23, which the subtraction takes off again. Conversions proper
// run at a quarter of that rate.
__device__ __forceinline__ float byte_float(u32 four, int which) {
    return __uint_as_float(__byte_perm(four, 0x4B000000u, 0x7440u | which)) - 8388608.0f;
}

template <int N>
__device__ __forceinline__ void floats_of(const Raw<float, N>& raw, float* out) {
#pragma unroll
    for (int i = 0; i < N; i++) out[i] = raw.e[i];
}
template <int N>
__device__ __forceinline__ void floats_of(const Raw<bf16, N>& raw, float* out) {
#pragma unroll
    for (int i = 0; i < N; i++) out[i] = to_float(raw.e[i]);
}
template <int N>
__device__ __forceinline__ void floats_of(const Raw<u8, N>& raw, float* out) {
#pragma unroll
    for (int i = 0; i < N; i += 4) {
        u32 four = raw.e[i] | (u32)raw.e[i + 1] << 8 | (u32)raw.e[i + 2] << 16 | (u32)raw.e[i + 3] << 24;
#pragma unroll
        for (int j = 0; j < 4; j++) out[i + j] = byte_float(four, j);
    }
}

// N numbers that follow each other along the reduction, as N / PER_WORD words.
template <class T, int N>
__device__ __forceinline__ void words_of(const Raw<T, N>& raw, u32* out) {
    float x[N];
    floats_of<N>(raw, x);
#pragma unroll
    for (int i = 0; i < N / PER_WORD; i++) {
#if MODE == 2
        out[i] = pack(x[2 * i], x[2 * i + 1]);
#else
        out[i] = single(x[i]);
#endif
    }
}

__device__ __forceinline__ void store_act(float* at, float x) { *at = x; }
__device__ __forceinline__ void store_act(bf16* at, float x) {
    u32 word = pack(x, x);
    at->bits = (unsigned short)word;
}
__device__ __forceinline__ void store_pair(float* at, float x, float y) { *(float2*)at = make_float2(x, y); }
__device__ __forceinline__ void store_pair(bf16* at, float x, float y) { *(u32*)at = pack(x, y); }

#ifndef HOST_EMULATION
// d += a b: 16 x 8 outputs of one warp from 8 words of reduction, in the tensor cores' own layout. Lane l holds outputs
// (l / 4, 2 (l % 4)), the same + 1, and both 8 rows below; a[0..4] are words (l / 4, l % 4), 8 rows below, 4 words on, both;
// b[0..2] are words (l % 4, l / 4), 4 words on.
__device__ __forceinline__ void multiply(float* d, const u32* a, const u32* b) {
#if MODE == 2
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#elif MODE == 1
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}
#endif

// Kernels of acting follow each other closely: each is started while the one before it is at work, and waits here for its end.
// The next may start after that, so whatever came before the one before has ended then, too.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

struct Adam {
    float beta1, beta2, fresh1, fresh2, rate, root, epsilon;
    __device__ __forceinline__ explicit Adam(const Net& net) {
        beta1 = net.beta1;
        beta2 = net.beta2;
        fresh1 = 1.0f - beta1;
        fresh2 = 1.0f - beta2;
        rate = -(float)*net.step_size;
        root = (float)*net.root_correction;
        epsilon = net.epsilon;
    }
    __device__ __forceinline__ void step(float g, float& p, float& m, float& v) const {
        m = fmaf(beta1, m, fresh1 * g);
        v = fmaf(beta2, v, fresh2 * (g * g));
#if MODE == 0 || defined(HOST_EMULATION)
        p += rate * m / fmaf(sqrtf(v), root, epsilon);
#else
        // The rounded root takes ten instructions more; products in this mode are rounded far more coarsely.
        float root_v;
        asm("sqrt.approx.f32 %0, %1;" : "=f"(root_v) : "f"(v));
        p += __fdividef(rate * m, fmaf(root_v, root, epsilon));
#endif
    }
};
