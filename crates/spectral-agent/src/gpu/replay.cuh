// Replay on the device: a ring of observations stored once each, as in replay/mod.rs.

#if VECTOR
typedef float Element;
#else
typedef u8 Element;
#endif

#define AREA (HEIGHT * WIDTH)
#define PLANES (STACK * CHANNELS)

// Memory that is moved 16 bytes at a time.
struct alignas(16) Sixteen {
    u32 word[4];
};

// One sampled transition.
struct Row : RowHead {
    float rewards[N_STEP];
};
static_assert(sizeof(Row) == ROW_BYTES, "as the host reckons");

static __device__ inline const Element* frame(const Agent& agent, u64 slot) {
    return (const Element*)agent.frames + slot * OBSERVATION;
}

// The legal actions in the state of a record, a bit each; nothing is there to look at if all actions are always legal.
static __device__ inline const u8* legal_in(const Agent& agent, u64 index) {
#if MASK_BYTES
    return agent.legal + index % agent.capacity * MASK_BYTES;
#else
    return nullptr;
#endif
}

// Those of the state that a row bootstraps from; after an end nothing follows, whatever is chosen.
static __device__ inline const u8* legal_of(const Agent& agent, const Row& row) {
    return legal_in(agent, row.index + (row.bootstrap != 0.0f ? N_STEP : 0));
}

static __device__ inline bool is_legal(const u8* legal, int action) {
#if MASK_BYTES
    return (legal[action / 8] >> action % 8 & 1) != 0;
#else
    return true;
#endif
}

// The slot `steps` before or after another one; a division of 64 bits takes too long to repeat it.
static __device__ inline u64 slot_before(const Agent& agent, u64 slot, u64 steps) {
    return slot >= steps ? slot - steps : slot + agent.capacity - steps;
}

static __device__ inline u64 slot_after(const Agent& agent, u64 slot, u64 steps) {
    return slot + steps >= agent.capacity ? slot + steps - agent.capacity : slot + steps;
}

// The numbers of the records that may be sampled, first..end.
struct Valid {
    u64 first, end;
};

static __device__ inline Valid valid_records(const Agent& agent, u64 newest, u64 floor) {
    Valid valid;
    // The current observation lies where the record before these was.
    const u64 kept = newest + 1 > agent.capacity ? newest + 1 - agent.capacity : 0;
    valid.first = (kept > floor ? kept : floor) + STACK - 1;
    const u64 end = newest > N_STEP ? newest - N_STEP : 0;
    valid.end = end > valid.first ? end : valid.first;
    return valid;
}

// Word pairs of the Philox stream (seed, SAMPLING, update): the r-th.
static __device__ inline u64 draw_bits(u64 seed, u64 update, u32 r) {
    u32 c0 = r / 2, c1 = SAMPLING, c2 = (u32)update, c3 = (u32)(update >> 32);
    u32 k0 = (u32)seed, k1 = (u32)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const u64 a = (u64)c0 * 0xD2511F53u, b = (u64)c2 * 0xCD9E8D57u;
        c0 = (u32)(b >> 32) ^ c1 ^ k0;
        c1 = (u32)b;
        c2 = (u32)(a >> 32) ^ c3 ^ k1;
        c3 = (u32)a;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return r % 2 == 0 ? (u64)c0 << 32 | c1 : (u64)c2 << 32 | c3;
}

// The r-th number below n of that stream.
static __device__ inline u64 draw_below(u64 seed, u64 update, u32 r, u64 n) {
    return __umul64hi(draw_bits(seed, update, r), n);
}

// Where the observations of a stack lie, oldest first; null where the episode had not begun.
struct Stack {
    const Element* at[STACK];
};

// The stack that ends with record `index` in `slot`, whose own observation is `last` and begins an episode if `starts`.
static __device__ inline Stack find_stack(const Agent& agent, u64 index, u64 slot, const Element* last, bool starts) {
    // All flags are asked for before any is needed: one wait for memory, not one per observation.
    u8 flags[STACK];
#pragma unroll
    for (int back = 1; back < STACK; back++) flags[back] = agent.flags[slot_before(agent, slot, back)];
    Stack stack;
    stack.at[STACK - 1] = last;
    bool reaches = !starts;
#pragma unroll
    for (int back = 1; back < STACK; back++) {
        reaches = reaches && index >= (u64)back;
        stack.at[STACK - 1 - back] = reaches ? frame(agent, slot_before(agent, slot, back)) : nullptr;
        reaches = reaches && (flags[back] & START) == 0;
    }
    return stack;
}

