//! The shooting phase, solved exactly.

use crate::shooting::{Ships, Shooting, ShootingRules};

/// Expected true, undiscounted rewards of one shooting phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShootingValues {
    /// The best that any policy can earn, even one that knows how many steps are left.
    pub optimum: f64,
    /// Uniformly random actions.
    pub random: f64,
    /// A policy that is best for rewards clipped to ±1, where it is indifferent between actions choosing
    /// those that earn most.
    pub clipped_kindest: f64,
    /// The same, choosing those that earn least.
    pub clipped_harshest: f64,
    /// A policy that is best for the true rewards under the same discount, ties as in `clipped_kindest`.
    pub discounted: f64,
}

/// Solves a shooting phase. `discount` is the one under which the clipped policy is best; 1 makes it the
/// policy that clips but knows how many steps are left.
///
/// ```
/// use spectral_env::analysis::{SHOOTING, shooting_values};
/// let values = shooting_values(&SHOOTING, 0.99);
/// assert!(values.clipped_kindest <= 0.6 * values.optimum);
/// ```
pub fn shooting_values(rules: &ShootingRules, discount: f64) -> ShootingValues {
    let model = Model::new(rules);
    let best = |_: usize, all: [f64; 3]| all[0].max(all[1]).max(all[2]);
    ShootingValues {
        optimum: model.start_value(&model.backward(rules.limit, best)),
        random: model.start_value(&model.backward(rules.limit, |_, all| all.iter().sum::<f64>() / 3.0)),
        clipped_kindest: model.imitate(discount, |r| r.min(1.0), f64::max),
        clipped_harshest: model.imitate(discount, |r| r.min(1.0), f64::min),
        discounted: model.imitate(discount, |r| r, f64::max),
    }
}

/// The phase as a table of effects, enumerated from [`Shooting::advance`].
struct Model {
    limit: u16,
    /// Per state: the probability that the phase starts in it.
    start: Vec<f64>,
    /// Per state and action: reward, and the successors with their probabilities (none if the life is lost).
    effects: Vec<[ActionEffect; 3]>,
}

struct ActionEffect {
    reward: f64,
    successors: Vec<(usize, f64)>,
}

impl Model {
    fn new(rules: &ShootingRules) -> Self {
        let patience = rules.patience as usize;
        let states = (rules.reload as usize + 1) * patience * Ships::CASES;
        let mut effects = Vec::with_capacity(states);
        for state in 0..states {
            let (ships, _) = Ships::nth(rules, state % Ships::CASES);
            let since_hit = (state / Ships::CASES % patience) as u8;
            let reload = (state / Ships::CASES / patience) as u8;
            let here = Shooting { reload, since_hit, ships };
            debug_assert_eq!(index(&here, patience), state);
            effects.push([0, 1, 2].map(|action| {
                let mut effect = ActionEffect { reward: 0.0, successors: Vec::new() };
                for case in 0..Ships::CASES {
                    let (next_ships, probability) = Ships::nth(rules, case);
                    let mut next = here;
                    let shot = next.advance(rules, action, next_ships);
                    effect.reward += probability * shot.reward;
                    if !shot.life_lost {
                        effect.successors.push((index(&next, patience), probability));
                    }
                }
                effect
            }));
        }
        let mut start = vec![0.0; states];
        for case in 0..Ships::CASES {
            let (ships, probability) = Ships::nth(rules, case);
            start[index(&Shooting::new(ships), patience)] += probability;
        }
        Model { limit: rules.limit, start, effects }
    }

    fn start_value(&self, values: &[f64]) -> f64 {
        self.start.iter().zip(values).map(|(p, v)| p * v).sum()
    }

    fn action_values(
        &self,
        state: usize,
        values: &[f64],
        seen_as: impl Fn(f64) -> f64,
        discount: f64,
    ) -> [f64; 3] {
        [0, 1, 2].map(|action| {
            let effect = &self.effects[state][action];
            let future: f64 = effect.successors.iter().map(|&(next, p)| p * values[next]).sum();
            seen_as(effect.reward) + discount * future
        })
    }

    /// True undiscounted values with `steps` left; `choose` makes a state's value of its action-values.
    fn backward(&self, steps: u16, choose: impl Fn(usize, [f64; 3]) -> f64) -> Vec<f64> {
        let mut values = vec![0.0; self.effects.len()];
        for _ in 0..steps {
            values = (0..values.len())
                .map(|state| choose(state, self.action_values(state, &values, |r| r, 1.0)))
                .collect();
        }
        values
    }

