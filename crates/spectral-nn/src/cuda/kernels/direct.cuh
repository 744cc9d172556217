// Direct convolutions, in bf16: a block keeps its layer's weights in shared memory and loads one image after the other (or bands
// of one), each once; patches are read from the image itself, without im2col. Other shapes are left to the kernels in
// `layers.cuh`.
#if MODE == 2
// WM x WN x WK warps: along positions, along columns (filters) and along the reduction. Each has MT x NT tiles of 16 x 8.
template <int WM_, int WN_, int WK_, int MT_, int NT_>
struct Warps {
    static constexpr int WM = WM_, WN = WN_, WK = WK_, MT = MT_, NT = NT_;
    static constexpr int THREADS = 32 * WM * WN * WK;
    static constexpr int BM = WM * MT * 16, BN = WN * NT * 8;
    static_assert(NT % 2 == 0, "columns are read 16 at a time");
};

// The least padding after which `times` rows of `size` words are `wanted` words apart, as far as banks go.
__device__ constexpr int bank_padding(int size, int times, int wanted) {
    for (int pad = 0; pad < 32; pad += 4)
        if ((times * (size + pad) - wanted) % 32 == 0) return pad;
    return 0;
}

// An image in shared memory: ROWS rows of COLUMNS pixels of C numbers, for Y x X patches that are STEP pixels apart. STEP
// neighbouring pixels lie together, and padding puts the lines of 8 neighbouring patches into different banks, also where a
// row ends: there, patches count WIDE a row.
template <int ROWS, int COLUMNS, int STEP_, int C_, int Y_, int X_>
struct Picture {
    static constexpr int STEP = STEP_, C = C_, Y = Y_, X = X_;
    static constexpr int GROUP = STEP * C;
    static_assert(GROUP % 16 == 0, "a step of the reduction stays within a group");
    static constexpr int GROUP_PITCH = GROUP / 2 + 4;
    static constexpr int WIDE = STEP <= 4 ? (X + STEP - 1) / STEP * STEP : X;
    static constexpr int PATCHES = Y * WIDE;
    static constexpr int ROW = (COLUMNS + STEP - 1) / STEP * GROUP_PITCH;
    static constexpr int ROW_PITCH = ROW + bank_padding(ROW, STEP, WIDE * GROUP_PITCH);
    static constexpr int SIZE = ROWS * ROW_PITCH + bank_padding(ROWS * ROW_PITCH, 1, PATCHES * GROUP_PITCH);  // words
    // Where numbers n.. of a row lie, in words.
    __device__ __forceinline__ static constexpr int word(int row, int n) {
        return row * ROW_PITCH + n / GROUP * GROUP_PITCH + n % GROUP / 2;
    }
    // Where patch m starts, counted over images that follow each other; a patch beyond the end of a row is the row's last.
    __device__ __forceinline__ static int corner(int m) {
        int x = m % WIDE;
        return m / PATCHES * SIZE + m % PATCHES / WIDE * STEP * ROW_PITCH + (x < X ? x : X - 1) * GROUP_PITCH;
    }
};

// Columns are stored in another order than they have: so that a lane's outputs of GROUP tiles are neighbours in memory.
// PERIOD: columns of one stretch of memory.
template <class T, int PERIOD>
struct Columns {
    static constexpr int GROUP = T::NT % 4 == 0 && PERIOD % 32 == 0 ? 4 : PERIOD % 16 == 0 ? 2 : 1;
    static constexpr int SPAN = 8 * GROUP;
    __device__ __forceinline__ static constexpr int place(int column) {
        int v = column % SPAN;
        return column - v + v % (2 * GROUP) / 2 * 8 + v / (2 * GROUP) * 2 + v % 2;
    }
};

template <int N>
__device__ __forceinline__ void store_line(bf16* at, const float (&x)[N]) {
    static_assert(N == 2 || N == 4 || N == 8, "4, 8 or 16 bytes");
    if constexpr (N == 8)
        *(uint4*)at = make_uint4(pack(x[0], x[1]), pack(x[2], x[3]), pack(x[4], x[5]), pack(x[6], x[7]));
    else if constexpr (N == 4)
        *(uint2*)at = make_uint2(pack(x[0], x[1]), pack(x[2], x[3]));
    else
        *(u32*)at = pack(x[0], x[1]);
}

