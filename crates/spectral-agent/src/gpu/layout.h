// Stands behind the generated source in tests: the sizes of the structures and the places of their fields.

#define AT(type, field) offsetof(type, field),
extern "C" const u64* layout() {
    static const u64 all[] = {
        sizeof(Counters), sizeof(Agent), sizeof(Staged), sizeof(Row), sizeof(Decision),
        AT(Counters, newest) AT(Counters, floor) AT(Counters, starting) AT(Counters, updates) AT(Counters, learns)
        AT(Counters, not_finite) AT(Counters, error_magnitude) AT(Counters, step_size) AT(Counters, root_correction)
        AT(Agent, online) AT(Agent, target) AT(Agent, first) AT(Agent, second) AT(Agent, frames) AT(Agent, actions)
        AT(Agent, rewards) AT(Agent, flags) AT(Agent, scores) AT(Agent, live) AT(Agent, frozen) AT(Agent, codec)
        AT(Agent, sums) AT(Agent, counters) AT(Agent, seed) AT(Agent, capacity) AT(Agent, kind) AT(Agent, outputs)
        AT(Agent, encoded) AT(Agent, state) AT(Agent, frequencies) AT(Agent, scores_told) AT(Agent, error_correction)
        AT(Agent, undo_last_layer) AT(Agent, parameters) AT(Agent, online_half) AT(Agent, target_half)
        AT(Agent, far)
        AT(Agent, discount) AT(Agent, learning_rate)
        AT(Agent, beta1) AT(Agent, beta2) AT(Agent, epsilon)
        AT(Staged, active) AT(Staged, has_outcome) AT(Staged, action) AT(Staged, flags) AT(Staged, player_score)
        AT(Staged, reward) AT(Staged, turn)
        AT(Row, index) AT(Row, action) AT(Row, live) AT(Row, player_score) AT(Row, count) AT(Row, bootstrap)
        AT(Row, rewards)
        AT(Decision, action) AT(Decision, not_finite) AT(Decision, turn)
    };
    return all;
}
