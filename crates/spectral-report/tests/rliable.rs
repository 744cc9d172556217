//! Our statistics against rliable's on the same data: point estimates to 1e-9, intervals within bootstrap noise.

mod synthetic;

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use spectral_report::stats::{
    Interval, aggregate_mean, aggregate_median, interquartile_mean, optimality_gap, performance_profile,
    probability_of_improvement, profile_band, stratified_interval, t_interval, welch_interval,
};
use synthetic::Noise;

type Scores = BTreeMap<&'static str, Vec<Vec<f64>>>;

/// Three agents on four tasks. Shapes differ on purpose: normal, skewed, with ties, and one task all alike.
fn scores() -> Scores {
    let mut noise = Noise::new(77);
    let mut agent = |level: f64, spread: f64, seeds: usize| -> Vec<Vec<f64>> {
        let normal = (0..seeds).map(|_| level + spread * noise.normal()).collect();
        let skewed = (0..seeds).map(|_| level * (spread * noise.normal()).exp()).collect();
        let tied = (0..seeds).map(|_| (level + 2.0 * noise.uniform()).floor()).collect();
        let alike = vec![0.25; seeds];
        vec![normal, skewed, tied, alike]
    };
    BTreeMap::from([
        ("spectral", agent(0.9, 0.4, 10)),
        ("popart", agent(0.6, 0.7, 10)),
        ("clipped", agent(0.8, 0.2, 5)),
    ])
}

fn ask(scores: &Scores, thresholds: &[f64], pairs: &[[&str; 2]]) -> Option<Value> {
    if !std::env::var("SPECTRAL_ORACLES").is_ok_and(|value| value == "1") {
        let _ = writeln!(
            std::io::stderr(),
            "SKIPPED: statistics against rliable; set SPECTRAL_ORACLES=1 to run it"
        );
        return None;
    }
    let python = std::env::var("SPECTRAL_PYTHON").unwrap_or_else(|_| "python3".into());
    let mut child = Command::new(&python)
        .args(["-W", "ignore", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/rliable_oracle.py")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{python}: {error}"));
    let question = json!({ "scores": scores, "thresholds": thresholds, "pairs": pairs });
    child.stdin.take().unwrap().write_all(question.to_string().as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success(),
        "{python} failed: does it have rliable? See tests/oracles/requirements.txt"
    );
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

fn triple(value: &Value) -> [f64; 3] {
    std::array::from_fn(|k| value[k].as_f64().unwrap())
}

/// `noise` is the share of rliable's interval by which the ends may differ: about four standard deviations of the
/// difference of two 2.5% quantiles from that many resamples.
fn compare(what: &str, point: f64, interval: Interval, theirs: [f64; 3], noise: f64) {
    assert!((point - theirs[0]).abs() <= 1e-9, "{what}: {point} is not rliable's {}", theirs[0]);
    let room = noise * (theirs[2] - theirs[1]) + 1e-9;
    for (ours, end) in [(interval.low, theirs[1]), (interval.high, theirs[2])] {
        assert!((ours - end).abs() <= room, "{what}: {interval:?} is not rliable's {theirs:?}");
    }
}

#[test]
fn point_estimates_and_intervals_equal_rliables() {
    let scores = scores();
    let thresholds: Vec<f64> = (0..25).map(|k| -0.5 + 0.125 * f64::from(k)).collect();
    let pairs = [["spectral", "popart"], ["popart", "clipped"], ["spectral", "clipped"]];
    let Some(answer) = ask(&scores, &thresholds, &pairs) else { return };
    let theirs = &answer;
    type Statistic = fn(&[Vec<f64>]) -> Option<f64>;
    let singles: [(&str, Statistic); 4] = [
        ("mean", aggregate_mean),
        ("median", aggregate_median),
        ("iqm", interquartile_mean),
        ("gap", |tasks| optimality_gap(tasks, 1.0)),
    ];
    for (agent, tasks) in &scores {
        for (name, statistic) in singles {
            let interval = stratified_interval(tasks, statistic, 0.95).unwrap();
            let theirs = triple(&theirs[name][agent]);
            compare(&format!("{name} of {agent}"), statistic(tasks).unwrap(), interval, theirs, 0.06);
        }
        let profile = performance_profile(tasks, &thresholds);
        let band = profile_band(tasks, &thresholds, 0.95);
        // A share of few seeds moves in steps: one step, or the noise of the quantile, is allowed.
        let step = 1.0 / (tasks.len() * tasks[0].len()) as f64;
        for k in 0..thresholds.len() {
            let of = |part: usize| theirs["profile"][agent][part][k].as_f64().unwrap();
            assert!((profile[k] - of(0)).abs() <= 1e-9, "profile of {agent} at {}", thresholds[k]);
            assert!((band[k].low - of(1)).abs() <= step + 1e-9, "band of {agent} at {}", thresholds[k]);
            assert!((band[k].high - of(2)).abs() <= step + 1e-9, "band of {agent} at {}", thresholds[k]);
        }
    }
    for [first, second] in pairs {
        let (a, b) = (&scores[first], &scores[second]);
        let point = probability_of_improvement(a, b).unwrap();
        // Intervals differ on purpose: ours hold with few seeds (coverage.rs).
        let theirs = theirs["improvement"][format!("{first},{second}")].as_f64().unwrap();
        assert!((point - theirs).abs() <= 1e-9, "{first} over {second}: {point} is not rliable's {theirs}");
    }
    // Student's and Welch's intervals, which verdicts from few seeds rest on, have no noise: SciPy's to ten digits.
    let exact = |ours: Interval, theirs: &Value| {
        for (ours, theirs) in [(ours.low, &theirs[0]), (ours.high, &theirs[1])] {
            let theirs = theirs.as_f64().unwrap();
            assert!((ours - theirs).abs() <= 1e-10 * (1.0 + theirs.abs()), "{ours} is not SciPy's {theirs}");
        }
    };
    for [first, second] in pairs {
        let ours = welch_interval(&scores[first][0], &scores[second][0], 0.95).unwrap();
        exact(ours, &answer["welch"][format!("{first},{second}")]);
    }
    for (agent, tasks) in &scores {
        exact(t_interval(&tasks[0], 0.95).unwrap(), &answer["student"][agent]);
    }
}

#[test]
fn unlike_numbers_of_seeds_and_missing_ones_are_handled() {
    let ragged = [vec![1.0, 3.0], vec![10.0, 20.0, 30.0]];
    assert_eq!(aggregate_mean(&ragged), Some(11.0), "tasks weigh alike, whatever their seeds");
    assert_eq!(performance_profile(&ragged, &[2.0, 15.0]), [0.75, 1.0 / 3.0]);
    assert_eq!(optimality_gap(&ragged, 10.0), Some(10.0 - (2.0 + 10.0) / 2.0));
    let missing = [vec![1.0], vec![]];
    assert_eq!(aggregate_mean(&missing), None);
    assert_eq!(interquartile_mean(&missing), None);
    assert_eq!(interquartile_mean(&[]), None);
    assert!(performance_profile(&missing, &[0.0]).is_empty());
    assert_eq!(probability_of_improvement(&ragged, &missing), None);
    assert_eq!(probability_of_improvement(&ragged, &ragged[..1]), None);
    let single = [vec![1.0], vec![2.0, 3.0]];
    assert_eq!(stratified_interval(&single, aggregate_mean, 0.95), None, "one seed has no spread");
    assert!(profile_band(&single, &[0.0], 0.95).is_empty());
}
