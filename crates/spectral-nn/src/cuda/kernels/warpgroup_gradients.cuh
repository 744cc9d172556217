// Gradients of convolutions by warpgroups, in bf16, for Hopper; pixels (after space-to-depth) and lines as in `warpgroup.cuh`.
#if MODE == 2 && defined(WARPGROUPS)

// Shared memory of the input gradient: weights, a line for each input channel of a pixel and tap; then STAGES stages of the output
// gradients of G images. An output's gradient is in the line of the last pixel of its patch, and the lines of other pixels are
// zero: a pixel finds the gradients of all outputs that depend on it in the lines from its own on.
template <class L, int G, int GROUPS, int STAGES>
struct WarpgroupInputGradientShape {
    static constexpr int S = L::S, TAPS = L::KS / S;
    static constexpr int H = L::H / S, W = L::W / S, PIXELS = H * W;
    static constexpr int COLUMNS = S * S * L::C;
    static_assert(L::KS % S == 0 && L::H % S == 0 && L::W % S == 0 && L::F == 64, "whole pixels, lines of 128 bytes");
    static_assert(L::C % 32 == 0 && (COLUMNS == 64 || COLUMNS == 128), "sixteen bytes of inputs at a time");
    static constexpr int TILES = (G * PIXELS + 63) / 64;
    static constexpr int LINES = (TILES * 64 + (TAPS - 1) * (W + 1) + 7) / 8 * 8;
    static constexpr int WEIGHTS = TAPS * TAPS * COLUMNS * 128, IMAGES = LINES * 128;  // bytes
    static constexpr int THREADS = 128 * GROUPS;
    static constexpr int BYTES = 1024 + WEIGHTS + STAGES * IMAGES;
};

