//! Which pairs of several groups differ, at one level for all statements together.

use super::student::cautious_p;

/// The pairs (higher, lower) of groups whose means clearly differ, if any pair may be looked at: the probability that even one
/// of them is wrong is at most 1 − `level`.
///
/// Each pair is compared as by [`cautious_difference`](super::cautious_difference), and Holm's method corrects for their number.
/// All pairs count, because it is the scores themselves that say which group is highest: were only its comparisons with the
/// others counted, the best of several equal groups would be called better far too often. With two groups, this is the interval
/// of their difference. Pairs without an interval are not compared and do not count.
///
/// ```
/// use spectral_report::stats::clear_pairs;
/// let groups: [&[f64]; 3] = [&[1.0, 2.0, 3.0], &[90.0, 91.0, 92.0], &[2.0, 3.0, 1.5]];
/// assert_eq!(clear_pairs(&groups, 0.95), [(1, 0), (1, 2)]);
/// ```
pub fn clear_pairs(groups: &[&[f64]], level: f64) -> Vec<(usize, usize)> {
    let risk = 1.0 - level;
    let mut pairs = Vec::new();
    for (one, first) in groups.iter().enumerate() {
        for (other, second) in groups.iter().enumerate().skip(one + 1) {
            let Some(p) = cautious_p(first, second, risk) else { continue };
            let higher = first.iter().sum::<f64>() / first.len() as f64;
            let ahead = higher > second.iter().sum::<f64>() / second.len() as f64;
            pairs.push((p, if ahead { (one, other) } else { (other, one) }));
        }
    }
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let all = pairs.len();
    let clear = pairs.into_iter().enumerate().take_while(|(at, (p, _))| *p < risk / (all - at) as f64);
    let mut clear: Vec<(usize, usize)> = clear.map(|(_, (_, pair))| pair).collect();
    clear.sort_unstable();
    clear
}
