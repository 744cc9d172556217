// Spectral DQN: one bounded value per bucket of the reward. State: per head running mean, running mean square and count;
// for the steady choice also the running noise and the threshold.

struct Spectral : CodecDefaults<Spectral> {
    // The constants; behind them widths [K], inverse widths [K] and edges [K + 1], the last two as rounded to f32.
    enum { WEIGHTS, BINARY, RATE, BOUND, CAPACITY, STEADINESS, WIDTHS };
    enum { VARIANCE = 0, EXPONENTIAL = 1, UNIFORM = 2 };
    // What of a head's state is where.
    enum { COUNT = 2, NOISE = 3, THRESHOLD = 4 };

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

    // The sum of differences between actions that stand out of their noise; see spectral/steady.rs.
    static __device__ float prefer(const Agent& agent, const float* outputs, int action, const u8* legal,
                                   const double* state) {
        if (!is_steady(agent)) return 0.0f;
        const int k = (int)agent.outputs;
        double sum = 0.0;
        for (int i = lane(); i < k; i += LANES) {
            const double difference = bounded(agent, outputs[action * k + i]) - head_mean(agent, outputs + i, legal);
            const double above = fmax(fabs(difference) - state[state_width(agent) * i + THRESHOLD], 0.0);
            sum += agent.codec[WIDTHS + i] * (difference < 0.0 ? -above : above);
        }
        return (float)team_sum(sum);
    }

    // Moves each head's noise towards that of the minibatch. Threads share rows, and a thread per head adds their sums.
    static __device__ void compare(const Agent& agent, const Row* rows, const float* online, const float* target) {
        __shared__ double squares[BATCH_THREADS];
        __shared__ u32 counts[BATCH_THREADS];
        if (!is_steady(agent)) return;
        const int k = (int)agent.outputs;
        const int parts = threads() >= k ? threads() / k : 1;
        for (int first = 0; first < k; first += threads()) {
            const int i = first + thread() % k, part = thread() / k;
            double sum = 0.0;
            u32 count = 0;
            for (int row = part; i < k && part < parts && row < BATCH; row += parts) {
                const u8* legal = legal_of(agent, rows[row]);
                const float* by_online = online + (u64)row * PITCH + i;
                const float* by_target = target + (u64)row * PITCH + i;
                const double online_mean = head_mean(agent, by_online, legal);
                const double target_mean = head_mean(agent, by_target, legal);
                for (int a = 0; a < ACTIONS; a++) {
                    if (!is_legal(legal, a)) continue;
                    const double d = (bounded(agent, by_online[a * k]) - online_mean) -
                                     (bounded(agent, by_target[a * k]) - target_mean);
                    sum += 0.5 * (d * d);
                    count += 1;
                }
            }
            squares[thread()] = sum;
            counts[thread()] = count;
            __syncthreads();
            if (thread() < k && i < k) {
                for (int other = 1; other < parts; other++) {
                    sum += squares[thread() + other * k];
                    count += counts[thread() + other * k];
                }
                double* head = agent.online_state + state_width(agent) * i;
                const double rate = agent.codec[RATE];
                if (count > 0) head[NOISE] += rate * (sum / (double)count - head[NOISE]);
                const double correction = bias_correction(rate, fmax(head[COUNT], 1.0));
                head[THRESHOLD] =
                    agent.codec[STEADINESS] * sqrt(2.0 * log((double)(ACTIONS * k))) * sqrt(head[NOISE] / correction);
            }
            __syncthreads();
        }
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
            double* head = agent.online_state + state_width(agent) * i;
            head[0] += rate * (mean / (double)BATCH - head[0]);
            head[1] += rate * (square / (double)BATCH - head[1]);
            if (i == 0 || fired || head[2] > 0.0) head[2] += 1.0;
            const int weights = (int)agent.codec[WEIGHTS];
            const double sigma = weights == VARIANCE ? head_sigma(head, rate) : 1.0;
            trunk[i] = weights == EXPONENTIAL ? (float)agent.codec[WIDTHS + i] : (float)(1.0 / (sigma * sigma));
        }
    }

private:
    static __device__ bool is_steady(const Agent& agent) { return agent.codec[STEADINESS] != 0.0; }

    static __device__ int state_width(const Agent& agent) { return is_steady(agent) ? 5 : 3; }

    static __device__ double bounded(const Agent& agent, float output) {
        const float bound = (float)agent.codec[BOUND];
        return (double)clamp_to(output, -bound, bound);
    }

    // One head's mean over legal actions. `outputs` begins at that head of the first action.
    static __device__ double head_mean(const Agent& agent, const float* outputs, const u8* legal) {
        double sum = 0.0;
        int count = 0;
        for (int a = 0; a < ACTIONS; a++) {
            if (!is_legal(legal, a)) continue;
            sum += bounded(agent, outputs[a * (int)agent.outputs]);
            count++;
        }
        return sum / (double)(count > 0 ? count : 1);
    }

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
