// Convolutions by warpgroups, in bf16, for Hopper: its tensor cores take both operands out of shared memory by themselves.
//
// A layer whose kernel is a multiple of its stride S is a layer of stride 1 over an image of cells, S x S pixels each. Cells lie
// in shared memory one after the other, row after row, 128 bytes of each in a line (SLABS lines if it has more numbers). Then the
// patches of neighbouring outputs are lines that follow each other, and another tap of the kernel is the same lines some
// lines on: a tile is 64 lines, whatever line it starts with. At the end of an image's row, patches reach into the next row; what
// comes out there is not stored.
//
// Lines are swizzled as the tensor cores expect it: sixteen bytes of a line change places by the line's number.
#if MODE == 2 && defined(WARPGROUPS)

// How the forward pass of a layer uses shared memory: weights, then the cells of G images; the next ones meanwhile come into
// other cells, or as raw bytes.
template <class L, class In, int G, int GROUPS, int DEEP>
struct CellShape {
    static constexpr int S = L::S, TAPS = L::KS / S;
    static constexpr int H = L::H / S, W = L::W / S, CELLS = H * W;
    static constexpr int RUN = S * L::C;  // numbers of a cell's row, which follow each other in memory
    static constexpr int SLABS = S * RUN / 64;
    static_assert(L::KS % S == 0 && L::H % S == 0 && L::W % S == 0 && RUN % 16 == 0 && S * RUN % 64 == 0, "whole cells");
    static constexpr bool BYTES_IN = sizeof(In) == 1;
    static_assert(BYTES_IN ? IN_PLANES<In> && RUN == 16 && L::C == 4 : RUN == 64, "a way to bring cells");
    // Lines of an image that have outputs, up to the last; tiles of one image, or of all of them in a row.
    static constexpr int OUTPUTS = (L::OH - 1) * W + L::OW;
    static constexpr int OF_ONE = (OUTPUTS + 63) / 64, OF_ALL = ((G - 1) * CELLS + OUTPUTS + 63) / 64;
    static constexpr bool APART = OF_ONE * G <= OF_ALL;
    static constexpr int TILES = APART ? OF_ONE * G : OF_ALL;
    static constexpr int END = (APART ? (G - 1) * CELLS + OF_ONE * 64 : OF_ALL * 64) + (TAPS - 1) * (W + 1);
    static constexpr int SLAB = (END > G * CELLS ? END + 7 : G * CELLS + 7) / 8 * 8 * 128;  // bytes
    static constexpr int IMAGES = SLABS * SLAB;
    static constexpr int LINE = 2 * L::F;  // bytes of a line of weights
    static constexpr int WEIGHTS = L::FAN_IN * LINE;
    static constexpr int RAW = L::INPUT;  // bytes of an image as it comes
    static constexpr int THREADS = 128 * GROUPS;
    // The start must be a multiple of 1024.
    static constexpr int BYTES = 1024 + WEIGHTS + (BYTES_IN ? IMAGES + G * RAW : DEEP * IMAGES);
    static_assert(WEIGHTS % 1024 == 0, "whole groups of lines");

    // Where sixteen bytes of a cell lie: numbers n.. of row `row` of the cell in line `line`.
    __device__ __forceinline__ static int place(int line, int row, int n) {
        const int at = row * RUN + n;
        return at / 64 * SLAB + line * 128 + swizzled<128>(line, at % 64 / 8);
    }
};

// An image of bf16 into cells.
template <class Z, class L>
__device__ __forceinline__ void bring_cells(u8* to, int first_line, const bf16* from) {
    constexpr int PER_ROW = L::W * L::C / 8, PER_CELL = Z::RUN / 8;
    for (int i = threadIdx.x; i < L::H * PER_ROW; i += Z::THREADS) {
        const int row = i / PER_ROW, at = i % PER_ROW;
        const int line = first_line + row / Z::S * Z::W + at / PER_CELL;
        copy16((u32*)(to + Z::place(line, row % Z::S, at % PER_CELL * 8)), from + (size_t)i * 8);
    }
}

// Four planes of bytes into cells of 4 x 4 pixels.
template <class Z, class L>
__device__ __forceinline__ void turn_cells(u8* to, int first_line, const u32* raw) {
    constexpr int PER_ROW = L::W / 4, PLANE = L::H * PER_ROW;
#pragma unroll 2
    for (int i = threadIdx.x; i < PLANE; i += Z::THREADS) {
        u32 w[8];
        pixels_of_planes<PLANE>(w, raw + i);
        const int row = i / PER_ROW, line = first_line + row / Z::S * Z::W + i % PER_ROW;
        *(uint4*)(to + Z::place(line, row % Z::S, 0)) = make_uint4(w[0], w[1], w[2], w[3]);
        *(uint4*)(to + Z::place(line, row % Z::S, 8)) = make_uint4(w[4], w[5], w[6], w[7]);
    }
}

// All columns of a layer belong to one tile.
template <int F>
struct AllColumns {
    static constexpr int NT = F / 8;
};

