// What a codec is to the learner's kernels: one struct of static device functions, the phases of the Rust trait `Codec`.
// Formulas and order of operations are those of the Rust file beside it, and tests compare the two.
//
//   encode(agent, reward, factor, out)               team   adds factor times the encoded reward to `out` [E]
//   decode(agent, outputs, state)                    team   the action-value, in every lane
//   prefer(agent, outputs, action, legal, state)     team   what the greedy choice goes by before values, in every lane; of a
//                                                           whole row of outputs. Called if the Rust codec prefers
//   target(agent, encoded, bootstrap, next, out)     team   K targets; `agent.frozen` is the state to use
//   compare(agent, rows, online, target)             block  sees both networks' outputs for the next states. Called if the Rust
//                                                           codec compares
//   target_value(agent, targets, state)              team   the value that K targets stand for, in every lane
//   before_forward(agent, targets, scale, shift)     block  true, in every thread, if the last layer is to change
//   gradient(batch, trunk)                           block  gradients of every row, K weights of the hidden layers
//
// "team": called by all lanes of a team together, different teams with different rows. "block": called by all threads.
// A codec whose elements are written by one lane and read by another calls team_sync() or __syncthreads() in between.
// `prefer` and `compare` have no default, and are needed only where they are called; source.rs refuses a codec that lacks them
// there. A struct is called for all agents of a group that use it, so it must ask its constants if some of them do not prefer.
// `encode` must let the same lane handle an element in every call. The learner synchronises between phases.

// A minibatch as `gradient` sees it: the taken action's outputs only.
struct Batch {
    const Agent& agent;
    const Row* rows;
    const float* outputs;
    const float* targets;
    const float* returns;
    float* gradients;

    __device__ const float* output(int row) const { return outputs + taken(row); }
    __device__ const float* target(int row) const { return targets + row * MAX_OUTPUTS; }
    __device__ const float* returned(int row) const { return returns + row * MAX_ENCODED; }
    __device__ float* gradient(int row) const { return gradients + taken(row); }
    __device__ bool mask(int row) const { return rows[row].mask != 0; }

private:
    __device__ u64 taken(int row) const { return (u64)row * PITCH + rows[row].action * agent.outputs; }
};

// y - T and equal weights: the gradient of half the squared error.
static __device__ void squared_error_gradient(const Batch& batch) {
    const int k = (int)batch.agent.outputs;
    for (int row = team(); row < BATCH; row += teams()) {
        const float* output = batch.output(row);
        const float* target = batch.target(row);
        float* gradient = batch.gradient(row);
        // Four at a time: none waits for the writes of those before it.
        for (int first = lane(); first < k; first += 4 * LANES) {
            float error[4];
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int i = first + j * LANES;
                error[j] = i < k ? output[i] - target[i] : 0.0f;
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int i = first + j * LANES;
                if (i < k) gradient[i] = error[j];
            }
        }
    }
}

static __device__ void equal_weights(const Batch& batch, float* trunk) {
    for (int i = thread(); i < (int)batch.agent.outputs; i += threads()) trunk[i] = 1.0f;
}

// What the Rust trait's default methods do.
template <class Self>
struct CodecDefaults {
    static __device__ float target_value(const Agent& agent, const float* targets, const double* state) {
        return Self::decode(agent, targets, state);
    }
    static __device__ bool before_forward(const Agent&, float*, float*, float*) { return false; }
    static __device__ void gradient(const Batch& batch, float* trunk) {
        squared_error_gradient(batch);
        equal_weights(batch, trunk);
    }
};