// Copies one observation, sixteen bytes at a time where all observations begin at such an address.
static __device__ inline void copy_observation(const Element* from, Element* to) {
#if VECTOR
    const bool wide = OBSERVATION % 4 == 0;
#else
    const bool wide = OBSERVATION % 16 == 0;
#endif
    if (wide) {
        const int count = (int)(OBSERVATION * sizeof(Element) / sizeof(Sixteen));
        // Two at a time: the host's memory is far away.
        for (int i = thread(); i < count; i += 2 * threads()) {
            const int next = i + threads();
            const Sixteen one = ((const Sixteen*)from)[i], other = ((const Sixteen*)from)[next < count ? next : i];
            ((Sixteen*)to)[i] = one;
            if (next < count) ((Sixteen*)to)[next] = other;
        }
    } else {
        for (int i = thread(); i < OBSERVATION; i += threads()) to[i] = from[i];
    }
}

// Says where the planes of a stack are, null for those before the episode; what is `host_resident` is first copied to `local`.
static __device__ inline void name_planes(const Stack& stack, bool host_resident, Element* local, const Element** planes) {
#pragma unroll
    for (int back = 0; back < STACK; back++) {
        const Element* at = stack.at[back];
        if (at && host_resident) {
            copy_observation(at, local + back * OBSERVATION);
            at = local + back * OBSERVATION;
        }
        for (int c = thread(); c < CHANNELS; c += threads()) planes[back * CHANNELS + c] = at ? at + c * AREA : nullptr;
    }
}

// Writes a stack channel-last: the bytes of one pixel side by side, position * CHANNELS + plane.
static __device__ inline void write_stack(const Stack& stack, Element* out) {
#if !VECTOR && STACK * CHANNELS == 4 && HEIGHT * WIDTH % 4 == 0
    // Four planes: four pixels a thread, read as one word per plane and written as sixteen bytes. Several at a time: what is
    // read after a write has to wait for what was read before it.
    const int at_once = 4;
    for (int first = thread(); first < AREA / 4; first += at_once * threads()) {
        u32 plane[at_once][4];
#pragma unroll
        for (int j = 0; j < at_once; j++) {
            const int group = first + j * threads();
#pragma unroll
            for (int c = 0; c < 4; c++) {
                const u8* from = stack.at[c / CHANNELS];
                const bool there = from != nullptr && group < AREA / 4;
                plane[j][c] = there ? ((const u32*)(from + c % CHANNELS * AREA))[group] : 0;
            }
        }
#pragma unroll
        for (int j = 0; j < at_once; j++) {
            const int group = first + j * threads();
            if (group >= AREA / 4) continue;
            const u32* p = plane[j];
            const u32 low01 = __byte_perm(p[0], p[1], 0x5140), high01 = __byte_perm(p[0], p[1], 0x7362);
            const u32 low23 = __byte_perm(p[2], p[3], 0x5140), high23 = __byte_perm(p[2], p[3], 0x7362);
            Sixteen pixels;
            pixels.word[0] = __byte_perm(low01, low23, 0x5410);
            pixels.word[1] = __byte_perm(low01, low23, 0x7632);
            pixels.word[2] = __byte_perm(high01, high23, 0x5410);
            pixels.word[3] = __byte_perm(high01, high23, 0x7632);
            ((Sixteen*)out)[group] = pixels;
        }
    }
#else
#pragma unroll
    for (int c = 0; c < PLANES; c++) {
        const Element* from = stack.at[c / CHANNELS];
        for (int pixel = thread(); pixel < AREA; pixel += threads()) {
            out[pixel * PLANES + c] = from ? from[c % CHANNELS * AREA + pixel] : (Element)0;
        }
    }
#endif
}