// The same as `forward`. A unit of work is G images; the tiles of a unit are shared by GROUPS warpgroups.
// grid: (shares of the units, 1, networks)
template <class L, class In, int G, int GROUPS, int DEEP, int BATCH>
__device__ void warpgroup_forward(const Net* nets, int agents, int first_network, const In* input, bf16* output,
                                  float scale) {
    typedef CellShape<L, In, G, GROUPS, DEEP> Z;
    typedef Columns<AllColumns<L::F>, L::F> C;
    static_assert(C::GROUP == 4, "sixteen bytes of outputs at a time");
    static_assert(Z::BYTES_IN || DEEP > 1, "units come while others are multiplied");
    constexpr int UNITS = (BATCH + G - 1) / G, STRETCHES = L::F / C::SPAN;
    u8* weights = lines_start();
    u8* cells = weights + Z::WEIGHTS;
    u8* raw = cells + Z::IMAGES;
    const int z = first_network + blockIdx.z;
    const Net& net = nets[z % agents];
    const bf16* from = (z < agents ? net.online_half : net.target_half) + L::WEIGHTS_AT;
    const float* bias = (z < agents ? net.online : net.target) + L::WEIGHTS_AT + L::FAN_IN * L::F;
    const int begin = UNITS * blockIdx.x / gridDim.x, end = UNITS * (blockIdx.x + 1) / gridDim.x;
    const u8* const* planes = find_planes<L, In, Z::THREADS, BATCH>(input, z);
    auto place = [&](int unit) { return Z::BYTES_IN ? cells : cells + (unit - begin) % DEEP * Z::IMAGES; };
    auto bring_unit = [&](int unit) {
        if (unit < end) {
#pragma unroll 1
            for (int i = 0; i < G; i++) {
                const int image = unit * G + i;
                if (image >= BATCH) continue;
                if constexpr (Z::BYTES_IN)
                    bring_planes<L, Z::THREADS, L::H>((u32*)(raw + i * Z::RAW), planes + image * L::C, input, 0, L::H);
                else
                    bring_cells<Z, L>(place(unit), i * Z::CELLS, input + ((size_t)z * BATCH + image) * L::INPUT);
            }
        }
        commit_copies();
    };
    bring_unit(begin);
    each_eight<L::FAN_IN * L::F / 8, Z::THREADS>(
        [&](int i) { return from + (size_t)i * 8; },
        [&](int i, uint4 w) {
            const int k = i / (L::F / 8), f = i % (L::F / 8) * 8;
            const u32 pairs[4] = {w.x, w.y, w.z, w.w};
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int at = 2 * C::place(f + 2 * j);
                *(u32*)(weights + k * Z::LINE + swizzled<Z::LINE>(k, at / 16) + at % 16) = pairs[j];
            }
        });
    const int lane = threadIdx.x % 32, row = threadIdx.x % 128 / 32 * 16 + lane / 4;
    const int group = warpgroup();
    float shift[STRETCHES][8];
#pragma unroll
    for (int u = 0; u < STRETCHES; u++)
#pragma unroll
        for (int j = 0; j < 8; j++) shift[u][j] = bias[u * C::SPAN + lane % 4 * 8 + j];
    const u64 b = matrix_of_lines<Z::LINE>() + matrix_at(weights);
#pragma unroll 1
    for (int unit = begin; unit < end; unit++) {
        wait_for_copies<0>();
        if constexpr (Z::BYTES_IN) {
            __syncthreads();
#pragma unroll 1
            for (int i = 0; i < G; i++)
                if (unit * G + i < BATCH) turn_cells<Z, L>(cells, i * Z::CELLS, (const u32*)(raw + i * Z::RAW));
        }
        show_to_tensor_cores();
        // After this, too, everybody is done with what lies where the next unit comes.
        __syncthreads();
        bring_unit(unit + 1);
        const u8* now = place(unit);
#pragma unroll 1
        for (int tile = group; tile < Z::TILES; tile += GROUPS) {
            const int own = Z::APART ? tile / Z::OF_ONE : 0;                      // image from which lines are counted
            const int line = own * Z::CELLS + (tile - own * Z::OF_ONE) * 64;
            const u64 a = matrix_of_lines<128>() + matrix_at(now + line * 128);
            float d[L::F / 2];
            begin_products();
            // Sixteen numbers of row `ky` of the kernel, within the tap `tx`.
            auto a_of = [&](int s) {
                constexpr int PER_TAP = Z::RUN / 16, PER_ROW = Z::TAPS * PER_TAP;
                const int ky = s / PER_ROW, tx = s % PER_ROW / PER_TAP, at = ky % Z::S * Z::RUN + s % PER_TAP * 16;
                return a + (at / 64 * Z::SLAB + (ky / Z::S * Z::W + tx) * 128 + at % 64 * 2) / 16;
            };
            multiply_warpgroup<false, true, false>(d, a_of(0), b);
#pragma unroll
            for (int s = 1; s < L::FAN_IN / 16; s++)
                multiply_warpgroup<false, true, true>(d, a_of(s), b + s * Z::LINE);
            start_products();
            end_products();
            hold(d);
#pragma unroll
            for (int h = 0; h < 2; h++) {
                const int m = line - own * Z::CELLS + row + 8 * h;
                const int image = unit * G + own + (Z::APART ? 0 : m / Z::CELLS);
                const int cell = Z::APART ? m : m % Z::CELLS, y = cell / Z::W, x = cell % Z::W;
                if (image >= BATCH || image >= (unit + 1) * G || y >= L::OH || x >= L::OW) continue;
                bf16* to = output + (((size_t)z * BATCH + image) * L::POSITIONS + y * L::OW + x) * L::F + lane % 4 * 8;
#pragma unroll
                for (int u = 0; u < STRETCHES; u++) {
                    float out[8];
#pragma unroll
                    for (int j = 0; j < 8; j++) {
                        out[j] = d[(u * 4 + j / 2) * 4 + 2 * h + j % 2] * scale + shift[u][j];
                        if (L::RELU) out[j] = fmaxf(out[j], 0.0f);
                    }
                    store_line(to + u * C::SPAN, out);
                }
            }
        }
    }
}
#endif
