//! Pages of runs that train and of runs that ended, over real sockets: everything there and moving, and nothing disturbed.

mod common;

use common::Address;
use serde_json::{Value, json};
use spectral_live::{LivePage, PlayOptions, live_file};
use spectral_train::config::Configuration;
use spectral_train::devices::DeviceChoice;
use spectral_train::registry::Registry;
use spectral_train::run_dir::RunDir;
use spectral_train::trainer::{Observer, Trainer};
use std::collections::HashSet;
use std::io::Write;
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

fn trainer(folder: &Path, settings: &[&str]) -> Trainer {
    let registry = Registry::default();
    let mut config = Configuration::default();
    for pair in settings.iter().chain(&["threads=2"]) {
        config.set(pair).unwrap();
    }
    Trainer::create(folder, registry.resolve(&config).unwrap(), &registry, "spectral train …").unwrap()
}

/// A page on a run in this folder, as `spectral watch` makes it.
fn watch(folder: &Path) -> (LivePage, Address) {
    let registry = Registry::default();
    let (dir, file) = RunDir::open(folder, &registry).unwrap();
    let run = registry.resolve_plan(file.plan.with(|run| run.device = DeviceChoice::Cpu)).unwrap();
    let options = PlayOptions { agent: 0, speed: 60.0, epsilon: 0.0, seed: 1 };
    let page = LivePage::of_run(&dir, &run, 0, options).unwrap();
    let address = Address::new(&page.url());
    (page, address)
}

/// Trains while somebody else does something with the page.
fn train_watched(mut trainer: Trainer, visit: impl FnOnce(Address) + Send) {
    let control = trainer.control();
    let page = LivePage::of_training(&mut trainer, 0).unwrap();
    let address = Address::new(&page.url());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            visit(address);
            control.cancel();
        });
        trainer.run_watched(&page as &dyn Observer).unwrap();
    });
}

fn finite(values: &Value) -> usize {
    values.as_array().unwrap().iter().filter(|value| value.as_f64().is_some_and(f64::is_finite)).count()
}

#[test]
fn a_run_at_work_shows_everything() {
    for device in ["cpu", "cpu-lockstep"] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let device = format!("device={device}");
        let settings = ["task=exponential-pong-mini", "agents=spectral,clipped", "frames=100000000", &device];
        let trainer = trainer(&path, &[&settings[..], &["log_frames=500", "checkpoint_seconds=1"]].concat());
        train_watched(trainer, |address| {
            let link = live_file(&path).expect("a file that leads to the page");
            assert!(std::fs::read_to_string(&link).unwrap().contains(&address.token));
            let run = address.json("GET", "/run", "");
            assert_eq!((&run["mode"], &run["rest_action"]), (&json!("training"), &json!(0)));
            assert_eq!(run["agents"][0]["outputs"]["kind"], "frequencies");
            assert_eq!(run["agents"][1]["outputs"]["kind"], "value");
            let (mut kinds, mut moved) = (HashSet::new(), HashSet::new());
            for (kind, data) in address.events("spectral-s1") {
                if kind == "progress" {
                    assert_eq!(data["status"], "running");
                    moved.insert(data["agents"][0]["frames"].as_u64().unwrap());
                    if data["rate"].is_number() && data["checkpoint_age"].is_number() {
                        kinds.insert("rate and checkpoint".into());
                    }
                } else if kind != "curves" || finite(&data["score"]) > 0 {
                    kinds.insert(kind);
                }
                if kinds.len() == 4 && moved.len() > 3 {
                    break;
                }
            }
            assert!(kinds.contains("td") && kinds.contains("frequencies"), "{kinds:?}");
            let (mut pictures, mut valued) = (HashSet::new(), 0);
            for message in address.pictures("spectral-s1") {
                let head = &message.head;
                let area = head["width"].as_u64().unwrap() * head["height"].as_u64().unwrap();
                let colours = head["colours"].as_u64().unwrap();
                assert_eq!(message.pixels.len() as u64, 3 * colours + area);
                assert_eq!(head["controls"], Value::Null);
                if !head["values"].is_null() {
                    assert_eq!(finite(&head["values"]), 3);
                    assert_eq!(finite(&head["outputs"][2]), 21);
                    valued += 1;
                }
                pictures.insert(message.pixels);
                if pictures.len() > 10 && valued > 5 {
                    break;
                }
            }
            assert_eq!(address.ask("POST", "/control", r#"{"paused": true}"#).0, 409);
            let (status, film) = address.ask("GET", "/film?agent=spectral-s1", "");
            assert!(status == 200 && film.starts_with(b"GIF89a"), "{status}");
            assert_eq!(address.ask("GET", "/film?agent=clipped-s1", "").0, 404, "nobody looked at that one");
        });
        assert!(live_file(&path).is_none(), "the file goes with the page");
    }
}

#[test]
fn readers_are_told_when_a_run_ends() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let mut trainer = trainer(&path, &["task=catch-scale", "agents=clipped", "frames=200000"]);
    let page = LivePage::of_training(&mut trainer, 0).unwrap();
    let address = Address::new(&page.url());
    std::thread::scope(|scope| {
        let pictures = address.pictures("clipped-s1");
        let reader = scope.spawn(|| address.events("clipped-s1").last().unwrap());
        trainer.run_watched(&page).unwrap();
        drop(page);
        let (kind, data) = reader.join().unwrap();
        assert_eq!(kind, "ended");
        assert!(data["text"].as_str().unwrap().contains("spectral watch"), "{data}");
        assert!(pictures.count() > 0, "the picture stream ends too");
    });
}