// The patches of KS x KS pixels of images V times a matrix of weights: bf16 words [element][column], or ALONG the
// elements: [column][element].
template <class V, class T, int KS, bool ALONG>
struct PatchProduct {
    static constexpr int RUN = KS * V::C, STEPS = KS * RUN / 16;
    static_assert(RUN % 16 == 0 && STEPS % T::WK == 0, "whole steps for every warp");
    static constexpr int WEIGHTS_PITCH = ALONG ? STEPS * 8 + 4 : T::BN / 2 + 4;
    static constexpr int WEIGHTS = (ALONG ? T::BN : STEPS * 16) * WEIGHTS_PITCH;
    static constexpr int SPARE = (T::WK - 1) * T::WM * T::WN * T::MT * T::NT * 4 * 32;  // words to add up the warps' shares
    // Whether the warps that share a reduction can interleave within a group of pixels.
    static constexpr bool INTERLEAVED = V::GROUP / 16 % T::WK == 0;
    float d[T::MT][T::NT][4];

    __device__ __forceinline__ static int warp() { return threadIdx.x / 32; }
    __device__ __forceinline__ static int first_row() { return warp() / T::WN % T::WM * (T::MT * 16); }
    __device__ __forceinline__ static int first_column() { return warp() % T::WN * (T::NT * 8); }

    // corners: where the patches of rows first_row() + 16 i + lane % 16 start.
    __device__ __forceinline__ void run(const u32* image, const int (&corners)[T::MT], const u32* weights) {
        const int lane = threadIdx.x % 32, part = warp() / (T::WM * T::WN);
        u32 a_at[T::MT], b_at;
#pragma unroll
        for (int i = 0; i < T::MT; i++)
            a_at[i] = address_of(image) + 4 * (corners[i] + lane / 16 * 4 + (INTERLEAVED ? part * 8 : 0));
        if (ALONG)
            b_at = (first_column() + lane % 8 + lane / 16 * 8) * WEIGHTS_PITCH + lane / 8 % 2 * 4 + part * 8;
        else
            b_at = (part * 16 + lane % 16) * WEIGHTS_PITCH + (first_column() + lane / 16 * 8) / 2;
        b_at = address_of(weights) + 4 * b_at;
#pragma unroll
        for (int i = 0; i < T::MT; i++)
#pragma unroll
            for (int j = 0; j < T::NT; j++)
#pragma unroll
                for (int q = 0; q < 4; q++) d[i][j][q] = 0.0f;
#pragma unroll
        for (int s = 0; s < STEPS / T::WK; s++) {
            const int k = 16 * (s * T::WK + (INTERLEAVED ? 0 : part));
            u32 a[T::MT][4], b[T::NT][2];
#pragma unroll
            for (int i = 0; i < T::MT; i++) matrices(a[i], a_at[i] + 4 * V::word(k / RUN, k % RUN));
#pragma unroll
            for (int j = 0; j < T::NT; j += 2) {
                if (ALONG)
                    matrices(&b[0][0] + 2 * j, b_at + 4 * (s * T::WK * 8 + j * 8 * WEIGHTS_PITCH));
                else
                    transposed_matrices(&b[0][0] + 2 * j, b_at + 4 * (s * T::WK * 16 * WEIGHTS_PITCH + j * 4));
            }
#pragma unroll
            for (int i = 0; i < T::MT; i++)
#pragma unroll
                for (int j = 0; j < T::NT; j++) multiply(d[i][j], a[i], b[j]);
        }
    }

    // Adds the shares of the warps along the reduction, in their order, in memory that nobody reads any more. Only the first
    // of them have the sums.
    __device__ __forceinline__ bool gather(u32* spare) {
        if constexpr (T::WK == 1) {
            return true;
        } else {
            constexpr int EACH = T::MT * T::NT * 4;
            const int part = warp() / (T::WM * T::WN);
            float* all = (float*)spare + warp() % (T::WM * T::WN) * EACH * 32 + threadIdx.x % 32;
            float* flat = &d[0][0][0];
            __syncthreads();
            if (part > 0)
#pragma unroll
                for (int i = 0; i < EACH; i++) all[((part - 1) * T::WM * T::WN * EACH + i) * 32] = flat[i];
            __syncthreads();
            if (part > 0) return false;
#pragma unroll
            for (int p = 0; p < T::WK - 1; p++)
#pragma unroll
                for (int i = 0; i < EACH; i++) flat[i] += all[(p * T::WM * T::WN * EACH + i) * 32];
            return true;
        }
    }

