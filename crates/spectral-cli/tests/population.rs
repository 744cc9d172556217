//! Neither the population's size nor the number of threads changes a result, and a longer run goes on from a shorter one.

mod common;

use common::*;

#[test]
fn an_agent_alone_and_one_of_twelve_on_one_thread_and_on_two_are_the_same_to_the_bit() {
    let place = Place::new();
    let twelve = "--agents spectral,popart,rich.toml,categorical --seeds 7,8,9 --frames 2500";
    for threads in [1, 2] {
        place.train(&format!("{twelve} --out twelve{threads} --set threads={threads}")).code(0);
    }
    let crowd = results(&place.path("twelve1"));
    // Three tables and a model for each of twelve.
    assert_eq!(crowd.len(), 48);
    assert_same(&results(&place.path("twelve2")), &crowd);
    for (agent, id) in [("spectral", "spectral-s8"), ("popart", "popart-s8"), ("rich.toml", "rich-s8")] {
        for threads in [1, 2] {
            let out = format!("{id}-{threads}");
            let alone =
                format!("--agents {agent} --seeds 8,8 --frames 2500 --out {out} --set threads={threads}");
            place.train(&alone).code(2).says(&["twice"]);
            let alone = alone.replace("8,8", "8..8");
            place.train(&alone).code(0);
            let mut of_crowd = crowd.clone();
            of_crowd.retain(|name, _| name.starts_with(&format!("{id}/")));
            assert_eq!(of_crowd.len(), 4);
            assert_same(&results(&place.path(&out)), &of_crowd);
        }
    }
    // Other seeds and other agents are other runs.
    assert_ne!(crowd["spectral-s7/model.safetensors"], crowd["spectral-s8/model.safetensors"]);
    assert_ne!(crowd["spectral-s8/episodes.csv"], crowd["popart-s8/episodes.csv"]);
}

#[test]
fn a_large_network_shared_by_two_threads_is_the_same_to_the_bit() {
    let place = Place::new();
    for threads in [1, 2] {
        let ran = place.run(&format!(
            "train --task pong-mini --set observation=pixels --set batch=4 --set replay=100 --set learning_starts=20 \
             --set update_period=4 --frames 60 --set log_frames=10 --set threads={threads} --out t{threads}"
        ));
        ran.code(0);
    }
    assert_same(&results(&place.path("t2")), &results(&place.path("t1")));
}

#[test]
fn resuming_past_the_planned_end_equals_the_longer_run() {
    let place = Place::new();
    place.train("--agents spectral,rich.toml --frames 5000 --out long").code(0);
    place.train("--agents spectral,rich.toml --frames 3100 --out short").code(0);
    let run = place.path("short");
    assert_eq!(frames(&run), 6200);
    let done = results(&run);

    // A finished run is left as it is, and a shorter one is no continuation.
    place.run("resume short").code(0);
    assert_same(&results(&run), &done);
    let before = snapshot(&run);
    place.run("resume short --frames 3000").code(2).says(&["planned for 3100 frames already"]);
    assert_same(&snapshot(&run), &before);

    place.run("resume short --frames 5000").code(0).says(&["done"]);
    assert_same(&results(&run), &results(&place.path("long")));
    assert_eq!(frames(&run), 10_000);
    let plan = std::fs::read_to_string(run.join("run.toml")).unwrap();
    assert!(plan.contains("\nframes = 5000\n"), "{plan}");
    let report = place.run("report short --json").code(0).json();
    assert_eq!(report["tasks"][0]["frames"], 5000);
}
