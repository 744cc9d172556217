// One affine layer of all networks at once: forward, gradient of its input, gradient of its weights. Convolutions are
// gathered while they are multiplied; patches are never written out. A fully connected layer is the convolution of a
// 1 x 1 image. Activations are [network][sample][row][column][channel].

template <int H_, int W_, int C_, int KS_, int S_, int F_, bool RELU_, int WEIGHTS_AT_>
struct Layer {
    static constexpr int H = H_, W = W_, C = C_, KS = KS_, S = S_, F = F_;  // F = 0: the head, whose width is the network's
    static constexpr bool RELU = RELU_;
    static constexpr int WEIGHTS_AT = WEIGHTS_AT_;
    static constexpr int OH = (H - KS) / S + 1, OW = (W - KS) / S + 1;
    static constexpr int POSITIONS = OH * OW, FAN_IN = KS * KS * C, INPUT = H * W * C;
    static constexpr int RUN = KS * C;  // numbers of a patch that follow each other in memory
    static constexpr bool EVEN_WEIGHTS = F > 0 && F % 4 == 0 && WEIGHTS_AT % 4 == 0;
    __device__ __forceinline__ static int filters(const Net& net) { return F > 0 ? F : (int)net.outputs; }
};

// Whether a weight may be other than zero. In a dueling head, the value's outputs have weights from the first half of the inputs
// only, and the advantages' from the second. Biases (input FAN_IN) all count.
template <class L>
__device__ __forceinline__ bool counts(const Net& net, int input, int unit) {
#ifdef DUELING
    const int value = (int)net.outputs / (DUELING + 1);
    return L::F > 0 || input >= L::FAN_IN || (input < L::FAN_IN / 2) == (unit < value);
#else
    return true;
#endif
}

template <class T, int N>
__device__ __forceinline__ void zero(Raw<T, N>& raw) {
#pragma unroll
    for (int i = 0; i < N; i++) raw.e[i] = T();
}

template <class L, class In>
struct PatchShape {
    static constexpr int WIDE = 16 / sizeof(In);
    static constexpr bool ALIGNED = L::RUN % WIDE == 0 && L::S * L::C % WIDE == 0 && L::W * L::C % WIDE == 0;
    static constexpr int N = ALIGNED ? WIDE : 4;
    // Where element k of a patch lies, counted from the patch's corner.
    __device__ __forceinline__ static int offset(int k) { return k / L::RUN * (L::W * L::C) + k % L::RUN; }
    __device__ __forceinline__ static int corner(int position) {
        return (position / L::OW * L::S * L::W + position % L::OW * L::S) * L::C;
    }
    // Elements k.. of the patch at `corner`, zeros from `end` on or without a patch.
    __device__ __forceinline__ static void load(const In* corner, int k, int end, Raw<In, N>& raw) {
        if constexpr (ALIGNED) {
            if (corner && k < end)
                raw = *(const Raw<In, N>*)(corner + offset(k));
            else
                zero(raw);
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) raw.e[i] = corner && k + i < end ? corner[offset(k + i)] : In();
        }
    }
};

// Patches as rows of the left operand.
template <class L, class In, int BATCH>
struct Patches {
    typedef PatchShape<L, In> Shape;
    static constexpr int N = Shape::N;
    typedef const In* Row;
    const In* input;
    int first;
    __device__ __forceinline__ Row prepare(int r) const {
        int m = first + r;
        if (m >= BATCH * L::POSITIONS) return nullptr;
        return input + m / L::POSITIONS * L::INPUT + Shape::corner(m % L::POSITIONS);
    }
    __device__ __forceinline__ void load(Row row, int k, Raw<In, N>& raw) const { Shape::load(row, k, L::FAN_IN, raw); }
};