    // A stretch of neighbouring columns that a thread holds starts here; it has several, of different rows.
    template <class C>
    __device__ __forceinline__ static int column_of(int u) {
        return first_column() + u * C::SPAN + threadIdx.x % 4 * 2 * C::GROUP;
    }
    template <class C>
    __device__ __forceinline__ static constexpr int stretches() {
        return T::MT * 2 * (T::NT / C::GROUP);
    }
    // Calls f(s, row, u) for each of them: the s-th, from column_of(u) on.
    template <class C, class F>
    __device__ __forceinline__ static void each_place(F f) {
#pragma unroll
        for (int i = 0; i < T::MT; i++)
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int u = 0; u < T::NT / C::GROUP; u++)
                    f((i * 2 + h) * (T::NT / C::GROUP) + u, first_row() + 16 * i + 8 * h + (int)threadIdx.x % 32 / 4, u);
    }
    // Calls f(s, row, u, values) for each.
    template <class C, class F>
    __device__ __forceinline__ void each(F f) const {
        each_place<C>([&](int s, int row, int u) {
            const int i = s / (T::NT / C::GROUP) / 2, h = s / (T::NT / C::GROUP) % 2;
            float x[2 * C::GROUP];
#pragma unroll
            for (int j = 0; j < C::GROUP; j++) {
                x[2 * j] = d[i][u * C::GROUP + j][2 * h];
                x[2 * j + 1] = d[i][u * C::GROUP + j][2 * h + 1];
            }
            f(s, row, u, x);
        });
    }
};

// Copies rows of an image into shared memory, asynchronously; `from` is their first number.
template <class V, class L, int THREADS>
__device__ __forceinline__ void fetch_rows(u32* to, const bf16* from, int rows) {
    constexpr int PER_ROW = L::W * L::C / 8;
    for (int i = threadIdx.x; i < rows * PER_ROW; i += THREADS)
        copy16(to + V::word(i / PER_ROW, i % PER_ROW * 8), from + (size_t)i * 8);
}
// Bytes take two steps: they are copied as they are, into a buffer of their own, and converted when the stage is free. A thread
// converts what it has copied itself.
template <class V, class L, int THREADS>
__device__ __forceinline__ void fetch_rows(u32* raw, const u8* from, int rows) {
    constexpr int PER_ROW = L::W * L::C / 16;
    for (int i = threadIdx.x; i < rows * PER_ROW; i += THREADS) copy16(raw + 4 * i, from + (size_t)i * 16);
}
template <class V, class L, int THREADS>
__device__ __forceinline__ void convert_bytes(u32* to, const u32* raw, int rows) {
    constexpr int PER_ROW = L::W * L::C / 16;
#pragma unroll 2
    for (int i = threadIdx.x; i < rows * PER_ROW; i += THREADS) {
        const uint4 bytes = *(const uint4*)(raw + 4 * i);
        const u32 fours[4] = {bytes.x, bytes.y, bytes.z, bytes.w};
        u32 w[8];
#pragma unroll
        for (int q = 0; q < 8; q++) {
            // Small whole numbers leave the low half of a float empty.
            float low = byte_float(fours[q / 2], q % 2 * 2), high = byte_float(fours[q / 2], q % 2 * 2 + 1);
            w[q] = __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
        }
        u32* line = to + V::word(i / PER_ROW, i % PER_ROW * 16);
        *(uint4*)line = make_uint4(w[0], w[1], w[2], w[3]);
        *(uint4*)(line + 4) = make_uint4(w[4], w[5], w[6], w[7]);
    }
}

// Bytes whose planes lie apart from each other: what stands for them is a table of where each is, null for one of zeros.
struct planar {
    u8 byte;
};
template <class In>
constexpr bool IN_PLANES = false;
template <>
constexpr bool IN_PLANES<planar> = true;

// Where the planes of all samples of a network are, within the block.
template <class L, class In, int THREADS, int BATCH>
__device__ __forceinline__ const u8* const* find_planes(const In* input, int network) {
    __shared__ const u8* all[IN_PLANES<In> ? BATCH * L::C : 1];
    if constexpr (IN_PLANES<In>) {
        const u8* const* table = (const u8* const*)input + (size_t)network * BATCH * L::C;
        for (int i = threadIdx.x; i < BATCH * L::C; i += THREADS) all[i] = table[i];
        __syncthreads();
    }
    return all;
}

