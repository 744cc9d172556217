// Categorical agents: a distribution over atoms that are evenly spaced in a squashed space. No state.

struct Categorical : CodecDefaults<Categorical> {
    // The constants; behind them the atoms [K] and their values [K], as rounded to f32.
    enum { SQUASH, EPSILON, PROJECTION, READ_MEAN, SPACING, GAUSS, ATOMS };

    static __device__ Squash squash(const Agent& agent) {
        Squash squash = {(int)agent.codec[SQUASH], agent.codec[EPSILON]};
        return squash;
    }

    static __device__ void encode(const Agent&, float reward, float factor, float* out) {
        if (lane() == 0) out[0] += factor * reward;
    }

    static __device__ float decode(const Agent& agent, const float* outputs, const double*) {
        const float top = largest(agent, outputs);
        const double* points = read_points(agent);
        Strands total, sum;
        for (int i = lane(), j = 0; i < (int)agent.outputs; i += LANES, j++) {
            const float weight = exponential(outputs[i] - top);
            total.add(j, weight);
            sum.add(j, weight * (float)points[i]);
        }
        return read(agent, sum.join() / total.join());
    }

    static __device__ float target_value(const Agent& agent, const float* targets, const double*) {
        const double* points = read_points(agent);
        Strands total, sum;
        for (int i = lane(), j = 0; i < (int)agent.outputs; i += LANES, j++) {
            total.add(j, targets[i]);
            sum.add(j, targets[i] * (float)points[i]);
        }
        return read(agent, sum.join() / total.join());
    }

    static __device__ void target(const Agent& agent, const float* encoded, float bootstrap, const float* next,
                                  float* out) {
        if (agent.codec[PROJECTION] != 0.0) {
            project(agent, encoded[0], bootstrap, next, out);
        } else {
            gauss(agent, encoded[0], bootstrap, next, out);
        }
    }

    // The gradient of the cross-entropy by the logits: softmax - target.
    static __device__ void gradient(const Batch& batch, float* trunk) {
        const int k = (int)batch.agent.outputs;
        for (int row = team(); row < BATCH; row += teams()) {
            const float* outputs = batch.output(row);
            const float* targets = batch.target(row);
            float* gradients = batch.gradient(row);
            const float top = largest(batch.agent, outputs);
            const float total = softmax_total(batch.agent, outputs, top);
            for (int i = lane(); i < k; i += LANES) gradients[i] = exponential(outputs[i] - top) / total - targets[i];
        }
        equal_weights(batch, trunk);
    }

private:
    // A sum in eight strands, element i in strand i % 8, whatever number of lanes shares them; softmax.rs has the same order.
    struct Strands {
        enum { MINE = LANES < 8 ? 8 / LANES : 1 };
        float strand[MINE];

        __device__ Strands() {
            for (int i = 0; i < MINE; i++) strand[i] = 0.0f;
        }
        // The lane's j-th element.
        __device__ void add(int j, float x) { strand[j % MINE] += x; }
        // In every lane.
        __device__ float join() {
            for (int half = MINE / 2; half > 0; half /= 2) {
                for (int i = 0; i < half; i++) strand[i] += strand[i + half];
            }
            return team_sum(strand[0]);
        }
    };

    // As in softmax.rs, operation for operation: e^x for x <= 0.
    static __device__ float exponential(float x) {
        const float rounder = 12582912.0f;
        const float rounded = x * 1.44269504088896340736f + rounder;
        const float n = rounded - rounder;
        const float r = (x - n * (355.0f / 512.0f)) - n * -2.1219444e-4f;
        float p = 1.9875692e-4f;
        p = p * r + 1.3981999e-3f;
        p = p * r + 8.333452e-3f;
        p = p * r + 4.1665796e-2f;
        p = p * r + 1.6666665e-1f;
        p = p * r + 0.5f;
        const u32 power = (__float_as_uint(rounded) - __float_as_uint(rounder) + 127u) << 23;
        const float value = (p * (r * r) + r + 1.0f) * __uint_as_float(power);
        return x < -87.0f ? 0.0f : value;
    }

    static __device__ const double* read_points(const Agent& agent) {
        return agent.codec + ATOMS + (agent.codec[READ_MEAN] != 0.0 ? agent.outputs : 0);
    }

