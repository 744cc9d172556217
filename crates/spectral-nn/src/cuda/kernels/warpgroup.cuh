// Convolutions by warpgroups, in bf16, for Hopper: implicit GEMM with `wgmma`, which reads both operands from shared memory.
//
// A convolution whose kernel is a multiple of its stride S has stride 1 after space-to-depth: S x S pixels of the image become one
// pixel with S x S x C channels. "Pixels" are those from here on, and TAPS x TAPS of them make a patch. Shared memory holds them one
// after the other, row by row, 128 bytes of each in a line (SLABS lines if it has more). The patches of neighbouring
// outputs are then consecutive lines, and another tap is the same lines at an offset: an M tile is 64 lines from any line on.
// At the end of an image's row, patches reach into the next row; the epilogue does not store what comes out there.
//
// Lines have the 128-byte swizzle that the tensor cores expect: 16-byte chunks are permuted by the line's number.
#if MODE == 2 && defined(WARPGROUPS)

// Shared memory of the forward pass: weights, then STAGES stages of G images each; or, where the input is bytes, one stage
// and the raw bytes of the next.
template <class L, class In, int G, int GROUPS, int STAGES>
struct WarpgroupForwardShape {
    static constexpr int S = L::S, TAPS = L::KS / S;
    static constexpr int H = L::H / S, W = L::W / S, PIXELS = H * W;
    static constexpr int RUN = S * L::C;  // numbers of a pixel that are contiguous in global memory
    static constexpr int SLABS = S * RUN / 64;
    static_assert(L::KS % S == 0 && L::H % S == 0 && L::W % S == 0 && RUN % 16 == 0 && S * RUN % 64 == 0, "whole pixels");
    static constexpr bool BYTES_IN = sizeof(In) == 1;
    static_assert(BYTES_IN ? IN_PLANES<In> && RUN == 16 && L::C == 4 : RUN == 64, "a way to load pixels");
    // Lines of an image up to the last that an output begins with; M tiles of one image, or of all images in a row.
    static constexpr int OUTPUTS = (L::OH - 1) * W + L::OW;
    static constexpr int OF_ONE = (OUTPUTS + 63) / 64, OF_ALL = ((G - 1) * PIXELS + OUTPUTS + 63) / 64;
    static constexpr bool APART = OF_ONE * G <= OF_ALL;
    static constexpr int TILES = APART ? OF_ONE * G : OF_ALL;
    static constexpr int END = (APART ? (G - 1) * PIXELS + OF_ONE * 64 : OF_ALL * 64) + (TAPS - 1) * (W + 1);
    static constexpr int SLAB = (END > G * PIXELS ? END + 7 : G * PIXELS + 7) / 8 * 8 * 128;  // bytes
    static constexpr int IMAGES = SLABS * SLAB;
    static constexpr int LINE = 2 * L::F;  // bytes of a line of weights
    static constexpr int WEIGHTS = L::FAN_IN * LINE;
    static constexpr int RAW = L::INPUT;  // bytes of an image in global memory
    static constexpr int THREADS = 128 * GROUPS;
    // The start must be a multiple of 1024.
    static constexpr int BYTES = 1024 + WEIGHTS + (BYTES_IN ? IMAGES + G * RAW : STAGES * IMAGES);
    static_assert(WEIGHTS % 1024 == 0, "whole groups of lines");

    // Where a 16-byte chunk of a pixel lies: numbers n.. of row `row` of the pixel in line `line`.
    __device__ __forceinline__ static int place(int line, int row, int n) {
        const int at = row * RUN + n;
        return at / 64 * SLAB + line * 128 + swizzled<128>(line, at % 64 / 8);
    }
};

// Copies an image of bf16 with space-to-depth, asynchronously.
template <class Z, class L>
__device__ __forceinline__ void fetch_space_to_depth(u8* to, int first_line, const bf16* from) {
    constexpr int PER_ROW = L::W * L::C / 8, PER_PIXEL = Z::RUN / 8;
    for (int i = threadIdx.x; i < L::H * PER_ROW; i += Z::THREADS) {
        const int row = i / PER_ROW, at = i % PER_ROW;
        const int line = first_line + row / Z::S * Z::W + at / PER_PIXEL;
        copy16((u32*)(to + Z::place(line, row % Z::S, at % PER_PIXEL * 8)), from + (size_t)i * 8);
    }
}