// Patches as lines of the reduction: line r is a patch, columns are its elements.
template <class L, class In, int BATCH>
struct PatchLines {
    typedef PatchShape<L, In> Shape;
    static constexpr int N = Shape::N;
    const In* input;
    int first;
    __device__ __forceinline__ void load(int r, int column, Raw<In, N>& raw) const {
        const In* corner = nullptr;
        if (r < BATCH * L::POSITIONS) corner = input + r / L::POSITIONS * L::INPUT + Shape::corner(r % L::POSITIONS);
        Shape::load(corner, first + column, L::FAN_IN, raw);
    }
    template <class X>
    __device__ __forceinline__ void seen(int, const X&) {}
};

// Weights [element of a patch][filter] as lines of the reduction.
template <class L>
struct Weights {
    static constexpr int N = L::EVEN_WEIGHTS ? 4 : 1;
    const float* weights;
    int filters, first;
    __device__ __forceinline__ void load(int k, int column, Raw<float, N>& raw) const {
        int f = first + column;
        if (k < L::FAN_IN && f < filters)
            raw = *(const Raw<float, N>*)(weights + (size_t)k * filters + f);
        else
            zero(raw);
    }
    template <class X>
    __device__ __forceinline__ void seen(int, const X&) {}
};

// Output gradients as lines of the reduction: line r is a position of a sample. Sums them up for the biases.
template <class L, class D, int BATCH>
struct DeltaLines {
    static constexpr int WIDE = 16 / sizeof(D);
    static constexpr bool ALIGNED = L::F > 0 && L::F % WIDE == 0;
    static constexpr int N = ALIGNED ? WIDE : 1;
    const D* delta;
    int filters, pitch, first;
    float sum[N];
    __device__ __forceinline__ void load(int r, int column, Raw<D, N>& raw) const {
        int f = first + column;
        if (r < BATCH * L::POSITIONS && f < filters)
            raw = *(const Raw<D, N>*)(delta + (size_t)r * pitch + f);
        else
            zero(raw);
    }
    __device__ __forceinline__ void seen(int, const float (&x)[PER_WORD][N]) {
#pragma unroll
        for (int j = 0; j < PER_WORD; j++)
#pragma unroll
            for (int i = 0; i < N; i++) sum[i] += x[j][i];
    }
};

// The gradient of an input at (S y + py, S x + px) comes from the outputs (y - ty, x - tx) through the weights at
// (py + S ty, px + S tx): for each phase (py, px) a convolution without gaps.
template <class L>
struct Phase {
    static constexpr int TAPS = (L::KS + L::S - 1) / L::S;
    static constexpr int PH = (L::H + L::S - 1) / L::S, PW = (L::W + L::S - 1) / L::S;
    int py, px;
    __device__ __forceinline__ explicit Phase(int phase) : py(phase / L::S), px(phase % L::S) {}
    __device__ __forceinline__ bool has(int ty, int tx) const {
        return L::KS % L::S == 0 || (py + L::S * ty < L::KS && px + L::S * tx < L::KS);
    }
};

template <class L, class D, int BATCH>
struct DeltaPatches {
    typedef Phase<L> P;
    static constexpr int WIDE = 16 / sizeof(D);
    static constexpr bool ALIGNED = L::F > 0 && L::F % WIDE == 0;
    static constexpr int N = ALIGNED ? WIDE : 4;
    struct Row {
        const D* sample;
        int y, x;
    };
    const D* delta;
    int filters, pitch, first;
    P phase;
    __device__ __forceinline__ Row prepare(int r) const {
        int m = first + r, p = m % (P::PH * P::PW);
        Row row = {nullptr, p / P::PW, p % P::PW};
        if (m < BATCH * P::PH * P::PW) row.sample = delta + (size_t)(m / (P::PH * P::PW)) * (L::POSITIONS * pitch);
        return row;
    }
    __device__ __forceinline__ const D* find(const Row& row, int k) const {
        int tap = k / filters, f = k % filters, ty = tap / P::TAPS, tx = tap % P::TAPS;
        int y = row.y - ty, x = row.x - tx;
        bool inside = row.sample && tap < P::TAPS * P::TAPS && y >= 0 && y < L::OH && x >= 0 && x < L::OW;
        return inside && phase.has(ty, tx) ? row.sample + (size_t)(y * L::OW + x) * pitch + f : nullptr;
    }
    __device__ __forceinline__ void load(const Row& row, int k, Raw<D, N>& raw) const {
        if constexpr (ALIGNED) {
            const D* at = find(row, k);
            if (at)
                raw = *(const Raw<D, N>*)at;
            else
                zero(raw);
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) {
                const D* at = find(row, k + i);
                raw.e[i] = at ? *at : D();
            }
        }
    }
};