// The same as `input_gradient`. A work tile is G images. grid: (blocks that share the work tiles, 1, agents)
template <class L, int G, int GROUPS, int STAGES, int BATCH>
__device__ void warpgroup_input_gradient(const Net* nets, const bf16* delta, const bf16* input, bf16* input_delta) {
    typedef WarpgroupInputGradientShape<L, G, GROUPS, STAGES> Z;
    typedef Columns<AllColumns<Z::COLUMNS>, L::C> C;
    static_assert(C::GROUP == 4, "sixteen bytes of inputs at a time");
    constexpr int WORK_TILES = (BATCH + G - 1) / G, STRETCHES = Z::COLUMNS / C::SPAN, BEFORE = Z::TAPS - 1;
    u8* weights = lines_start();
    u8* images = weights + Z::WEIGHTS;
    const int z = blockIdx.z;
    const bf16* from = nets[z].online_half + L::WEIGHTS_AT;
    const int begin = WORK_TILES * blockIdx.x / gridDim.x, end = WORK_TILES * (blockIdx.x + 1) / gridDim.x;
    auto stage_of = [&](int work) { return images + (work - begin) % STAGES * Z::IMAGES; };
    auto fetch_work = [&](int work) {
        if (work < end) {
            constexpr int ALL = L::POSITIONS * 8;
            const bf16* own = delta + ((size_t)z * BATCH + work * G) * (L::POSITIONS * L::F);
            const int count = (BATCH - work * G < G ? BATCH - work * G : G) * ALL;
            u8* to = stage_of(work);
            for (int i = threadIdx.x; i < count; i += Z::THREADS) {
                const int position = i % ALL / 8, y = position / L::OW + BEFORE, x = position % L::OW + BEFORE;
                const int line = i / ALL * Z::PIXELS + y * Z::W + x;
                copy16((u32*)(to + line * 128 + swizzled<128>(line, i % 8)), own + (size_t)i * 8);
            }
        }
        commit_copies();
    };
    // Weights are loaded together with the first work tile.
    for (int i = threadIdx.x; i < Z::TAPS * Z::TAPS * Z::COLUMNS * 8; i += Z::THREADS) {
        const int tap = i / (8 * Z::COLUMNS), n = i / 8 % Z::COLUMNS, phase = n / L::C;
        const int ky = tap / Z::TAPS * L::S + phase / L::S, kx = tap % Z::TAPS * L::S + phase % L::S;
        const int line = tap * Z::COLUMNS + C::place(n);
        copy16((u32*)(weights + line * 128 + swizzled<128>(line, i % 8)),
               from + ((ky * L::KS + kx) * L::C + n % L::C) * L::F + i % 8 * 8);
    }
    for (int i = threadIdx.x; i < STAGES * Z::IMAGES / 16; i += Z::THREADS)
        ((uint4*)images)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    fetch_work(begin);
    const int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4, group = warpgroup();
    const u64 b = matrix_of_lines<128>() + matrix_at(weights);
#pragma unroll 1
    for (int work = begin; work < end; work++) {
        wait_for_copies<0>();
        show_to_tensor_cores();
        // After this, all warps are also done with the previous work tile, whose stage the next is loaded into.
        __syncthreads();
        if (STAGES > 1) fetch_work(work + 1);
        const u8* now = stage_of(work);
#pragma unroll 1
        for (int tile = group; tile < Z::TILES; tile += GROUPS) {
            // Where the epilogue stores a run of columns; negative where it does not.
            auto goal = [&](int h, int u) -> long long {
                const int m = tile * 64 + row + 8 * h, image = work * G + m / Z::PIXELS, pixel = m % Z::PIXELS;
                const int n = u * C::SPAN + lane % 4 * 8, phase = n / L::C;
                if (m >= G * Z::PIXELS || image >= BATCH) return -1;
                const int y = pixel / Z::W * L::S + phase / L::S, x = pixel % Z::W * L::S + phase % L::S;
                return ((long long)z * BATCH + image) * L::INPUT + (y * L::W + x) * L::C + n % L::C;
            };
            // The input's ReLU mask is loaded while the product runs.
            Raw<bf16, 8> open[2][STRETCHES];
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int u = 0; u < STRETCHES; u++) {
                    const long long at = goal(h, u);
                    if (at >= 0) open[h][u] = *(const Raw<bf16, 8>*)(input + at);
                }
            const u64 a = matrix_of_lines<128>() + matrix_at(now + tile * 64 * 128);
            float d[Z::COLUMNS / 2];
            begin_products();
            auto a_of = [&](int s) {
                const int tap = s / 4, lines = (BEFORE - tap / Z::TAPS) * Z::W + BEFORE - tap % Z::TAPS;
                return a + (lines * 128 + s % 4 * 32) / 16;
            };
            auto b_of = [&](int s) { return b + (s / 4 * Z::COLUMNS * 128 + s % 4 * 32) / 16; };
            multiply_warpgroup<false, false, false>(d, a_of(0), b_of(0));
#pragma unroll
            for (int s = 1; s < Z::TAPS * Z::TAPS * 4; s++)
                multiply_warpgroup<false, false, true>(d, a_of(s), b_of(s));
            start_products();
            end_products();
            hold(d);
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int u = 0; u < STRETCHES; u++) {
                    const long long at = goal(h, u);
                    if (at < 0) continue;
                    float out[8];
#pragma unroll
                    for (int j = 0; j < 8; j++) {
                        out[j] = d[(u * 4 + j / 2) * 4 + 2 * h + j % 2];
                        if (!(to_float(open[h][u].e[j]) > 0.0f)) out[j] = 0.0f;
                    }
                    store_line(input_delta + at, out);
                }
        }
        if (STAGES == 1) {
            __syncthreads();
            fetch_work(work + 1);
        }
    }
}

