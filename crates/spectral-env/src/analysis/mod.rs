//! Exact values of the built-in tasks by dynamic programming: what the best policy earns, what random play
//! earns, and what a policy loses that is best for clipped rewards only.
//!
//! Everything here is computed from the transition functions that the tasks themselves play.

mod investor;
mod rally;
mod shooting;

pub use crate::shooting::{SHOOTING, ShootingRules};
pub use investor::{InvestorGrowth, investor_growth};
pub use rally::{Opponent, Play, expected_pong_score, point_probability, reach_probability};
pub use shooting::{ShootingValues, shooting_values};
