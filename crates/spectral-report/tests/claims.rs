//! Verdicts on claims: every kind, each outcome, and every reason for which nothing is decided.

mod synthetic;

use std::path::Path;

use spectral_report::{Claim, Judgement, ReportOptions, Verdict, read_runs, write_report};
use synthetic::{End, SyntheticAgent, member, write_run};

const FRAMES: u64 = 60_000;

fn seeds(agent: &'static str, count: u64, from: f64, to: f64) -> Vec<SyntheticAgent> {
    // Seeds end a little apart, symmetrically about `to`.
    let apart = |seed: u64| 0.3 * (seed as f64 - (count as f64 - 1.0) / 2.0);
    (0..count).map(|seed| member(agent, seed, (from, to + apart(seed), 20_000.0), 0.5, FRAMES)).collect()
}

type Case<'c> = (String, Verdict, &'c [&'c str]);

/// Judges all claims in one report.
fn judge(root: &Path, claims: &[String]) -> Vec<Judgement> {
    let mut text = String::new();
    for claim in claims {
        let task = if claim.contains("task = ") { "" } else { "task = \"pong-mini\"\n" };
        text.push_str(&format!("[[claim]]\ntext = \"The paper says so.\"\n{task}{claim}\n"));
    }
    let claims = Claim::from_toml(&text, "claims.toml").unwrap();
    let runs = read_runs(&[root.join("runs")]).unwrap();
    let options = ReportOptions { out: root.join("report"), claims, ..Default::default() };
    write_report(&runs, &options).unwrap().claims
}

fn expect(root: &Path, cases: &[Case<'_>]) {
    let claims: Vec<String> = cases.iter().map(|(claim, _, _)| claim.clone()).collect();
    let judged = judge(root, &claims);
    assert_eq!(judged.len(), cases.len());
    for (judged, (claim, verdict, words)) in judged.iter().zip(cases) {
        assert_eq!(judged.verdict, *verdict, "{claim}: {}", judged.reason);
        for word in *words {
            assert!(judged.reason.contains(word), "{word:?} is not in {:?}", judged.reason);
        }
    }
}

fn five_agents(root: &Path) {
    let mut members = seeds("spectral", 5, -10.0, 8.0);
    members.extend(seeds("compressed", 5, -10.0, -10.0));
    members.extend(seeds("clipped", 5, -10.0, 20.0));
    members.extend(seeds("twin", 5, -10.0, 8.1));
    members.extend(seeds("single", 1, -10.0, 8.0));
    let mut running = seeds("running", 2, -10.0, 8.0);
    for member in &mut running {
        (member.end, member.reached) = (End::Running, 30_000);
    }
    members.extend(running);
    write_run(&root.join("runs/pong"), "pong-mini", FRAMES, true, &members);
    write_run(&root.join("runs/easier"), "pong-easier", FRAMES, false, &seeds("compressed", 5, -10.0, 5.0));
}

#[test]
fn final_scores_decide_in_both_directions() {
    let root = tempfile::tempdir().unwrap();
    five_agents(root.path());
    let higher = |worse: &str| format!("kind = \"higher_final\"\nbetter = \"spectral\"\nworse = {worse}");
    let par = |better: &str, worse: &str| {
        format!("kind = \"on_par_final\"\nbetter = \"{better}\"\nworse = [\"{worse}\"]")
    };
    let alike = "kind = \"similar_final\"\nagents = [\"spectral\", \"twin\"]";
    let value = |kind: &str, agent: &str, value: f64| {
        format!("kind = \"{kind}\"\nagents = [\"{agent}\"]\nvalue = {value:?}")
    };
    let on_task = "kind = \"higher_on_task\"\nagents = [\"compressed\"]\nthan = [\"pong-easier\"]";
    use Verdict::{Agree, Differ, Undecided};
    expect(
        root.path(),
        &[
            (
                higher("[\"compressed\"]"),
                Agree,
                &["spectral ends above compressed by 1", "probability of improvement 1.00"],
            ),
            (
                higher("[\"compressed\", \"clipped\"]"),
                Differ,
                &["spectral ends below clipped", "In agreement: spectral ends above compressed"],
            ),
            (higher("[\"twin\"]"), Undecided, &["cannot be told apart", "includes zero"]),
            (par("spectral", "twin"), Agree, &["no less than"]),
            (par("clipped", "spectral"), Agree, &[]),
            (par("spectral", "clipped"), Differ, &["by more than 2.0"]),
            (format!("{}\nmargin = 0", par("spectral", "twin")), Undecided, &["or not"]),
            (format!("{alike}\nmargin = 0.15"), Agree, &["differ by less than"]),
            (alike.replace("twin", "clipped"), Differ, &["differ by more than"]),
            (format!("{alike}\nmargin = 0.02"), Undecided, &["or not"]),
            (value("final_above", "spectral", 0.0), Agree, &["spectral ends above 0"]),
            (value("final_above", "compressed", 0.0), Differ, &["compressed ends below 0"]),
            (value("final_above", "spectral", 8.0), Undecided, &["either side of 8.00"]),
            (value("final_below", "compressed", 0.0), Agree, &[]),
            (value("final_below", "clipped", 0.0), Differ, &[]),
            (on_task.to_owned(), Differ, &["compressed on pong-mini ends below on pong-easier"]),
            (on_task.replace("pong-easier", "nowhere"), Undecided, &["two finished seeds on nowhere"]),
        ],
    );
}

#[test]
fn what_was_not_run_or_has_not_finished_decides_nothing() {
    let root = tempfile::tempdir().unwrap();
    five_agents(root.path());
    let above = |agent: &str| format!("kind = \"final_above\"\nagents = [\"{agent}\"]\nvalue = 0");
    expect(
        root.path(),
        &[
            (above("nobody"), Verdict::Undecided, &["nobody was not run on pong-mini"]),
            (above("single"), Verdict::Undecided, &["one finished seed only"]),
            (above("running"), Verdict::Undecided, &["no finished seed"]),
            (format!("task = \"moon\"\n{}", above("spectral")), Verdict::Undecided, &["moon was not run."]),
        ],
    );
}

#[test]
fn a_flat_curve_that_ends_early_decides_nothing() {
    let root = tempfile::tempdir().unwrap();
    five_agents(root.path());
    write_run(&root.path().join("runs/half"), "pong-mini", FRAMES, true, &seeds("half", 5, -10.0, 4.0));
    write_run(&root.path().join("runs/harder"), "pong-harder", FRAMES, true, &seeds("half", 5, -10.0, -10.0));
    let below = "kind = \"final_below\"\nagents = [\"compressed\"]\nvalue = 0";
    let higher = |worse: &str| {
        format!(
            "kind = \"higher_final\"\nbetter = \"spectral\"\nworse = [\"{worse}\"]\nmin_frames = 100_000_000"
        )
    };
    let lower =
        "kind = \"higher_final\"\nbetter = \"compressed\"\nworse = [\"spectral\"]\nmin_frames = 100_000_000";
    use Verdict::{Agree, Undecided};
    expect(
        root.path(),
        &[
            (below.to_owned(), Agree, &[]),
            (
                format!("{below}\nmin_frames = 100_000_000"),
                Undecided,
                &["flat so far and ends at 60k frames", "as late as 100M"],
            ),
            (format!("{below}\nmin_frames = 60_000"), Agree, &[]),
            // An agent that has risen is judged, and the reader is told how short the runs are.
            (higher("half"), Agree, &["The runs end at 60k frames, before the 100M"]),
            // It says nothing of agents that may still rise.
            (
                higher("compressed"),
                Undecided,
                &["spectral ends above compressed", "the curve of compressed is flat on pong-mini and may still"],
            ),
            (
                higher("half\", \"compressed"),
                Undecided,
                &["compressed is flat", "In agreement: spectral ends above half by"],
            ),
            (higher("compressed").replace("100_000_000", "60_000"), Agree, &[]),
            (higher("compressed").replace("higher", "on_par"), Undecided, &["may still rise"]),
            // The same rise counts as flat if the claim says that it is small.
            (format!("{}\nflat_within = 30", higher("half")), Undecided, &["curve of spectral is flat so far"]),
            (
                "kind = \"higher_on_task\"\nagents = [\"half\"]\nthan = [\"pong-harder\"]\nmin_frames = 100_000_000"
                    .to_owned(),
                Undecided,
                &["half is flat on pong-harder and may still rise"],
            ),
            // One that has risen and is still low may rise further.
            (
                "kind = \"final_below\"\nagents = [\"spectral\"]\nvalue = 15\nmin_frames = 100_000"
                    .to_owned(),
                Undecided,
                &["ends below 15.0", "so far, and spectral may still rise"],
            ),
            // The other way round it rests on the flat curve.
            (lower.to_owned(), Undecided, &["compressed is flat"]),
        ],
    );
}

#[test]
fn what_an_agent_has_not_reached_decides_nothing_before_the_claims_frames() {
    let root = tempfile::tempdir().unwrap();
    five_agents(root.path());
    write_run(
        &root.path().join("runs/more"),
        "pong-easier",
        FRAMES,
        false,
        &seeds("spectral", 5, -10.0, 19.0),
    );
    let pair = "better = \"spectral\"\nworse = [\"clipped\"]";
    let value = |kind: &str, agent: &str| format!("kind = \"{kind}\"\nagents = [\"{agent}\"]\nvalue = 15");
    // Each of these agents has risen, is behind what is claimed of it, and would be said to contradict the claim.
    let behind = [
        (format!("kind = \"higher_final\"\n{pair}"), "spectral ends below clipped"),
        (format!("kind = \"on_par_final\"\n{pair}"), "spectral ends below clipped by more than"),
        ("kind = \"similar_final\"\nagents = [\"clipped\", \"spectral\"]".to_owned(), "differ by more than"),
        (value("final_above", "spectral"), "spectral ends below 15.0"),
        (
            "kind = \"higher_on_task\"\nagents = [\"spectral\"]\nthan = [\"pong-easier\"]".to_owned(),
            "ends below on pong-easier",
        ),
    ];
    let at = |claim: &str, frames: &str| format!("{claim}\nmin_frames = {frames}");
    for (claim, words) in behind {
        let cases: [Case<'_>; 2] = [
            (
                at(&claim, "100_000_000"),
                Verdict::Undecided,
                &[words, "so far, and spectral may still rise", "before the 100M that the claim is about"],
            ),
            (at(&claim, "60_000"), Verdict::Differ, &[words]),
        ];
        expect(root.path(), &cases);
    }
    // What has been passed already stays passed.
    let passed = at(&value("final_below", "clipped"), "100_000_000");
    expect(root.path(), &[(passed, Verdict::Differ, &["clipped ends above 15.0"])]);
}

#[test]
fn an_agent_with_a_stopped_seed_decides_nothing() {
    let root = tempfile::tempdir().unwrap();
    let mut members = seeds("spectral", 5, -10.0, 8.0);
    members.extend(seeds("compressed", 5, -10.0, -10.0));
    members.extend(seeds("clipped", 5, -10.0, 20.0));
    for member in &mut members[3..5] {
        (member.end, member.reached) = (End::Stopped, 30_000);
    }
    write_run(&root.path().join("runs/pong"), "pong-mini", FRAMES, true, &members);
    let mut easier = seeds("clipped", 5, -10.0, 5.0);
    (easier[0].end, easier[0].reached) = (End::Stopped, 30_000);
    write_run(&root.path().join("runs/easier"), "pong-easier", FRAMES, false, &easier);
    let pair = |better: &str, worse: &str| {
        format!("kind = \"higher_final\"\nbetter = \"{better}\"\nworse = [\"{worse}\"]")
    };
    let why =
        "2 of 5 seeds of spectral were stopped on pong-mini; the others alone do not represent the agent.";
    use Verdict::{Agree, Undecided};
    expect(
        root.path(),
        &[
            (pair("spectral", "compressed"), Undecided, &[why]),
            (pair("clipped", "spectral"), Undecided, &[why]),
            ("kind = \"final_above\"\nagents = [\"spectral\"]\nvalue = 0".to_owned(), Undecided, &[why]),
            (
                "kind = \"td_error_below\"\nagents = [\"spectral\"]\npercent = 50\nscores = [0, 3]"
                    .to_owned(),
                Undecided,
                &[why],
            ),
            (pair("clipped", "compressed"), Agree, &[]),
            (
                "kind = \"higher_on_task\"\nagents = [\"clipped\"]\nthan = [\"pong-easier\"]".to_owned(),
                Undecided,
                &["1 of 5 seeds of clipped was stopped on pong-easier"],
            ),
        ],
    );
}

#[test]
fn two_seeds_that_end_alike_are_not_certain() {
    let root = tempfile::tempdir().unwrap();
    let group = |agent: &'static str, count: u64, score: f64| {
        (0..count).map(move |seed| member(agent, seed, (score, score, 20_000.0), 0.0, FRAMES))
    };
    let members: Vec<SyntheticAgent> =
        [("two", 2, 9.0), ("pair", 2, 3.0), ("three", 3, 9.0), ("trio", 3, 3.0)]
            .into_iter()
            .flat_map(|(agent, count, score)| group(agent, count, score))
            .collect();
    write_run(&root.path().join("runs/pong"), "pong-mini", FRAMES, false, &members);
    let claim = |better: &str, worse: &str| {
        format!("kind = \"higher_final\"\nbetter = \"{better}\"\nworse = [\"{worse}\"]")
    };
    let above = |agent: &str| format!("kind = \"final_above\"\nagents = [\"{agent}\"]\nvalue = 0");
    let none = "it takes three seeds, or two that did not end alike";
    use Verdict::{Agree, Undecided};
    expect(
        root.path(),
        &[
            (claim("two", "pair"), Undecided, &[none]),
            (claim("three", "pair"), Undecided, &[none]),
            (claim("two", "trio"), Undecided, &[none]),
            (claim("three", "trio"), Agree, &[]),
            (above("two"), Undecided, &[none]),
            (above("three"), Agree, &[]),
        ],
    );
}

#[test]
fn a_clear_verdict_beside_a_wide_probability_is_explained() {
    let root = tempfile::tempdir().unwrap();
    five_agents(root.path());
    let higher =
        |worse: &str| format!("kind = \"higher_final\"\nbetter = \"spectral\"\nworse = [\"{worse}\"]");
    let above = "kind = \"final_above\"\nagents = [\"spectral\"]\nvalue = 0".to_owned();
    let words = "The verdict rests on the interval of the difference between the means.";
    let shown = |claims: &[String]| {
        judge(root.path(), claims);
        ["report.html", "report.md"].map(|name| {
            let text = std::fs::read_to_string(root.path().join("report").join(name)).unwrap();
            text.matches(words).count()
        })
    };
    assert_eq!(
        shown(&[higher("compressed"), higher("clipped"), higher("twin")]),
        [2, 1],
        "a card each, a table once"
    );
    assert_eq!(shown(&[above, higher("twin")]), [0, 0]);
}

#[test]
fn seeds_must_be_clear_by_students_interval_too() {
    let root = tempfile::tempdir().unwrap();
    let group = |agent: &'static str, ends: &[f64]| -> Vec<SyntheticAgent> {
        let seeded = ends.iter().enumerate();
        seeded.map(|(seed, to)| member(agent, seed as u64, (0.0, *to, 20_000.0), 0.1, FRAMES)).collect()
    };
    // All of one agent's seeds lie above all of the other's, so the bootstrap's interval is clear of zero; but with
    // a spread like this two seeds prove nothing.
    let mut members = group("wide", &[4.0, 10.0]);
    members.extend(group("low", &[2.0, 3.0]));
    members.extend(group("far", &[60.0, 61.0]));
    // Five seeds whose mean the bootstrap puts between 0.4 and 5.2, and Student between −0.5 and 6.2.
    members.extend(group("five", &[0.5, 0.6, 0.9, 6.0, 6.2]));
    members.extend(group("even", &[0.0, 0.1, 0.0, -0.1, 0.05]));
    write_run(&root.path().join("runs/pong"), "pong-mini", FRAMES, false, &members);
    let claim = |better: &str, worse: &str| {
        format!("kind = \"higher_final\"\nbetter = \"{better}\"\nworse = [\"{worse}\"]")
    };
    expect(
        root.path(),
        &[
            (claim("wide", "low"), Verdict::Undecided, &["includes zero"]),
            (claim("far", "low"), Verdict::Agree, &[]),
            (
                claim("five", "even"),
                Verdict::Undecided,
                &["includes zero (probability of improvement 1.00, 0.48 to 1.00)"],
            ),
            (
                "kind = \"final_above\"\nagents = [\"five\"]\nvalue = 0".to_owned(),
                Verdict::Undecided,
                &["either side of 0"],
            ),
        ],
    );
}

