// Spectral DQN: one bounded value per bucket of the reward. State: per head running mean, running mean square and count.

struct Spectral : CodecDefaults<Spectral> {
    // The constants; behind them widths [K], inverse widths [K] and edges [K + 1], the last two as rounded to f32.
    enum { WEIGHTS, BINARY, RATE, BOUND, CAPACITY, WIDTHS };
    enum { VARIANCE = 0, EXPONENTIAL = 1, UNIFORM = 2 };

    static __device__ void encode(const Agent& agent, float reward, float factor, float* out) {
        if (reward == 0.0f) return;
        const int k = (int)agent.outputs;
        const double* inverse_widths = agent.codec + WIDTHS + k;
        const double* edges = inverse_widths + k;
        const float magnitude = fabsf(reward);
        const float signed_factor = reward < 0.0f ? -factor : factor;
        for (int i = lane(); i < k; i += LANES) {
            if (agent.codec[BINARY] != 0.0) {
                out[i] += signed_factor * (float)binary_element((double)magnitude, agent.codec[CAPACITY], i);
            } else {
                const float share = clamp_to((magnitude - (float)edges[i]) * (float)inverse_widths[i], 0.0f, 1.0f);
                out[i] += signed_factor * (magnitude >= (float)edges[i + 1] ? 1.0f : share);
            }
        }
    }

    // f64: at the top of the spectrum 2²⁰·y swamps the low frequencies' share of an f32 sum.
    static __device__ float decode(const Agent& agent, const float* outputs, const double*) {
        const float bound = (float)agent.codec[BOUND];
        double value = 0.0;
        for (int i = lane(); i < (int)agent.outputs; i += LANES) {
            value += (double)clamp_to(outputs[i], -bound, bound) * agent.codec[WIDTHS + i];
        }
        return (float)team_sum(value);
    }

    static __device__ void target(const Agent& agent, const float* encoded, float bootstrap, const float* next,
                                  float* out) {
        const float bound = (float)agent.codec[BOUND];
        for (int i = lane(); i < (int)agent.outputs; i += LANES) {
            const float value = encoded[i] + bootstrap * clamp_to(next[i], -bound, bound);
            out[i] = clamp_to(value, -bound, bound);
        }
    }

    static __device__ void gradient(const Batch& batch, float* trunk) {
        squared_error_gradient(batch);
        const Agent& agent = batch.agent;
        const double rate = agent.codec[RATE];
        for (int i = thread(); i < (int)agent.outputs; i += threads()) {
            double mean = 0.0, square = 0.0;
            bool fired = false;
#pragma unroll 32
            for (int row = 0; row < BATCH; row++) {
                const bool mask = batch.mask(row);
                // Near a time-out the target is the prediction itself.
                const double target = (double)(mask ? batch.target(row)[i] : batch.output(row)[i]);
                mean += target;
                square += target * target;
                fired |= mask && batch.returned(row)[i] != 0.0f;
            }
            double* head = agent.online_state + 3 * i;
            head[0] += rate * (mean / (double)BATCH - head[0]);
            head[1] += rate * (square / (double)BATCH - head[1]);
            if (i == 0 || fired || head[2] > 0.0) head[2] += 1.0;
            const int weights = (int)agent.codec[WEIGHTS];
            const double sigma = weights == VARIANCE ? head_sigma(head, rate) : 1.0;
            trunk[i] = weights == EXPONENTIAL ? (float)agent.codec[WIDTHS + i] : (float)(1.0 / (sigma * sigma));
        }
    }

private:
    static __device__ double head_sigma(const double* head, double rate) {
        const double correction = bias_correction(rate, fmax(head[2], 1.0));
        const double mu = head[0] / correction;
        return fmax(sqrt(fmax(head[1] / correction - mu * mu, 0.0)), 0.03162277660168379);
    }

    static __device__ double binary_element(double magnitude, double capacity, int frequency) {
        if (magnitude >= capacity) return 1.0;
        if (magnitude != magnitude) return magnitude;
        const double fraction = magnitude - floor(magnitude);
        const u64 below = (u64)magnitude;
        const double bit = (double)(below >> frequency & 1), next = (double)((below + 1) >> frequency & 1);
        return (1.0 - fraction) * bit + fraction * next;
    }
};