// Four neighbouring pixels of four planes, each of so many words, as bf16: all four numbers of a pixel, then those of the next.
template <int PLANE>
__device__ __forceinline__ void pixels_of_planes(u32 (&w)[8], const u32* raw) {
    u32 plane[4];
#pragma unroll
    for (int c = 0; c < 4; c++) plane[c] = raw[c * PLANE];
#pragma unroll
    for (int q = 0; q < 8; q++) {
        float low = byte_float(plane[q % 2 * 2], q / 2), high = byte_float(plane[q % 2 * 2 + 1], q / 2);
        w[q] = __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
    }
}

// As `fetch_rows` and `convert_bytes`, plane after plane: `rows` rows of a sample's planes, from `row` on, where ROWS find room. What a
// thread converts, others have copied.
template <class L, int THREADS, int ROWS>
__device__ __forceinline__ void fetch_planes(u32* raw, const u8* const* planes, const void* nowhere, int row, int rows) {
    constexpr int EACH = ROWS * L::W / 16;
    for (int i = threadIdx.x; i < L::C * EACH; i += THREADS) {
        const u8* plane = planes[i / EACH];
        const int at = row * L::W + i % EACH * 16;
        if (i % EACH * 16 < rows * L::W) copy16_if(plane != nullptr, raw + 4 * i, plane ? plane + at : nowhere);
    }
}
template <class V, class L, int THREADS, int ROWS>
__device__ __forceinline__ void convert_planes(u32* to, const u32* raw, int rows) {
    static_assert(L::C == 4 && L::W % 4 == 0, "four pixels of four planes at a time");
    constexpr int PER_ROW = L::W / 4, PLANE = ROWS * PER_ROW;
#pragma unroll 2
    for (int i = threadIdx.x; i < rows * PER_ROW; i += THREADS) {
        u32 w[8];
        pixels_of_planes<PLANE>(w, raw + i);
        u32* line = to + V::word(i / PER_ROW, i % PER_ROW * 16);
        *(uint4*)line = make_uint4(w[0], w[1], w[2], w[3]);
        *(uint4*)(line + 4) = make_uint4(w[4], w[5], w[6], w[7]);
    }
}

// Calls f(i, eight numbers as four words) for all i below COUNT, with several loads under way; at(i) is where they are.
template <int COUNT, int THREADS, class At, class F>
__device__ __forceinline__ void each_eight(At at, F f) {
    constexpr int AT_ONCE = 8;
    for (int first = threadIdx.x; first < COUNT; first += AT_ONCE * THREADS) {
        uint4 raw[AT_ONCE];
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            if (first + j * THREADS < COUNT) raw[j] = *(const uint4*)at(first + j * THREADS);
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++)
            if (first + j * THREADS < COUNT) f(first + j * THREADS, raw[j]);
    }
}

// Shared memory of the forward pass: weights, then STAGES stages of images, over which warps may add up their sums. While one work
// tile is multiplied, the next is loaded: into another stage, or as raw bytes. STAGES is 1 where a block has one work tile.
template <class L, class In, class T, int G, int ROWS, int STAGES>
struct ForwardShape {
    static_assert(G == 1 || ROWS == L::OH, "bands of single images");
    static constexpr int IN_ROWS = (ROWS - 1) * L::S + L::KS, BANDS = (L::OH + ROWS - 1) / ROWS;
    static constexpr bool BYTES_IN = sizeof(In) == 1;
    typedef Picture<IN_ROWS, L::W, L::S, L::C, ROWS, L::OW> V;
    typedef PatchProduct<V, T, L::KS, false> P;
    static_assert(T::BM >= G * V::PATCHES && L::F % T::BN == 0, "tiles for all outputs");
    static constexpr int IMAGES = G * V::SIZE > P::SPARE ? G * V::SIZE : P::SPARE;
    static constexpr int RAW = IN_ROWS * L::W * L::C / 4;  // words of an image's bytes
    static constexpr int BYTES = 4 * (P::WEIGHTS + (BYTES_IN ? IMAGES + G * RAW : STAGES * IMAGES));
};

