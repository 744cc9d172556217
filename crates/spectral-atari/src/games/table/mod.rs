//! All games, in alphabetical order.

mod a_to_b;
mod c_to_g;
mod h_to_r;
mod s_to_z;

use super::{Action, ActionSet, Game, Select};

/// The tables, one after the other.
pub(super) const PARTS: [&[Game]; 4] = [a_to_b::GAMES, c_to_g::GAMES, h_to_r::GAMES, s_to_z::GAMES];
