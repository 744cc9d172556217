//! The shooting phase of the Ponglantis family: one gun, a near ship that is often in range and worth little, a
//! far ship that is seldom in range and worth much, and a reload time that makes them exclude each other.
//!
//! All chance is an argument of [`Shooting::advance`], so that dynamic programming enumerates the very
//! transitions that the tasks play.

use crate::game::checked;
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_core::rng::Stream;

/// The numbers that define a shooting phase.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShootingRules {
    /// Probability that the near ship is in range at a step.
    pub near_chance: f64,
    /// Probability that the far ship is in range at a step.
    pub far_chance: f64,
    /// Reward for the near ship.
    pub near_reward: f64,
    /// Reward for the far ship.
    pub far_reward: f64,
    /// Steps after a shot in which the gun cannot fire.
    pub reload: u8,
    /// Steps without a hit after which the life is lost.
    pub patience: u8,
    /// Steps after which the phase is over in any case.
    pub limit: u16,
}

/// The rules of `ponglantis-mini`, fixed by dynamic programming before any agent trained on it: a policy that is
/// best for clipped rewards earns about half of the optimum even if every tie is decided in its favour
/// ([`shooting_values`](crate::analysis::shooting_values)).
pub const SHOOTING: ShootingRules = ShootingRules {
    near_chance: 0.6,
    far_chance: 0.1,
    near_reward: 100.0,
    far_reward: 2000.0,
    reload: 5,
    patience: 20,
    limit: 200,
};

/// Pong's actions in this phase: stay holds fire, up fires at the far ship, down at the near one.
pub(crate) const FIRE_FAR: usize = 1;
pub(crate) const FIRE_NEAR: usize = 2;

/// Which ships are in range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ships {
    pub(crate) near: bool,
    pub(crate) far: bool,
}

impl Ships {
    pub(crate) const CASES: usize = 4;

    /// Draws the ships of one step.
    pub(crate) fn draw(rules: &ShootingRules, rng: &mut Stream) -> Self {
        Ships { near: rng.chance(rules.near_chance), far: rng.chance(rules.far_chance) }
    }

    /// The `n`-th of the cases and its probability.
    pub(crate) fn nth(rules: &ShootingRules, n: usize) -> (Self, f64) {
        let ships = Ships { near: n & 1 == 1, far: n & 2 == 2 };
        let of = |seen: bool, chance: f64| if seen { chance } else { 1.0 - chance };
        (ships, of(ships.near, rules.near_chance) * of(ships.far, rules.far_chance))
    }
}

/// The gun, the ships in range, and how long ago the last hit was. The steps of the phase are counted by the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shooting {
    /// Steps until the gun is ready.
    pub(crate) reload: u8,
    /// Steps since the last hit (or since the phase began).
    pub(crate) since_hit: u8,
    pub(crate) ships: Ships,
}

/// What one step of shooting brought.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shot {
    pub(crate) reward: f64,
    pub(crate) life_lost: bool,
}

impl Shooting {
    /// The start of the phase: gun ready, these ships in range.
    pub(crate) fn new(ships: Ships) -> Self {
        Shooting { reload: 0, since_hit: 0, ships }
    }

    /// One step: perhaps a shot at a ship in range now; then the ships of the next step appear.
    pub(crate) fn advance(&mut self, rules: &ShootingRules, action: usize, next: Ships) -> Shot {
        let mut reward = 0.0;
        if self.reload > 0 {
            self.reload -= 1;
        } else if action == FIRE_NEAR || action == FIRE_FAR {
            self.reload = rules.reload;
            let (in_range, worth) = match action {
                FIRE_NEAR => (self.ships.near, rules.near_reward),
                _ => (self.ships.far, rules.far_reward),
            };
            if in_range {
                reward = worth;
            }
        }
        self.since_hit = if reward > 0.0 { 0 } else { self.since_hit + 1 };
        self.ships = next;
        Shot { reward, life_lost: self.since_hit >= rules.patience }
    }

    pub(crate) fn save(&self, out: &mut StateWriter) {
        out.u8(self.reload);
        out.u8(self.since_hit);
        out.bool(self.ships.near);
        out.bool(self.ships.far);
    }

    pub(crate) fn restore(rules: &ShootingRules, from: &mut StateReader<'_>) -> Result<Self, StateError> {
        Ok(Shooting {
            reload: checked("the reload time", from.u8()?, 0..=rules.reload)?,
            since_hit: checked("the time since the last hit", from.u8()?, 0..=rules.patience)?,
            ships: Ships { near: from.bool()?, far: from.bool()? },
        })
    }
}
