// Products with bf16 copies of a wide layer's weights, which take half the memory's time. The layer's step keeps the copies
// up to date, so they say what the tensor cores would make of the weights anyway.
//
// A block has one tile of outputs. Chunks of both operands pass through a ring of stages in shared memory; all but one of them
// are being loaded at any time.
#if MODE == 2

// ALONG: the weights' lines run along the reduction, else across it.
template <class T, bool ALONG>
struct Copied {
    static constexpr int CHUNK_LENGTH = 64, STAGES = ALONG ? 2 : 3;
    static constexpr int LINES = ALONG ? T::BN : CHUNK_LENGTH, LENGTH = ALONG ? CHUNK_LENGTH : T::BN;
    // Words; lines start 4 banks apart.
    static constexpr int A_PITCH = CHUNK_LENGTH / 2 + 4, B_PITCH = LENGTH / 2 + 4;
    static constexpr int A_WORDS = T::BM * A_PITCH, STAGE = A_WORDS + LINES * B_PITCH;
    static constexpr int BYTES = STAGES * STAGE * 4;
    static_assert(T::NT % 2 == 0, "columns are read 16 at a time");
    static_assert(T::BM * CHUNK_LENGTH % (8 * T::THREADS) == 0 && T::BN * CHUNK_LENGTH % (8 * T::THREADS) == 0, "equal shares of copies");
};

// Sums chunks first..last: rows (zeros from `rows` on) that lie `a_pitch` apart, and the weights' lines `b_pitch` apart.
template <class T, bool ALONG>
__device__ __forceinline__ void run_copied(Sums<T>& sums, const bf16* a, int rows, int a_pitch, const bf16* b, int b_pitch,
                                           int first, int last) {
    typedef Copied<T, ALONG> Z;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    auto fetch = [&](int chunk) {
        if (chunk < last) {
            u32* to = direct_shared + (chunk - first) % Z::STAGES * Z::STAGE;
            constexpr int PER_ROW = Z::CHUNK_LENGTH / 8, PER_LINE = Z::LENGTH / 8;
#pragma unroll
            for (int n = 0; n < T::BM * PER_ROW / T::THREADS; n++) {
                int i = n * T::THREADS + threadIdx.x, r = i / PER_ROW, k = i % PER_ROW * 8;
                copy16_if(r < rows, to + r * Z::A_PITCH + k / 2, a + (size_t)r * a_pitch + chunk * Z::CHUNK_LENGTH + k);
            }
            to += Z::A_WORDS;
            const bf16* from = b + (size_t)chunk * Z::CHUNK_LENGTH * (ALONG ? 1 : b_pitch);
#pragma unroll
            for (int n = 0; n < Z::LINES * PER_LINE / T::THREADS; n++) {
                int i = n * T::THREADS + threadIdx.x, line = i / PER_LINE, at = i % PER_LINE * 8;
                copy16(to + line * Z::B_PITCH + at / 2, from + (size_t)line * b_pitch + at);
            }
        }
        commit_copies();
    };
    sums.clear();
#pragma unroll
    for (int s = 0; s < Z::STAGES - 1; s++) fetch(first + s);
    const int m0 = warp / T::WN * (T::MT * 16), n0 = warp % T::WN * (T::NT * 8);
    const u32 a_at = (m0 + lane % 16) * Z::A_PITCH + lane / 16 * 4;
    const u32 b_at = Z::A_WORDS + (ALONG ? (n0 + lane % 8 + lane / 16 * 8) * Z::B_PITCH + lane / 8 % 2 * 4
                                         : lane % 16 * Z::B_PITCH + (n0 + lane / 16 * 8) / 2);
    for (int chunk = first; chunk < last; chunk++) {
        wait_for_copies<Z::STAGES - 2>();
        __syncthreads();
        // Into the stage that all warps have left.
        fetch(chunk + Z::STAGES - 1);
        const u32 stage = address_of(direct_shared + (chunk - first) % Z::STAGES * Z::STAGE);
#pragma unroll
        for (int k = 0; k < Z::CHUNK_LENGTH / 16; k++) {
            u32 x[T::MT][4], w[T::NT][2];
#pragma unroll
            for (int i = 0; i < T::MT; i++) matrices(x[i], stage + 4 * (a_at + 16 * i * Z::A_PITCH + 8 * k));
#pragma unroll
            for (int j = 0; j < T::NT; j += 2) {
                if (ALONG)
                    matrices(w[j], stage + 4 * (b_at + 8 * j * Z::B_PITCH + 8 * k));
                else
                    transposed_matrices(w[j], stage + 4 * (b_at + 4 * j + 16 * k * Z::B_PITCH));
            }
#pragma unroll
            for (int i = 0; i < T::MT; i++)
#pragma unroll
                for (int j = 0; j < T::NT; j++) multiply(sums.d[i][j], x[i], w[j]);
        }
    }
}

