// The learner's own kernels: everything of a step that is neither the networks' nor one codec's. They follow learner.rs,
// replay/mod.rs and diagnostics.rs, sums in the same order, without atomics: the same input gives the same bits.
//
// A kernel that needs a codec hands over to FOR_CODEC, which source.rs generates: a switch over the group's codecs, the
// same way for all threads of a block.

// A kernel for blocks of up to so many threads, so many of which are to fit a multiprocessor at once.
#define KERNEL(threads, blocks) extern "C" __global__ void __launch_bounds__(threads, blocks)

// Judged actions that a block holds at a time, and the rows or actions that this is enough for.
#define HELD_VALUES 2048
#define HELD_ROWS (ACTIONS * BATCH <= HELD_VALUES ? BATCH : HELD_VALUES / ACTIONS)

// What the host staged, out of its memory.
static __device__ void fetch(const Staged* staging, const void* seen, Staged* staged, void* observations) {
    const u64 at = (u64)blockIdx.x * OBSERVATION;
    copy_observation((const Element*)seen + at, (Element*)observations + at);
    if (thread() == 0) staged[blockIdx.x] = staging[blockIdx.x];
}

// Completes the current observation with what its action brought.
static __device__ void complete(const Agent& agent, const Staged& outcome) {
    if (thread() != 0 || !outcome.active || !outcome.has_outcome) return;
    Counters& counters = *agent.counters;
    const u64 slot = counters.newest % agent.capacity;
    agent.actions[slot] = (u8)outcome.action;
    agent.rewards[slot] = outcome.reward;
    agent.scores[slot] = (u8)outcome.player_score;
    agent.flags[slot] |= (u8)(outcome.flags & (TERMINAL | TRUNCATED));
    counters.starting = (outcome.flags & (TERMINAL | TRUNCATED)) != 0;
    counters.newest += 1;
}

// Stores the new observation as the current one and stacks it for acting.
static __device__ void store(const Agent& agent, const void* observations, void* acting_input) {
    const u64 newest = agent.counters->newest;
    const bool starts = agent.counters->starting != 0;
    const u64 slot = newest % agent.capacity;
    const Element* observation = (const Element*)observations + (u64)blockIdx.x * OBSERVATION;
    copy_observation(observation, (Element*)frame(agent, slot));
    // The stack takes the newest observation from where it came: other threads may not have stored theirs yet.
    const Stack stack = find_stack(agent, newest, slot, observation, starts);
    write_stack(stack, (Element*)acting_input + (u64)blockIdx.x * OBSERVATION * STACK);
    if (thread() == 0) agent.flags[slot] = starts ? START : 0;
#if MASK_BYTES
    for (int i = thread(); i < MASK_BYTES; i += threads()) agent.legal[slot * MASK_BYTES + i] = agent.legal_seen[i];
#endif
}

// The next kernel may start now: it waits itself for the end of this one, and everything before has ended.
static __device__ inline void let_next_start() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// grid P: a step begins: the outcome, the new observation, its stack.
KERNEL(AGENT_THREADS, 1)
enter(Agent* agents, const Staged* staging, const void* seen, Staged* staged, void* observations, void* acting_input) {
    let_next_start();
    const Agent agent = agents[blockIdx.x];
    fetch(staging, seen, staged, observations);
    __syncthreads();
#if PRIORITISED
    admit(agent, staged[blockIdx.x]);
    __syncthreads();
#endif
    complete(agent, staged[blockIdx.x]);
    __syncthreads();
    if (staged[blockIdx.x].active) store(agent, observations, acting_input);
}

// grid P: an outcome alone, when no observation follows.
KERNEL(AGENT_THREADS, 1)
record(Agent* agents, const Staged* staging, const void* seen, Staged* staged, void* observations) {
    const Agent agent = agents[blockIdx.x];
    fetch(staging, seen, staged, observations);
    __syncthreads();
#if PRIORITISED
    admit(agent, staged[blockIdx.x]);
    __syncthreads();
#endif
    complete(agent, staged[blockIdx.x]);
}

// Whether an agent takes part in an update: it is staged, has something to learn from and is finite.
static __device__ inline bool takes_part(const Agent& agent, const Staged& staged, const Valid& valid) {
    return staged.active && valid.end > valid.first && agent.counters->not_finite == 0;
}

