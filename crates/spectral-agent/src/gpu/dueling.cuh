// Dueling heads: the last layer's outputs are a value per output k and, behind them, an advantage per action and output; what
// everything else sees is Q[a][k] = V[k] + (A[a][k] - mean over actions). As spectral-nn's cpu/small.rs, in the same order.
#if DUELING

// By the whole block: joins the streams of `count` rows of outputs in place. A thread has one k of a row, whose places no other
// thread touches; Q[a] lies where V or A[a - 1] was, which has been read by then.
static __device__ void join_streams(const Agent& agent, const float* outputs, int count) {
    const int k = (int)agent.outputs;
    for (int item = thread(); item < count * k; item += threads()) {
        float* row = (float*)outputs + (u64)(item / k) * PITCH + item % k;
        const float value = row[0];
        float sum = 0.0f;
        for (int action = 1; action <= ACTIONS; action++) sum += row[action * k];
        const float mean = sum / (float)ACTIONS;
        for (int action = 0; action < ACTIONS; action++) row[action * k] = value + (row[(action + 1) * k] - mean);
    }
    __syncthreads();
}

// The gradient of one output k of a row by its streams: `g` is that of the taken action's output, those of others are zero.
static __device__ inline void spread_gradient(float* row, int k, int taken, float g) {
    const float mean = g / (float)ACTIONS;
    row[0] = g;
    for (int action = 0; action < ACTIONS; action++) row[(action + 1) * k] = (action == taken ? g : 0.0f) - mean;
}
#endif