#[test]
fn td_errors_decide_score_by_score() {
    let root = tempfile::tempdir().unwrap();
    five_agents(root.path());
    // The made-up errors of agents that learn end near 3% of the target plus what time has not removed.
    let td = |kind: &str, agent: &str, percent: f64, scores: &str| {
        format!("kind = \"{kind}\"\nagents = [\"{agent}\"]\npercent = {percent:?}\nscores = {scores}")
    };
    let high = td("td_error_above", "compressed", 5.0, "[10, 20]");
    use Verdict::{Agree, Differ, Undecided};
    expect(
        root.path(),
        &[
            (
                td("td_error_below", "clipped", 50.0, "[0, 3]"),
                Agree,
                &["at all of the 4 scores from 0 to 3 in 5 of 5 seeds", "at 20 of 20"],
            ),
            (
                td("td_error_below", "clipped", 0.1, "[0, 3]"),
                Differ,
                &["in 0 of 5 seeds, and does not at more than half of them in 5;", "at 0 of 20"],
            ),
            // An agent that does not learn never meets the high scores: its errors there count as high.
            (
                high.clone(),
                Agree,
                &["above 5% at all of the 11 scores from 10 to 20 in 5 of 5 seeds", "at 0 of 55"],
            ),
            (format!("{high}\nmin_frames = 1_000_000"), Undecided, &["may still fall"]),
            (
                format!("task = \"pong-easier\"\n{high}"),
                Undecided,
                &["no TD errors of compressed were recorded"],
            ),
        ],
    );
    let on_task = "kind = \"higher_on_task\"\nagents = [\"compressed\"]\nthan = [\"pong-easier\"]".to_owned();
    let ours = judge(root.path(), &[on_task]).remove(0).ours;
    assert!(ours.contains("on pong-mini; compressed ") && ours.contains("on pong-easier"), "{ours}");
    let judged = &judge(root.path(), &[td("td_error_below", "clipped", 50.0, "[0, 3]")])[0];
    let begins =
        "TD error after 60k frames at the player’s scores 0 to 3, lowest and highest of all seeds: clipped";
    assert!(judged.ours.starts_with(begins), "{}", judged.ours);
}

