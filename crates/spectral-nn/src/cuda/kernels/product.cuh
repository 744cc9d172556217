// One tile of a matrix product: BM x BN outputs of a block, its reduction cut into chunks of CHUNK numbers that pass
// through two stages in shared memory. Operands come through loaders, which first fetch a chunk into registers and later
// stash it as words, so that the next chunk is loaded while this one is multiplied.

#define WORDS 16
#define CHUNK (WORDS * PER_WORD)

template <int BM_, int BN_, int WM_, int WN_>
struct Tile {
    static constexpr int BM = BM_, BN = BN_, WM = WM_, WN = WN_;
    static constexpr int THREADS = WM * WN * 32;
    static constexpr int MT = BM / WM / 16, NT = BN / WN / 8;
    // Padding puts the four words that a quad of lanes reads into different banks.
    static constexpr int A_PITCH = BM + 8, B_PITCH = BN + 8;
    static constexpr int STAGE = WORDS * (A_PITCH + B_PITCH);
    static constexpr int SHARED = 2 * STAGE;
};

template <class T>
struct Sums {
    float d[T::MT][T::NT][4];

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int i = 0; i < T::MT; i++)
#pragma unroll
            for (int j = 0; j < T::NT; j++)
#pragma unroll
                for (int k = 0; k < 4; k++) d[i][j][k] = 0.0f;
    }

    __device__ __forceinline__ void chunk(const u32* a_words, const u32* b_words) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const int g = lane / 4, t = lane % 4;
        const int m0 = warp / T::WN * (T::MT * 16) + g, n0 = warp % T::WN * (T::NT * 8);
#if MODE == 0
#pragma unroll 4
        for (int k = 0; k < WORDS; k++) {
            float a[T::MT][2], b[T::NT][2];
#pragma unroll
            for (int i = 0; i < T::MT; i++)
#pragma unroll
                for (int h = 0; h < 2; h++) a[i][h] = __uint_as_float(a_words[k * T::A_PITCH + m0 + 16 * i + 8 * h]);
#pragma unroll
            for (int j = 0; j < T::NT; j++)
#pragma unroll
                for (int h = 0; h < 2; h++) b[j][h] = __uint_as_float(b_words[k * T::B_PITCH + n0 + 8 * j + 2 * t + h]);
#pragma unroll
            for (int i = 0; i < T::MT; i++)
#pragma unroll
                for (int j = 0; j < T::NT; j++)
#pragma unroll
                    for (int h = 0; h < 4; h++) d[i][j][h] = fmaf(a[i][h / 2], b[j][h % 2], d[i][j][h]);
        }
#else
#pragma unroll
        for (int k = 0; k < WORDS; k += 8) {
            u32 a[T::MT][4], b[T::NT][2];
            const u32* from = a_words + (k + t) * T::A_PITCH + m0;
#pragma unroll
            for (int i = 0; i < T::MT; i++) {
                a[i][0] = from[16 * i];
                a[i][1] = from[16 * i + 8];
                a[i][2] = from[4 * T::A_PITCH + 16 * i];
                a[i][3] = from[4 * T::A_PITCH + 16 * i + 8];
            }
            from = b_words + (k + t) * T::B_PITCH + n0 + g;
#pragma unroll
            for (int j = 0; j < T::NT; j++) {
                b[j][0] = from[8 * j];
                b[j][1] = from[4 * T::B_PITCH + 8 * j];
            }
#pragma unroll
            for (int i = 0; i < T::MT; i++)
#pragma unroll
                for (int j = 0; j < T::NT; j++) multiply(d[i][j], a[i], b[j]);
        }
#endif
    }

    // Calls f(s, row, column) for every pair of outputs that a thread holds: the s-th, that column and the next.
    static constexpr int PAIRS = T::MT * 2 * T::NT;
    template <class F>
    __device__ __forceinline__ static void each_place(F f) {
        const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
        const int m0 = warp / T::WN * (T::MT * 16) + lane / 4, n0 = warp % T::WN * (T::NT * 8) + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < T::MT; i++)
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int j = 0; j < T::NT; j++) f((i * 2 + h) * T::NT + j, m0 + 16 * i + 8 * h, n0 + 8 * j);
    }
    // Calls f(s, row, column, value, value of the next column) for each.
    template <class F>
    __device__ __forceinline__ void each(F f) const {
        each_place([&](int s, int row, int column) {
            const float* pair = d[s / T::NT / 2][s % T::NT] + s / T::NT % 2 * 2;
            f(s, row, column, pair[0], pair[1]);
        });
    }
};

