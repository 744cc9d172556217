//! Running mean and variance by exponential averaging, corrected for their start at zero.

/// 1 − (1 − `rate`)^`count`: the total weight an exponential average has given to its first `count` values.
///
/// Dividing the average by it removes the bias towards the zero it started from. Computed through `ln_1p` and
/// `exp_m1`, because 1 − (1 − rate)^count cancels for a small rate.
///
/// ```
/// use spectral_core::moments::bias_correction;
/// assert_eq!(bias_correction(0.5, 2), 0.75);
/// assert!((bias_correction(1e-18, 3) - 3e-18).abs() < 1e-30);
/// assert_eq!(bias_correction(0.1, 0), 0.0);
/// ```
pub fn bias_correction(rate: f64, count: u64) -> f64 {
    if count == 0 { 0.0 } else { -(count as f64 * (-rate).ln_1p()).exp_m1() }
}

/// Exponential averages of a quantity and of its square, and with them its running mean and variance.
///
/// ```
/// use spectral_core::moments::RunningMoments;
/// let mut moments = RunningMoments::new(0.01);
/// moments.push_batch(3.0, 13.0); // for example the two values 1 and 5
/// assert!((moments.mean() - 3.0).abs() < 1e-12);
/// assert!((moments.std() - 2.0).abs() < 1e-12);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunningMoments {
    rate: f64,
    mean: f64,
    mean_square: f64,
    count: u64,
}

impl RunningMoments {
    /// Averages in which a new batch has the weight `rate`.
    ///
    /// # Panics
    /// If the rate is not in (0, 1]; a rate that a user chose must be checked where it is read.
    pub fn new(rate: f64) -> Self {
        Self::from_parts(rate, 0.0, 0.0, 0)
    }

    /// Averages that go on from saved ones; `mean` and `mean_square` are the raw ones of
    /// [`parts`](Self::parts).
    ///
    /// # Panics
    /// If the rate is not in (0, 1].
    pub fn from_parts(rate: f64, mean: f64, mean_square: f64, count: u64) -> Self {
        assert!(rate > 0.0 && rate <= 1.0, "the rate of an exponential average is in (0, 1], not {rate}");
        RunningMoments { rate, mean, mean_square, count }
    }

    /// The raw averages, before bias correction, and the number of batches: what a checkpoint saves.
    pub fn parts(&self) -> (f64, f64, u64) {
        (self.mean, self.mean_square, self.count)
    }

    /// Takes one batch into account: its mean, and the mean of its squares.
    pub fn push_batch(&mut self, batch_mean: f64, batch_mean_square: f64) {
        self.mean += self.rate * (batch_mean - self.mean);
        self.mean_square += self.rate * (batch_mean_square - self.mean_square);
        self.count += 1;
    }

    /// How many batches were seen.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The bias-corrected mean; 0 before the first batch.
    pub fn mean(&self) -> f64 {
        self.corrected(self.mean)
    }

    /// The bias-corrected mean of squares; 0 before the first batch.
    pub fn mean_square(&self) -> f64 {
        self.corrected(self.mean_square)
    }

    /// The bias-corrected variance. Rounding can make the difference of moments negative: that gives 0.
    pub fn variance(&self) -> f64 {
        let mean = self.mean();
        let difference = self.mean_square() - mean * mean;
        // Not `max`, which would turn NaN into a harmless-looking 0.
        if difference < 0.0 { 0.0 } else { difference }
    }

    /// The bias-corrected standard deviation.
    pub fn std(&self) -> f64 {
        self.variance().sqrt()
    }

    fn corrected(&self, average: f64) -> f64 {
        if self.count == 0 { 0.0 } else { average / bias_correction(self.rate, self.count) }
    }
}
