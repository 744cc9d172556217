// Weight gradients of direct convolutions, in bf16: a block keeps its share of the sums in registers and loads images with their
// output gradients, one after the other.
#if MODE == 2

// The warps' tiles here: WM x MT x 16 elements of a patch times WN x NT x 8 filters. WK warps share the positions of a work
// tile, which is ROWS rows of outputs of an image; there are STAGES stages, or one image and STAGES stages of gradients and bytes.
template <class L, class In, class T, int ROWS, int STAGES>
struct WeightsShape {
    static_assert(L::OH % ROWS == 0 && L::FAN_IN % T::BM == 0 && L::F % T::BN == 0, "whole bands and tiles");
    typedef Picture<(ROWS - 1) * L::S + L::KS, L::W, L::S, L::C, ROWS, L::OW> V;
    static_assert(L::RUN % 16 == 0, "16 elements of a patch lie together");
    static constexpr int BANDS = L::OH / ROWS;
    static constexpr int STEPS = (V::PATCHES + 15) / 16;
    static constexpr int DELTA_PITCH = T::BN / 2 + 4, DELTAS = STEPS * 16 * DELTA_PITCH;
    static constexpr bool BYTES_IN = sizeof(In) == 1;
    static constexpr int IN_ROWS = (ROWS - 1) * L::S + L::KS, RAW = BYTES_IN ? IN_ROWS * L::W * L::C / 4 : 0;
    // Words; where a work tile's image and gradients are. Bytes are converted into the only image when it is free.
    static constexpr int ALL = BYTES_IN ? V::SIZE + STAGES * DELTAS + RAW : STAGES * (V::SIZE + DELTAS);
    __device__ __forceinline__ static int image(int work) { return BYTES_IN ? 0 : work % STAGES * (V::SIZE + DELTAS); }
    __device__ __forceinline__ static int deltas(int work) {
        return V::SIZE + work % STAGES * (BYTES_IN ? DELTAS : V::SIZE + DELTAS);
    }
    static constexpr int EACH = T::MT * T::NT * 4;
    static constexpr int SPARE = (T::WK - 1) * T::WM * T::WN * EACH * 32;
    static constexpr int LANES = T::BN / 2, SLICES = T::THREADS / LANES;  // threads that sum up biases
    static_assert(SLICES > 0 && SLICES * T::BN <= ALL, "room for the sums of biases");
    static constexpr int BYTES = 4 * (STEPS * 16 + (ALL > SPARE ? ALL : SPARE));
};