// Sums the chunks first..last of the product of two loaders.
template <class T, class A, class B>
__device__ __forceinline__ void run(Sums<T>& sums, A& a, B& b, int first, int last, u32* shared) {
    sums.clear();
    if (first >= last) return;
    a.fetch(first);
    b.fetch(first);
    a.stash(shared);
    b.stash(shared + WORDS * T::A_PITCH);
    __syncthreads();
    for (int c = first; c < last; c++) {
        u32* now = shared + (c - first) % 2 * T::STAGE;
        u32* next = shared + (c - first + 1) % 2 * T::STAGE;
        if (c + 1 < last) {
            a.fetch(c + 1);
            b.fetch(c + 1);
        }
        sums.chunk(now, now + WORDS * T::A_PITCH);
        if (c + 1 < last) {
            a.stash(next);
            b.stash(next + WORDS * T::A_PITCH);
        }
        __syncthreads();
    }
}

// Loads a tile whose memory runs along the reduction: ROWS rows of CHUNK numbers. `Rows` says where row r's numbers k.. lie:
// prepare(r) once, then at(prepared, k), null for zeros; N numbers from there must be of one stretch, ALIGNED if so.
template <class T, int ROWS, int PITCH, int THREADS, class Rows>
struct AlongK {
    static constexpr int N = Rows::N;
    static constexpr int PER_ROW = CHUNK / N;
    static constexpr int VECTORS = ROWS * PER_ROW;
    static constexpr int MINE = (VECTORS + THREADS - 1) / THREADS;
    Rows rows;
    typename Rows::Row row[MINE];
    Raw<T, N> raw[MINE];

    __device__ __forceinline__ static int row_of(int vector) { return PER_ROW == 1 ? vector : vector / 2 % ROWS; }
    __device__ __forceinline__ static int k_of(int vector) {
        return PER_ROW == 1 ? 0 : (vector % 2 + vector / 2 / ROWS * 2) * N;
    }

    __device__ __forceinline__ explicit AlongK(Rows rows) : rows(rows) {
#pragma unroll
        for (int i = 0; i < MINE; i++) row[i] = rows.prepare(row_of(i * THREADS + threadIdx.x));
    }

    __device__ __forceinline__ void fetch(int chunk) {
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            int vector = i * THREADS + threadIdx.x;
            if (VECTORS % THREADS == 0 || vector < VECTORS) rows.load(row[i], chunk * CHUNK + k_of(vector), raw[i]);
        }
    }

    __device__ __forceinline__ void stash(u32* words) const {
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            int vector = i * THREADS + threadIdx.x;
            if (VECTORS % THREADS != 0 && vector >= VECTORS) continue;
            u32 w[N / PER_WORD];
            words_of<T, N>(raw[i], w);
            u32* to = words + k_of(vector) / PER_WORD * PITCH + row_of(vector);
#pragma unroll
            for (int j = 0; j < N / PER_WORD; j++) to[j * PITCH] = w[j];
        }
    }
};

// Loads a tile whose memory runs across the reduction: CHUNK lines of COLUMNS numbers. `Lines` says where line k's numbers
// column.. lie.
template <class T, int COLUMNS, int PITCH, int THREADS, class Lines>
struct AcrossK {
    static constexpr int N = Lines::N;
    static constexpr int PER_LINE = COLUMNS / N;
    static constexpr int VECTORS = WORDS * PER_LINE;
    static constexpr int MINE = (VECTORS + THREADS - 1) / THREADS;
    Lines lines;
    Raw<T, N> raw[MINE][PER_WORD];

    __device__ __forceinline__ explicit AcrossK(Lines lines) : lines(lines) {}

    __device__ __forceinline__ void fetch(int chunk) {
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            int vector = i * THREADS + threadIdx.x;
            if (VECTORS % THREADS != 0 && vector >= VECTORS) continue;
            int k = chunk * CHUNK + vector / PER_LINE * PER_WORD;
#pragma unroll
            for (int j = 0; j < PER_WORD; j++) lines.load(k + j, vector % PER_LINE * N, raw[i][j]);
        }
    }

    __device__ __forceinline__ void stash(u32* words) {
#pragma unroll
        for (int i = 0; i < MINE; i++) {
            int vector = i * THREADS + threadIdx.x;
            if (VECTORS % THREADS != 0 && vector >= VECTORS) continue;
            float x[PER_WORD][N];
#pragma unroll
            for (int j = 0; j < PER_WORD; j++) floats_of<N>(raw[i][j], x[j]);
            lines.seen(vector % PER_LINE * N, x);
            u32* to = words + vector / PER_LINE * PITCH + vector % PER_LINE * N;
            u32 w[N];
#pragma unroll
            for (int j = 0; j < N; j++) {
#if MODE == 2
                w[j] = pack(x[0][j], x[1][j]);
#else
                w[j] = single(x[0][j]);
#endif
            }
            if constexpr (N % 4 == 0) {
#pragma unroll
                for (int j = 0; j < N; j += 4) *(uint4*)(to + j) = make_uint4(w[j], w[j + 1], w[j + 2], w[j + 3]);
            } else {
#pragma unroll
                for (int j = 0; j < N; j++) to[j] = w[j];
            }
        }
    }
};
