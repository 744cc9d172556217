// The gradient of a wide fully connected layer's weights, and their step of Adam, for Hopper and later: weights and moments
// stream through shared memory by bulk copies, which keep the memory busy whatever the warps are doing. Every parameter is
// read once and written once; its gradient never goes to memory. A block is small enough to share a multiprocessor with one of a
// convolution: that is bound by the tensor cores, this by memory.
//
// Warps are specialised: one producer warp issues the bulk copies, the others compute.
//
// Work is cut into tiles of 8 inputs and a slab of up to 512 units of one agent; every block has a run of tiles, and every warp the
// same units of each within a slab, whose gradients it keeps in registers. A tile of weights and both moments is loaded, changed in place and
// stored; several are under way at once. The copy engine takes its time per copy, so a copy is a whole line of units.
#if MODE != 0 && defined(STREAM_WARPS)

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

template <class L, int BATCH>
struct Streamed {
    static constexpr int INPUTS = 8;
    static constexpr int WARPS = STREAM_WARPS, THREADS = 32 * WARPS;  // and the producer warp
    static constexpr int STAGES = STREAM_STAGES;
    static constexpr int SLAB = L::F < STREAM_SLAB ? L::F : STREAM_SLAB, SLABS = L::F / SLAB;
    static constexpr int UNITS = SLAB / WARPS;                  // of a warp
    static constexpr int PITCH = SLAB + 8;                      // floats; lines start 8 banks apart
    static constexpr int LINES = 3 * INPUTS;                    // weights, first and second moments
    static constexpr int STAGE = LINES * PITCH;                 // floats
    static constexpr int BP = (BATCH + 15) / 16 * 16, STEPS = BP / PER_WORD / 8;
    static constexpr int X_PITCH = INPUTS + 1, XS = BP * X_PITCH;
    static constexpr int SHARED = (STAGES * STAGE + 2 * XS + 4 * STAGES) * 4;  // bytes
    static constexpr int TILES = L::FAN_IN / INPUTS;            // of a slab
    static_assert(UNITS % (8 * PER_WORD) == 0 && SLAB % WARPS == 0 && L::F % SLAB == 0 && L::FAN_IN % INPUTS == 0,
                  "whole tensor core tiles");
    static_assert(BP * INPUTS % THREADS == 0 || BP * INPUTS < THREADS, "equal shares of a tile's inputs");
};

// A barrier of the warps that compute; the producer warp takes no part in it.
template <int THREADS>
__device__ __forceinline__ void sync_computing() {
    asm volatile("bar.sync 1, %0;" ::"n"(THREADS) : "memory");
}