    /// The true return of the policy that is best for the rewards as `seen_as`, with `prefer` deciding ties by
    /// their true return.
    fn imitate(
        &self,
        discount: f64,
        seen_as: impl Fn(f64) -> f64 + Copy,
        prefer: impl Fn(f64, f64) -> f64 + Copy,
    ) -> f64 {
        let states = self.effects.len();
        let among_best = |seen: [f64; 3], truth: [f64; 3]| {
            let best = seen[0].max(seen[1]).max(seen[2]);
            let ties = (0..3).filter(|&a| seen[a] >= best - 1e-9 * best.abs().max(1.0));
            ties.map(|a| truth[a]).reduce(prefer).expect("the best action ties with itself")
        };
        let mut seen = vec![0.0; states];
        if discount < 1.0 {
            // The limit cuts episodes off unseen, so the policy is that of a phase without one.
            loop {
                let better: Vec<f64> = (0..states)
                    .map(|s| {
                        self.action_values(s, &seen, seen_as, discount).into_iter().fold(f64::MIN, f64::max)
                    })
                    .collect();
                let change = better.iter().zip(&seen).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                seen = better;
                if change < 1e-12 * seen.iter().fold(1.0, |a: f64, &b| a.max(b)) {
                    break;
                }
            }
            let action_values: Vec<_> =
                (0..states).map(|s| self.action_values(s, &seen, seen_as, discount)).collect();
            let values = self.backward(self.limit, |s, truth| among_best(action_values[s], truth));
            return self.start_value(&values);
        }
        let mut truth = vec![0.0; states];
        for _ in 0..self.limit {
            let pairs: Vec<_> = (0..states)
                .map(|s| {
                    let q = self.action_values(s, &seen, seen_as, 1.0);
                    let t = self.action_values(s, &truth, |r| r, 1.0);
                    (q.into_iter().fold(f64::MIN, f64::max), among_best(q, t))
                })
                .collect();
            (seen, truth) = pairs.into_iter().unzip();
        }
        self.start_value(&truth)
    }
}

fn index(state: &Shooting, patience: usize) -> usize {
    let ships = usize::from(state.ships.near) + 2 * usize::from(state.ships.far);
    (state.reload as usize * patience + state.since_hit as usize) * Ships::CASES + ships
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shooting::{FIRE_FAR, FIRE_NEAR, SHOOTING};
    use spectral_core::rng::{Purpose, Stream};

    /// The bar that the task was fixed by, before anything trained on it.
    #[test]
    fn clipping_hides_the_best_policy() {
        for discount in [0.99f64.cbrt(), 0.99, 1.0] {
            let values = shooting_values(&SHOOTING, discount);
            println!("discount {discount:.5}: {values:?}");
            assert!(values.clipped_kindest <= 0.6 * values.optimum, "{values:?}");
            assert!(values.clipped_harshest <= values.clipped_kindest);
            assert!(values.random < 0.1 * values.optimum);
            // The discount itself must not be what keeps an agent from the optimum.
            assert!(values.discounted >= 0.95 * values.optimum, "{values:?}");
        }
    }

    /// Firing at once at whatever is in range, the far ship first, is best under clipping; its return, played out
    /// by chance, must be the one computed.
    #[test]
    fn simulation_agrees() {
        let values = shooting_values(&SHOOTING, 0.99);
        let (episodes, mut total) = (4_000, 0.0);
        for episode in 0..episodes {
            let mut rng = Stream::new(11, Purpose::Other, episode);
            let mut state = Shooting::new(Ships::draw(&SHOOTING, &mut rng));
            for _ in 0..SHOOTING.limit {
                let action = match (state.ships.far, state.ships.near) {
                    (true, _) => FIRE_FAR,
                    (_, true) => FIRE_NEAR,
                    _ => 0,
                };
                let shot = state.advance(&SHOOTING, action, Ships::draw(&SHOOTING, &mut rng));
                total += shot.reward;
                if shot.life_lost {
                    break;
                }
            }
        }
        let mean = total / episodes as f64;
        assert!((mean / values.clipped_kindest - 1.0).abs() < 0.02, "{mean} against {values:?}");
    }

    /// With ships of one worth, clipping hides nothing.
    #[test]
    fn equal_ships_are_played_equally_well() {
        let rules = ShootingRules { far_reward: SHOOTING.near_reward, ..SHOOTING };
        let values = shooting_values(&rules, 1.0);
        assert!((values.clipped_harshest / values.optimum - 1.0).abs() < 1e-9, "{values:?}");
    }
}