/// Ten pages that read all they can, and a crowd that wants nothing good, change no bit; what a page cannot read in time is lost.
#[test]
fn ten_pages_change_no_bit() {
    let folder = tempfile::tempdir().unwrap();
    let settings =
        ["task=pong-mini", "agents=spectral,categorical", "seeds=2", "frames=3000", "log_frames=100"];
    let alone = folder.path().join("alone");
    trainer(&alone, &settings).run().unwrap();
    let watched = folder.path().join("watched");
    let mut trainer = trainer(&watched, &settings);
    let page = LivePage::of_training(&mut trainer, 0).unwrap();
    let address = Address::new(&page.url());
    let (seen, ended) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for reader in 0..10 {
            let (address, seen) = (address.clone(), &seen);
            scope.spawn(move || {
                let agent = ["spectral-s1", "categorical-s2"][reader % 2];
                let events = std::thread::spawn({
                    let address = address.clone();
                    move || address.events(agent).count()
                });
                for message in address.pictures(agent) {
                    seen.fetch_add(usize::from(!message.pixels.is_empty()), Ordering::Relaxed);
                    if reader == 0 {
                        std::thread::sleep(Duration::from_millis(300));
                    }
                }
                events.join().unwrap();
            });
        }
        let (ended, port) = (&ended, address.port);
        scope.spawn(move || {
            let mut half_open = Vec::new();
            while !ended.load(Ordering::Relaxed) {
                for request in ["GET", "\0\0\0", "POST /control HTTP/1.1\r\nHost: evil.example\r\n\r\n"] {
                    if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) {
                        let _ = stream.write_all(request.as_bytes());
                        half_open.push(stream);
                    }
                }
                half_open.drain(..half_open.len().saturating_sub(100));
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        std::thread::sleep(Duration::from_millis(300));
        trainer.run_watched(&page).unwrap();
        ended.store(true, Ordering::Relaxed);
        drop(page);
    });
    assert!(seen.load(Ordering::Relaxed) > 10);
    for agent in ["spectral-s1", "spectral-s2", "categorical-s1", "categorical-s2"] {
        for name in ["episodes.csv", "metrics.csv", "model.safetensors"] {
            let read = |run: &Path| std::fs::read(run.join("agents").join(agent).join(name)).unwrap();
            assert!(read(&alone) == read(&watched), "{agent}/{name} differs");
        }
    }
}

