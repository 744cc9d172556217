//! What an agent reports of its learning: sums over a logging interval, and TD errors by the player's score.

use crate::codecs::{Codec, Rows};
use spectral_core::bytes::{StateError, StateReader, StateWriter};
use spectral_core::moments::bias_correction;

/// Rate of the running means of TD error by score: about the last thousand samples of each score count.
pub(crate) const SCORE_RATE: f64 = 1e-3;

/// TD errors at one of the player's scores, in true reward units.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreError {
    /// The player's score in the sampled states.
    pub player_score: usize,
    /// Running mean of |prediction − target|.
    pub abs_error: f64,
    /// Running mean of |target|.
    pub abs_target: f64,
    /// How many states with this score have been sampled so far.
    pub samples: u64,
}

/// Sums since the last report.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostics {
    frequencies: usize,
    rows: f64,
    q: f64,
    td_abs: f64,
    loss: f64,
    /// Per frequency: rows whose return is non-zero, sum of targets, sum of weighted squared errors.
    per_frequency: Vec<[f64; 3]>,
    /// Per player's score: running |error|, running |target|, count.
    per_score: Vec<[f64; 3]>,
}

impl Diagnostics {
    /// Nothing seen yet. `scores` is how many player's scores are told apart (0: none).
    pub fn new(codec: &dyn Codec, scores: usize) -> Self {
        let frequencies = if codec.has_frequencies() { codec.outputs() } else { 0 };
        Diagnostics {
            frequencies,
            rows: 0.0,
            q: 0.0,
            td_abs: 0.0,
            loss: 0.0,
            per_frequency: vec![[0.0; 3]; frequencies],
            per_score: vec![[0.0; 3]; scores],
        }
    }

    /// Takes in one minibatch: its rows, the gradients and trunk weights that the codec gave. Rows that are not learned from
    /// do not count.
    pub fn batch(&mut self, rows: &Rows<'_>, gradients: &[f32], trunk: &[f32]) {
        let k = trunk.len();
        for row in rows.live.iter().enumerate().filter(|(_, live)| **live).map(|(row, _)| row) {
            let at = row * k;
            self.rows += 1.0;
            self.loss += gradients[at..at + k].iter().map(|&g| f64::from(g) * f64::from(g)).sum::<f64>();
            for (i, sums) in self.per_frequency.iter_mut().enumerate() {
                sums[0] += f64::from(u8::from(rows.returns[at + i] != 0.0));
                sums[1] += f64::from(rows.targets[at + i]);
                sums[2] += f64::from(trunk[i]) * f64::from(gradients[at + i]).powi(2);
            }
        }
    }

    /// Takes in one live row's prediction and target in true reward units.
    pub fn row(&mut self, prediction: f32, target: f32, player_score: u8) {
        let error = f64::from((prediction - target).abs());
        self.q += f64::from(prediction);
        self.td_abs += error;
        if let Some(sums) = self.per_score.get_mut(usize::from(player_score)) {
            sums[0] += SCORE_RATE * (error - sums[0]);
            sums[1] += SCORE_RATE * (f64::from(target.abs()) - sums[1]);
            sums[2] += 1.0;
        }
    }

    /// Names of the values that [`drain`](Diagnostics::drain) gives, apart from the codec's own statistics.
    pub fn columns(&self) -> Vec<String> {
        let mut names: Vec<String> = ["q_mean", "td_abs", "loss"].map(String::from).to_vec();
        for name in ["activity", "target_mean", "loss_share"] {
            names.extend((0..self.frequencies).map(|i| format!("{name}_{i}")));
        }
        names
    }

    /// The interval's means, in the order of [`columns`](Diagnostics::columns); the sums start afresh. `None` where
    /// nothing was sampled.
    pub fn drain(&mut self) -> Vec<Option<f64>> {
        let rows = self.rows;
        let mean = |sum: f64| (rows > 0.0).then(|| sum / rows);
        let mut values = vec![mean(self.q), mean(self.td_abs), mean(self.loss)];
        values.extend(self.per_frequency.iter().map(|s| mean(s[0])));
        values.extend(self.per_frequency.iter().map(|s| mean(s[1])));
        let total: f64 = self.per_frequency.iter().map(|s| s[2]).sum();
        values.extend(self.per_frequency.iter().map(|s| (total > 0.0).then(|| s[2] / total)));
        self.rows = 0.0;
        (self.q, self.td_abs, self.loss) = (0.0, 0.0, 0.0);
        self.per_frequency.fill([0.0; 3]);
        values
    }