// `forward` of a fully connected layer. grid: (units / BN, splits, networks), Copied::BYTES
template <class L, class T, int BATCH>
__device__ void copied_forward(const Net* nets, int agents, int first_network, const bf16* input, bf16* output, int pitch,
                               float scale, float* workspace, u32* tickets) {
    typedef Copied<T, false> Z;
    static_assert(BATCH <= T::BM && L::F % T::BN == 0 && L::FAN_IN % Z::CHUNK_LENGTH == 0, "whole tiles");
    const int z = first_network + blockIdx.z, n0 = blockIdx.x * T::BN;
    const Net& net = nets[z % agents];
    const bf16* weights = (z < agents ? net.online_half : net.target_half) + L::WEIGHTS_AT + n0;
    const float* bias = (z < agents ? net.online : net.target) + L::WEIGHTS_AT + (size_t)L::FAN_IN * L::F;
    constexpr int CHUNKS = L::FAN_IN / Z::CHUNK_LENGTH;
    const int splits = gridDim.y, split = blockIdx.y;
    Sums<T> sums;
    run_copied<T, false>(sums, input + (size_t)z * BATCH * L::FAN_IN, BATCH, L::FAN_IN, weights, L::F,
                         CHUNKS * split / splits, CHUNKS * (split + 1) / splits);
    finish_forward<L, bf16, T, BATCH>(sums, z, 0, n0, L::F, bias, output, pitch, scale, workspace, tickets);
}

// `input_gradient` of a fully connected layer. grid: (inputs / BN, 1, agents), Copied::BYTES
template <class L, class T, int BATCH>
__device__ void copied_input_gradient(const Net* nets, const bf16* delta, const bf16* input, bf16* input_delta) {
    typedef Copied<T, true> Z;
    static_assert(BATCH <= T::BM && L::FAN_IN % T::BN == 0 && L::F % Z::CHUNK_LENGTH == 0, "whole tiles");
    const int n0 = blockIdx.x * T::BN;
    const bf16* weights = nets[blockIdx.z].online_half + L::WEIGHTS_AT + (size_t)n0 * L::F;
    // The input's ReLU mask is loaded while the product runs.
    u32 open[Sums<T>::PAIRS];
    const size_t first = (size_t)blockIdx.z * BATCH * L::FAN_IN + n0;
    Sums<T>::each_place([&](int s, int r, int c) {
        if (r < BATCH) open[s] = *(const u32*)(input + first + (size_t)r * L::FAN_IN + c);
    });
    Sums<T> sums;
    run_copied<T, true>(sums, delta + (size_t)blockIdx.z * BATCH * L::F, BATCH, L::F, weights, L::F, 0, L::F / Z::CHUNK_LENGTH);
    sums.each([&](int s, int r, int c, float x, float y) {
        if (r >= BATCH) return;
        float low = __uint_as_float(open[s] << 16), high = __uint_as_float(open[s] & 0xFFFF0000u);
        store_pair(input_delta + first + (size_t)r * L::FAN_IN + c, low > 0.0f ? x : 0.0f, high > 0.0f ? y : 0.0f);
    });
}
#endif
