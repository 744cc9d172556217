//! What users get wrong: an answer that says what would be right, the right exit code, and nothing touched.

mod common;

use common::*;

#[test]
fn unknown_names_are_answered_with_the_nearest() {
    let place = Place::new();
    for (arguments, words) in [
        ("train --task pong-mimi", &["pong-mimi", "did you mean 'pong-mini'"][..]),
        ("train --task pong-mini --agents spectrl", &["spectrl", "'spectral'"]),
        ("train --task pong-mini --agents nothing-like-it", &["popart"]),
        ("train --task pong-mini --set learing_rate=1", &["learing_rate", "'learning_rate'"]),
        ("train --task pong-mini --set agent.spectral.bach=1", &["'batch'"]),
        ("train --task pong-mini --set agent.sepctral.batch=8", &["sepctral", "'spectral'"]),
        ("train --task pong-mini --set protocol=papr", &["'paper'"]),
        ("train --task pong-mini --agents dqn", &["'clipped'"]),
        ("train --task pong-mini --set lr=1", &["'learning_rate'"]),
        ("train --task pong-mini --set gamma=1", &["'discount'"]),
        ("train --task pong-mini --frames 1.5", &["such as 500000, 1e6, 1M or 200k"]),
        ("train --task pong-mini --set codec=spectra", &["codec", "name another agent"]),
        ("train --task pong-mini --set observation=plane", &["observation", "planes"]),
        ("tran --task pong-mini", &["train"]),
        ("train --task pong-mini --lr 1e-4", &["`--set learning_rate=…`"]),
        ("train --task pong-mini --gamma 0.9", &["`--set discount=…`"]),
        ("train --env pong-mini", &["`--task NAME`"]),
        ("train pong-mini", &["`--task pong-mini`"]),
        ("train --task pong-mini --agents spectral clipped", &["`--agents spectral,clipped`"]),
        ("train --task CartPole-v1", &["Python package", "spectral_rl.SpectralDQN(\"CartPole-v1\")"]),
        ("train --task xylophones", &["exponential-pong-mini", "more (`spectral tasks`"]),
        ("train --taks pong-mini", &["--task"]),
    ] {
        place.run(arguments).code(2).says(words);
    }
    assert!(!place.path("runs").exists(), "a run that cannot start leaves nothing");
}

#[test]
fn frames_may_be_written_as_people_write_them() {
    let place = Place::new();
    for frames in ["20000", "20_000", "2e4", "20k", "0.02M"] {
        let ran = place.run(&format!("train --task pong-mini --frames {frames} --dry-run")).code(0);
        assert!(ran.out.contains("\nframes = 20000\n"), "{frames}: {}", ran.out);
        let ran = place.run(&format!("train --task pong-mini --set frames={frames} --dry-run")).code(0);
        assert!(ran.out.contains("\nframes = 20000\n"), "{frames}: {}", ran.out);
    }
}