// Weights as rows (one per input channel) that run along (tap, filter).
template <class L>
struct TurnedWeights {
    typedef Phase<L> P;
    static constexpr int N = 4;
    typedef int Row;
    const float* weights;
    int filters, first;
    P phase;
    __device__ __forceinline__ Row prepare(int r) const { return first + r; }
    __device__ __forceinline__ const float* find(int c, int k) const {
        int tap = k / filters, f = k % filters, ty = tap / P::TAPS, tx = tap % P::TAPS;
        if (c >= L::C || tap >= P::TAPS * P::TAPS || !phase.has(ty, tx)) return nullptr;
        int ky = phase.py + L::S * ty, kx = phase.px + L::S * tx;
        return weights + (size_t)((ky * L::KS + kx) * L::C + c) * filters + f;
    }
    __device__ __forceinline__ void load(Row c, int k, Raw<float, N>& raw) const {
        if constexpr (L::EVEN_WEIGHTS) {
            const float* at = find(c, k);
            if (at)
                raw = *(const Raw<float, N>*)at;
            else
                zero(raw);
        } else {
#pragma unroll
            for (int i = 0; i < N; i++) {
                const float* at = find(c, k + i);
                raw.e[i] = at ? *at : 0.0f;
            }
        }
    }
};

// A tile's sums become outputs: relu(sums scale + bias). With splits, each block leaves its sums in `workspace`, and the last
// to come adds them up in their order, whoever it is. z: the network, those below `agents` online, the others target.
template <class L, class Out, class T, int BATCH>
__device__ __forceinline__ void finish_forward(Sums<T>& sums, int z, int m0, int n0, int filters, const float* bias,
                                               Out* output, int pitch, float scale, float* workspace, u32* tickets) {
    const int splits = gridDim.y, split = blockIdx.y;
    if (splits > 1) {
        __shared__ bool last;
        // By network, not by block: online and target networks may be at work at the same time.
        const int tile = z * gridDim.x + blockIdx.x;
        const int each = T::BM * T::BN;
        float* mine = workspace + ((size_t)tile * splits + split) * each + threadIdx.x;
        float* flat = &sums.d[0][0][0];
#pragma unroll
        for (int i = 0; i < T::MT * T::NT * 4; i++) __stcg(mine + i * T::THREADS, flat[i]);
        __threadfence();
        __syncthreads();
        if (threadIdx.x == 0) last = atomicAdd(&tickets[tile], 1) == splits - 1;
        __syncthreads();
        if (!last) return;
        __threadfence();
        sums.clear();
        const float* all = workspace + (size_t)tile * splits * each + threadIdx.x;
        for (int s = 0; s < splits; s++)
#pragma unroll
            for (int i = 0; i < T::MT * T::NT * 4; i++) flat[i] += __ldcg(all + (size_t)s * each + i * T::THREADS);
        if (threadIdx.x == 0) tickets[tile] = 0;
    }
    Out* to = output + (size_t)z * BATCH * L::POSITIONS * pitch;
    sums.each([&](int, int r, int c, float x, float y) {
        int m = m0 + r, f = n0 + c;
        if (m >= BATCH * L::POSITIONS || f >= filters) return;
        x = x * scale + __ldg(bias + f);
        if (L::RELU) x = fmaxf(x, 0.0f);
        if (L::F > 0 && L::F % 2 == 0) {
            y = y * scale + __ldg(bias + f + 1);
            if (L::RELU) y = fmaxf(y, 0.0f);
            store_pair(to + (size_t)m * pitch + f, x, y);
        } else {
            store_act(to + (size_t)m * pitch + f, x);
            if (f + 1 < filters) {
                y = y * scale + __ldg(bias + f + 1);
                store_act(to + (size_t)m * pitch + f + 1, L::RELU ? fmaxf(y, 0.0f) : y);
            }
        }
    });
}