// Shared memory of the weight gradient: the pixels of an image, and a line of output gradients for each pixel that an output
// begins with, zeros for the others. An M tile is 64 numbers of the pixels of one tap; SPLITS blocks share the M tiles.
template <class L, class In, int GROUPS, int SPLITS, int STAGES>
struct WarpgroupWeightsShape {
    typedef WarpgroupForwardShape<L, In, 1, GROUPS, STAGES> Forward;
    static constexpr int STEPS = (Forward::OUTPUTS + 15) / 16;
    static constexpr int TILES = Forward::TAPS * Forward::TAPS * Forward::SLABS, OWN = (TILES + SPLITS - 1) / SPLITS;
    static constexpr int EACH = (OWN + GROUPS - 1) / GROUPS;  // tiles of a warpgroup
    static constexpr int END = STEPS * 16 + (Forward::TAPS - 1) * (Forward::W + 1);
    static constexpr int SLAB = (END > Forward::PIXELS ? END + 7 : Forward::PIXELS + 7) / 8 * 8 * 128;
    static constexpr int IMAGE = Forward::SLABS * SLAB;  // bytes
    static constexpr int LINE = 2 * L::F, DELTAS = (STEPS * 16 * LINE + 1023) / 1024 * 1024;
    static constexpr int THREADS = 128 * GROUPS;
    static constexpr bool BYTES_IN = sizeof(In) == 1;
    static constexpr int ALL = BYTES_IN ? IMAGE + DELTAS + Forward::RAW : STAGES * (IMAGE + DELTAS);
    static constexpr int LANES = L::F / 2, SLICES = THREADS / LANES;  // threads that sum up biases
    static_assert(4 * SLICES * L::F <= ALL, "room for the sums of biases");
    static constexpr int BYTES = 1024 + ALL;
    static constexpr int S = Forward::S, W = Forward::W, RUN = Forward::RUN;
    __device__ __forceinline__ static int place(int line, int row, int n) {
        const int at = row * RUN + n;
        return at / 64 * SLAB + line * 128 + swizzled<128>(line, at % 64 / 8);
    }
};