// Converts four planes of bytes to bf16 with space-to-depth, S = 4.
template <class Z, class L>
__device__ __forceinline__ void convert_space_to_depth(u8* to, int first_line, const u32* raw) {
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

// One N tile covers all filters of a layer.
template <int F>
struct AllColumns {
    static constexpr int NT = F / 8;
};

// The same as `forward`. A work tile is G images, whose M tiles are shared by GROUPS warpgroups.
// grid: (blocks that share the work tiles, 1, networks)
template <class L, class In, int G, int GROUPS, int STAGES, int BATCH>
__device__ void warpgroup_forward(const Net* nets, int agents, int first_network, const In* input, bf16* output,
                                  float scale) {
    typedef WarpgroupForwardShape<L, In, G, GROUPS, STAGES> Z;
    typedef Columns<AllColumns<L::F>, L::F> C;
    static_assert(C::GROUP == 4, "sixteen bytes of outputs at a time");
    static_assert(Z::BYTES_IN || STAGES > 1, "the next work tile is loaded while this one is multiplied");
    constexpr int WORK_TILES = (BATCH + G - 1) / G, STRETCHES = L::F / C::SPAN;
    u8* weights = lines_start();
    u8* images = weights + Z::WEIGHTS;
    u8* raw = images + Z::IMAGES;
    const int z = first_network + blockIdx.z;
    const Net& net = nets[z % agents];
    const bf16* from = (z < agents ? net.online_half : net.target_half) + L::WEIGHTS_AT;
    const float* bias = (z < agents ? net.online : net.target) + L::WEIGHTS_AT + L::FAN_IN * L::F;
    const int begin = WORK_TILES * blockIdx.x / gridDim.x, end = WORK_TILES * (blockIdx.x + 1) / gridDim.x;
    const u8* const* planes = find_planes<L, In, Z::THREADS, BATCH>(input, z);
    auto stage_of = [&](int work) { return Z::BYTES_IN ? images : images + (work - begin) % STAGES * Z::IMAGES; };
    auto fetch_work = [&](int work) {
        if (work < end) {
#pragma unroll 1
            for (int i = 0; i < G; i++) {
                const int image = work * G + i;
                if (image >= BATCH) continue;
                if constexpr (Z::BYTES_IN)
                    fetch_planes<L, Z::THREADS, L::H>((u32*)(raw + i * Z::RAW), planes + image * L::C, input, 0, L::H);
                else
                    fetch_space_to_depth<Z, L>(stage_of(work), i * Z::PIXELS, input + ((size_t)z * BATCH + image) * L::INPUT);
            }
        }
        commit_copies();
    };
    fetch_work(begin);
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
    for (int work = begin; work < end; work++) {
        wait_for_copies<0>();
        if constexpr (Z::BYTES_IN) {
            __syncthreads();
#pragma unroll 1
            for (int i = 0; i < G; i++)
                if (work * G + i < BATCH) convert_space_to_depth<Z, L>(images, i * Z::PIXELS, (const u32*)(raw + i * Z::RAW));
        }
        show_to_tensor_cores();
        // After this, all warps are also done with the stage that the next work tile is loaded into.
        __syncthreads();
        fetch_work(work + 1);
        const u8* now = stage_of(work);
#pragma unroll 1
        for (int tile = group; tile < Z::TILES; tile += GROUPS) {
            const int own = Z::APART ? tile / Z::OF_ONE : 0;                      // image that lines are counted from
            const int line = own * Z::PIXELS + (tile - own * Z::OF_ONE) * 64;
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
                const int m = line - own * Z::PIXELS + row + 8 * h;
                const int image = work * G + own + (Z::APART ? 0 : m / Z::PIXELS);
                const int pixel = Z::APART ? m : m % Z::PIXELS, y = pixel / Z::W, x = pixel % Z::W;
                if (image >= BATCH || image >= (work + 1) * G || y >= L::OH || x >= L::OW) continue;
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
