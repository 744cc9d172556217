//! Small decision processes, and the tabular algorithms that the method rests on.
//!
//! [`q_learning`] and [`spectral_q_learning`] share one loop: they consume the same random draws and break
//! ties in the same way. With the same seed they therefore see the same transitions as long as their greedy
//! actions agree. In exact arithmetic they always agree while rewards stay inside the capacity. In floating
//! point a sum over frequencies is rounded differently from a single number, and two actions of equal value
//! may come out in either order. Hence [`Learning::tie_tolerance`]: actions that close to the best count as
//! equally good, and the first of them is taken. This moves the decision threshold away from equality, where
//! values lie constantly, to a distance where they lie only by accident. [`Learned::closest_call`] tells how
//! close any decision came to it.

use crate::decompose::Spectrum;
use crate::rng::Stream;

/// One possible transition after an action.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Transition {
    /// Its probability.
    pub probability: f64,
    /// Its reward.
    pub reward: f64,
    /// The next state, or none if the episode ends.
    pub next: Option<usize>,
}

/// The shape of a random decision process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MdpShape {
    /// The number of states.
    pub states: usize,
    /// The number of actions in every state.
    pub actions: usize,
    /// The number of possible transitions of every action.
    pub transitions: usize,
    /// The probability that a transition ends the episode.
    pub termination: f64,
    /// No reward has a larger magnitude. Magnitudes are spread evenly over the orders between 1 and this, so
    /// that every frequency has its rewards; one reward in four is 0, and of the others half are negative.
    pub largest_reward: f64,
    /// Rewards are rounded to multiples of this: a power of two makes them exact sums of powers of two.
    pub reward_grain: f64,
}

/// A finite Markov decision process. Every state is equally likely at the start of an episode.
#[derive(Clone, Debug, PartialEq)]
pub struct Mdp {
    states: usize,
    actions: usize,
    /// The possible transitions of action a in state s, at s · actions + a.
    transitions: Vec<Vec<Transition>>,
}

impl Mdp {
    /// The process with these transitions, those of action a in state s at index s · `actions` + a.
    ///
    /// Returns what is wrong if there are none, if a next state does not exist or if probabilities do not add up to 1.
    pub fn new(actions: usize, transitions: Vec<Vec<Transition>>) -> Result<Mdp, String> {
        if actions == 0 || transitions.is_empty() || !transitions.len().is_multiple_of(actions) {
            return Err(format!(
                "{} lists of transitions do not fit {actions} actions a state",
                transitions.len()
            ));
        }
        let states = transitions.len() / actions;
        for (index, list) in transitions.iter().enumerate() {
            let at = || format!("state {}, action {}", index / actions, index % actions);
            let total: f64 = list.iter().map(|transition| transition.probability).sum();
            let adds_up = (total - 1.0).abs() < 1e-9;
            if !adds_up || list.iter().any(|transition| transition.probability < 0.0) {
                return Err(format!("{}: probabilities add up to {total}, not to 1, or are negative", at()));
            }
            if let Some(next) =
                list.iter().filter_map(|transition| transition.next).find(|&next| next >= states)
            {
                return Err(format!("{}: there is no state {next} among {states}", at()));
            }
        }
        Ok(Mdp { states, actions, transitions })
    }

    /// A random process of this shape.
    ///
    /// # Panics
    /// If the shape has no states, actions or transitions.
    pub fn random(shape: &MdpShape, stream: &mut Stream) -> Mdp {
        let transition = |stream: &mut Stream| {
            let probability = 0.1 + stream.unit_f64();
            let magnitude = shape.largest_reward.powf(stream.unit_f64());
            let rounded = (magnitude / shape.reward_grain).floor() * shape.reward_grain;
            let reward = [0.0, rounded, -rounded, if stream.chance(0.5) { rounded } else { -rounded }]
                [stream.below(4)];
            let next = stream.below(shape.states);
            let ends = stream.chance(shape.termination);
            Transition { probability, reward, next: (!ends).then_some(next) }
        };
        let lists = (0..shape.states * shape.actions).map(|_| {
            let mut list: Vec<Transition> = (0..shape.transitions).map(|_| transition(stream)).collect();
            let total: f64 = list.iter().map(|transition| transition.probability).sum();
            list.iter_mut().for_each(|transition| transition.probability /= total);
            list
        });
        Mdp::new(shape.actions, lists.collect()).expect("a shape with states, actions and transitions")
    }

    /// The number of states.
    pub fn states(&self) -> usize {
        self.states
    }

    /// The number of actions in every state.
    pub fn actions(&self) -> usize {
        self.actions
    }

    /// What may follow this action.
    pub fn transitions(&self, state: usize, action: usize) -> &[Transition] {
        &self.transitions[state * self.actions + action]
    }

    /// The largest magnitude among the rewards.
    pub fn largest_reward(&self) -> f64 {
        self.transitions
            .iter()
            .flatten()
            .fold(0.0, |largest, transition| transition.reward.abs().max(largest))
    }

