// The forward pass of the last layer: few outputs from a few hundred inputs, so what counts is that every load is under way
// at once. A block has 16 outputs of one network; its 8 warps share the inputs and take their fragments straight from
// memory, and their sums are added up in the warps' order.
#if MODE != 0

__device__ __forceinline__ u32 word_at(const float* row, int k, int end) {
#if MODE == 2
    return pack(k < end ? row[k] : 0.0f, k + 1 < end ? row[k + 1] : 0.0f);
#else
    return single(k < end ? row[k] : 0.0f);
#endif
}
__device__ __forceinline__ u32 word_at(const u8* row, int k, int end) {
#if MODE == 2
    return pack(k < end ? (float)row[k] : 0.0f, k + 1 < end ? (float)row[k + 1] : 0.0f);
#else
    return single(k < end ? (float)row[k] : 0.0f);
#endif
}
__device__ __forceinline__ u32 word_at(const bf16* row, int k, int end) {
    u32 low = k < end ? row[k].bits : 0, high = k + 1 < end ? row[k + 1].bits : 0;
    return low | high << 16;
}

// grid: (widest head / 16, 1, agents), 256 threads
template <class L, class In, int BATCH>
__device__ void head(const Net* nets, int agents, int first_network, const In* input, float* output, int pitch,
                     float scale) {
    constexpr int MT = (BATCH + 15) / 16, STEP = 8 * PER_WORD;
    constexpr int STEPS = (L::FAN_IN + STEP - 1) / STEP, MINE = (STEPS + 7) / 8;
    __shared__ float shares[8][MT * 16][17];
    const int z = first_network + blockIdx.z;
    const Net& net = nets[z % agents];
    const int filters = L::filters(net), n0 = blockIdx.x * 16;
    if (n0 >= filters) return;
    const float* weights = (z < agents ? net.online : net.target) + L::WEIGHTS_AT;
    const In* rows = input + (size_t)z * BATCH * L::FAN_IN;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, t = lane % 4;
    float d[MT][2][4] = {};
    auto weight = [&](int k, int n) { return k < L::FAN_IN && n < filters ? weights[(size_t)k * filters + n] : 0.0f; };
    auto weight_word = [&](int k, int n) {
#if MODE == 2
        return pack(weight(k, n), weight(k + 1, n));
#else
        return single(weight(k, n));
#endif
    };
#pragma unroll 4
    for (int i = 0; i < MINE; i++) {
        const int k = (warp + 8 * i) * STEP + t * PER_WORD, further = 4 * PER_WORD;
        u32 a[MT][4], b[2][2];
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int q = 0; q < 4; q++) {
                int r = m * 16 + g + q % 2 * 8;
                a[m][q] = r < BATCH ? word_at(rows + (size_t)r * L::FAN_IN, k + q / 2 * further, L::FAN_IN) : 0;
            }
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int q = 0; q < 2; q++) b[n][q] = weight_word(k + q * further, n0 + 8 * n + g);
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int n = 0; n < 2; n++) multiply(d[m][n], a[m], b[n]);
    }
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < 2; n++)
#pragma unroll
            for (int q = 0; q < 4; q++) shares[warp][m * 16 + g + q / 2 * 8][n * 8 + 2 * t + q % 2] = d[m][n][q];
    __syncthreads();
    const float* bias = weights + (size_t)L::FAN_IN * filters;
    for (int i = threadIdx.x; i < BATCH * 16; i += 256) {
        int r = i / 16, n = i % 16;
        if (n0 + n >= filters) continue;
        float sum = 0.0f;
#pragma unroll
        for (int w = 0; w < 8; w++) sum += shares[w][r][n];
        output[((size_t)z * BATCH + r) * pitch + n0 + n] = sum * scale + bias[n0 + n];
    }
}
#endif
