// DQN+TC: the network learns squashed action-values. Constants: the squashing function's kind and ε. No state.

struct Compressed : CodecDefaults<Compressed> {
    static __device__ Squash squash(const Agent& agent) {
        Squash squash = {(int)agent.codec[0], agent.codec[1]};
        return squash;
    }

    static __device__ void encode(const Agent&, float reward, float factor, float* out) {
        if (lane() == 0) out[0] += factor * reward;
    }

    static __device__ float decode(const Agent& agent, const float* outputs, const double*) {
        return squash(agent).inverse(outputs[0]);
    }

    static __device__ void target(const Agent& agent, const float* encoded, float bootstrap, const float* next,
                                  float* out) {
        if (lane() != 0) return;
        // No bootstrap must mean none: a terminal row takes nothing from an output that may be anything.
        const float future = bootstrap == 0.0f ? 0.0f : bootstrap * squash(agent).inverse(next[0]);
        out[0] = squash(agent).forward(encoded[0] + future);
    }
};
