//! The running mean of the weights: a model of its own, which plays steadier than the weights of any one moment.
//!
//! The greedy choice of a network in training changes from update to update; much of that cancels out in the mean of the
//! weights over a while (Polyak averaging). The mean moves at every refresh of the target network, by the weights that were
//! just copied there, if there was an update since the refresh before:
//!
//! m ← m + rate / (1 − (1 − rate)ⁿ) · (weights − m), rate = `target_period` / (`average` + `target_period`),
//!
//! for the n-th such refresh. The divisor is the [correction](spectral_core::moments::bias_correction) that all running means
//! here have: the first mean is the first weights, and while n is small it is nearly the plain mean of what there was. Later,
//! the weights in it are `average` frames old on average.
//!
//! Training neither reads nor changes it.

use crate::codecs::{Affine, Codec};
use crate::settings::AgentSettings;
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_core::moments::bias_correction;
use spectral_nn::Architecture;
use std::sync::Arc;

/// Which of an agent's models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelKind {
    /// The weights as they are.
    Last,
    /// The running mean of the weights, if the agent keeps one.
    Average,
}

/// The running mean of one agent's weights.
///
/// ```
/// use spectral_agent::{average::Average, codecs::configure};
/// use spectral_nn::{Architecture, Head, Input};
/// let (settings, codec) = configure("clipped average=3000 target_period=1000", Default::default())?;
/// let network = Architecture::mlp(Input::Vector { len: 1 }, &[], Head::new(1, 1));
/// let mut average = Average::of(&settings, codec, network).expect("the agent keeps one");
/// average.refreshed(500, &[1.0, 5.0], &[]);
/// assert_eq!(average.model(), Some((&[1.0, 5.0][..], &[][..])));
/// average.refreshed(500, &[9.0, 9.0], &[]); // no update since
/// assert_eq!(average.model().unwrap().0, [1.0, 5.0]);
/// average.refreshed(900, &[8.0, 5.0], &[]); // 4 parts of it in 7
/// assert_eq!(average.model().unwrap().0, [5.0, 5.0]);
/// # Ok::<(), spectral_agent::settings::SettingError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Average {
    codec: Arc<dyn Codec>,
    network: Architecture,
    rate: f64,
    /// Refreshes that counted.
    count: u64,
    /// The agent's updates at the last of them.
    updates: u64,
    /// The mean; meaningless before the first.
    parameters: Vec<f32>,
    /// The codec's statistics at the last of them.
    state: Vec<f64>,
    change: Affine,
}

impl Average {
    /// That of an agent with these settings, before its first refresh; `None` if it keeps none.
    pub fn of(settings: &AgentSettings, codec: Arc<dyn Codec>, network: Architecture) -> Option<Average> {
        (settings.average > 0).then(|| Average {
            rate: rate(settings),
            count: 0,
            updates: 0,
            parameters: vec![0.0; network.parameters()],
            state: codec.init(),
            change: Affine::identity(codec.outputs()),
            codec,
            network,
        })
    }

    /// Bytes of memory that it takes.
    pub fn memory_bytes(settings: &AgentSettings, network: &Architecture) -> u64 {
        if settings.average == 0 { 0 } else { 4 * network.parameters() as u64 }
    }

    /// Moves the mean after a refresh of the target network: to these parameters, with these statistics of the codec, after so
    /// many updates. A refresh that no update came before changes nothing.
    ///
    /// # Panics
    /// If these are not as many numbers as the agent has.
    pub fn refreshed(&mut self, updates: u64, parameters: &[f32], state: &[f64]) {
        assert_eq!(parameters.len(), self.parameters.len(), "as many parameters as the network has");
        if updates == self.updates {
            return;
        }
        (self.count, self.updates) = (self.count + 1, updates);
        if self.count == 1 {
            self.parameters.copy_from_slice(parameters);
        } else {
            // Outputs of both are to mean the same before their weights are mixed.
            if self.codec.rebase(&self.state, state, &mut self.change) {
                let Affine { scale, shift } = &self.change;
                let changed = self.network.affine_outputs(&mut self.parameters, scale, shift);
                changed.expect("the network was made with this architecture");
            }
            let share = self.rate / bias_correction(self.rate, self.count);
            for (mean, &new) in self.parameters.iter_mut().zip(parameters) {
                let old = f64::from(*mean);
                *mean = (old + share * (f64::from(new) - old)) as f32;
            }
        }
        self.state.copy_from_slice(state);
    }

    /// The mean and the statistics that decode its outputs; `None` before the first refresh that counts.
    pub fn model(&self) -> Option<(&[f32], &[f64])> {
        (self.count > 0).then_some((&self.parameters[..], &self.state[..]))
    }

    /// Writes the [model](Average::model) as [`Learner::save_model`](crate::learner::Learner::save_model) does; false if there is
    /// none yet.
    pub fn save_model(&self, out: &mut StateWriter) -> bool {
        let Some((parameters, state)) = self.model() else { return false };
        out.f32s(parameters);
        out.f64s(state);
        true
    }

    /// Forgets everything: the mean begins anew at the next refresh.
    pub fn clear(&mut self) {
        (self.count, self.updates) = (0, 0);
    }

    /// Writes everything.
    pub fn save(&self, out: &mut StateWriter) {
        out.u64(self.count);
        out.u64(self.updates);
        if !self.save_model(out) {
            out.f32s(&[]);
            out.f64s(&[]);
        }
    }

    /// The model in what [`save`](Average::save) wrote: parameters and statistics; `None` if there was none yet.
    #[allow(clippy::type_complexity)]
    pub fn saved_model(from: &mut StateReader<'_>) -> Result<Option<(Vec<f32>, Vec<f64>)>, StateError> {
        let (count, _updates) = (from.u64()?, from.u64()?);
        let model = (from.f32s()?, from.f64s()?);
        Ok((count > 0).then_some(model))
    }

    /// Restores what [`save`](Average::save) wrote.
    pub fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let (count, updates) = (from.u64()?, from.u64()?);
        let (parameters, state) = (from.f32s()?, from.f64s()?);
        let (found, own) = ([parameters.len(), state.len()], [self.parameters.len(), self.state.len()]);
        let expected = if count == 0 { [0, 0] } else { own };
        if found != expected {
            return Err(StateError(format!(
                "a mean of {} parameters and {} codec statistics, {} and {} expected",
                found[0], found[1], expected[0], expected[1]
            )));
        }
        (self.count, self.updates) = (count, updates);
        if count > 0 {
            self.parameters.copy_from_slice(&parameters);
            self.state.copy_from_slice(&state);
        }
        Ok(())
    }
}

/// The weight of the newest weights once many refreshes have counted.
fn rate(settings: &AgentSettings) -> f64 {
    let (period, average) = (settings.target_period as f64, settings.average as f64);
    period / (average + period)
}

#[cfg(test)]
mod tests;
