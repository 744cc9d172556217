//! Replay, value codecs and the one learner.
//!
//! One DQN, many value codecs: [`codecs`] holds all that differs between agents, [`learner`] everything they share,
//! [`replay`] what they remember, [`mod@settings`] what can be chosen.
//!
//! A whole agent in one loop (a trainer adds schedules, files and checkpoints):
//!
//! ```
//! use spectral_agent::codecs::configure;
//! use spectral_agent::learner::Learner;
//! use spectral_agent::replay::Outcome;
//! use spectral_agent::settings::AgentSettings;
//! use spectral_core::rng::{Purpose, Stream};
//!
//! let (settings, codec) = configure("spectral replay=1000 learning_rate=1e-3 hidden=16", AgentSettings::default())?;
//! let mut env = spectral_env::make("catch-scale", &Default::default())?;
//! let mut learner = Learner::new(settings, codec, env.spec(), 1)?;
//! let mut over = true;
//! for step in 0..200 {
//!     let mut rng = Stream::new(1, Purpose::Environment, step);
//!     if over {
//!         env.reset(&mut rng);
//!     }
//!     env.observe(learner.observation());
//!     let action = if rng.chance(0.1) { rng.below(3) } else { learner.act() };
//!     // Between choosing an action and playing it, as the trainer does.
//!     if step >= 100 {
//!         learner.update()?;
//!     }
//!     if step % 50 == 0 {
//!         learner.refresh_target();
//!     }
//!     let result = env.step(action, &mut rng);
//!     over = result.terminated || result.truncated;
//!     learner.record(Outcome {
//!         action: action as u8,
//!         reward: result.reward as f32,
//!         terminal: result.terminated,
//!         truncated: result.truncated,
//!         player_score: 0,
//!     });
//! }
//! assert_eq!(learner.updates(), 100);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod average;
pub mod codecs;
pub mod diagnostics;
pub mod gpu;
pub mod learner;
pub mod lockstep;
pub mod replay;
pub mod settings;
#[cfg(feature = "testing")]
pub mod testing;

/// The examples of the README, as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