#[test]
fn td_errors_are_judged_seed_by_seed() {
    let root = tempfile::tempdir().unwrap();
    let members: Vec<SyntheticAgent> =
        ["one", "most", "gone"].into_iter().flat_map(|agent| seeds(agent, 3, -10.0, 8.0)).collect();
    write_run(&root.path().join("runs/pong"), "pong-mini", FRAMES, true, &members);
    // Errors of 3% or of 40% at two scores. The targets of the first seed are a thousand times those of the others, so that
    // it alone would decide if errors and targets were added up. `gone` no longer meets the scores in its last seed.
    for member in &members {
        let (share, target) = match (member.agent, member.seed) {
            ("one", 0) => (3.0, 8_000.0),
            ("one", _) => (40.0, 8.0),
            (_, 0) => (40.0, 8_000.0),
            (_, _) => (3.0, 8.0),
        };
        let share = if member.agent == "gone" { 3.0 } else { share };
        let mut rows = String::from("frame,player_score,abs_error,abs_target,samples\n");
        for at in 1..=20u64 {
            let met = if member.agent == "gone" && member.seed == 2 { at.min(10) } else { at };
            for score in 0..2 {
                rows.push_str(&format!(
                    "{},{score},{},{target},{}\n",
                    3_000 * at,
                    0.01 * share * target,
                    5_000 * met
                ));
            }
        }
        let folder = format!("runs/pong/agents/{}-s{}", member.agent, member.seed);
        std::fs::write(root.path().join(folder).join("td_error.csv"), rows).unwrap();
    }
    let td = |kind: &str, agent: &str| {
        format!("kind = \"{kind}\"\nagents = [\"{agent}\"]\npercent = 5\nscores = [0, 1]")
    };
    use Verdict::{Agree, Differ, Undecided};
    expect(
        root.path(),
        &[
            (
                td("td_error_below", "one"),
                Differ,
                &["in 1 of 3 seeds, and does not at more than half of them in 2"],
            ),
            (
                td("td_error_above", "one"),
                Undecided,
                &["in 2 of 3 seeds, and does not at more than half of them in 1"],
            ),
            (td("td_error_below", "most"), Undecided, &["in 2 of 3 seeds", "at 4 of 6."]),
            (td("td_error_above", "most"), Differ, &["in 1 of 3 seeds"]),
            (
                td("td_error_below", "gone"),
                Undecided,
                &["in 2 of 3 seeds", "at 4 of 6, and 2 are no longer met."],
            ),
            (td("td_error_stable", "gone"), Undecided, &["in 2 they fall", "2 of 6 are no longer met"]),
            (td("td_error_stable", "most"), Undecided, &["in 2 they fall"]),
            (
                "kind = \"td_error_below\"\nagents = [\"one\"]\npercent = 40\nscores = [0, 1]".into(),
                Agree,
                &[],
            ),
        ],
    );
}

