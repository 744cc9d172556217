//! The models that a run keeps, as `spectral eval` and `spectral play` find them.

mod common;

use common::*;

/// A field of each row of an agent's evaluations.
fn column(place: &Place, agent: &str, name: &str) -> Vec<f64> {
    let text = std::fs::read_to_string(place.path(&format!("run/agents/{agent}/eval.csv"))).unwrap();
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let at = lines.next().unwrap().iter().position(|column| *column == name).unwrap();
    lines.map(|line| line[at].parse().unwrap()).collect()
}

#[test]
fn last_and_best_are_played_and_an_absent_one_says_what_there_is() {
    let place = Place::new();
    place.train("--frames 4000 --seeds 2 --set eval_every=500 --set eval_games=2 --out run").code(0);
    let row = |arguments: &str, agent: usize| place.run(arguments).code(0).json()[agent].clone();
    let last = row("eval run --episodes 2 --json", 1);
    assert_eq!((last["model"].as_str(), last["frame"].as_u64()), (Some("last"), Some(4000)));
    for agent in 0..2 {
        let id = format!("spectral-s{}", agent + 1);
        let (frames, scores) = (column(&place, &id, "frame"), column(&place, &id, "score_mean"));
        let most = scores.iter().copied().fold(f64::MIN, f64::max);
        let best = frames[scores.iter().rposition(|&score| score == most).unwrap()];
        let found = row("eval run --episodes 2 --model best --json", agent);
        assert_eq!((found["model"].as_str(), found["frame"].as_u64()), (Some("best"), Some(best as u64)));
        let played = place.run(&format!("play --run run --agent {id} --model best --steps 5")).code(0);
        played.says(&[&format!("{id} plays with its best model, of frame")]);
    }
    place.run("eval run --model average").code(2).says(&["no model 'average'", "what it has is: last, best"]);
    place.run("play --run run --agent spectral-s1 --model average").code(2).says(&["last, best"]);
    place.run("eval run --model bets").code(2).says(&["last | best | average"]);
    place.run("play --task 2048 --model best").code(2).says(&["--run"]);
    // A CPU trains in fp32, so that its arithmetic is the usual one.
    let training = row("eval run --episodes 2 --arithmetic training --json", 1);
    assert_eq!(training, last);
    // As if a GPU had trained it, in bf16 and in an arithmetic that a CPU does not have.
    let file = place.path("run/run.toml");
    let text = unsealed(&std::fs::read_to_string(&file).unwrap());
    let on = |device: &str| {
        let device = format!("device = \"cpu, then {device}\"\n\n[task_settings]");
        std::fs::write(&file, text.replace("device = \"cpu\"\n\n[task_settings]", &device)).unwrap();
    };
    on("cuda:0 Some GPU (auto)");
    place.run("eval run --episodes 2 --arithmetic training --json").code(0);
    assert_eq!(row("eval run --episodes 2 --json", 1), last, "fp32 unless it is asked for");
    on("cuda:0 Some GPU (tf32)");
    place
        .run("eval run --arithmetic training")
        .code(2)
        .says(&["cuda:0 Some GPU (tf32)", "--arithmetic fp32"]);
}

/// A file that was written at an earlier end is not the model of a run that goes on.
#[test]
fn models_of_an_unfinished_run_are_those_of_its_newest_checkpoint() {
    let place = Place::new();
    let sets = "--set average=500 --set target_period=100 --set eval_games=0";
    place.train(&format!("--frames 4000 {sets} --out run")).code(0);
    let frame = |model: &str| {
        let ran = place.run(&format!("eval run --episodes 1 --json --model {model}")).code(0);
        ran.json()[0]["frame"].as_u64().unwrap()
    };
    assert_eq!((frame("last"), frame("average")), (4000, 4000));
    let metrics = place.path("run/agents/spectral-s1/metrics.csv");
    let before = metrics.metadata().unwrap().len();
    let child = place.start("resume run --frames 100000000");
    wait_until("more rows", || metrics.metadata().is_ok_and(|m| m.len() > before + 2000));
    signal(&child, "INT");
    Ran::of(child.wait_with_output().unwrap()).code(130);
    let last = frame("last");
    assert!(last > 4000);
    assert_eq!(frame("average"), last);
    // Before the first refresh there is no mean, and the message does not say that the run keeps none.
    place.train("--frames 300 --set average=500 --set learning_starts=300 --out short").code(0);
    place.run("eval short --model average").code(2).says(&["none before", "what it has is: last"]);
}

#[test]
fn bad_settings_of_frozen_games_are_refused_before_anything_is_made() {
    let place = Place::new();
    for (set, words) in [
        ("eval_epsilon=2", ["eval_epsilon", "from 0 to 1"]),
        ("eval_games=x", ["eval_games", "whole number"]),
        ("eval_every=1e17", ["eval_every", "whole number"]),
    ] {
        place.train(&format!("--frames 100 --set {set} --out refused")).code(2).says(&words);
        assert!(!place.path("refused").exists());
    }
}