// output = relu(patches(input) weights + bias). grid: (tiles, splits, networks)
template <class L, class In, class Out, class T, int BATCH>
__device__ void forward(const Net* nets, int agents, int first_network, const In* input, Out* output, int pitch,
                        float scale, float* workspace, u32* tickets) {
    __shared__ __align__(16) u32 shared[T::SHARED];
    const int z = first_network + blockIdx.z;
    const Net& net = nets[z % agents];
    const float* weights = (z < agents ? net.online : net.target) + L::WEIGHTS_AT;
    const int filters = L::filters(net);
    const int column_tiles = gridDim.x / ((BATCH * L::POSITIONS + T::BM - 1) / T::BM);
    const int m0 = blockIdx.x / column_tiles * T::BM, n0 = blockIdx.x % column_tiles * T::BN;
    if (n0 >= filters) return;
    typedef AlongK<In, T::BM, T::A_PITCH, T::THREADS, Patches<L, In, BATCH>> A;
    typedef AcrossK<float, T::BN, T::B_PITCH, T::THREADS, Weights<L>> B;
    A a(Patches<L, In, BATCH>{input + (size_t)z * BATCH * L::INPUT, m0});
    B b(Weights<L>{weights, filters, n0});
    const int chunks = (L::FAN_IN + CHUNK - 1) / CHUNK, splits = gridDim.y, split = blockIdx.y;
    Sums<T> sums;
    run<T>(sums, a, b, chunks * split / splits, chunks * (split + 1) / splits, shared);
    const float* bias = weights + (size_t)L::FAN_IN * filters;
    finish_forward<L, Out, T, BATCH>(sums, z, m0, n0, filters, bias, output, pitch, scale, workspace, tickets);
}

// Gradient of a layer's input, 0 where the input is 0 (its rectifier was closed). grid: (tiles, phases, agents)
template <class L, class D, class T, int BATCH>
__device__ void input_gradient(const Net* nets, const D* delta, int pitch, const act_t* input, act_t* input_delta) {
    __shared__ __align__(16) u32 shared[T::SHARED];
    typedef Phase<L> P;
    const Net& net = nets[blockIdx.z];
    const int filters = L::filters(net);
    constexpr int COLUMN_TILES = (L::C + T::BN - 1) / T::BN;
    const int m0 = blockIdx.x / COLUMN_TILES * T::BM, n0 = blockIdx.x % COLUMN_TILES * T::BN;
    P phase(blockIdx.y);
    typedef AlongK<D, T::BM, T::A_PITCH, T::THREADS, DeltaPatches<L, D, BATCH>> A;
    typedef AlongK<float, T::BN, T::B_PITCH, T::THREADS, TurnedWeights<L>> B;
    A a(DeltaPatches<L, D, BATCH>{delta + (size_t)blockIdx.z * BATCH * L::POSITIONS * pitch, filters, pitch, m0, phase});
    B b(TurnedWeights<L>{net.online + L::WEIGHTS_AT, filters, n0, phase});
    Sums<T> sums;
    run<T>(sums, a, b, 0, (P::TAPS * P::TAPS * filters + CHUNK - 1) / CHUNK, shared);
    const size_t base = (size_t)blockIdx.z * BATCH * L::INPUT;
    sums.each([&](int, int r, int c, float x, float y) {
        int m = m0 + r, p = m % (P::PH * P::PW);
        int row = p / P::PW * L::S + phase.py, column = p % P::PW * L::S + phase.px;
        if (m >= BATCH * P::PH * P::PW || row >= L::H || column >= L::W) return;
        size_t at = base + (size_t)(m / (P::PH * P::PW)) * L::INPUT + (row * L::W + column) * L::C + n0 + c;
        if (n0 + c < L::C) store_act(input_delta + at, to_float(input[at]) > 0.0f ? x : 0.0f);
        if (n0 + c + 1 < L::C) store_act(input_delta + at + 1, to_float(input[at + 1]) > 0.0f ? y : 0.0f);
    });
}