#if PRIORITISED
// grid P: the minibatches of agents that draw by priority.
KERNEL(BATCH_THREADS, 1)
draw(Agent* agents, const Staged* staged) {
    const Agent agent = agents[blockIdx.x];
    const u64 newest = agent.counters->newest;
    const Valid valid = valid_records(agent, newest, agent.counters->floor);
    if (agent.priorities && takes_part(agent, staged[blockIdx.x], valid)) draw_rows(agent, valid, newest);
}

// grid P: priorities after an update's gradients.
KERNEL(BATCH_THREADS, 1)
reprioritise(Agent* agents) {
    const Agent agent = agents[blockIdx.x];
    if (agent.priorities && agent.counters->learns) take_priorities(agent);
}
#endif

// The record of a row.
static __device__ inline u64 drawn_record(const Agent& agent, const Valid& valid, int row) {
#if PRIORITISED
    if (agent.priorities) return agent.drawn[row];
#endif
    return valid.first + draw_below(agent.seed, agent.counters->updates, row, valid.end - valid.first);
}

// grid (BATCH, 2, P), in small blocks so that those of 20 agents run all at once: draws a row and writes its stacked state
// (y = 0) or next state (y = 1); with `planes`, only where their planes are, unless the observations are host-resident.
KERNEL(ROW_THREADS, 10)
gather(Agent* agents, Row* rows, const Staged* staged, void* input, const Element** planes) {
    const int row = blockIdx.x, set = blockIdx.y, p = blockIdx.z, population = gridDim.z;
    const Agent agent = agents[p];
    const Valid valid = valid_records(agent, agent.counters->newest, agent.counters->floor);
    // Every block finds out for itself, because blocks run in any order; the first one tells the later kernels.
    const bool learns = takes_part(agent, staged[p], valid);
    const bool writes = thread() == 0 && set == 0;
    if (writes && row == 0) agent.counters->learns = learns;
    if (!learns) return;
    const u64 index = drawn_record(agent, valid, row);
    const u64 slot = index % agent.capacity;
    Row& drawn = rows[(u64)p * BATCH + row];
    const float discount = agent.discount;
    float factor = 1.0f;
    int count = 0;
    u8 ends = 0;
    // No early end: the flags of several steps are then on their way at the same time.
#pragma unroll 8
    for (int k = 0; k < N_STEP; k++) {
        const u8 flags = agent.flags[slot_after(agent, slot, k)] & (TERMINAL | TRUNCATED);
        if (ends == 0) {
            factor *= discount;
            ends = flags;
            count++;
        }
    }
    if (set == 0) {
        for (int k = thread(); k < count; k += threads()) {
            drawn.rewards[k] = agent.rewards[slot_after(agent, slot, k)];
        }
    }
    if (writes) {
        drawn.index = index;
        drawn.action = agent.actions[slot];
        drawn.mask = (ends & TRUNCATED) == 0;
        drawn.player_score = agent.scores[slot];
        drawn.count = count;
        drawn.bootstrap = ends == 0 ? factor : 0.0f;
    }
    const u64 ahead = set == 1 && ends == 0 ? N_STEP : 0;
    const u64 last = slot_after(agent, slot, ahead);
    const Stack stack =
        find_stack(agent, index + ahead, last, frame(agent, last), (agent.flags[last] & START) != 0);
    const u64 sample = ((u64)set * population + p) * BATCH + row;
    Element* own = (Element*)input + sample * OBSERVATION * STACK;
    if (planes) {
        name_planes(stack, agent.host_resident != 0, own, planes + sample * PLANES);
    } else {
        write_stack(stack, own);
    }
}

// What the greedy choice goes by: preferences first, if the codec has any, then values.
struct Judged {
    float preference, value;
};

// The best of the legal actions; of equal ones, or of none that is a number, the first.
static __device__ int best_of(const Judged* judged, const u8* legal) {
    int best = 0;
#if MASK_BYTES
    for (int action = ACTIONS - 1; action >= 0; action--) {
        if (is_legal(legal, action)) best = action;
    }
#endif
    Judged most = {minus_infinity(), minus_infinity()};
    for (int action = 0; action < ACTIONS; action++) {
        const Judged found = judged[action];
        const bool better = found.preference > most.preference ||
                            (found.preference == most.preference && found.value > most.value);
        if (is_legal(legal, action) && better && found.value == found.value) {
            most = found;
            best = action;
        }
    }
    return best;
}