    static __device__ float read(const Agent& agent, float mean) {
        return agent.codec[READ_MEAN] != 0.0 ? mean : squash(agent).inverse(mean);
    }

    static __device__ float largest(const Agent& agent, const float* outputs) {
        float top = minus_infinity();
        for (int i = lane(); i < (int)agent.outputs; i += LANES) top = fmaxf(top, outputs[i]);
        return team_max(top);
    }

    static __device__ float softmax_total(const Agent& agent, const float* outputs, float top) {
        Strands total;
        for (int i = lane(), j = 0; i < (int)agent.outputs; i += LANES, j++) total.add(j, exponential(outputs[i] - top));
        return total.join();
    }

    // C51. Each lane owns a strip of atoms and goes through all deposits in order, so that sums need no atomics and have
    // one order.
    static __device__ void project(const Agent& agent, float encoded, float bootstrap, const float* next, float* out) {
        const int k = (int)agent.outputs, strip = (k + LANES - 1) / LANES;
        const int from = lane() * strip, to = from + strip < k ? from + strip : k;
        for (int i = from; i < to; i++) out[i] = 0.0f;
        if (bootstrap == 0.0f) {
            deposit(agent, squash(agent).forward(encoded), 1.0f, from, to, out);
            return;
        }
        const float top = largest(agent, next);
        const float total = softmax_total(agent, next, top);
        for (int j = 0; j < k; j++) {
            const float moved = squash(agent).forward(encoded + bootstrap * (float)agent.codec[ATOMS + k + j]);
            deposit(agent, moved, exponential(next[j] - top) / total, from, to, out);
        }
    }

    // Shares `mass` between the two atoms around a point; those outside from..to are another lane's.
    static __device__ void deposit(const Agent& agent, float point, float mass, int from, int to, float* out) {
        const int last = (int)agent.outputs - 1;
        const float at =
            clamp_to((point - (float)agent.codec[ATOMS]) / (float)agent.codec[SPACING], 0.0f, (float)last);
        int low = at > 0.0f ? (int)at : 0;
        if (low > last - 1) low = last - 1;
        const float share = at - (float)low;
        if (from <= low && low < to) out[low] += mass * (1.0f - share);
        if (from <= low + 1 && low + 1 < to) out[low + 1] += mass * share;
    }

    // HL-Gauss: a Gaussian around the scalar target, cut into bins.
    static __device__ void gauss(const Agent& agent, float encoded, float bootstrap, const float* next, float* out) {
        const int k = (int)agent.outputs;
        const float future = bootstrap == 0.0f ? 0.0f : bootstrap * decode(agent, next, agent.frozen);
        const float low = (float)agent.codec[ATOMS], high = (float)agent.codec[ATOMS + k - 1];
        const float centre = clamp_to(squash(agent).forward(encoded + future), low, high);
        const float total = edge(agent, k, centre) - edge(agent, 0, centre);
        for (int i = lane(); i < k; i += LANES) {
            out[i] = (edge(agent, i + 1, centre) - edge(agent, i, centre)) / total;
        }
    }

    static __device__ float edge(const Agent& agent, int j, float centre) {
        const float x = (float)agent.codec[ATOMS] + ((float)j - 0.5f) * (float)agent.codec[SPACING];
        return error_function((x - centre) / ((float)agent.codec[GAUSS] * 1.41421356237309504880f));
    }

    // The same fit as in categorical.rs, so that targets agree with it.
    static __device__ __noinline__ float error_function(float x) {
        // As an f32 it is 1 from here on, and most bins are further away than that.
        if (fabsf(x) >= 4.0f) return x > 0.0f ? 1.0f : -1.0f;
        const double z = fabs((double)x);
        const double t = 1.0 / (1.0 + 0.5 * z);
        double sum = 0.17087277;
        sum = sum * t + -0.82215223;
        sum = sum * t + 1.48851587;
        sum = sum * t + -1.13520398;
        sum = sum * t + 0.27886807;
        sum = sum * t + -0.18628806;
        sum = sum * t + 0.09678418;
        sum = sum * t + 0.37409196;
        sum = sum * t + 1.00002368;
        sum = sum * t + -1.26551223;
        const double complement = t * exp(-z * z + sum);
        return (float)(x >= 0.0f ? 1.0 - complement : complement - 1.0);
    }
};