#[test]
fn values_that_do_not_fit_are_refused_before_anything_is_made() {
    let place = Place::new();
    for (arguments, words) in [
        ("", &["--task"][..]),
        ("--task pong-mini --frames 0", &["frames"]),
        ("--task pong-mini --frames -5", &["-5"]),
        ("--task pong-mini --frames 18446744073709551615", &["frames"]),
        ("--task pong-mini --seeds x", &["1000..1009"]),
        ("--task pong-mini --seeds 9..3", &["1000..1009"]),
        ("--task pong-mini --seeds 0", &["1000..1009"]),
        ("--task pong-mini --seeds 5000000", &["1000..1009"]),
        ("--task pong-mini --seeds 18446744073709551615,1", &["18446744073709551615"]),
        ("--task pong-mini --seeds 3,3", &["twice"]),
        ("--task pong-mini --agents ,", &["no agents"]),
        ("--task pong-mini --agents absent.toml", &["absent.toml"]),
        ("--task pong-mini --set batch=0", &["batch", "65536"]),
        ("--task pong-mini --set batch=many", &["batch", "many"]),
        ("--task pong-mini --set batch", &["key=value"]),
        ("--task pong-mini --set learning_rate=-1", &["learning_rate"]),
        ("--task pong-mini --set learning_rate=NaN", &["learning_rate", "finite"]),
        ("--task pong-mini --set discount=1.5", &["discount"]),
        ("--task pong-mini --set replay=3", &["replay"]),
        ("--task pong-mini --set base=0.5", &["base"]),
        ("--task pong-mini --set base=1", &["base"]),
        ("--task pong-mini --set max_frequency=5000", &["60"]),
        ("--task pong-mini --set hidden=0", &["hidden"]),
        ("--task pong-mini --set hidden=a", &["hidden"]),
        ("--task pong-mini --set hidden=999999999999,999999999999", &[]),
        ("--task pong-mini --set network=nature", &["network"]),
        ("--task pong-mini --set checkpoint_seconds=0", &["checkpoint_seconds"]),
        ("--task pong-mini --set checkpoint_seconds=1e300", &["checkpoint_seconds"]),
        ("--task pong-mini --set threads=99999999", &["threads"]),
        ("--task pong-mini --set update_period=0", &["update_period"]),
        ("--task pong-mini --set update_period=18446744073709551615", &[]),
        ("--task pong-mini --set observation=smell", &["observation"]),
        ("--task pong-mini --set reward_scale=0", &["reward_scale"]),
        ("--task pong-mini --set reward_scale=inf", &["reward_scale"]),
        ("--task investor --set observation=planes", &["investor"]),
        ("--task pong-mini --set frame_skip=0", &["frame_skip"]),
        ("--task pong-mini --device gpu", &["device", "cuda:N"]),
        ("--task pong-mini --device cuda:x", &["device", "cuda:N"]),
        ("--task pong-mini --device cuda:4095", &["cuda:4095"]),
        ("--task pong-mini --set precision=fp8", &["precision", "bf16"]),
        ("--task pong-mini --set checkpoint=none", &["checkpoint", "light"]),
        (
            "--task pong-mini --device cpu-lockstep --agents spectral,popart --set agent.popart.batch=7",
            &["batch", "popart-s1", "--device cpu"],
        ),
    ] {
        let ran = place.run(&format!("train {arguments} --out out")).code(2);
        ran.says(words).says(&["error"]);
        assert!(!place.path("out").exists(), "{arguments}");
    }
}

#[test]
fn more_memory_than_there_is_is_refused_with_numbers() {
    let place = Place::new();
    // 1e13 transitions; then numbers that no longer fit a machine word once they are multiplied.
    for replay in ["10000000000000", "1000000000000000000", "18446744073709551615"] {
        let ran = place.run(&format!("train --task pong-mini --set replay={replay} --out big")).code(2);
        assert!(ran.err.contains("memory") || ran.err.contains("replay"), "{}", ran.err);
        assert!(!place.path("big").exists());
    }
    let ran = place.run("train --task pong-mini --set replay=10000000000000 --out big").code(2);
    ran.says(&["needs", "TB", "available", "smaller replay"]);
    // What is needed is also said of runs that fit, without starting them.
    let ran = place.run("train --task pong-mini --set replay=100000 --dry-run --out dry").code(0);
    ran.says(&["memory", "MB of"]);
    assert!(!place.path("dry").exists());
}

#[test]
fn a_config_that_is_no_config_is_named() {
    let place = Place::new();
    let write = |name: &str, text: &str| std::fs::write(place.path(name), text).unwrap();
    write("broken.toml", "task = [");
    write("typo.toml", "task = \"pong-mini\"\nbacth = 3\n");
    write("kind.toml", "task = \"pong-mini\"\nbatch = { a = 1 }\n");
    write("value.toml", "task = \"pong-mini\"\nbatch = \"x\"\n");
    write("agent.toml", "codec = \"nonsense\"\n");
    write("bytes.toml", "");
    std::fs::write(place.path("bytes.toml"), [0xff, 0xfe, 0]).unwrap();
    for (arguments, words) in [
        ("--config broken.toml", &["broken.toml"][..]),
        ("--config typo.toml", &["typo.toml", "bacth", "'batch'"]),
        ("--config kind.toml", &["kind.toml", "batch"]),
        ("--config value.toml", &["batch", "'x'"]),
        ("--config bytes.toml", &["bytes.toml"]),
        ("--config absent.toml", &["absent.toml"]),
        ("--config .", &["."]),
        ("--task pong-mini --agents agent.toml", &["agent.toml", "codec"]),
        ("--task pong-mini --agents broken.toml", &["broken.toml"]),
    ] {
        place.run(&format!("train {arguments} --out out")).code(2).says(words);
        assert!(!place.path("out").exists(), "{arguments}");
    }
    // A good one works, and flags win over it.
    write(
        "good.toml",
        "task = \"catch-scale\"\nframes = 900\nbatch = 4\nreplay = 100\n[agent.spectral]\nhidden = \"8\"\n",
    );
    place.run("train --config good.toml --frames 300 --out good").code(0);
    let plan = std::fs::read_to_string(place.path("good/run.toml")).unwrap();
    assert!(plan.contains("\nframes = 300\n") && plan.contains("hidden = \"8\""), "{plan}");
}