// Judges one action of a row of outputs, by a team.
template <class Codec>
static __device__ void judge(const Agent& agent, const float* outputs, int action, const u8* legal,
                             const double* state, Judged& judged) {
    const float value = Codec::decode(agent, outputs + action * agent.outputs, state);
    float preference = 0.0f;
    if constexpr (Codec::PREFERS) preference = Codec::prefer(agent, outputs, action, legal, state);
    if (lane() == 0) judged = {preference, value};
}

// By what the next states' actions are chosen: the outputs that are bootstrapped from, or the online network's.
struct Chooser {
    const float* outputs;
    const double* state;
};

template <class Codec>
static __device__ void make_targets(const Agent& agent, const Row* rows, const float* outputs, const Chooser& chooser,
                                    float* targets, float* returns, Judged* judged) {
    for (int first = 0; first < BATCH; first += HELD_ROWS) {
        const int count = BATCH - first < HELD_ROWS ? BATCH - first : HELD_ROWS;
        for (int item = team(); item < count * ACTIONS; item += teams()) {
            const int row = first + item / ACTIONS;
            const float* of = chooser.outputs + (u64)row * PITCH;
            const u8* legal = legal_of(agent, rows[row]);
            judge<Codec>(agent, of, item % ACTIONS, legal, chooser.state, judged[item]);
        }
        __syncthreads();
        for (int held = team(); held < count; held += teams()) {
            const int row = first + held;
            const Row& sampled = rows[row];
            float* encoded = returns + row * MAX_ENCODED;
            for (int i = lane(); i < (int)agent.encoded; i += LANES) encoded[i] = 0.0f;
            const float discount = agent.discount;
            float factor = 1.0f;
            for (u32 step = 0; step < sampled.count; step++) {
                Codec::encode(agent, sampled.rewards[step], factor, encoded);
                factor *= discount;
            }
            team_sync();
            const int best = best_of(judged + held * ACTIONS, legal_of(agent, sampled));
            const float* next = outputs + (u64)row * PITCH + best * agent.outputs;
            Codec::target(agent, encoded, sampled.bootstrap, next, targets + row * MAX_OUTPUTS);
        }
        __syncthreads();
    }
}

// Shows both networks' outputs for the next states to a codec that compares them.
template <class Codec>
static __device__ void compare_networks(const Agent& agent, const Row* rows, const float* online, const float* target) {
    if constexpr (Codec::COMPARES) Codec::compare(agent, rows, online, target);
}

// Makes every action's output k scale[k] * y + shift[k] by changing the online last layer. Of dueling streams only the value
// carries the shift: advantages count by their differences.
static __device__ void change_last_layer(const Agent& agent, const float* scale, const float* shift) {
    const int k = (int)agent.outputs, units = (ACTIONS + DUELING) * k;
    float* weights = agent.online + HEAD_AT;
    for (int i = thread(); i < HEAD_IN * units; i += threads()) weights[i] *= scale[i % k];
    float* biases = weights + HEAD_IN * units;
#if DUELING
    for (int i = thread(); i < units; i += threads()) {
        biases[i] = i < k ? biases[i] * scale[i] + shift[i] : biases[i] * scale[i % k];
    }
#else
    for (int i = thread(); i < units; i += threads()) biases[i] = biases[i] * scale[i % k] + shift[i % k];
#endif
}

// grid P: encoded returns, greedy actions and targets; then the codec's own change before the online forward pass.
// `choosing`: the online networks' outputs for the next states, if some agents choose or compare by them.
KERNEL(BATCH_THREADS, 1)
targets(Agent* agents, const Row* rows, const float* outputs, float* targets, float* returns
#if DOUBLE_Q
        ,
        const float* choosing
#endif
) {
    __shared__ Judged judged[HELD_ROWS * ACTIONS];
    __shared__ float scale[MAX_OUTPUTS];
    __shared__ float shift[MAX_OUTPUTS];
    const u64 p = blockIdx.x;
    const Agent agent = agents[p];
    if (!agent.counters->learns) return;
    rows += p * BATCH;
    outputs += p * BATCH * PITCH;
    targets += p * BATCH * MAX_OUTPUTS;
    returns += p * BATCH * MAX_ENCODED;
    Chooser chooser = {outputs, agent.frozen};
#if DOUBLE_Q
    choosing += p * BATCH * PITCH;
    if (agent.double_q) chooser = {choosing, agent.online_state};
#endif
#if DUELING
    join_streams(agent, outputs, BATCH);
#if DOUBLE_Q
    join_streams(agent, choosing, BATCH);
#endif
#endif
    bool changes = false;
    FOR_CODEC(agent.kind, {
        make_targets<Codec>(agent, rows, outputs, chooser, targets, returns, judged);
        changes = Codec::before_forward(agent, targets, scale, shift);
    })
    __syncthreads();
#if DOUBLE_Q
    // After the greedy choices, which the states before this update make.
    FOR_CODEC(agent.kind, compare_networks<Codec>(agent, rows, choosing, outputs))
#endif
    if (changes) change_last_layer(agent, scale, shift);
}