#[test]
fn td_errors_that_spike_are_told_from_stable_ones() {
    let root = tempfile::tempdir().unwrap();
    let members: Vec<SyntheticAgent> =
        ["calm", "wild", "once"].into_iter().flat_map(|agent| seeds(agent, 3, -10.0, 8.0)).collect();
    write_run(&root.path().join("runs/pong"), "pong-mini", FRAMES, true, &members);
    // At the scores 0 to 3: 40% of the target, then 8%, and where an agent spikes 30% before it ends at 4%.
    for member in &members {
        let spikes = member.agent == "wild" || (member.agent == "once" && member.seed == 0);
        let mut rows = String::from("frame,player_score,abs_error,abs_target\n");
        for (at, share) in [40.0, 8.0, if spikes { 30.0 } else { 8.0 }, 4.0].into_iter().enumerate() {
            for score in 0..4 {
                rows.push_str(&format!("{},{score},{},8\n", 15_000 * (at + 1), 0.08 * share));
            }
        }
        let folder = format!("runs/pong/agents/{}-s{}", member.agent, member.seed);
        std::fs::write(root.path().join(folder).join("td_error.csv"), rows).unwrap();
    }
    let td = |kind: &str, agent: &str, percent: f64| {
        format!("kind = \"{kind}\"\nagents = [\"{agent}\"]\npercent = {percent:?}\nscores = [0, 3]")
    };
    use Verdict::{Agree, Differ, Undecided};
    expect(
        root.path(),
        &[
            (
                td("td_error_stable", "calm", 10.0),
                Agree,
                &["The TD errors of calm", "in 0 of 3 seeds; in 3 they fall"],
            ),
            (td("td_error_spikes", "wild", 10.0), Agree, &["in 3 of 3 seeds", "the highest rises to 30.0%"]),
            (td("td_error_stable", "wild", 10.0), Differ, &["above 20% again"]),
            (
                td("td_error_spikes", "calm", 10.0),
                Differ,
                &["in 3 they fall to it at all scores and never do"],
            ),
            (td("td_error_stable", "once", 10.0), Undecided, &["in 1 of 3 seeds; in 2 they fall"]),
            // All end alike: how they end says nothing about spikes.
            (td("td_error_below", "wild", 5.0), Agree, &[]),
            // What never falls to the percentage is neither stable nor spiking.
            (td("td_error_stable", "calm", 3.0), Undecided, &["in 0 of 3 seeds; in 0 they fall"]),
            // What has been stable so far may still spike; what has spiked has spiked.
            (
                format!("{}\nmin_frames = 1_000_000", td("td_error_stable", "calm", 10.0)),
                Undecided,
                &[", so far"],
            ),
            (format!("{}\nmin_frames = 1_000_000", td("td_error_spikes", "wild", 10.0)), Agree, &[]),
        ],
    );
}

#[test]
fn verdicts_stand_in_every_form_of_the_report() {
    let root = tempfile::tempdir().unwrap();
    five_agents(root.path());
    let claim = "source = \"figure 3\"\nkind = \"final_above\"\nagents = [\"spectral\"]\nvalue = 0";
    let judged = &judge(root.path(), &[claim.to_owned()])[0];
    let read = |name: &str| std::fs::read_to_string(root.path().join("report").join(name)).unwrap();
    for name in ["report.html", "report.md", "claims.csv", "summary.json"] {
        let text = read(name);
        assert!(text.contains("The paper says so."), "{name}");
        assert!(text.contains("agree") && text.contains("figure 3"), "{name}");
        assert!(text.contains(judged.reason.split(" (").next().unwrap()), "{name}");
    }
    let json: serde_json::Value = serde_json::from_str(&read("summary.json")).unwrap();
    assert_eq!(json["claims"][0]["verdict"], "agree");
    assert_eq!(json["claims"][0]["claim"]["rule"]["kind"], "final_above");
}
