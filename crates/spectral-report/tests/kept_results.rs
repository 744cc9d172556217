//! The verdicts on final scores that the repository keeps follow from the scores that it keeps, by the rules of today.
//!
//! The runs themselves are not kept. For each seed of a `seeds.csv` a run is made up whose only episode has the seed's final
//! score, and the experiment's claims are judged on these. Claims that need more than final scores are left out: those about
//! TD errors, and those that ask for more frames than were trained, where the shape of the curve counts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::slice;

use spectral_report::stats::{LEVEL, cautious_mean, improvement_interval, probability_of_improvement};
use spectral_report::{Claim, ReportOptions, Rule, read_runs, write_report};

/// Experiment, folder of its verdicts, folder of the scores that they rest on.
const KEPT: [(&str, &str, &str); 13] = [
    ("quick", "quick", "quick"),
    ("mini-fig1", "mini-fig1", "mini-fig1"),
    ("mini-fig3", "mini-fig3", "mini-fig3"),
    ("mini-fig5", "mini-fig5", "mini-fig5"),
    ("mini-fig6", "mini-fig6", "mini-fig6"),
    ("mini-fig7", "mini-fig7", "mini-fig7"),
    ("mini-fig8", "mini-fig8", "mini-fig8"),
    ("mini-encoding", "mini-encoding", "mini-encoding"),
    ("mini-fig1", "mini-20-seeds/mini-fig1", "mini-20-seeds/mini-fig3"),
    ("mini-fig3", "mini-20-seeds/mini-fig3", "mini-20-seeds/mini-fig3"),
    ("mini-fig7", "mini-20-seeds/mini-fig7", "mini-20-seeds/mini-fig7"),
    ("mini-fig8", "mini-20-seeds/mini-fig8", "mini-20-seeds/mini-fig8"),
    ("mini-encoding", "mini-20-seeds/mini-encoding", "mini-20-seeds/mini-encoding"),
];

/// Makes up one run per task, and returns how many frames each was trained for.
fn make_up(seeds_csv: &Path, into: &Path) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(seeds_csv).unwrap();
    let mut lines = text.lines();
    assert_eq!(
        lines.next(),
        Some("task,protocol,planned_frames,agent,seed,status,frames,episodes,episodes_counted,final_score")
    );
    let mut tasks: BTreeMap<String, (u64, String, String)> = BTreeMap::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let [task, protocol, frames, agent, seed, "finished", reached, _, _, score] = fields[..] else {
            panic!("{line}: not a finished seed");
        };
        let (_, run, state) = tasks.entry(task.to_owned()).or_insert_with(|| {
            let run = format!(
                "format = 2\ntask = \"{task}\"\nframes = {frames}\nprotocol = \"{protocol}\"\n\
                 [task_spec]\nframes_per_step = 1\n"
            );
            (frames.parse().unwrap(), run, "status = \"finished\"\n".to_owned())
        });
        writeln!(run, "[[agents]]\nid = \"{agent}-s{seed}\"\nagent = \"{agent}\"\nseed = {seed}").unwrap();
        writeln!(state, "[[agents]]\nid = \"{agent}-s{seed}\"\nframes = {reached}\nstatus = \"finished\"")
            .unwrap();
        let folder = into.join(task).join("agents").join(format!("{agent}-s{seed}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("episodes.csv"), format!("frame,score\n{reached},{score}\n")).unwrap();
    }
    for (task, (_, run, state)) in &tasks {
        fs::write(into.join(task).join("run.toml"), run).unwrap();
        fs::write(into.join(task).join("state.toml"), state).unwrap();
    }
    tasks.into_iter().map(|(task, (frames, _, _))| (task, frames)).collect()
}

fn needs_only_final_scores(claim: &Claim, trained: &BTreeMap<String, u64>) -> bool {
    let td = matches!(
        claim.rule,
        Rule::TdErrorBelow(_) | Rule::TdErrorAbove(_) | Rule::TdErrorStable(_) | Rule::TdErrorSpikes(_)
    );
    !td && trained.get(&claim.task).is_some_and(|frames| *frames >= claim.min_frames)
}

/// The repository, if the package lies in it.
fn repository() -> Option<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    if !root.join("results").is_dir() {
        println!("SKIPPED: this package lies outside its repository, which has the results");
        return None;
    }
    Some(root)
}

/// Folders whose probabilities of improvement are kept.
const PROBABILITIES: [&str; 12] = [
    "quick",
    "fig3",
    "fig5",
    "mini-fig1",
    "mini-fig3",
    "mini-fig4",
    "mini-fig5",
    "mini-fig6",
    "mini-fig7",
    "mini-fig8",
    "mini-encoding",
    "mini-20-seeds/mini-fig3",
];

