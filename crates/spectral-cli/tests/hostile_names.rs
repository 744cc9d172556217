//! Names that a shell or a terminal would take for something else: the commands that messages tell are the right ones.

#![cfg(unix)]

mod common;

use common::*;
use std::process::Command;

/// Names of folders that a shell takes apart, or that the command would take for options.
const NAMES: [&str; 4] = ["a run", "it's $HOME", "-x", "--all; ls *"];

/// The command with these arguments, each a word.
fn words(place: &Place, words: &[&str]) -> Ran {
    Ran::of(place.command("").args(words).output().unwrap())
}

/// `train` with small settings, as words.
fn train_words(agents: &str, more: &[&str]) -> Vec<String> {
    let train = train(&format!("--agents {agents} --frames 600"));
    train.split_whitespace().chain(more.iter().copied()).map(String::from).collect()
}

/// What a shell makes of every command that a text tells to type, each with its exit code.
fn typed(place: &Place, text: &str) -> Vec<(String, Ran)> {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_spectral"));
    let path = std::env::join_paths(
        std::iter::once(program.parent().unwrap().to_path_buf())
            .chain(std::env::split_paths(&std::env::var_os("PATH").unwrap())),
    );
    let path = path.unwrap();
    let commands = text.split('`').skip(1).step_by(2).filter(|command| command.starts_with("spectral "));
    let run = |command: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).env("PATH", &path).current_dir(place.0.path());
        (command.to_string(), Ran::of(shell.output().unwrap()))
    };
    commands.map(run).collect()
}

#[track_caller]
fn all_end_well(place: &Place, said: &str, at_least: usize) {
    let ran = typed(place, said);
    assert!(ran.len() >= at_least, "{said}");
    for (command, ran) in ran {
        assert_eq!(ran.code, Some(0), "{command}: {ran:#?}");
    }
}

#[test]
fn commands_in_messages_can_be_typed_whatever_folders_are_called() {
    for name in NAMES {
        let place = Place::new();
        let out = format!("--out={name}");
        let arguments = train_words("spectral", &[&out]);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let trained = words(&place, &arguments).code(0);
        all_end_well(&place, &trained.err, 1);
        assert!(place.path(name).join("report/report.html").is_file(), "{name}");
        let status = words(&place, &["status", "--", name]).code(0);
        all_end_well(&place, &status.err, 1);
        let again = words(&place, &arguments).code(2);
        all_end_well(&place, &again.err, 1);

        // What the run records as its command makes the same run.
        let record = std::fs::read_to_string(place.path(name).join("run.toml")).unwrap();
        let record: toml::Table = record.parse().unwrap();
        std::fs::rename(place.path(name), place.path("first")).unwrap();
        all_end_well(&place, &format!("`{}`", record["command"].as_str().unwrap()), 1);
        assert_same(&results(&place.path(name)), &results(&place.path("first")));

        // Without a checkpoint and a state it has neither ended nor a model: three commands send to `resume`.
        let run = place.path(name);
        std::fs::remove_dir_all(run.join("checkpoints")).unwrap();
        std::fs::remove_file(run.join("state.toml")).unwrap();
        std::fs::remove_file(run.join("agents/spectral-s1/model.safetensors")).unwrap();
        let eval = words(&place, &["eval", "--", name]).code(2);
        all_end_well(&place, &eval.err, 1);
    }
}