#[test]
fn folders_that_are_no_runs_are_named_and_left_alone() {
    let place = Place::new();
    std::fs::create_dir(place.path("thesis")).unwrap();
    std::fs::write(place.path("thesis/chapter.tex"), "years of work").unwrap();
    std::fs::write(place.path("file"), "no folder").unwrap();
    let before = snapshot(place.0.path());
    let ran = place.train("--frames 300 --out thesis").code(2);
    let ran = ran.says(&["thesis exists already", "--out", "other files"]);
    assert!(!ran.err.contains("resume") && !ran.err.contains("memory"), "no plan, no run: {}", ran.err);
    place.run("demo --out thesis").code(2).says(&["thesis exists already"]);
    let ran = place.train("--frames 300 --out file").code(2).says(&["file exists already", "no folder"]);
    assert!(!ran.err.contains("memory"), "it is refused before the plan: {}", ran.err);
    for command in ["resume", "eval", "report"] {
        for folder in ["thesis", "absent", "file"] {
            let ran = place.run(&format!("{command} {folder}"));
            assert!(ran.code == Some(2) || ran.code == Some(3), "{command} {folder}: {ran:?}");
            assert!(ran.err.contains(folder), "{command} {folder}: {}", ran.err);
        }
    }
    assert_same(&snapshot(place.0.path()), &before);

    // A folder of runs is none, but has some.
    place.train("--frames 300 --out runs/one").code(0);
    for command in ["eval", "resume", "play --run"] {
        place
            .run(&format!("{command} runs"))
            .code(2)
            .says(&["not a run directory, but holds some: runs/one"]);
    }
    place.run("eval runs/one --model best").code(2).says(&["50,000 frames or more", "--set eval_every=N"]);

    // Nor is a run trained over.
    place.train("--frames 300 --out run").code(0);
    let before = snapshot(&place.path("run"));
    place.train("--frames 300 --out run").code(2).says(&["run exists already", "spectral resume run"]);
    assert_same(&snapshot(&place.path("run")), &before);
}

/// One agent of three learns at an absurd rate: it alone is stopped.
#[test]
fn an_agent_whose_values_stop_being_finite_is_stopped_alone() {
    let place = Place::new();
    let others = "--agents spectral,clipped --frames 2500 --out calm";
    place.train(others).code(0);
    let ran = place.train(
        "--agents spectral,popart,clipped --frames 2500 --out run --set agent.popart.learning_rate=1e30",
    );
    ran.code(4).says(&["popart-s1 was stopped at frame", "stopped being finite", "learning_rate", "done"]);
    let state = std::fs::read_to_string(place.path("run/state.toml")).unwrap();
    assert!(state.contains("status = \"stopped\"") && state.contains("stopped being finite"), "{state}");
    assert_eq!(state.matches("status = \"finished\"").count(), 3, "the run and two agents: {state}");
    let mut found = results(&place.path("run"));
    found.retain(|name, _| !name.starts_with("popart"));
    assert_same(&found, &results(&place.path("calm")));
    let report = place.run("report run --json").code(0);
    assert!(report.out.contains("stopped"), "{}", report.out);
    let html = report.json()["html"].as_str().unwrap().to_string();
    let page = std::fs::read_to_string(place.0.path().join(html)).unwrap();
    assert!(page.contains("stopped being finite"), "the report does not say why");
    // It stays stopped, and says so again.
    place.run("resume run").code(4).says(&["popart-s1 was stopped"]);
    place.run("resume run --frames 3000").code(4).says(&["popart-s1 was stopped"]);
    place.run("eval run --episodes 1").code(0);
}

/// Rewards that are beyond a codec's capacity are counted and shown.
#[test]
fn saturated_rewards_are_reported() {
    let place = Place::new();
    let ran = place.train("--agents spectral --frames 2500 --set max_frequency=0 --out run");
    if ran.code == Some(2) {
        // No frequency at all may be refused; one that holds rewards up to 3 must do.
        place.train("--agents spectral --frames 8000 --set max_frequency=1 --out run").code(0);
    }
    let path = place.path("run/agents/spectral-s1/metrics.csv");
    let text = std::fs::read_to_string(path).unwrap();
    let column = text.lines().next().unwrap().split(',').position(|name| name == "saturated").unwrap();
    let last: u64 = text.lines().last().unwrap().split(',').nth(column).unwrap().parse().unwrap();
    assert!(last > 0, "{text}");
    place.run("resume run").says(&["beyond the codec's capacity"]);
}