// The same for the gradient of a layer's input, with a border of zeros wherever a patch reaches beyond the outputs.
template <class L, class T, int G, int STAGES>
struct GradientShape {
    typedef Phase<L> Q;
    static constexpr int BEFORE = Q::TAPS - 1;
    typedef Picture<Q::PH + BEFORE, Q::PW + BEFORE, 1, L::F, Q::PH, Q::PW> V;
    typedef PatchProduct<V, T, Q::TAPS, true> P;
    static_assert(L::KS % L::S == 0 && Q::PH >= L::OH && Q::PW >= L::OW, "every phase has all its taps");
    static_assert(T::BM >= G * V::PATCHES && L::S * L::S * L::C % T::BN == 0, "tiles for all inputs");
    static constexpr int IMAGES = G * V::SIZE > P::SPARE ? G * V::SIZE : P::SPARE;
    static constexpr int BYTES = 4 * (P::WEIGHTS + STAGES * IMAGES);
};

// The same as `forward`. A work tile is G images, or a band of ROWS rows of outputs of one.
// grid: (blocks that share the work tiles, slices of the filters, networks)
// ACTING: the kernel before this one may still be at work, which the weights do not depend on.
template <class L, class In, class T, int G, int ROWS, int STAGES, int BATCH, bool ACTING>
__device__ void direct_forward(const Net* nets, int agents, int first_network, const In* input, bf16* output,
                               float scale) {
    typedef ForwardShape<L, In, T, G, ROWS, STAGES> Own;
    typedef typename Own::V V;
    typedef typename Own::P P;
    typedef Columns<T, L::F> C;
    constexpr int BANDS = Own::BANDS, WORK_TILES = (BATCH + G - 1) / G * BANDS;
    u32* images = direct_shared + P::WEIGHTS;
    u32* raw = images + Own::IMAGES;
    const int z = first_network + blockIdx.z, f0 = blockIdx.y * T::BN;
    const Net& net = nets[z % agents];
    const bf16* weights = (z < agents ? net.online_half : net.target_half) + L::WEIGHTS_AT;
    const float* bias = (z < agents ? net.online : net.target) + L::WEIGHTS_AT + L::FAN_IN * L::F + f0;
    const int begin = WORK_TILES * blockIdx.x / gridDim.x, end = WORK_TILES * (blockIdx.x + 1) / gridDim.x;
    const u8* const* planes = find_planes<L, In, T::THREADS, BATCH>(input, z);
    // The stage of a work tile, or of its bytes; and the rows that it has.
    auto stage_of = [&](int work) { return Own::BYTES_IN ? raw : images + (work - begin) % STAGES * Own::IMAGES; };
    auto rows_of = [&](int work) {
        const int row = work % BANDS * ROWS * L::S;
        return Own::IN_ROWS < L::H - row ? Own::IN_ROWS : L::H - row;
    };
    constexpr int APART = Own::BYTES_IN ? Own::RAW : V::SIZE;
    auto fetch_work = [&](int work) {
        if (work < end) {
            const int row = work % BANDS * ROWS * L::S;
#pragma unroll 1
            for (int i = 0; i < G; i++) {
                int image = work / BANDS * G + i;
                if (image >= BATCH) continue;
                u32* to = stage_of(work) + i * APART;
                if constexpr (IN_PLANES<In>)
                    fetch_planes<L, T::THREADS, Own::IN_ROWS>(to, planes + image * L::C, input, row, rows_of(work));
                else
                    fetch_rows<V, L, T::THREADS>(to, input + ((size_t)z * BATCH + image) * L::INPUT + row * L::W * L::C,
                                            rows_of(work));
            }
        }
        commit_copies();
    };
    if (!ACTING) fetch_work(begin);
    each_eight<L::FAN_IN * T::BN / 8, T::THREADS>(
        [&](int i) { return weights + i / (T::BN / 8) * L::F + f0 + i % (T::BN / 8) * 8; },
        [&](int i, uint4 w) {
            int f = i % (T::BN / 8) * 8;
            u32* line = direct_shared + i / (T::BN / 8) * P::WEIGHTS_PITCH;
            line[C::place(f) / 2] = w.x;
            line[C::place(f + 2) / 2] = w.y;
            line[C::place(f + 4) / 2] = w.z;
            line[C::place(f + 6) / 2] = w.w;
        });
    float shift[T::NT / C::GROUP][2 * C::GROUP];
#pragma unroll
    for (int u = 0; u < T::NT / C::GROUP; u++)
#pragma unroll
        for (int j = 0; j < 2 * C::GROUP; j++) shift[u][j] = bias[P::template column_of<C>(u) + j];
    if (ACTING) {
        wait_for_previous();
        fetch_work(begin);
    }
    int corners[T::MT];
#pragma unroll
    for (int i = 0; i < T::MT; i++) {
        int m = P::first_row() + 16 * i + threadIdx.x % 16;
        corners[i] = V::corner(m < G * V::PATCHES ? m : 0);
    }
#pragma unroll 1
    for (int work = begin; work < end; work++) {
        // The previous work tile's stage is free once all warps are done with it.
        if (work > begin) __syncthreads();
        u32* now = images;
        if constexpr (Own::BYTES_IN) {
            wait_for_copies<0>();
            if (IN_PLANES<In>) __syncthreads();
#pragma unroll 1
            for (int i = 0; i < G; i++) {
                if (work / BANDS * G + i >= BATCH) continue;
                if constexpr (IN_PLANES<In>)
                    convert_planes<V, L, T::THREADS, Own::IN_ROWS>(images + i * V::SIZE, raw + i * Own::RAW, rows_of(work));
                else
                    convert_bytes<V, L, T::THREADS>(images + i * V::SIZE, raw + i * Own::RAW, rows_of(work));
            }
            __syncthreads();
            fetch_work(work + 1);
        } else {
            now = stage_of(work);
            fetch_work(work + 1);
            wait_for_copies<1>();
            __syncthreads();
        }
        P product;
        product.run(now, corners, direct_shared);
        if (!product.gather(now)) continue;
        bf16* to = output + (size_t)z * BATCH * L::POSITIONS * L::F + f0;
        product.template each<C>([&](int, int m, int u, float (&x)[2 * C::GROUP]) {
            const int image = work / BANDS * G + m / V::PATCHES, x0 = m % V::WIDE;
            const int y0 = work % BANDS * ROWS + m % V::PATCHES / V::WIDE;
            if (m >= G * V::PATCHES || image >= BATCH || y0 >= L::OH || x0 >= L::OW) return;
#pragma unroll
            for (int j = 0; j < 2 * C::GROUP; j++) {
                x[j] = x[j] * scale + shift[u][j];
                if (L::RELU) x[j] = fmaxf(x[j], 0.0f);
            }
            store_line(to + ((size_t)image * L::POSITIONS + y0 * L::OW + x0) * L::F + P::template column_of<C>(u), x);
        });
    }
}

