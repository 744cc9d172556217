// Gradients of convolutions by warpgroups, in bf16, for Hopper; cells and lines as in `warpgroup.cuh`.
#if MODE == 2 && defined(WARPGROUPS)

// How the gradient of a layer's input uses shared memory: the weights, a line for each input of a cell and tap, and the outputs'
// gradients of G images. An output's gradient has the line of the last cell that it depends on; lines of other cells are zero, so
// that the cells of an image, and then those of the next one, find all that depends on them in lines from their own on.
template <class L, int G, int GROUPS, int DEEP>
struct DependentShape {
    static constexpr int S = L::S, TAPS = L::KS / S;
    static constexpr int H = L::H / S, W = L::W / S, CELLS = H * W;
    static constexpr int COLUMNS = S * S * L::C;
    static_assert(L::KS % S == 0 && L::H % S == 0 && L::W % S == 0 && L::F == 64, "whole cells, lines of 128 bytes");
    static_assert(L::C % 32 == 0 && (COLUMNS == 64 || COLUMNS == 128), "sixteen bytes of inputs at a time");
    static constexpr int TILES = (G * CELLS + 63) / 64;
    static constexpr int LINES = (TILES * 64 + (TAPS - 1) * (W + 1) + 7) / 8 * 8;
    static constexpr int WEIGHTS = TAPS * TAPS * COLUMNS * 128, IMAGES = LINES * 128;  // bytes
    static constexpr int THREADS = 128 * GROUPS;
    static constexpr int BYTES = 1024 + WEIGHTS + DEEP * IMAGES;
};