    /// The transition that a uniform draw from [0, 1) picks.
    fn pick(&self, state: usize, action: usize, draw: f64) -> Transition {
        let list = self.transitions(state, action);
        let mut left = draw;
        for transition in list {
            if left < transition.probability {
                return *transition;
            }
            left -= transition.probability;
        }
        // Rounded probabilities may add up to a hair less than the draw.
        list[list.len() - 1]
    }
}

/// Settings of both tabular algorithms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Learning {
    /// The learning rate α.
    pub rate: f64,
    /// The discount γ.
    pub gamma: f64,
    /// The probability ε of acting at random.
    pub epsilon: f64,
    /// How many steps to learn for, over as many episodes as that takes.
    pub steps: u64,
    /// Actions whose values are at most this far below the best are equally good; the first of them is taken.
    pub tie_tolerance: f64,
}

/// What a tabular algorithm has learned.
#[derive(Clone, Debug, PartialEq)]
pub struct Learned {
    /// Values per entry: 1, or the number of frequencies.
    pub frequencies: usize,
    /// Action-values; frequency i of action a in state s at (s · actions + a) · frequencies + i.
    pub values: Vec<f64>,
    /// The smallest distance of any action's value to the border between tied and worse, over all decisions.
    ///
    /// Two runs whose values differ by less than half of it must have made the same decisions.
    pub closest_call: f64,
}

/// A table of action-values and how it is updated: all that differs between the two algorithms.
trait Table {
    fn value(&self, entry: usize) -> f64;
    /// One backup of `entry` towards the reward and, unless the episode ended, the entry of the greedy next
    /// action.
    fn update(&mut self, entry: usize, reward: f64, next: Option<usize>, settings: &Learning);
}

struct ScalarTable(Vec<f64>);

impl Table for ScalarTable {
    fn value(&self, entry: usize) -> f64 {
        self.0[entry]
    }

    fn update(&mut self, entry: usize, reward: f64, next: Option<usize>, settings: &Learning) {
        let bootstrap = next.map_or(0.0, |next| self.0[next]);
        self.0[entry] += settings.rate * (reward + settings.gamma * bootstrap - self.0[entry]);
    }
}

struct SpectralTable<'a> {
    spectrum: &'a Spectrum,
    values: Vec<f64>,
    elements: Vec<f64>,
}

impl Table for SpectralTable<'_> {
    fn value(&self, entry: usize) -> f64 {
        let n = self.spectrum.frequencies();
        self.spectrum.recompose_f64(&self.values[entry * n..][..n])
    }

    fn update(&mut self, entry: usize, reward: f64, next: Option<usize>, settings: &Learning) {
        let n = self.spectrum.frequencies();
        self.spectrum.decompose_f64(reward, &mut self.elements);
        for (i, element) in self.elements.iter().enumerate() {
            let bootstrap = next.map_or(0.0, |next| self.values[next * n + i]);
            let value = &mut self.values[entry * n + i];
            *value += settings.rate * (element + settings.gamma * bootstrap - *value);
        }
    }
}

/// Q-learning from a table of zeros.
///
/// ```
/// use spectral_core::rng::{Purpose, Stream};
/// use spectral_core::tabular::{Learning, Mdp, Transition, q_learning};
/// let win = |reward| vec![Transition { probability: 1.0, reward, next: None }];
/// let mdp = Mdp::new(2, vec![win(1.0), win(8.0)])?;
/// let settings = Learning { rate: 0.5, gamma: 0.9, epsilon: 0.5, steps: 200, tie_tolerance: 0.0 };
/// let learned = q_learning(&mdp, &settings, Stream::new(1, Purpose::Other, 0));
/// assert!((learned.values[0] - 1.0).abs() < 1e-6 && (learned.values[1] - 8.0).abs() < 1e-6);
/// # Ok::<(), String>(())
/// ```
pub fn q_learning(mdp: &Mdp, settings: &Learning, stream: Stream) -> Learned {
    let mut table = ScalarTable(vec![0.0; mdp.transitions.len()]);
    let closest_call = learn(mdp, settings, stream, &mut table);
    Learned { frequencies: 1, values: table.0, closest_call }
}

/// Spectral Q-learning from a table of zeros: every frequency learns from its own element of the reward, and
/// all of them bootstrap from the action whose *summed* value is the greatest.
pub fn spectral_q_learning(mdp: &Mdp, spectrum: &Spectrum, settings: &Learning, stream: Stream) -> Learned {
    let n = spectrum.frequencies();
    let values = vec![0.0; mdp.transitions.len() * n];
    let mut table = SpectralTable { spectrum, values, elements: vec![0.0; n] };
    let closest_call = learn(mdp, settings, stream, &mut table);
    Learned { frequencies: n, values: table.values, closest_call }
}

