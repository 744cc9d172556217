// Pop-Art: targets normalised, outputs preserved. Constant: the rate of the running statistics. State: running mean,
// running mean square, count, and the (μ, σ) in force.

struct PopArt : CodecDefaults<PopArt> {
    enum { MEAN, SQUARE, COUNT, MU, SIGMA };

    static __device__ void encode(const Agent&, float reward, float factor, float* out) {
        if (lane() == 0) out[0] += factor * reward;
    }

    static __device__ float decode(const Agent&, const float* outputs, const double* state) {
        return (float)(state[SIGMA] * (double)outputs[0] + state[MU]);
    }

    static __device__ void target(const Agent& agent, const float* encoded, float bootstrap, const float* next,
                                  float* out) {
        if (lane() == 0) out[0] = encoded[0] + bootstrap * decode(agent, next, agent.frozen);
    }

    static __device__ bool before_forward(const Agent& agent, float* targets, float* scale, float* shift) {
        __shared__ double moved[2];
        if (thread() == 0) {
            double* state = agent.online_state;
            const double rate = agent.codec[0];
            double mean = 0.0, square = 0.0;
            for (int row = 0; row < BATCH; row++) {
                const double target = (double)targets[row * MAX_OUTPUTS];
                mean += target;
                square += target * target;
            }
            state[MEAN] += rate * (mean / (double)BATCH - state[MEAN]);
            state[SQUARE] += rate * (square / (double)BATCH - state[SQUARE]);
            state[COUNT] += 1.0;
            const double correction = bias_correction(rate, state[COUNT]);
            const double mu = state[MEAN] / correction;
            const double sigma = sqrt(fmax(state[SQUARE] / correction - mu * mu, 0.0)) + 0.001;
            // σ'·(scale·y + shift) + μ' = σ·y + μ: every prediction survives the change.
            scale[0] = (float)(state[SIGMA] / sigma);
            shift[0] = (float)((state[MU] - mu) / sigma);
            moved[0] = state[MU] = mu;
            moved[1] = state[SIGMA] = sigma;
        }
        __syncthreads();
        for (int row = thread(); row < BATCH; row += threads()) {
            float* target = targets + row * MAX_OUTPUTS;
            *target = (float)(((double)*target - moved[0]) / moved[1]);
        }
        return true;
    }
};