#[test]
fn commands_about_plans_of_a_cluster_can_be_typed_too() {
    let place = Place::new();
    let out = "it's a plan";
    let plan = |agents: &str| {
        let all = train_words(agents, &["--on", "slurm", "--no-submit", "--time", "60", "--out", out]);
        words(&place, &all.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let look = |text: &str| {
        let (command, ran) =
            typed(&place, text).into_iter().find(|(command, _)| !command.contains("--retry")).unwrap();
        assert_eq!(ran.code, Some(0), "{command}: {ran:#?}");
    };
    look(&plan("spectral").code(0).err);
    look(&plan("spectral,clipped").code(2).says(&["is in a plan that is not finished"]).err);
}

/// Fails if a text would do something to a terminal, or has a line of its own that somebody else put there.
#[track_caller]
fn is_harmless(ran: &Ran) {
    for said in [&ran.out, &ran.err] {
        assert!(!said.contains(|c: char| c.is_control() && c != '\n'), "{said:?}");
        assert!(!said.contains('\u{202e}'), "{said:?}");
        assert!(!said.lines().any(|line| line.starts_with("forged")), "{said}");
    }
}

#[test]
fn names_and_messages_in_files_do_nothing_to_a_terminal() {
    const HOSTILE: &str = r"a\u001b[2J\u009b31m\u202e\u0007\nforged\r: all is well";
    let hostile = "a\u{1b}[2J\u{9b}31m\u{202e}\u{7}\nforged\r: all is well";
    let place = Place::new();
    place.train("--agents popart --frames 600 --out whole").code(0);
    let record = std::fs::read_to_string(place.path("whole/run.toml")).unwrap();
    let state = std::fs::read_to_string(place.path("whole/state.toml")).unwrap();
    let spoil = |run: &str, record: &str, state: &str| {
        let folder = place.path(run);
        std::fs::create_dir_all(folder.join("agents")).unwrap();
        std::fs::write(folder.join("run.toml"), unsealed(record)).unwrap();
        std::fs::write(folder.join("state.toml"), unsealed(state)).unwrap();
    };
    let task = record.replace("task = \"exponential-pong-mini\"", &format!("task = \"{HOSTILE}\""));
    let agent = record.replace("agent = \"popart\"", &format!("agent = \"{HOSTILE}\""));
    let id = record.replace("\"popart-s1\"", &format!("\"{HOSTILE}\""));
    let key = format!("{record}\n[\"{HOSTILE}\"]\nx = 1\n");
    let broken = format!("{record}\n{hostile} = [\n");
    let why = state.replace(
        "status = \"finished\"\nreason = \"\"",
        &format!("status = \"stopped\"\nreason = \"{HOSTILE}\""),
    );
    assert!(task != record && agent != record && id != record && why != state);
    for (record, state) in
        [(&task, &state), (&agent, &state), (&id, &state), (&key, &state), (&broken, &state), (&record, &why)]
    {
        spoil("spoiled", record, state);
        // The same below a folder whose name is as bad.
        spoil(&format!("runs/{hostile}"), record, state);
        for command in ["status", "status --json", "report", "eval", "resume", "play --out f.gif --run"] {
            is_harmless(&place.run(&format!("{command} spoiled")));
            is_harmless(&place.run(&format!("{command} runs")));
        }
        is_harmless(&place.run("status spoiled whole"));
        std::fs::remove_dir_all(place.path("spoiled")).unwrap();
        std::fs::remove_dir_all(place.path("runs")).unwrap();
    }
    // Nothing is lost for programs.
    spoil("spoiled", &task, &why);
    let told = place.run("status spoiled --json").code(0).json();
    assert_eq!(told[0]["task"], hostile);
    assert_eq!(told[0]["agents"][0]["stopped"], hostile);
}

#[test]
fn a_description_that_is_no_plain_file_is_refused_by_all_commands_alike() {
    use std::os::unix::fs::symlink;
    let place = Place::new();
    place.train("--agents spectral --frames 600 --out whole").code(0);
    std::fs::rename(place.path("whole"), place.path("run")).unwrap();
    let file = place.path("run/run.toml");
    std::fs::rename(&file, place.path("kept.toml")).unwrap();
    let pipe = || assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    let kinds: [(&str, &dyn Fn()); 5] = [
        ("it is a link, which is not followed", &|| symlink(place.path("kept.toml"), &file).unwrap()),
        ("it is a link, which is not followed", &|| symlink("/dev/zero", &file).unwrap()),
        ("it is a link, which is not followed", &|| symlink("nowhere", &file).unwrap()),
        ("it is a named pipe, not a plain file", &pipe),
        ("it is a folder, not a plain file", &|| std::fs::create_dir(&file).unwrap()),
    ];
    for (what, make) in kinds {
        make();
        let before = place.path("run/state.toml").metadata().unwrap().modified().unwrap();
        for command in [
            "status run",
            "status .",
            "report run",
            "report .",
            "eval run",
            "resume run",
            "play --run run --out f.gif",
            "watch run",
        ] {
            let ran = place.run(command);
            assert_eq!(ran.code, Some(3), "{command}, {what}: {ran:#?}");
            assert!(
                ran.err.contains("run/run.toml") && ran.err.contains(what),
                "{command}, {what}: {ran:#?}"
            );
        }
        assert_eq!(place.path("run/state.toml").metadata().unwrap().modified().unwrap(), before);
        assert!(!place.path("f.gif").exists() && !place.path("run/report").exists());
        if std::fs::remove_file(&file).is_err() {
            std::fs::remove_dir(&file).unwrap();
        }
    }
    // A folder that is a link is the user's own way to it.
    std::fs::rename(place.path("kept.toml"), &file).unwrap();
    symlink("run", place.path("way")).unwrap();
    place.run("status way").code(0);
    place.run("report way").code(0);
}