/// The loop of both algorithms. Every step draws the same random numbers whatever the table holds.
fn learn(mdp: &Mdp, settings: &Learning, mut stream: Stream, table: &mut impl Table) -> f64 {
    let mut closest_call = f64::INFINITY;
    let mut current = None;
    for _ in 0..settings.steps {
        let start = stream.below(mdp.states);
        let state = current.unwrap_or(start);
        let explores = stream.chance(settings.epsilon);
        let random_action = stream.below(mdp.actions);
        let draw = stream.unit_f64();
        let greedy_action = greedy(mdp, table, state, settings, &mut closest_call);
        let action = if explores { random_action } else { greedy_action };
        let transition = mdp.pick(state, action, draw);
        let best_next = transition.next.map(|next| {
            let action = greedy(mdp, table, next, settings, &mut closest_call);
            next * mdp.actions + action
        });
        table.update(state * mdp.actions + action, transition.reward, best_next, settings);
        current = transition.next;
    }
    closest_call
}

/// The first action whose value is within the tolerance of the best.
fn greedy(mdp: &Mdp, table: &impl Table, state: usize, settings: &Learning, closest_call: &mut f64) -> usize {
    let values = || (0..mdp.actions).map(|action| table.value(state * mdp.actions + action));
    let best = values().fold(f64::NEG_INFINITY, f64::max);
    let mut choice = mdp.actions;
    for (action, value) in values().enumerate() {
        let short = best - value;
        *closest_call = closest_call.min((short - settings.tie_tolerance).abs());
        if short <= settings.tie_tolerance && choice == mdp.actions {
            choice = action;
        }
    }
    // Values that are not numbers compare with nothing; any action is as good then.
    if choice == mdp.actions { 0 } else { choice }
}

/// The exact action-values Qπ of a policy, given as probabilities at s · actions + a.
///
/// `None` if the values are not determined: with γ = 1 and a policy that may never end an episode.
///
/// # Panics
/// If the policy does not have a probability for every state and action.
pub fn policy_values(mdp: &Mdp, policy: &[f64], gamma: f64) -> Option<Vec<f64>> {
    values_of(mdp, policy, gamma, |reward| reward)
}

/// The exact spectral action-values Qπᵢ of a policy, frequency i at (s · actions + a) · frequencies + i.
///
/// `None` and panics as for [`policy_values`].
pub fn spectral_policy_values(
    mdp: &Mdp,
    spectrum: &Spectrum,
    policy: &[f64],
    gamma: f64,
) -> Option<Vec<f64>> {
    let n = spectrum.frequencies();
    let mut values = vec![0.0; mdp.transitions.len() * n];
    let mut elements = vec![0.0; n];
    for i in 0..n {
        let of_frequency = values_of(mdp, policy, gamma, |reward| {
            spectrum.decompose_f64(reward, &mut elements);
            elements[i]
        })?;
        for (entry, value) in of_frequency.into_iter().enumerate() {
            values[entry * n + i] = value;
        }
    }
    Some(values)
}

/// Qπ of the process whose rewards are passed through `perceived`: V solves (I − γPπ)V = Rπ, and Q = R + γPV.
fn values_of(
    mdp: &Mdp,
    policy: &[f64],
    gamma: f64,
    mut perceived: impl FnMut(f64) -> f64,
) -> Option<Vec<f64>> {
    assert_eq!(policy.len(), mdp.transitions.len(), "one probability per state and action");
    let n = mdp.states;
    let expected =
        |list: &Vec<Transition>| list.iter().map(|o| o.probability * perceived(o.reward)).sum::<f64>();
    let rewards: Vec<f64> = mdp.transitions.iter().map(expected).collect();
    let mut rows = vec![vec![0.0; n + 1]; n];
    for (entry, list) in mdp.transitions.iter().enumerate() {
        let (row, chance) = (&mut rows[entry / mdp.actions], policy[entry]);
        row[n] += chance * rewards[entry];
        for transition in list {
            if let Some(next) = transition.next {
                row[next] -= gamma * chance * transition.probability;
            }
        }
    }
    rows.iter_mut().enumerate().for_each(|(state, row)| row[state] += 1.0);
    let state_values = solve(rows)?;
    let later = |list: &Vec<Transition>| {
        list.iter().map(|o| o.next.map_or(0.0, |next| o.probability * state_values[next])).sum::<f64>()
    };
    Some(rewards.iter().zip(&mdp.transitions).map(|(reward, list)| reward + gamma * later(list)).collect())
}

/// Solves a linear system, right-hand sides in the last column, by Gaussian elimination with partial
/// pivoting.
fn solve(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let n = rows.len();
    for column in 0..n {
        let pivot = (column..n).max_by(|&a, &b| rows[a][column].abs().total_cmp(&rows[b][column].abs()))?;
        rows.swap(column, pivot);
        let (above, below) = rows.split_at_mut(column + 1);
        let pivot_row = &above[column];
        if pivot_row[column].abs() < 1e-13 || pivot_row[column].is_nan() {
            return None;
        }
        for row in below {
            let factor = row[column] / pivot_row[column];
            for (value, pivot_value) in row[column..].iter_mut().zip(&pivot_row[column..]) {
                *value -= factor * pivot_value;
            }
        }
    }
    let mut solution = vec![0.0; n];
    for row in (0..n).rev() {
        let known: f64 = (row + 1..n).map(|column| rows[row][column] * solution[column]).sum();
        solution[row] = (rows[row][n] - known) / rows[row][row];
    }
    Some(solution)
}