#[test]
fn a_finished_model_plays_and_does_as_it_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let settings = [
        "task=pong-mini",
        "agents=spectral,categorical",
        "frames=2000",
        "log_frames=100",
        "learning_starts=500",
    ];
    trainer(&path, &settings).run().unwrap();
    let before: Vec<_> = std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name()).collect();
    let (page, address) = watch(&path);
    assert_eq!(address.json("GET", "/run", "")["mode"], "playing");
    let progress = address.events("spectral-s1").find(|(kind, _)| kind == "progress").unwrap().1;
    assert_eq!((&progress["status"], &progress["health"]["level"]), (&json!("finished"), &json!("well")));
    let mut pictures = address.pictures("spectral-s1");
    let first = pictures.next().unwrap();
    assert_eq!(first.head["weights_frame"], 2000);
    assert_eq!((finite(&first.head["values"]), first.head["chosen_by"].as_str()), (3, Some("agent")));

    address.json("POST", "/control", r#"{"paused": true}"#);
    let still = pictures.find(|message| message.head["controls"]["paused"] == true).unwrap();
    let frame = still.head["frame"].as_u64().unwrap();
    address.json("POST", "/control", r#"{"step": true}"#);
    let stepped = pictures.find(|message| message.head["frame"] != frame).unwrap();
    assert_eq!(stepped.head["frame"], frame + 1, "one step");

    address.json("POST", "/control", r#"{"paused": false, "human": true, "speed": 240, "restart": true}"#);
    address.json("POST", "/control", r#"{"action": 1}"#);
    let human = pictures.find(|m| m.head["chosen_by"] == "human" && m.head["action"] == 1).unwrap();
    assert_eq!(finite(&human.head["values"]), 3, "bars are shown while a person plays");
    address.json("POST", "/control", r#"{"action": null}"#);
    assert!(
        pictures.any(|m| m.head["chosen_by"] == "human" && m.head["action"] == 0),
        "nothing pressed: rest"
    );

    address.json("POST", "/control", r#"{"human": false, "agent": "categorical-s1", "epsilon": 1}"#);
    let other = pictures.find(|m| m.head["agent"] == 1 && m.head["chosen_by"] == "chance").unwrap();
    let sum: f64 = other.head["outputs"][0].as_array().unwrap().iter().filter_map(Value::as_f64).sum();
    assert!((sum - 1.0).abs() < 0.01, "{sum}");
    assert_eq!(address.ask("POST", "/control", r#"{"speed": 1e9}"#).0, 400);
    let (status, film) = address.ask("GET", "/film", "");
    assert!(
        status == 200 && film.starts_with(b"GIF89a"),
        "{status} {}",
        String::from_utf8_lossy(&film[..film.len().min(200)])
    );
    drop(page);
    let after: Vec<_> = std::fs::read_dir(&path).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(before, after, "watching leaves nothing behind");
}

/// Keys move the paddle: held up, it is at the top; held down, at the bottom.
#[test]
fn the_paddle_follows_the_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    trainer(&path, &["task=pong-mini", "agents=clipped", "frames=300"]).run().unwrap();
    let (_page, address) = watch(&path);
    let mut pictures = address.pictures("clipped-s1");
    let mut hold = |action: usize| {
        address.json("POST", "/control", r#"{"human": true, "restart": true, "speed": 240}"#);
        address.json("POST", "/control", &format!(r#"{{"action": {action}}}"#));
        let played = pictures.by_ref().filter(|m| m.head["action"] == action && m.head["over"] == false);
        let message = played.take(30).last().unwrap();
        paddle_row(&message)
    };
    let (up, down) = (hold(1), hold(2));
    assert!(up + 4 < down, "the paddle is at row {up} with up held, at row {down} with down held");
}

/// The middle row of the player's paddle: what is green in the picture's last column.
fn paddle_row(message: &common::Message) -> usize {
    let side = |name: &str| message.head[name].as_u64().unwrap() as usize;
    let (palette, pixels) = message.pixels.split_at(3 * side("colours"));
    let last_column = pixels.chunks_exact(side("width")).map(|row| usize::from(row[row.len() - 1]));
    let green = |place: &usize| palette[3 * place + 1] > 180 && palette[3 * place] < 160;
    let rows: Vec<usize> = last_column.enumerate().filter(|(_, p)| green(p)).map(|(row, _)| row).collect();
    rows.iter().sum::<usize>() / rows.len().max(1)
}

/// A game without an action that does nothing waits for its player.
#[test]
fn a_game_of_turns_waits_for_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    trainer(&path, &["task=2048", "agents=clipped", "frames=300"]).run().unwrap();
    let (_page, address) = watch(&path);
    assert_eq!(address.json("GET", "/run", "")["rest_action"], Value::Null);
    let mut pictures = address.pictures("clipped-s1");
    address.json("POST", "/control", r#"{"human": true, "restart": true}"#);
    let waiting = pictures.find(|m| m.head["chosen_by"] == "human").unwrap();
    let frame = waiting.head["frame"].as_u64().unwrap();
    std::thread::sleep(Duration::from_millis(400));
    let legal = waiting.head["legal"].as_array().unwrap()[0].as_u64().unwrap();
    address.json("POST", "/control", &format!(r#"{{"action": {legal}}}"#));
    address.json("POST", "/control", r#"{"action": null}"#);
    let next = pictures.find(|m| m.head["frame"] != frame).unwrap();
    assert_eq!(next.head["frame"], frame + 1, "one move for one key");
}

/// A run that another process trains: numbers from its files, and the model of its last checkpoint.
#[test]
fn a_run_of_another_process_is_played_from_its_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run");
    let settings = ["task=pong-mini", "agents=spectral", "frames=100000000", "checkpoint_seconds=1"];
    let mut trainer = trainer(&path, &settings);
    let control = trainer.control();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (_page, address) = watch(&path);
            address.json("POST", "/control", r#"{"speed": 240}"#);
            let mut pictures = address.pictures("spectral-s1");
            let first = pictures.find(|m| m.head["weights_frame"].is_number()).unwrap();
            assert_eq!(finite(&first.head["values"]), 3);
            let frames = first.head["weights_frame"].as_u64().unwrap();
            assert!(
                pictures.any(|m| m.head["weights_frame"].as_u64() > Some(frames)),
                "newer checkpoints come"
            );
            let status = |data: &Value| data["status"].as_str().unwrap().to_string();
            let running = |(kind, data): (String, Value)| kind == "progress" && status(&data) == "running";
            assert!(address.events("spectral-s1").any(running));
            control.cancel();
        });
        trainer.run().unwrap();
    });
    drop(trainer);
    let (_page, address) = watch(&path);
    let progress = address.events("spectral-s1").find(|(kind, _)| kind == "progress").unwrap().1;
    assert_eq!(progress["status"], "interrupted");
}
