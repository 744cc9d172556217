// The whole backward pass of a fully connected layer in one kernel, or a head's in two: while a tile of weights and its moments are in
// registers, they give the gradient of the input, receive their own gradient and take their step of Adam. Every parameter
// is read once and written once; its gradient never goes to memory.
//
// A block has tiles of 32 inputs i, one after the other, and all units u. Of its 8 warps, two have 16 inputs each and four
// share the stretches of 16 units. In the tensor cores' layout a lane's outputs (i, u), (i, u + 1) of the weights' gradient lie where the right operand of the input's gradient
// wants the weights (u, i), (u + 1, i): so the weights are loaded in that layout and need no shared memory.
#if MODE != 0

#define LINEAR_INPUTS 32

template <class D, bool HEAD, int BATCH>
struct Backward {
    static constexpr int BP = (BATCH + 15) / 16 * 16;
    static constexpr int SLAB = 16384 / (BP < 32 ? 32 : BP) / 16 * 16;  // units at a time
    static constexpr int PITCH = SLAB + 4 * PER_WORD;                   // numbers; lines of a matrix start in different banks
    static constexpr int DELTAS = BP * PITCH / PER_WORD;                // words
    static constexpr int X_PITCH = LINEAR_INPUTS + 1;
    static constexpr int SHARED = ((HEAD ? 2 : 1) * DELTAS + 5 * BP * X_PITCH) * 4;  // bytes
    static constexpr int STEPS = BP / PER_WORD / 8;                     // instructions along the batch
};

// Output gradients of a slab of units as numbers [sample][unit], zeros beyond the batch and the last unit. Hidden layers'
// gradients (WIDE) are read 16 bytes at a time.
template <class S, bool WIDE, class D>
__device__ __forceinline__ void load_deltas(u32* to, const D* from, int pitch, int batch, int first, int units) {
    constexpr int N = WIDE ? 16 / (int)sizeof(D) : 2;
    const int per_line = min(S::SLAB, (units - first + 15) / 16 * 16) / N;
#pragma unroll 4
    for (int i = threadIdx.x; i < S::BP * per_line; i += 256) {
        int b = i / per_line, u = i % per_line * N;
        Raw<D, N> raw;
        if (WIDE) {
            if (b < batch && first + u < units)
                raw = *(const Raw<D, N>*)(from + (size_t)b * pitch + first + u);
            else
                zero(raw);
        } else {
#pragma unroll
            for (int j = 0; j < N; j++)
                raw.e[j] = b < batch && first + u + j < units ? from[(size_t)b * pitch + first + u + j] : D();
        }
        u32 words[N / PER_WORD];
        words_of<D, N>(raw, words);
        u32* line = to + (b * S::PITCH + u) / PER_WORD;
#pragma unroll
        for (int j = 0; j < N / PER_WORD; j++) line[j] = words[j];
    }
}

// The right operand (sample, unit u0 + 0..8) of the weights' gradient.
template <int PITCH>
__device__ __forceinline__ void delta_lines(const u32* deltas, int u0, int step, u32* b) {
    const int lane = threadIdx.x % 32;
#if MODE == 2
    // Lanes 0..16 name the lines (samples); the instruction hands each lane its pair of samples at its unit.
    u32 line = (u32)__cvta_generic_to_shared(deltas) + ((step * 16 + lane % 16) * PITCH + u0) * 2;
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(b[0]), "=r"(b[1]) : "r"(line));
#else
    const u32* at = deltas + (step * 8 + lane % 4) * PITCH + u0 + lane / 4;
    b[0] = at[0];
    b[1] = at[4 * PITCH];
#endif
}

// The left operand of the weights' gradient: 16 inputs of all samples, from [sample][input].
template <int STEPS, int PITCH>
__device__ __forceinline__ void input_words(const float* xs, u32 (&words)[STEPS][4]) {
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
        for (int q = 0; q < 4; q++) {
            const float* at = xs + g + q % 2 * 8 + (s * 8 + t + q / 2 * 4) * PER_WORD * PITCH;
#if MODE == 2
            words[s][q] = pack(at[0], at[PITCH]);
#else
            words[s][q] = single(at[0]);
#endif
        }
}

// Gradients of the weights of those inputs and of 16 units, from u0 on.
template <int STEPS, int PITCH>
__device__ __forceinline__ void weight_tiles(float (&d)[2][4], const u32 (&inputs)[STEPS][4], const u32* deltas, int u0) {
#pragma unroll
    for (int s = 0; s < STEPS; s++)
#pragma unroll
        for (int j = 0; j < 2; j++) {
            u32 b[2];
            delta_lines<PITCH>(deltas, u0 + 8 * j, s, b);
            multiply(d[j], inputs[s], b);
        }
}

