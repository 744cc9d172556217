// Convolutions by warpgroups against plain loops, on the CPU. Prints the largest differences; ends with 1 if one is too large.

#include "emulation.h"

// Generated from the host's structures.
#include "net.cuh"
//
#include "words.cuh"
//
#include "product.cuh"
//
#include "layers.cuh"
//
#include "matrices.cuh"
//
#include "direct.cuh"
//
#include "tensor_cores.cuh"
//
#include "warpgroup.cuh"
//
#include "warpgroup_gradients.cuh"

static u64 state = 7;
static float unit() {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (float)(state >> 40) / (float)(1 << 24);
}
static bf16 rounded(float x) { return {bf16_bits(x)}; }
static std::vector<bf16> noise(size_t count) {
    std::vector<bf16> all(count);
    for (auto& one : all) one = rounded(unit() - 0.4f);
    return all;
}

static bool failed = false;
static void compare(const char* what, const std::vector<float>& got, const std::vector<float>& want, double allowed) {
    double most = 0.0, worst = 0.0;
    for (size_t i = 0; i < want.size(); i++) {
        const double difference = std::fabs((double)got[i] - want[i]);
        worst = difference <= worst ? worst : difference;  // NaN counts as worse
        most = std::fmax(most, std::fabs(want[i]));
    }
    const bool good = worst <= allowed * most;
    printf("%-40s %.1e of %.1e allowed%s\n", what, worst / most, allowed, good ? "" : ": TOO MUCH");
    failed |= !good;
}

// Images of several networks, as the kernels of a layer take them and as numbers.
template <class L, class In>
struct Images {
    std::vector<u8> bytes;
    std::vector<const u8*> planes;
    std::vector<bf16> halves;
    std::vector<float> numbers;
    float scale = 1.0f;
    explicit Images(int count) : numbers((size_t)count * L::INPUT) {
        if (sizeof(In) == 1) {
            constexpr int AREA = L::H * L::W;
            bytes.resize(numbers.size());
            for (auto& byte : bytes) byte = (u8)(unit() * 256.0f);
            scale = 1.0f / 255.0f;
            for (int plane = 0; plane < count * L::C; plane++) {
                const bool there = plane % 7 != 0;
                planes.push_back(there ? &bytes[(size_t)plane * AREA] : nullptr);
                for (int p = 0; p < AREA; p++)
                    numbers[(size_t)plane / L::C * L::INPUT + p * L::C + plane % L::C] =
                        there ? bytes[(size_t)plane * AREA + p] : 0.0f;
            }
        } else {
            halves = noise(numbers.size());
            for (size_t i = 0; i < numbers.size(); i++) numbers[i] = to_float(halves[i]);
        }
    }
    const In* input() const { return sizeof(In) == 1 ? (const In*)planes.data() : (const In*)halves.data(); }
};

// Calls f(output, input, weight) for everything that a layer multiplies in an image.
template <class L, class F>
static void each_product(F f) {
    for (int y = 0; y < L::OH; y++)
        for (int x = 0; x < L::OW; x++)
            for (int ky = 0; ky < L::KS; ky++)
                for (int kx = 0; kx < L::KS; kx++)
                    for (int c = 0; c < L::C; c++)
                        f((y * L::OW + x) * L::F, ((y * L::S + ky) * L::W + x * L::S + kx) * L::C + c,
                          ((ky * L::KS + kx) * L::C + c) * L::F);
}

// Two agents; networks 1 to 3 of the four run, in two blocks each.
template <class L, class In, int BATCH, int G, int GROUPS, int STAGES>
static void forward(const char* name) {
    constexpr int WEIGHTS = L::FAN_IN * L::F, OUTPUTS = L::POSITIONS * L::F;
    std::vector<float> numbers[4];
    std::vector<bf16> halves[4];
    Net nets[2] = {};
    for (int i = 0; i < 4; i++) {
        halves[i] = noise(WEIGHTS);
        for (auto& weight : halves[i]) weight = rounded(0.1f * to_float(weight));
        for (int k = 0; k < WEIGHTS; k++) numbers[i].push_back(to_float(halves[i][k]));
        for (int f = 0; f < L::F; f++) numbers[i].push_back(unit() - 0.5f);
        (i < 2 ? nets[i].online : nets[i - 2].target) = numbers[i].data();
        (i < 2 ? nets[i].online_half : nets[i - 2].target_half) = halves[i].data();
    }
    const Images<L, In> images(4 * BATCH);
    const bf16 untouched = rounded(-1.0f);
    std::vector<bf16> output((size_t)4 * BATCH * OUTPUTS, untouched);
    typedef WarpgroupForwardShape<L, In, G, GROUPS, STAGES> Shape;
    launch({2, 1, 3}, Shape::THREADS, [&] {
        warpgroup_forward<L, In, G, GROUPS, STAGES, BATCH>(nets, 2, 1, images.input(), output.data(), images.scale);
    });
    std::vector<float> got, want((size_t)4 * BATCH * OUTPUTS, 0.0f);
    for (int sample = 0; sample < 4 * BATCH; sample++) {
        float* own = &want[(size_t)sample * OUTPUTS];
        const float* weights = numbers[sample / BATCH].data();
        if (sample < BATCH) {
            for (int i = 0; i < OUTPUTS; i++) own[i] = to_float(untouched);
            continue;
        }
        each_product<L>([&](int to, int from, int weight) {
            const float x = images.numbers[(size_t)sample * L::INPUT + from];
            for (int f = 0; f < L::F; f++) own[to + f] += x * weights[weight + f];
        });
        for (int i = 0; i < OUTPUTS; i++) {
            own[i] = own[i] * images.scale + weights[WEIGHTS + i % L::F];
            if (L::RELU) own[i] = std::fmax(own[i], 0.0f);
        }
    }
    for (bf16 x : output) got.push_back(to_float(x));
    compare(name, got, want, 4e-3);
}

