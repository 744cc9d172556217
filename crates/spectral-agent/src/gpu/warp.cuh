// How the threads of a block share work: teams of LANES neighbouring threads, LANES a power of two up to 32. A team takes
// one row (or one action of one row) and its lanes share the row's elements, so that a row of 21 elements does not leave
// half a warp idle. Block sizes are multiples of 32; KERNEL in learner.cu
// says the largest.
//
// The same text compiles as plain C++ behind `emulation.h` (HOST_EMULATION), with any number of threads; with one thread
// and LANES = 1 every sum has the order of the Rust code.

#ifndef LANES
#define LANES 8
#endif

static __device__ inline int thread() { return (int)threadIdx.x; }
static __device__ inline int threads() { return (int)blockDim.x; }
static __device__ inline int lane() { return (int)threadIdx.x % LANES; }
static __device__ inline int team() { return (int)threadIdx.x / LANES; }
static __device__ inline int teams() { return (int)blockDim.x / LANES; }

// The first thread of the block's n-th warp, for work that several single threads do at the same time.
static __device__ inline bool first_of_warp(int n) { return thread() == n * 32 % threads(); }

#ifndef HOST_EMULATION
static __device__ inline unsigned team_mask() {
    const unsigned all = LANES == 32 ? 0xffffffffu : (1u << (LANES % 32)) - 1u;
    return all << (threadIdx.x % 32 / LANES * LANES);
}
static __device__ inline void team_sync() { __syncwarp(team_mask()); }
template <class T>
static __device__ inline T team_swap(T value, int distance) {
    return __shfl_xor_sync(team_mask(), value, distance, LANES);
}
#endif

// The sum over a team's lanes, the same bits in every lane: addition commutes.
template <class T>
static __device__ inline T team_sum(T value) {
    for (int distance = LANES / 2; distance > 0; distance /= 2) value += team_swap(value, distance);
    return value;
}

static __device__ inline float team_max(float value) {
    for (int distance = LANES / 2; distance > 0; distance /= 2) value = fmaxf(value, team_swap(value, distance));
    return value;
}

static __device__ inline float minus_infinity() { return __int_as_float(0xff800000); }

// As Rust's `clamp`: NaN stays.
static __device__ inline float clamp_to(float x, float low, float high) {
    return x < low ? low : x > high ? high : x;
}

// 1 - (1 - rate)^count, as in spectral-core's moments.rs.
static __device__ __noinline__ double bias_correction(double rate, double count) {
    return count == 0.0 ? 0.0 : -expm1(count * log1p(-rate));
}
