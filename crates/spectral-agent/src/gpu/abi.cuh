// What the host and every kernel of the learner agree on. `abi.rs` mirrors these structures, and a test compares the
// sizes; every field is 8 bytes wide, so that no padding can differ.
//
// The group's constants arrive as macros (see `source.rs`):
//   BATCH N_STEP ACTIONS       rows of a minibatch, steps of a return, actions of the task
//   OBSERVATION STACK          elements of one observation, observations that the network sees at once
//   VECTOR                     1 if observations are vectors of floats, 0 if they are planes of bytes
//   CHANNELS HEIGHT WIDTH      planes of one observation (1, 1 and OBSERVATION for vectors)
//   PITCH                      floats from one row of outputs to the next, the same for every agent of the group
//   MOST_OUTPUTS MOST_ENCODED  the largest K and E of the group's codecs: strides of targets and of encoded returns
//   HEAD_AT HEAD_IN            where the last layer lies within an agent's parameters, and its inputs:
//                              weights [HEAD_IN][ACTIONS * K], then ACTIONS * K biases

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// Flags of a stored transition, as in replay/mod.rs.
#define TERMINAL 1
#define TRUNCATED 2
#define START 4

// What moves with every step.
struct Counters {
    u64 newest;              // one past the newest complete record
    u64 floor;               // records before this one are gone, though the ring had room for them
    u64 starting;            // 1 if the next observation begins an episode
    u64 updates;             // updates made
    u64 learns;              // 1 if this update changes the agent: it is staged, has something to sample and is finite
    u64 not_finite;          // 0, or 1 + the update at which values stopped being finite
    double error_magnitude;  // running mean of |error| (error-magnitude correction)
    double step_size;        // Adam, for this update: learning_rate / (1 - beta1^t)
    double root_correction;  // Adam, for this update: 1 / sqrt(1 - beta2^t)
};

// One agent as every kernel sees it.
struct Agent {
    float* online;
    float* target;
    float* first;
    float* second;
    void* frames;    // ring [capacity][OBSERVATION] of bytes or floats; may lie in pinned memory of the host
    u8* actions;     // rings [capacity]
    float* rewards;
    u8* flags;
    u8* scores;
    double* live;          // the codec's state
    double* frozen;        // as it was at the last refresh of the target network
    const double* codec;   // the codec's constants
    double* sums;          // diagnostics: rows, q, |td|, loss; [K][3] if it has frequencies; [scores][3]
    Counters* counters;
    u64 seed;
    u64 capacity;
    u64 kind;              // which codec of the group's list
    u64 outputs;           // K
    u64 encoded;           // E
    u64 state;             // doubles in `live`
    u64 frequencies;       // K or 0
    u64 scores_told;       // player's scores told apart
    u64 error_correction;  // 0 or 1
    u64 undo_last_layer;   // 0 or 1
    u64 parameters;        // floats in `online`
    u16* online_half;      // copies of `online` and `target` in bf16, current where layers use them; or null
    u16* target_half;
    u64 far;               // 1 if `frames` lies in the host's memory
    double discount;
    double learning_rate;
    double beta1;
    double beta2;
    double epsilon;
};

// What the host stages for one agent before a submission.
struct Staged {
    u64 active;        // 0: this agent takes no part in this submission
    u64 has_outcome;   // 1: the outcome below completes the current observation
    u64 action;
    u64 flags;         // TERMINAL, TRUNCATED
    u64 player_score;
    double reward;     // exact in f32
    u64 turn;          // the number of the submission
};

// One sampled transition.
struct Row {
    u64 index;
    u64 action;
    u64 live;              // 0 if a time-out lies within the n steps
    u64 player_score;
    u64 count;             // rewards that count, 1 to N_STEP
    double bootstrap;      // gamma^n in f32, or 0 if the episode ended within the n steps
    double rewards[N_STEP];
};

// What comes back from acting.
struct Decision {
    u64 action;
    u64 not_finite;  // as in Counters
    u64 turn;        // of the submission that this answers
};
