// DQN: rewards clipped to ±1, errors clipped to ±1. No constants, no state.

struct Clipped : CodecDefaults<Clipped> {
    static __device__ void encode(const Agent&, float reward, float factor, float* out) {
        if (lane() == 0) out[0] += factor * clamp_to(reward, -1.0f, 1.0f);
    }

    static __device__ float decode(const Agent&, const float* outputs, const double*) { return outputs[0]; }

    static __device__ void target(const Agent&, const float* encoded, float bootstrap, const float* next, float* out) {
        if (lane() == 0) out[0] = encoded[0] + bootstrap * next[0];
    }

    static __device__ void gradient(const Batch& batch, float* trunk) {
        for (int row = thread(); row < BATCH; row += threads()) {
            batch.gradient(row)[0] = clamp_to(batch.output(row)[0] - batch.target(row)[0], -1.0f, 1.0f);
        }
        equal_weights(batch, trunk);
    }
};