// What one row adds to sums over the batch.
struct RowSums {
    double loss;       // sum of squared gradients, if the row counts
    double magnitude;  // sum of |gradient|, if the row counts
    double taken;      // sum of |output|
    float prediction;  // in true reward units, if the row counts
    float target;
    int mask;  // 0: the row does not count
    int score;
    int action;
#if PRIORITISED
    float importance;
#endif
};

// The factor of a row's gradients.
static __device__ inline float row_scale(float scale, const RowSums& sums) {
#if PRIORITISED
    return scale * sums.importance;
#else
    return scale;
#endif
}

template <class Codec>
static __device__ void sum_row(const Batch& batch, int row, RowSums& sums) {
    const Agent& agent = batch.agent;
    const float* output = batch.output(row);
    const float* gradient = batch.gradient(row);
    const bool mask = batch.mask(row);
    double loss = 0.0, magnitude = 0.0, taken = 0.0;
    for (int i = lane(); i < (int)agent.outputs; i += LANES) {
        const double g = (double)gradient[i];
        loss += g * g;
        magnitude += fabs(g);
        taken += fabs((double)output[i]);
    }
    loss = team_sum(loss);
    magnitude = team_sum(magnitude);
    taken = team_sum(taken);
    const float prediction = Codec::decode(agent, output, agent.online_state);
    const float target = Codec::target_value(agent, batch.target(row), agent.online_state);
    if (lane() != 0) return;
    sums.loss = loss;
    sums.magnitude = mask ? magnitude : 0.0;
    sums.taken = taken;
    sums.prediction = prediction;
    sums.target = target;
    sums.mask = mask;
    sums.score = (int)batch.rows[row].player_score;
    sums.action = (int)batch.rows[row].action;
#if PRIORITISED
    sums.importance = agent.priorities ? agent.importance[row] : 1.0f;
    if (agent.priorities) agent.norms[row] = mask ? sqrt(loss) : 0.0;
#endif
}

// Diagnostics over the batch. Each sum belongs to one thread, which adds row after row.
static __device__ void diagnose(const Batch& batch, const RowSums* sums, const float* trunk) {
    const Agent& agent = batch.agent;
    double* total = agent.sums;
    if (first_of_warp(1)) {
        double count = total[0], loss = total[3];
        for (int row = 0; row < BATCH; row++) {
            if (!sums[row].mask) continue;
            count += 1.0;
            loss += sums[row].loss;
        }
        total[0] = count;
        total[3] = loss;
    }
    if (first_of_warp(2)) {
        double q = total[1], error = total[2];
        for (int row = 0; row < BATCH; row++) {
            if (!sums[row].mask) continue;
            q += (double)sums[row].prediction;
            error += (double)fabsf(sums[row].prediction - sums[row].target);
        }
        total[1] = q;
        total[2] = error;
    }
    double* frequencies = total + 4;
    for (int i = thread(); i < (int)agent.frequencies; i += threads()) {
        double active = frequencies[3 * i], target = frequencies[3 * i + 1], loss = frequencies[3 * i + 2];
#pragma unroll 32
        for (int row = 0; row < BATCH; row++) {
            if (!sums[row].mask) continue;
            const double g = (double)batch.gradient(row)[i];
            active += batch.returned(row)[i] != 0.0f ? 1.0 : 0.0;
            target += (double)batch.target(row)[i];
            loss += (double)trunk[i] * (g * g);
        }
        frequencies[3 * i] = active;
        frequencies[3 * i + 1] = target;
        frequencies[3 * i + 2] = loss;
    }
    double* scores = frequencies + 3 * agent.frequencies;
    // From the last thread down: the first ones are busy with frequencies.
    for (int s = threads() - 1 - thread(); s < (int)agent.scores_told; s += threads()) {
        double error = scores[3 * s], target = scores[3 * s + 1], count = scores[3 * s + 2];
        for (int row = 0; row < BATCH; row++) {
            if (!sums[row].mask || sums[row].score != s) continue;
            error += SCORE_RATE * ((double)fabsf(sums[row].prediction - sums[row].target) - error);
            target += SCORE_RATE * ((double)fabsf(sums[row].target) - target);
            count += 1.0;
        }
        scores[3 * s] = error;
        scores[3 * s + 1] = target;
        scores[3 * s + 2] = count;
    }
}