// The same as `input_gradient`, for kernels that are whole multiples of their stride. The gradient of the input at
// (S y + py, S x + px) is a patch of the output's gradient around (y, x) times weights of the phase (py, px); so the phases
// are columns of one product. grid: (blocks that share the work tiles, slices of the columns, agents)
template <class L, class T, int G, int STAGES, int BATCH>
__device__ void direct_input_gradient(const Net* nets, const bf16* delta, const bf16* input, bf16* input_delta) {
    typedef GradientShape<L, T, G, STAGES> Own;
    typedef typename Own::Q Q;
    typedef typename Own::V V;
    typedef typename Own::P P;
    typedef Columns<T, L::C> C;
    constexpr int BEFORE = Own::BEFORE, WORK_TILES = (BATCH + G - 1) / G;
    u32* images = direct_shared + P::WEIGHTS;
    const int z = blockIdx.z, n0 = blockIdx.y * T::BN;
    const bf16* weights = nets[z].online_half + L::WEIGHTS_AT;
    const int begin = WORK_TILES * blockIdx.x / gridDim.x, end = WORK_TILES * (blockIdx.x + 1) / gridDim.x;
    auto stage_of = [&](int work) { return images + (work - begin) % STAGES * Own::IMAGES; };
    auto fetch_work = [&](int work) {
        if (work < end) {
            constexpr int PER_ROW = L::OW * L::F / 8, ALL = L::OH * PER_ROW;
            const bf16* from = delta + ((size_t)z * BATCH + work * G) * (L::POSITIONS * L::F);
            const int count = (BATCH - work * G < G ? BATCH - work * G : G) * ALL;
            u32* to = stage_of(work);
            for (int i = threadIdx.x; i < count; i += T::THREADS) {
                int row = i % ALL / PER_ROW, n = i % PER_ROW * 8;
                copy16(to + i / ALL * V::SIZE + V::word(BEFORE + row, BEFORE * L::F + n), from + (size_t)i * 8);
            }
        }
        commit_copies();
    };
    // Weights are loaded together with the first work tile.
    constexpr int PER_LINE = L::F / 8, TAPS = Q::TAPS * Q::TAPS;
    for (int i = threadIdx.x; i < T::BN * TAPS * PER_LINE; i += T::THREADS) {
        int n = n0 + i / (TAPS * PER_LINE), tap = i / PER_LINE % TAPS, phase = n / L::C;
        int ky = phase / L::S + L::S * (BEFORE - tap / Q::TAPS), kx = phase % L::S + L::S * (BEFORE - tap % Q::TAPS);
        copy16(direct_shared + C::place(n - n0) * P::WEIGHTS_PITCH + i % (TAPS * PER_LINE) * 4,
               weights + ((ky * L::KS + kx) * L::C + n % L::C) * L::F + i % PER_LINE * 8);
    }
    for (int i = threadIdx.x; i < STAGES * Own::IMAGES; i += T::THREADS) images[i] = 0;
    __syncthreads();
    fetch_work(begin);
    int corners[T::MT];
#pragma unroll
    for (int i = 0; i < T::MT; i++) {
        int m = P::first_row() + 16 * i + threadIdx.x % 16;
        corners[i] = V::corner(m < G * V::PATCHES ? m : 0);
    }
#pragma unroll 1
    for (int work = begin; work < end; work++) {
        if (work > begin) {
            __syncthreads();
            if constexpr (P::SPARE > 0) {
                // Sums have overwritten the border of the images before these.
                u32* next = stage_of(work + 1);
                for (int i = threadIdx.x; i < G * V::SIZE && i < P::SPARE; i += T::THREADS) next[i] = 0;
                __syncthreads();
            }
        }
        fetch_work(work + 1);
        wait_for_copies<1>();
        __syncthreads();
        u32* now = stage_of(work);
        // Where the epilogue stores a run of columns; negative where it does not.
        auto goal = [&](int m, int u) -> long long {
            int n = n0 + P::template column_of<C>(u), phase = n / L::C;
            int image = work * G + m / V::PATCHES, p = m % V::PATCHES;
            int row = p / Q::PW * L::S + phase / L::S, column = p % Q::PW * L::S + phase % L::S;
            if (m >= G * V::PATCHES || image >= BATCH || row >= L::H || column >= L::W) return -1;
            return ((long long)z * BATCH + image) * L::INPUT + (row * L::W + column) * L::C + n % L::C;
        };
        // The input's ReLU mask: loaded one by one between the stores, each load would be waited for. Where there are registers for
        // all of it, it is loaded while the product runs.
        constexpr int STRETCHES = P::template stretches<C>();
        constexpr bool AHEAD = T::MT * T::NT <= 8;
        constexpr int AT_ONCE = AHEAD ? STRETCHES : 2;
        Raw<bf16, 2 * C::GROUP> open[AT_ONCE];
        auto ask = [&](int first) {
            P::template each_place<C>([&](int s, int m, int u) {
                if (s / AT_ONCE != first / AT_ONCE) return;
                long long at = goal(m, u);
                if (at >= 0) open[s % AT_ONCE] = *(const Raw<bf16, 2 * C::GROUP>*)(input + at);
            });
        };
        if (AHEAD) ask(0);
        P product;
        product.run(now, corners, direct_shared);
        if (!product.gather(now)) continue;
#pragma unroll
        for (int first = 0; first < STRETCHES; first += AT_ONCE) {
            if (!AHEAD) ask(first);
            product.template each<C>([&](int s, int m, int u, float (&x)[2 * C::GROUP]) {
                long long at = goal(m, u);
                if (s / AT_ONCE != first / AT_ONCE || at < 0) return;
#pragma unroll
                for (int j = 0; j < 2 * C::GROUP; j++)
                    if (!(to_float(open[s % AT_ONCE].e[j]) > 0.0f)) x[j] = 0.0f;
                store_line(input_delta + at, x);
            });
        }
    }
}
#endif