// The producer warp: fills stages, waits until the other warps have changed them, stores them. A lane loads and stores the same
// line of every stage, so its own stores are all that it has to wait for before it fills a stage again.
template <class L, class Z>
__device__ void copy_stages(const Net* nets, int first, int last, const float* stages, const u64* full, const u64* done) {
    const int lane = threadIdx.x % 32;
    int slab = -1;          // of all agents' slabs
    bool learns = false;
    float* line = nullptr;  // of this lane, in the slab's first tile
    // Moves on to the slab of a tile, and says where this lane's line of it is.
    auto move_to = [&](int tile) {
        if (tile / Z::TILES != slab) {
            slab = tile / Z::TILES;
            const Net& net = nets[slab / Z::SLABS];
            learns = *net.learns;
            const int array = lane / Z::INPUTS;
            line = (array == 0 ? net.online : array == 1 ? net.adam_m : net.adam_v) + L::WEIGHTS_AT +
                   lane % Z::INPUTS * L::F + slab % Z::SLABS * Z::SLAB;
        }
        return line + (size_t)(tile % Z::TILES) * Z::INPUTS * L::F;
    };
    auto shared_line = [&](int tile) { return shared_at(stages + (tile - first) % Z::STAGES * Z::STAGE + lane * Z::PITCH); };
    auto load = [&](int tile) {
        const float* from = move_to(tile);
        const u32 barrier = shared_at(full + (tile - first) % Z::STAGES);
        if (lane == 0)
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(Z::LINES * Z::SLAB * 4)
                         : "memory");
        __syncwarp();
        if (lane < Z::LINES) bulk_load(shared_line(tile), from, Z::SLAB * 4, barrier);
    };
    for (int tile = first; tile < min(last, first + Z::STAGES); tile++) load(tile);
    for (int tile = first; tile < last; tile++) {
        wait_for(shared_at(done + (tile - first) % Z::STAGES), (tile - first) / Z::STAGES % 2);
        float* to = move_to(tile);
        if (learns && lane < Z::LINES) bulk_store(to, shared_line(tile), Z::SLAB * 4);
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        // The stage of the tile before this one has had time to be read.
        if (tile > first && tile - 1 + Z::STAGES < last) {
            asm volatile("cp.async.bulk.wait_group.read 1;" ::: "memory");
            load(tile - 1 + Z::STAGES);
        }
    }
    // Stores must have left the shared memory before the block does.
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// grid: (blocks), Streamed::THREADS + 32 threads, Streamed::SHARED bytes
template <class L, class In, class D, int BATCH>
__device__ void linear_stream(const Net* nets, int agents, const In* input, const D* delta, float scale) {
    typedef Streamed<L, BATCH> Z;
    extern __shared__ __align__(128) u32 shared[];
    float* stages = (float*)shared;
    float* xs = stages + Z::STAGES * Z::STAGE;  // two tiles' inputs [sample][input]
    u64* full = (u64*)(xs + 2 * Z::XS);
    u64* done = full + Z::STAGES;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    const int all = agents * Z::SLABS * Z::TILES;
    const int first = (int)((u64)all * blockIdx.x / gridDim.x), last = (int)((u64)all * (blockIdx.x + 1) / gridDim.x);
    if (first == last) return;

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
        copy_stages<L, Z>(nets, first, last, stages, full, done);
        return;
    }

    // The inputs of a tile are loaded one tile ahead.
    constexpr int MINE = (Z::BP * Z::INPUTS + Z::THREADS - 1) / Z::THREADS;
    float ahead[MINE];
    auto fetch_inputs = [&](int tile) {
#pragma unroll
        for (int k = 0; k < MINE; k++) {
            int i = k * Z::THREADS + threadIdx.x, b = i / Z::INPUTS;
            size_t at = ((size_t)(tile / (Z::SLABS * Z::TILES)) * BATCH + b) * L::FAN_IN + tile % Z::TILES * Z::INPUTS + i % Z::INPUTS;
            ahead[k] = tile < last && b < BATCH ? to_float(input[at]) : 0.0f;
        }
    };
    fetch_inputs(first);

    int slab = -1;
    bool learns = false;
    Adam adam(nets[first / (Z::SLABS * Z::TILES)]);
    bf16* half = nullptr;                   // the copy of the slab's weights, at this lane's place
    constexpr int GROUPS = Z::UNITS / 8;    // of 8 units
    u32 deltas[GROUPS][Z::STEPS][2];        // gradients of the warp's units, as right operands
    for (int tile = first; tile < last; tile++) {
        if (tile / Z::TILES != slab) {
            slab = tile / Z::TILES;
            const int agent = slab / Z::SLABS, from = slab % Z::SLABS * Z::SLAB;
            const Net& net = nets[agent];
            learns = *net.learns;
            adam = Adam(net);
            half = net.online_half + L::WEIGHTS_AT + (size_t)g * L::F + from + warp * Z::UNITS +
                   (t % 2 ? 2 * t + 6 : 2 * t);
            const D* own = delta + (size_t)agent * BATCH * L::F + from;
            auto sample = [&](int b, int u) { return b < BATCH ? to_float(own[(size_t)b * L::F + u]) : 0.0f; };
#pragma unroll
            for (int j = 0; j < GROUPS; j++)
#pragma unroll
                for (int s = 0; s < Z::STEPS; s++)
#pragma unroll
                    for (int q = 0; q < 2; q++) {
                        int b = (s * 8 + t + 4 * q) * PER_WORD, u = warp * Z::UNITS + 8 * j + g;
#if MODE == 2
                        deltas[j][s][q] = pack(sample(b, u), sample(b + 1, u));
#else
                        deltas[j][s][q] = single(sample(b, u));
#endif
                    }
            if (tile % Z::TILES == 0 && learns) {
                for (int u = threadIdx.x; u < Z::SLAB; u += Z::THREADS) {
                    float sum = 0.0f;
                    for (int b = 0; b < BATCH; b++) sum += sample(b, u);
                    size_t at = L::WEIGHTS_AT + (size_t)L::FAN_IN * L::F + from + u;
                    float p = net.online[at], f = net.adam_m[at], q = net.adam_v[at];
                    adam.step(sum, p, f, q);
                    net.online[at] = p;
                    net.adam_m[at] = f;
                    net.adam_v[at] = q;
                }
            }
        }
        const int iteration = tile - first;
        float* own_xs = xs + iteration % 2 * Z::XS;
#pragma unroll
        for (int k = 0; k < MINE; k++) {
            int i = k * Z::THREADS + threadIdx.x;
            if (i < Z::BP * Z::INPUTS) own_xs[i / Z::INPUTS * Z::X_PITCH + i % Z::INPUTS] = ahead[k];
        }
        fetch_inputs(tile + 1);
        sync_computing<Z::THREADS>();
        // The left operand has 16 lines; the second eight are empty.
        u32 words[Z::STEPS][4];
#pragma unroll
        for (int s = 0; s < Z::STEPS; s++)
#pragma unroll
            for (int q = 0; q < 4; q++) {
                const float* at = own_xs + g + (s * 8 + t + q / 2 * 4) * PER_WORD * Z::X_PITCH;
#if MODE == 2
                words[s][q] = q % 2 ? 0 : pack(at[0], at[Z::X_PITCH]);
#else
                words[s][q] = q % 2 ? 0 : single(at[0]);
#endif
            }
        wait_for(shared_at(full + iteration % Z::STAGES), iteration / Z::STAGES % 2);
        float* stage = stages + iteration % Z::STAGES * Z::STAGE + g * Z::PITCH + warp * Z::UNITS + 2 * t;
        u32 rounded[2];
#pragma unroll
        for (int j = 0; j < GROUPS; j++) {
            float d[4] = {};
#pragma unroll
            for (int s = 0; s < Z::STEPS; s++) multiply(d, words[s], deltas[j][s]);
            float2* p = (float2*)(stage + 8 * j);
            float2* f = p + Z::INPUTS * Z::PITCH / 2;
            float2* q = f + Z::INPUTS * Z::PITCH / 2;
            float2 weight = *p, one = *f, two = *q;
            adam.step(d[0] * scale, weight.x, one.x, two.x);
            adam.step(d[1] * scale, weight.y, one.y, two.y);
            *p = weight;
            *f = one;
            *q = two;
#if MODE == 2
            rounded[j % 2] = pack(weight.x, weight.y);
            if (j % 2 == 0) continue;
            // Neighbouring lanes exchange a group each, so that each has four units in a row.
            const u32 other = __shfl_xor_sync(~0u, t % 2 ? rounded[0] : rounded[1], 1);
            const uint2 four = t % 2 ? make_uint2(other, rounded[1]) : make_uint2(rounded[0], other);
            bf16* to = half + (size_t)(tile % Z::TILES) * Z::INPUTS * L::F + 8 * (j - 1);
            if (learns) *(uint2*)to = four;
#endif
        }
        // What the copy engine is to store was written by all of the warp: hand it over.
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncwarp();
        if (lane == 0)
            asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_at(done + iteration % Z::STAGES)) : "memory");
    }
}
#endif