// What an update corrects its running means by. Three threads make it while others make gradients: powers take long.
struct Corrections {
    double step_size, root_correction, error_magnitude;
};

static __device__ void correct(const Agent& agent, Corrections& made) {
    const double step = (double)(agent.counters->updates + 1);
    // Settings in single precision, corrections in double, as spectral-nn's Adam on the CPU.
    const double beta1 = (double)agent.beta1, beta2 = (double)agent.beta2;
    if (first_of_warp(13)) made.step_size = (double)agent.learning_rate / (1.0 - pow(beta1, step));
    if (first_of_warp(14)) made.root_correction = 1.0 / sqrt(1.0 - pow(beta2, step));
    if (first_of_warp(15)) made.error_magnitude = bias_correction(CORRECTION_RATE, step);
}

// By one thread: whether all is finite, the factor of all gradients, and what Adam needs.
static __device__ void conclude(const Agent& agent, const RowSums* sums, const Corrections& corrections, float& scale,
                                int& finite) {
    Counters& counters = *agent.counters;
    double magnitude = 0.0, taken = 0.0;
    for (int row = 0; row < BATCH; row++) {
        magnitude += sums[row].magnitude;
        taken += sums[row].taken;
    }
    double factor = 1.0 / (double)BATCH;
    if (agent.error_correction) {
        const double mean = magnitude / (double)(BATCH * agent.outputs) / (double)BATCH;
        counters.error_magnitude += CORRECTION_RATE * (mean - counters.error_magnitude);
        const double running = counters.error_magnitude / corrections.error_magnitude;
        factor /= fmax(running / CORRECTION_LEVEL, CORRECTION_FLOOR);
    }
    scale = (float)factor;
    // Clipped gradients would hide outputs that are not finite.
    const double all = magnitude + taken;
    finite = all - all == 0.0;
    if (finite) {
        counters.step_size = corrections.step_size;
        counters.root_correction = corrections.root_correction;
        counters.updates += 1;
    } else {
        counters.not_finite = counters.updates + 1;
        counters.learns = 0;
    }
}