    /// The errors at every score sampled so far.
    pub fn td_by_score(&self) -> impl Iterator<Item = ScoreError> {
        self.per_score.iter().enumerate().filter(|(_, s)| s[2] > 0.0).map(|(player_score, s)| {
            let samples = s[2] as u64;
            let correction = bias_correction(SCORE_RATE, samples);
            ScoreError { player_score, abs_error: s[0] / correction, abs_target: s[1] / correction, samples }
        })
    }

    /// Every sum in one row, as a device holds them: rows, q, |TD error|, loss; three per frequency; three per score.
    pub fn to_sums(&self) -> Vec<f64> {
        let mut sums = vec![self.rows, self.q, self.td_abs, self.loss];
        sums.extend(self.per_frequency.as_flattened());
        sums.extend(self.per_score.as_flattened());
        sums
    }

    /// Takes over what [`to_sums`](Diagnostics::to_sums) gave.
    pub fn take_sums(&mut self, sums: &[f64]) {
        (self.rows, self.q, self.td_abs, self.loss) = (sums[0], sums[1], sums[2], sums[3]);
        let (frequencies, scores) = sums[4..].split_at(self.per_frequency.as_flattened().len());
        self.per_frequency.as_flattened_mut().copy_from_slice(frequencies);
        self.per_score.as_flattened_mut().copy_from_slice(scores);
    }

    /// Writes every sum.
    pub fn save(&self, out: &mut StateWriter) {
        out.f64s(&[self.rows, self.q, self.td_abs, self.loss]);
        out.f64s(self.per_frequency.as_flattened());
        out.f64s(self.per_score.as_flattened());
    }

    /// Restores what [`save`](Diagnostics::save) wrote.
    pub fn restore(&mut self, from: &mut StateReader<'_>) -> Result<(), StateError> {
        let sums = from.f64s()?;
        let &[rows, q, td_abs, loss] = sums.as_slice() else {
            return Err(StateError("diagnostics of another version".into()));
        };
        (self.rows, self.q, self.td_abs, self.loss) = (rows, q, td_abs, loss);
        for table in [&mut self.per_frequency, &mut self.per_score] {
            let flat = from.f64s()?;
            if flat.len() != table.as_flattened().len() {
                return Err(StateError("diagnostics of another codec or task".into()));
            }
            table.as_flattened_mut().copy_from_slice(&flat);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codecs::Clipped;

    #[test]
    fn means_are_over_the_interval_and_scores_run_on() {
        let mut d = Diagnostics::new(&Clipped, 3);
        let rows =
            Rows { outputs: &[2.0, 0.0], targets: &[1.0, 0.0], returns: &[0.0; 2], live: &[true, true] };
        d.batch(&rows, &[1.0, 0.0], &[1.0]);
        d.row(2.0, 1.0, 2);
        d.row(0.0, 0.0, 200);
        assert_eq!(d.columns(), ["q_mean", "td_abs", "loss"]);
        let mut bytes = StateWriter::default();
        d.save(&mut bytes);
        let bytes = bytes.into_bytes();
        let mut copy = Diagnostics::new(&Clipped, 3);
        copy.restore(&mut StateReader::new(&bytes)).unwrap();
        assert_eq!(d, copy);
        assert_eq!(d.drain(), [Some(1.0), Some(0.5), Some(0.5)]);
        assert_eq!(d.drain(), [None; 3]);
        let by_score: Vec<_> = d.td_by_score().collect();
        assert_eq!(by_score.len(), 1);
        let ScoreError { player_score, abs_error, abs_target, samples } = by_score[0];
        assert!(player_score == 2 && (abs_error - 1.0).abs() < 1e-9 && (abs_target - 1.0).abs() < 1e-9);
        assert_eq!(samples, 1, "a drained interval does not reset the counts");
    }
}
