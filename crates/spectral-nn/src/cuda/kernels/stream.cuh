// The backward pass of a wide fully connected layer for Hopper and later: what `linear_backward` does, but weights and
// moments stream through shared memory by bulk copies, which keep the memory busy whatever the warps are doing. The card's
// memory gives its full rate to long stretches only; a bulk copy here is 1 KB.
//
// Work is cut into tiles of 16 inputs of one agent, a tile into stretches of SEGMENT units. Every block has a run of tiles.
// A stretch of weights and both moments is loaded, changed in place and stored; several are under way at once.
#if MODE != 0 && defined(STREAM)

__device__ __forceinline__ u32 shared_at(const void* p) { return (u32)__cvta_generic_to_shared(p); }

__device__ __forceinline__ void bulk_load(u32 to, const void* from, u32 bytes, u32 barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void bulk_store(void* to, u32 from, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void wait_for(u32 barrier, u32 parity) {
    asm volatile(
        "{\n.reg .pred done;\nagain:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
        "@done bra over;\nbra again;\nover:\n}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}

template <class L, class D, int BATCH>
struct Streamed {
    typedef Backward<D, false, BATCH> S;
    static constexpr int INPUTS = 16;
    static constexpr int WARPS = 16, THREADS = 32 * WARPS;  // and one warp more, which only copies
    static constexpr int SEGMENT = L::F < 256 ? L::F : 256, SEGMENTS = L::F / SEGMENT;
    static constexpr int STAGES = MODE == 2 ? 3 : 2;
    static constexpr int PITCH = SEGMENT + 8;                       // floats; lines start 8 banks apart
    static constexpr int STAGE = 3 * INPUTS * PITCH;                // floats: weights, first and second moments
    static constexpr int DELTA_PITCH = L::F + 4 * PER_WORD;         // numbers
    static constexpr int DELTAS = S::BP * DELTA_PITCH / PER_WORD;   // words
    static constexpr int X_PITCH = INPUTS + 1;
    static constexpr int XS = S::BP * X_PITCH;
    static constexpr int SHARED = (STAGES * STAGE + DELTAS + (2 + WARPS) * XS + 4 * STAGES) * 4;  // bytes
    static constexpr int TILES = (L::FAN_IN + INPUTS - 1) / INPUTS;
    static_assert(L::F % SEGMENT == 0 && SEGMENT % 16 == 0, "stretches of whole tensor core tiles");
    static_assert(S::SLAB >= L::F, "all units' gradients at once");
};

// The threads that compute wait for each other; the copying warp takes no part in that.
template <int THREADS>
__device__ __forceinline__ void sync_computing() {
    asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
}

// The copying warp: fills stages, waits until their warps have changed them, stores them. A lane loads and stores the same
// lines of every stage, so its own stores are all that it has to wait for before it fills a stage again.
template <class L, class Z>
__device__ void copy_stages(const Net* nets, int first, int chunks, const float* stages, const u64* full, const u64* done) {
    const int lane = threadIdx.x % 32;
    int agent = -1;
    bool learns = false;
    float* lines[2] = {};  // of this lane, at the agent's first tile
    // Turns to the agent of a chunk, and says how many lines its tile has and where they lie.
    auto turn_to = [&](int chunk, size_t& offset) {
        const int item = first + chunk / Z::SEGMENTS, tile = item % Z::TILES;
        if (item / Z::TILES != agent) {
            agent = item / Z::TILES;
            const Net& net = nets[agent];
            learns = *net.learns;
            for (int n = 0; n < 2; n++) {
                const int k = lane + 32 * n, a = k / Z::INPUTS;
                float* array = a == 0 ? net.online : a == 1 ? net.first : net.second;
                lines[n] = array + L::WEIGHTS_AT + (size_t)(k % Z::INPUTS) * L::F;
            }
        }
        offset = (size_t)tile * Z::INPUTS * L::F + chunk % Z::SEGMENTS * Z::SEGMENT;
        return min(Z::INPUTS, L::FAN_IN - tile * Z::INPUTS);
    };
    auto load = [&](int chunk) {
        size_t offset;
        const int count = turn_to(chunk, offset), stage = chunk % Z::STAGES;
        const u32 barrier = shared_at(full + stage);
        if (lane == 0)
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier),
                         "r"(3 * count * Z::SEGMENT * 4)
                         : "memory");
        __syncwarp();
        for (int n = 0; n < 2; n++) {
            const int k = lane + 32 * n;
            if (k < 3 * Z::INPUTS && k % Z::INPUTS < count)
                bulk_load(shared_at(stages + stage * Z::STAGE + k * Z::PITCH), lines[n] + offset, Z::SEGMENT * 4, barrier);
        }
    };
    for (int c = 0; c < min(chunks, Z::STAGES); c++) load(c);
    for (int c = 0; c < chunks; c++) {
        const int stage = c % Z::STAGES;
        wait_for(shared_at(done + stage), c / Z::STAGES % 2);
        size_t offset;
        const int count = turn_to(c, offset);
        for (int n = 0; n < 2; n++) {
            const int k = lane + 32 * n;
            if (learns && k < 3 * Z::INPUTS && k % Z::INPUTS < count)
                bulk_store(lines[n] + offset, shared_at(stages + stage * Z::STAGE + k * Z::PITCH), Z::SEGMENT * 4);
        }
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        // The stage of the chunk before this one has had time to be read.
        if (c > 0 && c - 1 + Z::STAGES < chunks) {
            asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
            load(c - 1 + Z::STAGES);
        }
    }
    // Stores must have left the shared memory before the block does.
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// grid: (blocks), Streamed::THREADS + 32 threads, Streamed::SHARED bytes
template <class L, class In, class D, int BATCH>
__device__ void linear_stream(const Net* nets, int agents, const In* input, const D* delta, float scale,
                              act_t* input_delta) {
    typedef Streamed<L, D, BATCH> Z;
    typedef typename Z::S S;
    extern __shared__ __align__(128) u32 shared[];
    float* stages = (float*)shared;
    u32* deltas = shared + Z::STAGES * Z::STAGE;
    float* xs = (float*)(deltas + Z::DELTAS);  // two tiles' inputs [sample][input]
    float* flows = xs + 2 * Z::XS;             // [warp][sample][input]
    u64* full = (u64*)(flows + Z::WARPS * Z::XS);
    u64* done = full + Z::STAGES;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int all = agents * Z::TILES;
    const int first = (int)((u64)all * blockIdx.x / gridDim.x), last = (int)((u64)all * (blockIdx.x + 1) / gridDim.x);
    if (first == last) return;
    const int chunks = (last - first) * Z::SEGMENTS;

    if (threadIdx.x == 0) {
        for (int s = 0; s < Z::STAGES; s++) {
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_at(full + s)) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_at(done + s)), "r"(Z::WARPS) : "memory");
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    }
    __syncthreads();
    if (warp == Z::WARPS) {
        copy_stages<L, Z>(nets, first, chunks, stages, full, done);
        return;
    }

    // The inputs of a tile travel one tile ahead.
    constexpr int MINE = (S::BP * Z::INPUTS + Z::THREADS - 1) / Z::THREADS;
    float ahead[MINE];
    auto fetch_inputs = [&](int item) {
#pragma unroll
        for (int k = 0; k < MINE; k++) {
            int i = k * Z::THREADS + threadIdx.x, b = i / Z::INPUTS, c = item % Z::TILES * Z::INPUTS + i % Z::INPUTS;
            bool there = item < last && b < BATCH && c < L::FAN_IN;
            ahead[k] = there ? to_float(input[((size_t)(item / Z::TILES) * BATCH + b) * L::FAN_IN + c]) : 0.0f;
        }
    };
    fetch_inputs(first);

    int agent = -1;
    bool learns = false;
    Adam adam(nets[first / Z::TILES]);
    u32 x_words[S::STEPS][4];
    float flow[S::BP / 16][2][4];
    for (int c = 0; c < chunks; c++) {
        const int item = first + c / Z::SEGMENTS, tile = item % Z::TILES, segment = c % Z::SEGMENTS;
        float* own_xs = xs + item % 2 * Z::XS;
        if (segment == 0) {
            if (item / Z::TILES != agent) {
                agent = item / Z::TILES;
                learns = *nets[agent].learns;
                adam = Adam(nets[agent]);
                sync_computing<Z::THREADS>();
                const D* own = delta + (size_t)agent * BATCH * L::F;
                load_deltas<S, true, D, Z::DELTA_PITCH, Z::THREADS>(deltas, own, L::F, BATCH, 0, L::F);
            }
#pragma unroll
            for (int k = 0; k < MINE; k++) {
                int i = k * Z::THREADS + threadIdx.x;
                if (i < S::BP * Z::INPUTS) own_xs[i / Z::INPUTS * Z::X_PITCH + i % Z::INPUTS] = ahead[k];
            }
            fetch_inputs(item + 1);
            sync_computing<Z::THREADS>();
#pragma unroll
            for (int s = 0; s < S::STEPS; s++)
#pragma unroll
                for (int q = 0; q < 4; q++) {
                    const float* at = own_xs + g + q % 2 * 8;
                    int b = (s * 8 + t + q / 2 * 4) * PER_WORD;
#if MODE == 2
                    x_words[s][q] = pack(at[b * Z::X_PITCH], at[(b + 1) * Z::X_PITCH]);
#else
                    x_words[s][q] = single(at[b * Z::X_PITCH]);
#endif
                }
#pragma unroll
            for (int i = 0; i < S::BP / 16 * 8; i++) (&flow[0][0][0])[i] = 0.0f;
            if (tile == 0 && learns) {
                const Net& net = nets[agent];
                for (int u = threadIdx.x; u < L::F; u += Z::THREADS) {
                    size_t at = L::WEIGHTS_AT + (size_t)L::FAN_IN * L::F + u;
                    float p = net.online[at], f = net.first[at], q = net.second[at];
                    adam.step(unit_sum<BATCH, Z::DELTA_PITCH>(deltas, u), p, f, q);
                    net.online[at] = p;
                    net.first[at] = f;
                    net.second[at] = q;
                }
            }
        }
        wait_for(shared_at(full + c % Z::STAGES), c / Z::STAGES % 2);
        float* stage = stages + c % Z::STAGES * Z::STAGE;
        for (int u0 = warp * 16; u0 < Z::SEGMENT; u0 += 16 * Z::WARPS) {
            const int unit = segment * Z::SEGMENT + u0;
            float2 w[2][2];
#pragma unroll
            for (int j = 0; j < 2; j++)
#pragma unroll
                for (int h = 0; h < 2; h++) w[j][h] = *(float2*)(stage + (g + 8 * h) * Z::PITCH + u0 + 8 * j + 2 * t);
            float d[2][4] = {};
#pragma unroll
            for (int s = 0; s < S::STEPS; s++)
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    u32 b[2];
                    delta_lines<Z::DELTA_PITCH>(deltas, unit + 8 * j, s, b);
                    multiply(d[j], x_words[s], b);
                }
#pragma unroll
            for (int mb = 0; mb < S::BP / 16; mb++) {
#if MODE == 2
                const u32* at = deltas + ((mb * 16 + g) * Z::DELTA_PITCH + unit) / 2 + t;
                u32 a[4] = {at[0], at[8 * Z::DELTA_PITCH / 2], at[4], at[8 * Z::DELTA_PITCH / 2 + 4]};
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    u32 b[2] = {pack(w[0][h].x, w[0][h].y), pack(w[1][h].x, w[1][h].y)};
                    multiply(flow[mb][h], a, b);
                }
#else
#pragma unroll
                for (int j = 0; j < 2; j++) {
                    const u32* at = deltas + (mb * 16 + g) * Z::DELTA_PITCH + unit + 8 * j + 2 * t;
                    u32 a[4] = {at[0], at[8 * Z::DELTA_PITCH], at[1], at[8 * Z::DELTA_PITCH + 1]};
#pragma unroll
                    for (int h = 0; h < 2; h++) {
                        u32 b[2] = {single(w[j][h].x), single(w[j][h].y)};
                        multiply(flow[mb][h], a, b);
                    }
                }
#endif
            }
#pragma unroll
            for (int j = 0; j < 2; j++)
#pragma unroll
                for (int h = 0; h < 2; h++) {
                    float2* p = (float2*)(stage + (g + 8 * h) * Z::PITCH + u0 + 8 * j + 2 * t);
                    float2* f = p + Z::INPUTS * Z::PITCH / 2;
                    float2* q = f + Z::INPUTS * Z::PITCH / 2;
                    float2 weight = w[j][h], one = *f, two = *q;
                    adam.step(d[j][2 * h] * scale, weight.x, one.x, two.x);
                    adam.step(d[j][2 * h + 1] * scale, weight.y, one.y, two.y);
                    *p = weight;
                    *f = one;
                    *q = two;
                }
        }
        // What the copy engine is to store was written by all of the warp: hand it over.
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
        if (lane == 0)
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_at(done + c % Z::STAGES)) : "memory");
        if (segment + 1 < Z::SEGMENTS) continue;
        // The warps' shares of the input's gradient, added up in their order.
#pragma unroll
        for (int mb = 0; mb < S::BP / 16; mb++)
#pragma unroll
            for (int h = 0; h < 2; h++)
#pragma unroll
                for (int q = 0; q < 4; q++) {
                    int b = mb * 16 + g + q / 2 * 8, i = h * 8 + 2 * t + q % 2;
                    flows[warp * Z::XS + b * Z::X_PITCH + i] = flow[mb][h][q];
                }
        sync_computing<Z::THREADS>();
        for (int i = threadIdx.x; i < BATCH * Z::INPUTS; i += Z::THREADS) {
            int b = i / Z::INPUTS, column = i % Z::INPUTS;
            if (tile * Z::INPUTS + column >= L::FAN_IN) continue;
            float sum = 0.0f;
#pragma unroll
            for (int w = 0; w < Z::WARPS; w++) sum += flows[w * Z::XS + b * Z::X_PITCH + column];
            float x = own_xs[b * Z::X_PITCH + column] > 0.0f ? sum : 0.0f;
            store_act(input_delta + ((size_t)agent * BATCH + b) * L::FAN_IN + tile * Z::INPUTS + column, x);
        }
    }
}
#endif