// grid P: the output gradients, dense, for the last layer and for the layers below it; statistics, diagnostics, counters.
// `last` first holds the plain gradients of the taken actions, then all of them, scaled.
KERNEL(BATCH_THREADS, 1)
gradients(Agent* agents, const Row* rows, const float* outputs, const float* targets, const float* returns, float* last,
          float* trunk) {
    __shared__ RowSums sums[BATCH];
    __shared__ float weights[MAX_OUTPUTS];
    __shared__ Corrections corrections;
    __shared__ float scale;
    __shared__ int finite;
    const u64 p = blockIdx.x;
    const Agent agent = agents[p];
    rows += p * BATCH;
    outputs += p * BATCH * PITCH;
    targets += p * BATCH * MAX_OUTPUTS;
    returns += p * BATCH * MAX_ENCODED;
    last += p * BATCH * PITCH;
    trunk += p * BATCH * PITCH;
    const bool learns = agent.counters->learns != 0;
    if (learns) {
#if DUELING
        join_streams(agent, outputs, BATCH);
#endif
        const Batch batch = {agent, rows, outputs, targets, returns, last};
        correct(agent, corrections);
        FOR_CODEC(agent.kind, {
            Codec::gradient(batch, weights);
            __syncthreads();
            for (int row = team(); row < BATCH; row += teams()) sum_row<Codec>(batch, row, sums[row]);
        })
        __syncthreads();
        if (first_of_warp(3)) conclude(agent, sums, corrections, scale, finite);
        diagnose(batch, sums, weights);
        __syncthreads();
    }
    const int k = (int)agent.outputs;
    const bool moves = learns && finite;
#if DUELING
    // A thread has one output of a row, with all places that its gradient goes to and comes from.
    for (int item = thread(); item < BATCH * k; item += threads()) {
        const int row = item / k, output = item % k, at = row * PITCH + output;
        const int taken = moves ? sums[row].action : 0;
        float g = moves && sums[row].mask ? last[at + taken * k] : 0.0f;
        g = moves ? row_scale(scale, sums[row]) * g : 0.0f;
        const float weighted = moves ? g * weights[output] : 0.0f;
        spread_gradient(trunk + at, k, taken, weighted);
        spread_gradient(last + at, k, taken, agent.undo_last_layer ? g : weighted);
    }
    const int behind = PITCH - (ACTIONS + 1) * k;
    for (int i = thread(); i < BATCH * behind; i += threads()) {
        const int at = i / behind * PITCH + (ACTIONS + 1) * k + i % behind;
        last[at] = trunk[at] = 0.0f;
    }
#else
    // Several at a time, so that reads do not wait for the writes before them.
    const int at_once = 8;
    for (int first = thread(); first < BATCH * PITCH; first += at_once * threads()) {
        float g[at_once], weighted[at_once];
#pragma unroll
        for (int j = 0; j < at_once; j++) {
            const int at = first + j * threads(), row = at / PITCH;
            const int output = moves && at < BATCH * PITCH ? at % PITCH - sums[row].action * k : -1;
            g[j] = weighted[j] = 0.0f;
            if (output >= 0 && output < k) {
                g[j] = row_scale(scale, sums[row]) * (sums[row].mask ? last[at] : 0.0f);
                weighted[j] = g[j] * weights[output];
            }
        }
#pragma unroll
        for (int j = 0; j < at_once; j++) {
            const int at = first + j * threads();
            if (at >= BATCH * PITCH) continue;
            trunk[at] = weighted[j];
            last[at] = agent.undo_last_layer ? g[j] : weighted[j];
        }
    }
#endif
}

// grid P: the greedy actions for the current observations.
KERNEL(AGENT_THREADS, 1)
choose(Agent* agents, const float* outputs, const Staged* staged, Decision* decisions) {
    __shared__ Judged judged[ACTIONS];
    const Agent agent = agents[blockIdx.x];
    const float* own = outputs + (u64)blockIdx.x * PITCH;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
#if DUELING
    join_streams(agent, own, 1);
#endif
    const u8* legal = legal_in(agent, agent.counters->newest);
    FOR_CODEC(agent.kind, {
        for (int action = team(); action < ACTIONS; action += teams()) {
            judge<Codec>(agent, own, action, legal, agent.online_state, judged[action]);
        }
    })
    __syncthreads();
    if (thread() == 0) {
        decisions[blockIdx.x].action = best_of(judged, legal);
        decisions[blockIdx.x].not_finite = agent.counters->not_finite;
        // The host watches this number in its own memory: the rest must be there before it.
        __threadfence_system();
        *(volatile u64*)&decisions[blockIdx.x].sequence = staged[blockIdx.x].sequence;
    }
}

// grid (x, P): copies online networks, and the codecs' states with them, to the targets.
KERNEL(AGENT_THREADS, 1)
refresh(Agent* agents, const Staged* staged) {
    const Agent agent = agents[blockIdx.y];
    if (!staged[blockIdx.y].active || agent.counters->not_finite) return;
    const u64 from = (u64)blockIdx.x * threads() + thread(), step = (u64)gridDim.x * threads();
    const u64 whole = agent.parameters / 4;
    for (u64 i = from; i < whole; i += step) ((Sixteen*)agent.target)[i] = ((const Sixteen*)agent.online)[i];
    for (u64 i = 4 * whole + from; i < agent.parameters; i += step) agent.target[i] = agent.online[i];
    for (u64 i = from; i < agent.state; i += step) agent.frozen[i] = agent.online_state[i];
    if (!agent.online_half) return;
    // Copies are padded to whole sixteens of bytes.
    const u64 halves = (agent.parameters + 7) / 8;
    for (u64 i = from; i < halves; i += step) ((Sixteen*)agent.target_half)[i] = ((const Sixteen*)agent.online_half)[i];
}