template <class L, int BATCH, int G, int GROUPS, int STAGES>
static void input_gradient(const char* name) {
    std::vector<bf16> weights[2] = {noise(L::FAN_IN * L::F), noise(L::FAN_IN * L::F)};
    Net nets[2] = {};
    for (int i = 0; i < 2; i++) nets[i].online_half = weights[i].data();
    const std::vector<bf16> input = noise(2 * BATCH * L::INPUT), delta = noise(2 * BATCH * L::POSITIONS * L::F);
    std::vector<bf16> output(input.size(), rounded(99.0f));
    typedef WarpgroupInputGradientShape<L, G, GROUPS, STAGES> Shape;
    launch({2, 1, 2}, Shape::THREADS, [&] {
        warpgroup_input_gradient<L, G, GROUPS, STAGES, BATCH>(nets, delta.data(), input.data(), output.data());
    });
    std::vector<float> got, want(input.size(), 0.0f);
    for (int sample = 0; sample < 2 * BATCH; sample++)
        each_product<L>([&](int to, int from, int weight) {
            const bf16* deltas = &delta[(size_t)sample * L::POSITIONS * L::F + to];
            float sum = 0.0f;
            for (int f = 0; f < L::F; f++) sum += to_float(deltas[f]) * to_float(weights[sample / BATCH][weight + f]);
            want[(size_t)sample * L::INPUT + from] += sum;
        });
    for (size_t i = 0; i < input.size(); i++) {
        if (!(to_float(input[i]) > 0.0f)) want[i] = 0.0f;
        got.push_back(to_float(output[i]));
    }
    compare(name, got, want, 4e-3);
}

template <class L, class In, int BATCH, int GROUPS, int SPLITS, int STAGES>
static void weight_gradient(const char* name) {
    constexpr int SHARES = 2, MOST = (L::FAN_IN + 1) * L::F;
    const Images<L, In> images(2 * BATCH);
    const std::vector<bf16> delta = noise(2 * BATCH * L::POSITIONS * L::F);
    std::vector<float> partial((size_t)2 * SHARES * MOST, 1e9f);
    typedef WarpgroupWeightsShape<L, In, GROUPS, SPLITS, STAGES> Shape;
    launch({SPLITS, SHARES, 2}, Shape::THREADS, [&] {
        warpgroup_weight_gradient<L, In, GROUPS, SPLITS, STAGES, BATCH>(images.input(), delta.data(), images.scale,
                                                                      partial.data(), MOST);
    });
    std::vector<float> got, want((size_t)2 * MOST, 0.0f);
    for (int sample = 0; sample < 2 * BATCH; sample++) {
        float* own = &want[(size_t)sample / BATCH * MOST];
        const bf16* deltas = &delta[(size_t)sample * L::POSITIONS * L::F];
        each_product<L>([&](int to, int from, int weight) {
            const float x = images.numbers[(size_t)sample * L::INPUT + from] * images.scale;
            for (int f = 0; f < L::F; f++) own[weight + f] += x * to_float(deltas[to + f]);
        });
        for (int i = 0; i < L::POSITIONS * L::F; i++) own[L::FAN_IN * L::F + i % L::F] += to_float(deltas[i]);
    }
    for (int i = 0; i < 2 * MOST; i++)
        got.push_back(partial[i / MOST * SHARES * MOST + i % MOST] + partial[(i / MOST * SHARES + 1) * MOST + i % MOST]);
    compare(name, got, want, 1e-5);
}

// The convolutions of the Nature network.
typedef Layer<84, 84, 4, 8, 4, 32, true, 0> First;
typedef Layer<20, 20, 32, 4, 2, 64, true, 0> Second;
typedef Layer<9, 9, 64, 3, 1, 64, true, 0> Third;

int main() {
    forward<First, planar, 3, 1, 2, 1>("first layer, forward");
    forward<Second, bf16, 5, 2, 3, 2>("second layer, forward, pairs of images");
    forward<Second, bf16, 3, 1, 2, 2>("second layer, forward");
    forward<Third, bf16, 5, 1, 1, 2>("third layer, forward");
    forward<Third, bf16, 14, 4, 4, 2>("third layer, forward, fours of images");
    input_gradient<Second, 11, 3, 2, 1>("second layer, input, threes of images");
    input_gradient<Second, 3, 1, 2, 2>("second layer, input, two at a time");
    input_gradient<Third, 14, 3, 2, 1>("third layer, input, threes of images");
    input_gradient<Third, 5, 1, 2, 2>("third layer, input, two at a time");
    weight_gradient<First, planar, 3, 2, 1, 1>("first layer, weights");
    weight_gradient<Second, bf16, 4, 2, 2, 2>("second layer, weights");
    weight_gradient<Second, bf16, 4, 3, 2, 2>("second layer, weights, unequal shares");
    weight_gradient<Third, bf16, 5, 3, 3, 2>("third layer, weights");
    return failed;
}