// The same as `weight_gradient`. A work tile is an image. grid: (splits, blocks that share the work tiles, agents)
template <class L, class In, int GROUPS, int SPLITS, int STAGES, int BATCH>
__device__ void warpgroup_weight_gradient(const In* input, const bf16* delta, float scale, float* partial, int most) {
    typedef WarpgroupWeightsShape<L, In, GROUPS, SPLITS, STAGES> Z;
    static_assert(Z::BYTES_IN || STAGES > 1, "the next work tile is loaded while this one is multiplied");
    u8* stages = lines_start();
    u8* raw = stages + Z::IMAGE + Z::DELTAS;
    const int z = blockIdx.z;
    const int begin = BATCH * blockIdx.y / gridDim.y, end = BATCH * (blockIdx.y + 1) / gridDim.y;
    const u8* const* planes = find_planes<L, In, Z::THREADS, BATCH>(input, z);
    auto image_of = [&](int work) { return stages + (Z::BYTES_IN ? 0 : (work - begin) % STAGES * (Z::IMAGE + Z::DELTAS)); };
    for (int i = threadIdx.x; i < Z::ALL / 16; i += Z::THREADS) ((uint4*)stages)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    auto fetch_deltas = [&](int work) {
        constexpr int PER_LINE = L::F / 8;
        const bf16* from = delta + ((size_t)z * BATCH + work) * (L::POSITIONS * L::F);
        u8* to = image_of(work) + Z::IMAGE;
        for (int i = threadIdx.x; i < L::POSITIONS * PER_LINE; i += Z::THREADS) {
            const int position = i / PER_LINE, line = position / L::OW * Z::W + position % L::OW;
            copy16((u32*)(to + line * Z::LINE + swizzled<Z::LINE>(line, i % PER_LINE)), from + (size_t)i * 8);
        }
    };
    auto fetch_work = [&](int work) {
        if (work < end) {
            if constexpr (Z::BYTES_IN) {
                fetch_planes<L, Z::THREADS, L::H>((u32*)raw, planes + work * L::C, input, 0, L::H);
            } else {
                fetch_space_to_depth<Z, L>(image_of(work), 0, input + ((size_t)z * BATCH + work) * L::INPUT);
                fetch_deltas(work);
            }
        }
        commit_copies();
    };
    const int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4, group = warpgroup();
    const int first = blockIdx.x * Z::OWN + group * Z::EACH;  // tile
    const int last_of_block = (blockIdx.x + 1) * Z::OWN < Z::TILES ? (blockIdx.x + 1) * Z::OWN : Z::TILES;
    float d[Z::EACH][L::F / 2] = {}, sums[2] = {0.0f, 0.0f};
    fetch_work(begin);
#pragma unroll 1
    for (int work = begin; work < end; work++) {
        if constexpr (Z::BYTES_IN) {
            // All warps are done with the previous image.
            if (work > begin) __syncthreads();
            fetch_deltas(work);
            commit_copies();
            wait_for_copies<1>();
            __syncthreads();
            convert_space_to_depth<Z, L>(stages, 0, (const u32*)raw);
        }
        wait_for_copies<0>();
        show_to_tensor_cores();
        // After this, all warps are also done with the stage that the next work tile is loaded into.
        __syncthreads();
        fetch_work(work + 1);
        const u8* image = image_of(work);
        const u8* deltas = image + Z::IMAGE;
#pragma unroll
        for (int e = 0; e < Z::EACH; e++) hold(d[e]);
        begin_products();
#pragma unroll
        for (int e = 0; e < Z::EACH; e++) {
            // A tile beyond the last repeats the last, and is not stored.
            const int tile = first + e < last_of_block ? first + e : last_of_block - 1;
            const int tap = tile / Z::Forward::SLABS, slab = tile % Z::Forward::SLABS;
            const int lines = tap / Z::Forward::TAPS * Z::W + tap % Z::Forward::TAPS;
            const u64 a = anew(matrix_of_lines<128>() + matrix_at(image + slab * Z::SLAB + lines * 128));
            const u64 b = anew(matrix_of_lines<Z::LINE>() + matrix_at(deltas));
#pragma unroll
            for (int s = 0; s < Z::STEPS; s++) multiply_warpgroup<true, true, true>(d[e], a + s * 128, b + s * Z::LINE);
        }
        start_products();
        if (blockIdx.x == 0 && threadIdx.x < Z::LANES * Z::SLICES) {
            const int at = threadIdx.x % Z::LANES * 4;
            for (int p = threadIdx.x / Z::LANES; p < Z::Forward::OUTPUTS; p += Z::SLICES) {
                const u32 two = *(const u32*)(deltas + p * Z::LINE + swizzled<Z::LINE>(p, at / 16) + at % 16);
                sums[0] += __uint_as_float(two << 16);
                sums[1] += __uint_as_float(two & 0xFFFF0000u);
            }
        }
        end_products();
#pragma unroll
        for (int e = 0; e < Z::EACH; e++) hold(d[e]);
    }
    float* to = partial + ((size_t)z * gridDim.y + blockIdx.y) * most;
    if (blockIdx.x == 0) {
        __syncthreads();
        float* columns = (float*)stages;
        if (threadIdx.x < Z::LANES * Z::SLICES) {
            columns[2 * threadIdx.x] = sums[0];
            columns[2 * threadIdx.x + 1] = sums[1];
        }
        __syncthreads();
        for (int f = threadIdx.x; f < L::F; f += Z::THREADS) {
            float sum = 0.0f;
            for (int s = 0; s < Z::SLICES; s++) sum += columns[s * L::F + f];
            to[L::FAN_IN * L::F + f] = sum;
        }
    }
#pragma unroll
    for (int e = 0; e < Z::EACH; e++) {
        const int tile = first + e, tap = tile / Z::Forward::SLABS;
        if (tile >= last_of_block) continue;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int at = tile % Z::Forward::SLABS * 64 + row + 8 * h;  // number of the pixel
            const int ky = tap / Z::Forward::TAPS * Z::S + at / Z::RUN, kx = tap % Z::Forward::TAPS * Z::S + at % Z::RUN / L::C;
            float* line = to + (size_t)((ky * L::KS + kx) * L::C + at % L::C) * L::F + lane % 4 * 2;
#pragma unroll
            for (int j = 0; j < L::F / 8; j++)
                store_pair(line + 8 * j, d[e][4 * j + 2 * h] * scale, d[e][4 * j + 2 * h + 1] * scale);
        }
    }
}
#endif