// A share of the gradients of weights and biases: the positions of this split. partial: [agent][split][weights, biases]
// grid: (tiles, splits, agents)
template <class L, class In, class D, class T, int BATCH>
__device__ void weight_gradient(const Net* nets, const In* input, const D* delta, int pitch, float scale,
                                float* partial, int most) {
    __shared__ __align__(16) u32 shared[T::SHARED];
    const int filters = L::filters(nets[blockIdx.z]);
    const int column_tiles = gridDim.x / ((L::FAN_IN + T::BM - 1) / T::BM);
    const int m0 = blockIdx.x / column_tiles * T::BM, n0 = blockIdx.x % column_tiles * T::BN;
    if (n0 >= filters) return;
    typedef PatchLines<L, In, BATCH> Left;
    typedef DeltaLines<L, D, BATCH> Right;
    AcrossK<In, T::BM, T::A_PITCH, T::THREADS, Left> a(Left{input + (size_t)blockIdx.z * BATCH * L::INPUT, m0});
    Right right{delta + (size_t)blockIdx.z * BATCH * L::POSITIONS * pitch, filters, pitch, n0, {}};
    AcrossK<D, T::BN, T::B_PITCH, T::THREADS, Right> b(right);
    const int chunks = (BATCH * L::POSITIONS + CHUNK - 1) / CHUNK, splits = gridDim.y, split = blockIdx.y;
    Sums<T> sums;
    run<T>(sums, a, b, chunks * split / splits, chunks * (split + 1) / splits, shared);
    float* to = partial + ((size_t)blockIdx.z * splits + split) * most;
    sums.each([&](int, int r, int c, float x, float y) {
        int i = m0 + r, f = n0 + c;
        if (i >= L::FAN_IN) return;
        if (f < filters) to[(size_t)i * filters + f] = x * scale;
        if (f + 1 < filters) to[(size_t)i * filters + f + 1] = y * scale;
    });
    if (m0 > 0) return;
    // Each thread has summed the same few columns of all its lines; threads PER_LINE apart share them.
    constexpr int N = Right::N, PER_LINE = T::BN / N;
    static_assert(T::THREADS % PER_LINE == 0, "every vector of a thread has the same columns");
    float* columns = (float*)shared;
    static_assert(T::THREADS * N <= T::SHARED, "room for the columns");
#pragma unroll
    for (int i = 0; i < N; i++) columns[threadIdx.x * N + i] = b.lines.sum[i];
    __syncthreads();
    if (threadIdx.x < T::BN && n0 + threadIdx.x < filters) {
        float sum = 0.0f;
        for (int s = 0; s < T::THREADS / PER_LINE; s++) sum += columns[s * PER_LINE * N + threadIdx.x];
        to[(size_t)L::FAN_IN * filters + n0 + threadIdx.x] = sum;
    }
}

// Adds up the shares of a layer's gradients and takes a step of Adam. grid: (parameters / 256, agents)
template <class L>
__device__ void step(const Net* nets, const float* partial, int splits, int most) {
    const Net& net = nets[blockIdx.y];
    const int filters = L::filters(net), size = (L::FAN_IN + 1) * filters;
    const int i = blockIdx.x * 256 + threadIdx.x;
    if (i >= size || !*net.learns || !counts<L>(net, i / filters, i % filters)) return;
    const float* from = partial + (size_t)blockIdx.y * splits * most + i;
    float g = 0.0f;
    for (int s = 0; s < splits; s++) g += from[(size_t)s * most];
    const int at = L::WEIGHTS_AT + i;
    Adam adam(net);
    float p = net.online[at], m = net.adam_m[at], v = net.adam_v[at];
    adam.step(g, p, m, v);
    net.online[at] = p;
    net.adam_m[at] = m;
    net.adam_v[at] = v;
    if (net.online_half) store_act(net.online_half + at, p);
}