// The same as `input_gradient`. grid: (shares of the units, 1, agents)
template <class L, int G, int GROUPS, int DEEP, int BATCH>
__device__ void warpgroup_input_gradient(const Net* nets, const bf16* delta, const bf16* input, bf16* input_delta) {
    typedef DependentShape<L, G, GROUPS, DEEP> Z;
    typedef Columns<AllColumns<Z::COLUMNS>, L::C> C;
    static_assert(C::GROUP == 4, "sixteen bytes of inputs at a time");
    constexpr int UNITS = (BATCH + G - 1) / G, STRETCHES = Z::COLUMNS / C::SPAN, BEFORE = Z::TAPS - 1;
    u8* weights = lines_start();
    u8* images = weights + Z::WEIGHTS;
    const int z = blockIdx.z;
    const bf16* from = nets[z].online_half + L::WEIGHTS_AT;
    const int begin = UNITS * blockIdx.x / gridDim.x, end = UNITS * (blockIdx.x + 1) / gridDim.x;
    auto place = [&](int unit) { return images + (unit - begin) % DEEP * Z::IMAGES; };
    auto bring_unit = [&](int unit) {
        if (unit < end) {
            constexpr int ALL = L::POSITIONS * 8;
            const bf16* own = delta + ((size_t)z * BATCH + unit * G) * (L::POSITIONS * L::F);
            const int count = (BATCH - unit * G < G ? BATCH - unit * G : G) * ALL;
            u8* to = place(unit);
            for (int i = threadIdx.x; i < count; i += Z::THREADS) {
                const int position = i % ALL / 8, y = position / L::OW + BEFORE, x = position % L::OW + BEFORE;
                const int line = i / ALL * Z::CELLS + y * Z::W + x;
                copy16((u32*)(to + line * 128 + swizzled<128>(line, i % 8)), own + (size_t)i * 8);
            }
        }
        commit_copies();
    };
    // Weights travel with the first images.
    for (int i = threadIdx.x; i < Z::TAPS * Z::TAPS * Z::COLUMNS * 8; i += Z::THREADS) {
        const int tap = i / (8 * Z::COLUMNS), n = i / 8 % Z::COLUMNS, phase = n / L::C;
        const int ky = tap / Z::TAPS * L::S + phase / L::S, kx = tap % Z::TAPS * L::S + phase % L::S;
        const int line = tap * Z::COLUMNS + C::place(n);
        copy16((u32*)(weights + line * 128 + swizzled<128>(line, i % 8)),
               from + ((ky * L::KS + kx) * L::C + n % L::C) * L::F + i % 8 * 8);
    }
    for (int i = threadIdx.x; i < DEEP * Z::IMAGES / 16; i += Z::THREADS)
        ((uint4*)images)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    bring_unit(begin);
    const int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4, group = warpgroup();
    const u64 b = matrix_of_lines<128>() + matrix_at(weights);
#pragma unroll 1
    for (int unit = begin; unit < end; unit++) {
        wait_for_copies<0>();
        show_to_tensor_cores();
        // After this, too, everybody has multiplied the images of the unit before this one, where the next ones come.
        __syncthreads();
        if (DEEP > 1) bring_unit(unit + 1);
        const u8* now = place(unit);
#pragma unroll 1
        for (int tile = group; tile < Z::TILES; tile += GROUPS) {
            // Where the gradients of a stretch of columns go; negative where there are none.
            auto goal = [&](int h, int u) -> long long {
                const int m = tile * 64 + row + 8 * h, image = unit * G + m / Z::CELLS, cell = m % Z::CELLS;
                const int n = u * C::SPAN + lane % 4 * 8, phase = n / L::C;
                if (m >= G * Z::CELLS || image >= BATCH) return -1;
                const int y = cell / Z::W * L::S + phase / L::S, x = cell % Z::W * L::S + phase % L::S;
                return ((long long)z * BATCH + image) * L::INPUT + (y * L::W + x) * L::C + n % L::C;
            };
            // Whether the rectifiers below were open comes while the product runs.
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
        if (DEEP == 1) {
            __syncthreads();
            bring_unit(unit + 1);
        }
    }
}

// How the gradient of a layer's weights uses shared memory: the cells of an image, and a line of the outputs' gradients for
// each cell that an output begins with, zeros for the others. Tiles are 64 numbers of the cells of one tap; SPLITS blocks
// share them.
template <class L, class In, int GROUPS, int SPLITS, int DEEP>
struct CellWeightsShape {
    typedef CellShape<L, In, 1, GROUPS, DEEP> Cells;
    static constexpr int STEPS = (Cells::OUTPUTS + 15) / 16;
    static constexpr int TILES = Cells::TAPS * Cells::TAPS * Cells::SLABS, OWN = (TILES + SPLITS - 1) / SPLITS;
    static constexpr int EACH = (OWN + GROUPS - 1) / GROUPS;  // tiles of a warpgroup
    static constexpr int END = STEPS * 16 + (Cells::TAPS - 1) * (Cells::W + 1);
    static constexpr int SLAB = (END > Cells::CELLS ? END + 7 : Cells::CELLS + 7) / 8 * 8 * 128;
    static constexpr int IMAGE = Cells::SLABS * SLAB;  // bytes
    static constexpr int LINE = 2 * L::F, DELTAS = (STEPS * 16 * LINE + 1023) / 1024 * 1024;
    static constexpr int THREADS = 128 * GROUPS;
    static constexpr bool BYTES_IN = sizeof(In) == 1;
    static constexpr int ALL = BYTES_IN ? IMAGE + DELTAS + Cells::RAW : DEEP * (IMAGE + DELTAS);
    static constexpr int LANES = L::F / 2, SLICES = THREADS / LANES;  // threads that sum up biases
    static_assert(4 * SLICES * L::F <= ALL, "room for the sums of biases");
    static constexpr int BYTES = 1024 + ALL;
    static constexpr int S = Cells::S, W = Cells::W, RUN = Cells::RUN;
    __device__ __forceinline__ static int place(int line, int row, int n) {
        const int at = row * RUN + n;
        return at / 64 * SLAB + line * 128 + swizzled<128>(line, at % 64 / 8);
    }
};

// The same as `weight_gradient`. A unit of work is an image. grid: (splits, shares of the units, agents)
template <class L, class In, int GROUPS, int SPLITS, int DEEP, int BATCH>
__device__ void warpgroup_weight_gradient(const In* input, const bf16* delta, float scale, float* partial, int most) {
    typedef CellWeightsShape<L, In, GROUPS, SPLITS, DEEP> Z;
    static_assert(Z::BYTES_IN || DEEP > 1, "units come while others are multiplied");
    u8* units = lines_start();
    u8* raw = units + Z::IMAGE + Z::DELTAS;
    const int z = blockIdx.z;
    const int begin = BATCH * blockIdx.y / gridDim.y, end = BATCH * (blockIdx.y + 1) / gridDim.y;
    const u8* const* planes = find_planes<L, In, Z::THREADS, BATCH>(input, z);
    auto image_of = [&](int unit) { return units + (Z::BYTES_IN ? 0 : (unit - begin) % DEEP * (Z::IMAGE + Z::DELTAS)); };
    for (int i = threadIdx.x; i < Z::ALL / 16; i += Z::THREADS) ((uint4*)units)[i] = make_uint4(0, 0, 0, 0);
    __syncthreads();
    auto bring_deltas = [&](int unit) {
        constexpr int PER_LINE = L::F / 8;
        const bf16* from = delta + ((size_t)z * BATCH + unit) * (L::POSITIONS * L::F);
        u8* to = image_of(unit) + Z::IMAGE;
        for (int i = threadIdx.x; i < L::POSITIONS * PER_LINE; i += Z::THREADS) {
            const int position = i / PER_LINE, line = position / L::OW * Z::W + position % L::OW;
            copy16((u32*)(to + line * Z::LINE + swizzled<Z::LINE>(line, i % PER_LINE)), from + (size_t)i * 8);
        }
    };
    auto bring_unit = [&](int unit) {
        if (unit < end) {
            if constexpr (Z::BYTES_IN) {
                bring_planes<L, Z::THREADS, L::H>((u32*)raw, planes + unit * L::C, input, 0, L::H);
            } else {
                bring_cells<Z, L>(image_of(unit), 0, input + ((size_t)z * BATCH + unit) * L::INPUT);
                bring_deltas(unit);
            }
        }
        commit_copies();
    };
    const int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4, group = warpgroup();
    const int first = blockIdx.x * Z::OWN + group * Z::EACH;  // tile
    const int last_of_block = (blockIdx.x + 1) * Z::OWN < Z::TILES ? (blockIdx.x + 1) * Z::OWN : Z::TILES;
    float d[Z::EACH][L::F / 2] = {}, sums[2] = {0.0f, 0.0f};
    bring_unit(begin);
#pragma unroll 1
    for (int unit = begin; unit < end; unit++) {
        if constexpr (Z::BYTES_IN) {
            // The image before this one has been multiplied by all.
            if (unit > begin) __syncthreads();
            bring_deltas(unit);
            commit_copies();
            wait_for_copies<1>();
            __syncthreads();
            turn_cells<Z, L>(units, 0, (const u32*)raw);
        }
        wait_for_copies<0>();
        show_to_tensor_cores();
        // After this, too, everybody is done with what lies where the next unit comes.
        __syncthreads();
        bring_unit(unit + 1);
        const u8* image = image_of(unit);
        const u8* deltas = image + Z::IMAGE;
#pragma unroll
        for (int e = 0; e < Z::EACH; e++) hold(d[e]);
        begin_products();
#pragma unroll
        for (int e = 0; e < Z::EACH; e++) {
            // A tile too many is made of the last one's numbers, and not stored.
            const int tile = first + e < last_of_block ? first + e : last_of_block - 1;
            const int tap = tile / Z::Cells::SLABS, slab = tile % Z::Cells::SLABS;
            const int lines = tap / Z::Cells::TAPS * Z::W + tap % Z::Cells::TAPS;
            const u64 a = anew(matrix_of_lines<128>() + matrix_at(image + slab * Z::SLAB + lines * 128));
            const u64 b = anew(matrix_of_lines<Z::LINE>() + matrix_at(deltas));
#pragma unroll
            for (int s = 0; s < Z::STEPS; s++) multiply_warpgroup<true, true, true>(d[e], a + s * 128, b + s * Z::LINE);
        }
        start_products();
        if (blockIdx.x == 0 && threadIdx.x < Z::LANES * Z::SLICES) {
            const int at = threadIdx.x % Z::LANES * 4;
            for (int p = threadIdx.x / Z::LANES; p < Z::Cells::OUTPUTS; p += Z::SLICES) {
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
        float* columns = (float*)units;
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
        const int tile = first + e, tap = tile / Z::Cells::SLABS;
        if (tile >= last_of_block) continue;
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const int at = tile % Z::Cells::SLABS * 64 + row + 8 * h;  // number of the cell
            const int ky = tap / Z::Cells::TAPS * Z::S + at / Z::RUN, kx = tap % Z::Cells::TAPS * Z::S + at % Z::RUN / L::C;
            float* line = to + (size_t)((ky * L::KS + kx) * L::C + at % L::C) * L::F + lane % 4 * 2;
#pragma unroll
            for (int j = 0; j < L::F / 8; j++)
                store_pair(line + 8 * j, d[e][4 * j + 2 * h] * scale, d[e][4 * j + 2 * h + 1] * scale);
        }
    }
}
#endif