// The same as `weight_gradient`. grid: (tiles, blocks that share the work tiles, agents)
template <class L, class In, class T, int ROWS, int STAGES, int BATCH>
__device__ void direct_weight_gradient(const In* input, const bf16* delta, float scale, float* partial, int most) {
    typedef WeightsShape<L, In, T, ROWS, STAGES> Own;
    typedef typename Own::V V;
    constexpr int WORK_TILES = BATCH * Own::BANDS, STEPS = Own::STEPS, PITCH = Own::DELTA_PITCH;
    u32* corners = direct_shared;  // bytes from an image's start to its patches'; patches beyond the last have no gradient
    u32* stages = direct_shared + STEPS * 16;
    u32* raw = stages + Own::ALL - Own::RAW;
    const int z = blockIdx.z, m0 = blockIdx.x / (L::F / T::BN) * T::BM, f0 = blockIdx.x % (L::F / T::BN) * T::BN;
    const int begin = WORK_TILES * blockIdx.y / gridDim.y, end = WORK_TILES * (blockIdx.y + 1) / gridDim.y;
    const u8* const* planes = find_planes<L, In, T::THREADS, BATCH>(input, z);
    for (int i = threadIdx.x; i < STEPS * 16; i += T::THREADS) corners[i] = 4 * V::corner(i < V::PATCHES ? i : 0);
    // Gradients of patches that only fill up stay zero.
    for (int i = threadIdx.x; i < STAGES * Own::DELTAS; i += T::THREADS)
        stages[Own::deltas(i / Own::DELTAS) + i % Own::DELTAS] = 0;
    __syncthreads();
    auto fetch_work = [&](int work) {
        u32* deltas = stages + Own::deltas(work - begin);
        const int row = work % Own::BANDS * ROWS;
        const size_t image = (size_t)z * BATCH + work / Own::BANDS;
        constexpr int PER_LINE = T::BN / 8;
        const bf16* from = delta + (image * L::POSITIONS + row * L::OW) * L::F + f0;
        for (int i = threadIdx.x; i < ROWS * L::OW * PER_LINE; i += T::THREADS) {
            int p = i / PER_LINE, n = i % PER_LINE;
            copy16(deltas + (p / L::OW * V::WIDE + p % L::OW) * PITCH + n * 4, from + (size_t)p * L::F + n * 8);
        }
        if constexpr (IN_PLANES<In>)
            fetch_planes<L, T::THREADS, Own::IN_ROWS>(raw, planes + work / Own::BANDS * L::C, input, row * L::S, Own::IN_ROWS);
        else
            fetch_rows<V, L, T::THREADS>(Own::BYTES_IN ? raw : stages + Own::image(work - begin),
                                    input + image * L::INPUT + row * L::S * L::W * L::C, Own::IN_ROWS);
        commit_copies();
    };
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, part = warp / (T::WM * T::WN);
    const int row0 = warp / T::WN % T::WM * (T::MT * 16), column0 = warp % T::WN * (T::NT * 8);
    u32 elements[T::MT];
#pragma unroll
    for (int i = 0; i < T::MT; i++) {
        int k = m0 + row0 + 16 * i;
        elements[i] = 4 * (V::word(k / L::RUN, k % L::RUN) + lane / 8 % 2 * 4);
    }
    const u32 filters = 4 * (lane % 16 * PITCH + (column0 + lane / 16 * 8) / 2);
    const u32* my_corners = corners + lane % 8 + lane / 16 * 8;
    float d[T::MT][T::NT][4], sums[2] = {0.0f, 0.0f};
#pragma unroll
    for (int i = 0; i < T::MT; i++)
#pragma unroll
        for (int j = 0; j < T::NT; j++)
#pragma unroll
            for (int q = 0; q < 4; q++) d[i][j][q] = 0.0f;
    fetch_work(begin);
#pragma unroll 1
    for (int work = begin; work < end; work++) {
        const bool ahead = STAGES > 1 && work + 1 < end;
        if constexpr (Own::BYTES_IN) {
            wait_for_copies<0>();
            if constexpr (IN_PLANES<In>) {
                __syncthreads();
                convert_planes<V, L, T::THREADS, Own::IN_ROWS>(stages, raw, Own::IN_ROWS);
            } else {
                convert_bytes<V, L, T::THREADS>(stages, raw, Own::IN_ROWS);
            }
            __syncthreads();
            if (ahead) fetch_work(work + 1);
        } else {
            if (ahead) {
                fetch_work(work + 1);
                wait_for_copies<1>();
            } else {
                wait_for_copies<0>();
            }
            __syncthreads();
        }
        const u32* deltas = stages + Own::deltas(work - begin);
        const u32 at = address_of(stages + Own::image(work - begin)), deltas_at = address_of(deltas) + filters;
#pragma unroll 2
        for (int s = part; s < STEPS; s += T::WK) {
            const u32 corner = at + my_corners[s * 16];
            u32 a[T::MT][4], b[T::NT][2];
#pragma unroll
            for (int i = 0; i < T::MT; i++) transposed_matrices(a[i], corner + elements[i]);
#pragma unroll
            for (int j = 0; j < T::NT; j += 2)
                transposed_matrices(&b[0][0] + 2 * j, deltas_at + 4 * (s * 16 * PITCH + j * 4));
#pragma unroll
            for (int i = 0; i < T::MT; i++)
#pragma unroll
                for (int j = 0; j < T::NT; j++) multiply(d[i][j], a[i], b[j]);
        }
        if (m0 == 0 && threadIdx.x < Own::LANES * Own::SLICES) {
            const u32* column = deltas + threadIdx.x % Own::LANES;
            for (int p = threadIdx.x / Own::LANES; p < V::PATCHES; p += Own::SLICES) {
                u32 two = column[p * PITCH];
                sums[0] += __uint_as_float(two << 16);
                sums[1] += __uint_as_float(two & 0xFFFF0000u);
            }
        }
        __syncthreads();
        if (STAGES == 1 && work + 1 < end) fetch_work(work + 1);
    }
    float* to = partial + ((size_t)z * gridDim.y + blockIdx.y) * most;
    if (m0 == 0) {
        float* columns = (float*)stages;
        if (threadIdx.x < Own::LANES * Own::SLICES) {
            columns[2 * threadIdx.x] = sums[0];
            columns[2 * threadIdx.x + 1] = sums[1];
        }
        __syncthreads();
        for (int f = threadIdx.x; f < T::BN; f += T::THREADS) {
            float sum = 0.0f;
            for (int s = 0; s < Own::SLICES; s++) sum += columns[s * T::BN + f];
            to[L::FAN_IN * L::F + f0 + f] = sum;
        }
        __syncthreads();
    }
    if constexpr (T::WK > 1) {
        // The shares of the warps, added up in their order.
        float* all = (float*)stages + warp % (T::WM * T::WN) * Own::EACH * 32 + lane;
        float* flat = &d[0][0][0];
        if (part > 0)
#pragma unroll
            for (int i = 0; i < Own::EACH; i++) all[((part - 1) * T::WM * T::WN * Own::EACH + i) * 32] = flat[i];
        __syncthreads();
        if (part > 0) return;
#pragma unroll
        for (int p = 0; p < T::WK - 1; p++)
#pragma unroll
            for (int i = 0; i < Own::EACH; i++) flat[i] += all[(p * T::WM * T::WN * Own::EACH + i) * 32];
    }
#pragma unroll
    for (int i = 0; i < T::MT; i++)
#pragma unroll
        for (int h = 0; h < 2; h++)
#pragma unroll
            for (int j = 0; j < T::NT; j++) {
                int k = m0 + row0 + 16 * i + 8 * h + lane / 4, f = f0 + column0 + 8 * j + lane % 4 * 2;
                store_pair(to + (size_t)k * L::F + f, d[i][j][2 * h] * scale, d[i][j][2 * h + 1] * scale);
            }
}
#endif