template <bool VECTOR>
__device__ __forceinline__ float2 load_two(const float* at, bool first, bool second) {
    if (VECTOR) return first ? *(const float2*)at : make_float2(0.0f, 0.0f);
    return make_float2(first ? at[0] : 0.0f, second ? at[1] : 0.0f);
}
template <bool VECTOR>
__device__ __forceinline__ void store_two(float* at, float2 x, bool first, bool second) {
    if (VECTOR) {
        if (first) *(float2*)at = x;
    } else {
        if (first) at[0] = x.x;
        if (second) at[1] = x.y;
    }
}

// The sum of a unit's gradients over the batch, from shared memory.
template <int BATCH, int PITCH>
__device__ __forceinline__ float unit_sum(const u32* deltas, int u) {
    float sum = 0.0f;
    for (int b = 0; b < BATCH; b++) {
#if MODE == 2
        u32 pair = deltas[(b * PITCH + u) / 2];
        sum += __uint_as_float(u % 2 ? pair & 0xFFFF0000u : pair << 16);
#else
        sum += __uint_as_float(deltas[b * PITCH + u]);
#endif
    }
    return sum;
}

// DOWN: computes the gradient of the input. LEARN: computes that of the weights and takes their step. The head does both in
// two launches, because only the first has to be waited for.
// last: gradients of the outputs for this layer's own weights; trunk: for what flows on (the same, but for the head).
// grid: (blocks that share the tiles of inputs, 1, agents), 256 threads, Backward::SHARED bytes
template <class L, class In, class D, bool HEAD, bool VECTOR, bool DOWN, bool LEARN, int BATCH>
__device__ void linear_backward(const Net* nets, const In* input, const D* last, const D* trunk, int pitch, float scale,
                                act_t* input_delta) {
    typedef Backward<D, HEAD, BATCH> S;
    constexpr bool WIDE = L::F > 0 && L::F % (16 / sizeof(D)) == 0;
    constexpr int TILES = (L::FAN_IN + LINEAR_INPUTS - 1) / LINEAR_INPUTS;
    extern __shared__ __align__(16) u32 shared[];
    u32* lasts = shared;
    u32* trunks = HEAD ? shared + S::DELTAS : shared;
    float* xs = (float*)(shared + (HEAD ? 2 : 1) * S::DELTAS);  // [sample][input]
    float* flows = xs + S::BP * S::X_PITCH;                     // [quarter of the units][sample][input]
    const Net& net = nets[blockIdx.z];
    const bool learns = *net.learns;
    const int units = L::filters(net);
    const int lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    const int half = threadIdx.x / 32 % 2 * 16, quarter = threadIdx.x / 64;
    const In* own_input = input + (size_t)blockIdx.z * BATCH * L::FAN_IN;
    const Adam adam(net);
    float* weights = net.online + L::WEIGHTS_AT;
    float* adam_ms = net.adam_m + L::WEIGHTS_AT;
    float* adam_vs = net.adam_v + L::WEIGHTS_AT;
    const size_t agent_rows = (size_t)blockIdx.z * BATCH * pitch;
    bool loaded = false;
    for (int tile = blockIdx.x; tile < TILES; tile += gridDim.x) {
        const int i0 = tile * LINEAR_INPUTS;
        for (int i = threadIdx.x; i < S::BP * LINEAR_INPUTS; i += 256) {
            int b = i / LINEAR_INPUTS, c = i % LINEAR_INPUTS;
            float x = b < BATCH && i0 + c < L::FAN_IN ? to_float(own_input[(size_t)b * L::FAN_IN + i0 + c]) : 0.0f;
            xs[b * S::X_PITCH + c] = x;
        }
        float flow[S::BP / 16][2][4];
#pragma unroll
        for (int i = 0; i < S::BP / 16 * 8; i++) (&flow[0][0][0])[i] = 0.0f;
        u32 x_words[S::STEPS][4];
        for (int slab = 0; slab < units; slab += S::SLAB) {
            // One slab is loaded once for all tiles; several take turns.
            if (!loaded) {
                if (slab > 0) __syncthreads();
                if (LEARN) load_deltas<S, WIDE>(lasts, last + agent_rows, pitch, BATCH, slab, units);
                if (DOWN && (HEAD || !LEARN)) load_deltas<S, WIDE>(trunks, trunk + agent_rows, pitch, BATCH, slab, units);
                loaded = units <= S::SLAB;
            }
            __syncthreads();
            if (LEARN && slab == 0) input_words<S::STEPS, S::X_PITCH>(xs + half, x_words);
            const int end = min(S::SLAB, units - slab);
            for (int u0 = quarter * 16; u0 < end; u0 += 64) {
                float2 w[2][2], m[2][2], v[2][2];
#pragma unroll
                for (int j = 0; j < 2; j++)
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        int i = i0 + half + g + 8 * h, u = slab + u0 + 8 * j + 2 * t;
                        size_t at = (size_t)i * units + u;
                        bool one = i < L::FAN_IN && u < units, two = i < L::FAN_IN && u + 1 < units;
                        w[j][h] = load_two<VECTOR>(weights + at, one, two);
                        if (!LEARN) continue;
                        m[j][h] = load_two<VECTOR>(adam_ms + at, one, two);
                        v[j][h] = load_two<VECTOR>(adam_vs + at, one, two);
                    }
                float d[2][4] = {};
                if (LEARN) weight_tiles<S::STEPS, S::PITCH>(d, x_words, lasts, u0);
                if (DOWN) {
#pragma unroll
                    for (int mb = 0; mb < S::BP / 16; mb++) {
#if MODE == 2
                        const u32* at = trunks + ((mb * 16 + g) * S::PITCH + u0) / 2 + t;
                        u32 a[4] = {at[0], at[8 * S::PITCH / 2], at[4], at[8 * S::PITCH / 2 + 4]};
#pragma unroll
                        for (int h = 0; h < 2; h++) {
                            u32 b[2] = {pack(w[0][h].x, w[0][h].y), pack(w[1][h].x, w[1][h].y)};
                            multiply(flow[mb][h], a, b);
                        }
#else
#pragma unroll
                        for (int j = 0; j < 2; j++) {
                            const u32* at = trunks + (mb * 16 + g) * S::PITCH + u0 + 8 * j + 2 * t;
                            u32 a[4] = {at[0], at[8 * S::PITCH], at[1], at[8 * S::PITCH + 1]};
#pragma unroll
                            for (int h = 0; h < 2; h++) {
                                u32 b[2] = {single(w[j][h].x), single(w[j][h].y)};
                                multiply(flow[mb][h], a, b);
                            }
                        }
#endif
                    }
                }
                if (!LEARN || !learns) continue;
#pragma unroll
                for (int j = 0; j < 2; j++)
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        float2 &p = w[j][h], &f = m[j][h], &q = v[j][h];
                        int i = i0 + half + g + 8 * h, u = slab + u0 + 8 * j + 2 * t;
                        // Without a gradient, a zero stays one.
                        if (!counts<L>(net, i, u)) d[j][2 * h] = 0.0f;
                        if (!counts<L>(net, i, u + 1)) d[j][2 * h + 1] = 0.0f;
                        adam.step(d[j][2 * h] * scale, p.x, f.x, q.x);
                        adam.step(d[j][2 * h + 1] * scale, p.y, f.y, q.y);
                        size_t at = (size_t)i * units + u;
                        bool one = i < L::FAN_IN && u < units, two = i < L::FAN_IN && u + 1 < units;
                        store_two<VECTOR>(weights + at, p, one, two);
                        store_two<VECTOR>(adam_ms + at, f, one, two);
                        store_two<VECTOR>(adam_vs + at, q, one, two);
                    }
            }
            if (LEARN && tile == 0 && learns) {
                for (int u = threadIdx.x; u < end; u += 256) {
                    size_t at = (size_t)L::FAN_IN * units + slab + u;
                    float p = weights[at], f = adam_ms[at], q = adam_vs[at];
                    adam.step(unit_sum<BATCH, S::PITCH>(lasts, u), p, f, q);
                    weights[at] = p;
                    adam_ms[at] = f;
                    adam_vs[at] = q;
                }
            }
        }
        if (DOWN) {
            // The quarters' shares of the input's gradient, added up in their order.
#pragma unroll
            for (int mb = 0; mb < S::BP / 16; mb++)
#pragma unroll
                for (int h = 0; h < 2; h++)
#pragma unroll
                    for (int q = 0; q < 4; q++) {
                        int b = mb * 16 + g + q / 2 * 8, c = half + h * 8 + 2 * t + q % 2;
                        flows[(quarter * S::BP + b) * S::X_PITCH + c] = flow[mb][h][q];
                    }
            __syncthreads();
            for (int i = threadIdx.x; i < BATCH * LINEAR_INPUTS; i += 256) {
                int b = i / LINEAR_INPUTS, c = i % LINEAR_INPUTS;
                if (i0 + c >= L::FAN_IN) continue;
                float sum = 0.0f;
#pragma unroll
                for (int q = 0; q < 4; q++) sum += flows[(q * S::BP + b) * S::X_PITCH + c];
                float x = xs[b * S::X_PITCH + c] > 0.0f ? sum : 0.0f;
                store_act(input_delta + (size_t)(blockIdx.z * BATCH + b) * L::FAN_IN + i0 + c, x);
            }
        }
        __syncthreads();
    }
}
#endif