#[test]
fn kept_probabilities_follow_from_kept_scores() {
    let Some(root) = repository() else { return };
    let results = root.join("results");
    let mut unlike = Vec::new();
    for folder in PROBABILITIES {
        let mut scores: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
        for line in fs::read_to_string(results.join(folder).join("seeds.csv")).unwrap().lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let key = (fields[0].to_owned(), fields[3].to_owned());
            scores.entry(key).or_default().push(fields[9].parse().unwrap());
        }
        for line in fs::read_to_string(results.join(folder).join("improvement.csv")).unwrap().lines().skip(1)
        {
            let fields: Vec<&str> = line.split(',').collect();
            let of = |agent: &str| &scores[&(fields[0].to_owned(), agent.to_owned())];
            let (own, other) = (of(fields[3]), of(fields[4]));
            let point = probability_of_improvement(slice::from_ref(own), slice::from_ref(other)).unwrap();
            let range = improvement_interval(own, other, LEVEL).unwrap();
            let kept: Vec<f64> = fields[5..8].iter().map(|field| field.parse().unwrap()).collect();
            let off = [point, range.low, range.high].into_iter().zip(&kept).map(|(a, b)| (a - b).abs());
            if off.fold(0.0, f64::max) > 1e-9 {
                unlike.push(format!("{folder}: {line}"));
            }
        }
    }
    assert!(
        unlike.is_empty(),
        "improvement.csv says what does not follow from seeds.csv, below results/: {unlike:?}"
    );
}

/// Folders whose tables of final scores are kept.
const TABLES: [&str; 17] = [
    "demo",
    "quick",
    "fig3",
    "fig5",
    "investor",
    "mini-fig1",
    "mini-fig3",
    "mini-fig4",
    "mini-fig5",
    "mini-fig6",
    "mini-fig7",
    "mini-fig8",
    "mini-encoding",
    "mini-20-seeds/mini-encoding",
    "mini-20-seeds/mini-fig3",
    "mini-20-seeds/mini-fig7",
    "mini-20-seeds/mini-fig8",
];

#[test]
fn kept_intervals_of_means_follow_from_kept_scores() {
    let Some(root) = repository() else { return };
    let mut unlike = Vec::new();
    for folder in TABLES {
        let read = |name: &str| fs::read_to_string(root.join("results").join(folder).join(name)).unwrap();
        let mut scores: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
        for line in read("seeds.csv").lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let key = (fields[0].to_owned(), fields[3].to_owned());
            scores
                .entry(key)
                .or_default()
                .extend(fields[9].parse::<f64>().ok().filter(|_| fields[5] == "finished"));
        }
        for line in read("final.csv").lines().skip(1) {
            let fields: Vec<&str> = line.split(',').collect();
            let own = &scores[&(fields[0].to_owned(), fields[3].to_owned())];
            let ends = [0.90, LEVEL].map(|level| cautious_mean(own, level).unwrap());
            let ends = ends.iter().flat_map(|interval| [interval.low, interval.high]);
            let kept = fields[7..11].iter().map(|field| field.parse::<f64>().unwrap());
            if ends.zip(kept).any(|(ours, kept)| (ours - kept).abs() > 1e-9 * ours.abs().max(1.0)) {
                unlike.push(format!("{folder}: {line}"));
            }
        }
    }
    assert!(
        unlike.is_empty(),
        "final.csv says what does not follow from seeds.csv, below results/: {unlike:?}"
    );
}

#[test]
fn kept_verdicts_follow_from_kept_scores() {
    let Some(root) = repository() else { return };
    let results = root.join("results");
    let mut judged = 0;
    let mut unlike = Vec::new();
    for (experiment, verdicts, scores) in KEPT {
        let scratch = tempfile::tempdir().unwrap();
        let runs = scratch.path().join("runs");
        let trained = make_up(&results.join(scores).join("seeds.csv"), &runs);
        let file = root.join(format!("crates/spectral-train/configs/experiments/{experiment}.toml"));
        let claims = Claim::from_toml(&fs::read_to_string(&file).unwrap(), experiment).unwrap();
        let out = scratch.path().join("report");
        let options = ReportOptions { out: out.clone(), claims: claims.clone(), ..Default::default() };
        write_report(&read_runs(&[runs]).unwrap(), &options).unwrap();
        let lines = |folder: &Path| -> Vec<String> {
            let text = fs::read_to_string(folder.join("claims.csv")).unwrap();
            text.lines().skip(1).map(str::to_owned).collect()
        };
        let (ours, kept) = (lines(&out), lines(&results.join(verdicts)));
        assert_eq!((ours.len(), kept.len()), (claims.len(), claims.len()), "{verdicts}");
        for ((claim, ours), kept) in claims.iter().zip(ours).zip(kept) {
            if needs_only_final_scores(claim, &trained) {
                if kept != ours {
                    unlike.push(format!("results/{verdicts}/claims.csv: {kept}\n  but today: {ours}"));
                }
                judged += 1;
            }
        }
    }
    assert!(unlike.is_empty(), "{}", unlike.join("\n"));
    assert!(judged >= 40, "only {judged} verdicts were judged");
}
