// Prioritised replay, as `Priorities` in learner.rs and the tree of sums in replay/sumtree.rs: the same draws, the same sums.
//
// Node n of a tree is the sum of nodes 2 n and 2 n + 1, never changed by differences; the leaves start at `leaves`, one per slot
// of the ring. An agent without a tree draws uniformly.
#if PRIORITISED

// Two neighbours, which are read at once.
struct alignas(16) Children {
    double left, right;
};

// The leaf in which the running sum passes `mass`.
static __device__ inline u64 find_leaf(const Agent& agent, double mass) {
    u64 node = 1;
    while (node < agent.leaves) {
        node *= 2;
        const Children children = *(const Children*)(agent.priorities + node);
        // Rounding may leave a mass that only empty leaves could take: stay where there is something.
        if (mass >= children.left && children.right > 0.0) {
            mass -= children.left;
            node += 1;
        }
    }
    return node - agent.leaves;
}

// By the whole block: gives the record that an outcome is about to complete the largest priority so far.
static __device__ void admit(const Agent& agent, const Staged& outcome) {
    __shared__ double siblings[64];
    if (!agent.priorities || !outcome.active || !outcome.has_outcome) return;
    const u64 leaf = agent.leaves + agent.counters->newest % agent.capacity;
    // All that the sums on the way up need is asked for at once.
    for (int level = thread(); leaf >> level > 1; level += threads()) {
        siblings[level] = agent.priorities[leaf >> level ^ 1];
    }
    __syncthreads();
    if (thread() != 0) return;
    double sum = pow(agent.counters->largest, agent.priority_exponent);
    agent.priorities[leaf] = sum;
    for (int level = 0; leaf >> level > 1; level++) {
        sum += siblings[level];
        agent.priorities[leaf >> (level + 1)] = sum;
    }
}

// Draws every row of a minibatch: row r from the r-th of BATCH equal shares of the sum, and its importance weight.
static __device__ void draw_rows(const Agent& agent, const Valid& valid, u64 newest) {
    __shared__ u64 found[BATCH];
    __shared__ int usable[BATCH];
    __shared__ double weights[BATCH];
    const u64 updates = agent.counters->updates, last = newest - 1, records = valid.end - valid.first;
    const double total = agent.priorities[1];
    // A row that cannot be used takes one more number, for a uniform draw, so that those after it have later numbers: all rows are
    // drawn at once, and again from the first that cannot be used on. There are few such rows.
    int first = 0;
    u32 refused = 0;
    while (first < BATCH) {
        for (int row = first + thread(); row < BATCH; row += threads()) {
            const double unit = (double)(draw_bits(agent.seed, updates, (u32)row + refused) >> 11) * (1.0 / 9007199254740992.0);
            const u64 slot = find_leaf(agent, ((double)row + unit) / (double)BATCH * total);
            // The record that now sits in the slot.
            found[row] = slot <= last ? last - (last - slot) % agent.capacity : ~0ull;
            usable[row] = valid.first <= found[row] && found[row] < valid.end;
        }
        __syncthreads();
        int row = first;
        while (row < BATCH && usable[row]) row++;
        __syncthreads();
        if (row < BATCH) {
            refused++;
            if (thread() == 0) found[row] = valid.first + draw_below(agent.seed, updates, (u32)row + refused, records);
        }
        first = row + 1;
    }
    __syncthreads();
    for (int row = thread(); row < BATCH; row += threads()) {
        const double probability = agent.priorities[agent.leaves + found[row] % agent.capacity] / total;
        weights[row] = pow(probability * (double)records, -agent.importance_exponent);
    }
    __syncthreads();
    double largest = 0.0;
    for (int row = 0; row < BATCH; row++) largest = fmax(largest, weights[row]);
    for (int row = thread(); row < BATCH; row += threads()) {
        agent.drawn[row] = found[row];
        agent.importance[row] = (float)(weights[row] / largest);
    }
}

// Makes the norms of a minibatch's gradients the priorities of its records; of rows with the same record, the last one counts.
static __device__ void take_priorities(const Agent& agent) {
    __shared__ double taken[BATCH];  // negative: not finite, so the record keeps its own
    __shared__ u64 nodes[BATCH];
    for (int row = thread(); row < BATCH; row += threads()) {
        const double priority = agent.norms[row] + MIN_PRIORITY;
        taken[row] = priority - priority == 0.0 ? priority : -1.0;
        nodes[row] = agent.leaves + agent.drawn[row] % agent.capacity;
    }
    __syncthreads();
    for (int row = thread(); row < BATCH; row += threads()) {
        bool counts = taken[row] >= 0.0;
        for (int later = row + 1; later < BATCH; later++) {
            if (nodes[later] == nodes[row] && taken[later] >= 0.0) counts = false;
        }
        if (counts) agent.priorities[nodes[row]] = pow(taken[row], agent.priority_exponent);
    }
    if (first_of_warp(1)) {
        double largest = agent.counters->largest;
        for (int row = 0; row < BATCH; row++) largest = fmax(largest, taken[row]);
        agent.counters->largest = largest;
    }
    // Level by level. Rows that share a node write the same sum of the same two numbers.
    for (int level = 1; agent.leaves >> level > 0; level++) {
        __syncthreads();
        for (int row = thread(); row < BATCH; row += threads()) {
            const u64 node = nodes[row] >> level;
            const Children children = *(const Children*)(agent.priorities + 2 * node);
            agent.priorities[node] = children.left + children.right;
        }
    }
}
#endif
