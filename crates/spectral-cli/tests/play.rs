//! `spectral play`: films that decode to what was played, pictures in a terminal, and nothing written over.

mod common;

use common::*;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

/// Size, pictures and length in hundredths of a second of a GIF, each picture as a viewer would compose it.
fn decode(path: &Path) -> ((usize, usize), Vec<Vec<[u8; 3]>>, u64) {
    let mut reader = gif::DecodeOptions::new().read_info(File::open(path).unwrap()).unwrap();
    let (width, height) = (usize::from(reader.width()), usize::from(reader.height()));
    let mut canvas = vec![[0; 3]; width * height];
    let (mut pictures, mut time) = (Vec::new(), 0);
    while let Some(frame) = reader.read_next_frame().unwrap() {
        let palette = frame.palette.as_ref().expect("each picture brings its colours");
        for (n, &place) in frame.buffer.iter().enumerate() {
            let (x, y) = (n % usize::from(frame.width), n / usize::from(frame.width));
            let at = (y + usize::from(frame.top)) * width + x + usize::from(frame.left);
            canvas[at].copy_from_slice(&palette[usize::from(place) * 3..][..3]);
        }
        time += u64::from(frame.delay);
        pictures.push(canvas.clone());
    }
    ((width, height), pictures, time)
}

fn decode_png(path: &Path) -> ((usize, usize), Vec<[u8; 3]>) {
    let decoder = png::Decoder::new(std::io::BufReader::new(File::open(path).unwrap()));
    let mut reader = decoder.read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut bytes).unwrap();
    let pixels = bytes.chunks_exact(3).map(|pixel| pixel.try_into().unwrap()).collect();
    ((info.width as usize, info.height as usize), pixels)
}

/// Files in a folder, in order.
fn names(folder: &Path) -> BTreeSet<String> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

#[test]
fn gifs_hold_a_picture_for_the_start_and_for_every_step() {
    let place = Place::new();
    for (task, size) in [
        ("pong-mini", (168, 136)),
        ("ponglantis-mini", (168, 136)),
        ("reverse-ponglantis-mini", (168, 136)),
        ("2048", (180, 180)),
        ("catch-scale", (80, 160)),
        ("investor", (200, 72)),
    ] {
        let ran = place.run(&format!("play --task {task} --steps 40 --json --out {task}.gif")).code(0);
        let steps = ran.json()[0]["steps"].as_u64().unwrap();
        assert_eq!(steps, if task == "catch-scale" { 9 } else { 40 });
        let (found, pictures, time) = decode(&place.path(&format!("{task}.gif")));
        assert_eq!((found, pictures.len() as u64), (size, steps + 1), "{task}");
        assert_eq!(time, ((steps + 1) * 100 + 7) / 15, "{task} at 15 pictures a second");
        let different: BTreeSet<_> = pictures.iter().collect();
        assert!(different.len() > 8, "{task} moves");
        let colours: BTreeSet<_> = pictures[0].iter().collect();
        assert!(colours.len() > 2, "{task} is in colour");
    }
}

#[test]
fn folders_of_png_files_show_the_same_as_a_gif() {
    let place = Place::new();
    let play = "play --task 2048 --episodes 3 --steps 150 --seed 7";
    let ran = place.run(&format!("{play} --json --out new/frames")).code(0).says(&["--steps"]);
    let episodes = ran.json().as_array().unwrap().len() as u64;
    place.run(&format!("{play} --out film.gif")).code(0);
    let (size, pictures, _) = decode(&place.path("film.gif"));
    assert!(episodes >= 2, "the second episode was cut off: {}", ran.out);
    assert_eq!(pictures.len() as u64, 150 + episodes, "the limit is for all episodes together");
    let files = names(&place.path("new/frames"));
    assert_eq!(files.len(), pictures.len());
    for (file, picture) in files.iter().zip(&pictures) {
        assert_eq!(decode_png(&place.path("new/frames").join(file)), (size, picture.clone()), "{file}");
    }
    assert_eq!(names(&place.path("new")), BTreeSet::from(["frames".to_owned()]), "nothing is left beside it");
}

#[test]
fn seeds_decide_the_game() {
    let place = Place::new();
    let play = |seed: u64| place.run(&format!("play --task 2048 --json --seed {seed}")).code(0).out;
    assert_eq!(play(1), play(1));
    assert_ne!(play(1), play(2));
}

#[test]
fn terminals_show_half_blocks() {
    let place = Place::new();
    let output = place.command("play --task catch-scale --terminal --fps 50").output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    // 80 × 160 pixels in 80 × 24 characters, two of which are kept free: 22 × 44 pixels, ten times.
    assert_eq!(text.matches('▀').count(), 22 * 22 * 10);
    assert!(text.contains("\x1b[38;2;") && text.contains(";48;2;"), "24-bit colours");
    assert_eq!(text.matches("\x1b[23A\r").count(), 9, "redrawn in place");
    assert!(text.contains("\x1b[?25l") && text.contains("\x1b[?25h"), "the cursor comes back");
    assert!(text.contains("by the task"), "and the result follows");
    let quiet = place.run("play --task catch-scale").code(0);
    assert!(!quiet.out.contains('▀'), "not where nobody looks");
}

#[test]
#[cfg(unix)]
fn interrupted_films_hold_what_was_seen() {
    let place = Place::new();
    let child = place
        .start("play --task pong-mini --steps 1000000 --episodes 9999 --fps 20 --terminal --out film.gif");
    wait_until("the film to be begun", || names(place.0.path()).iter().any(|n| n.starts_with(".film.gif")));
    signal(&child, "INT");
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let (_, pictures, _) = decode(&place.path("film.gif"));
    assert!(!pictures.is_empty());
    assert_eq!(names(place.0.path()), BTreeSet::from(["film.gif".to_owned(), "rich.toml".to_owned()]));
}

#[test]
fn trained_agents_play() {
    let place = Place::new();
    place.train("--agents spectral,clipped --frames 1500 --out run").code(0);
    let ran = place.run("play --run run --agent spectral-s1 --steps 60 --json --out film.gif").code(0);
    assert_eq!(ran.json()[0]["steps"], 60);
    let (size, pictures, _) = decode(&place.path("film.gif"));
    assert_eq!((size, pictures.len()), ((168, 136), 61));
    // Acting at random is another game than acting as learned.
    let play = |more: &str| place.run(&format!("play --run run --steps 9999 --json {more}")).code(0).out;
    let learned = play("--agent clipped-s1 --epsilon 0");
    assert_eq!(learned, play("--agent clipped-s1 --epsilon 0"));
    assert_ne!(learned, play("--agent clipped-s1 --epsilon 1"));
    for (arguments, words) in [
        ("--run run", &["--agent", "`spectral-s1`", "`clipped-s1`"][..]),
        ("--run run --agent spectrl-s1", &["spectrl-s1", "did you mean `spectral-s1`"]),
        ("--run run --agent spectral-s1 --task pong-mini", &["--task", "--run"]),
    ] {
        place.run(&format!("play {arguments}")).code(2).says(words);
    }
    std::fs::remove_file(place.path("run/agents/spectral-s1/model.safetensors")).unwrap();
    place.run("play --run run --agent spectral-s1").code(2).says(&["no model", "spectral resume"]);
}

#[test]
fn evaluation_and_play_are_the_same_game() {
    let place = Place::new();
    place.train("--agents clipped --frames 1500 --out run").code(0);
    let eval = place.run("eval run --episodes 1 --json").code(0).json();
    let play = place.run("play --run run --steps 100000 --json").code(0).json();
    assert_eq!(eval[0]["mean_return"], play[0]["return"]);
    assert_eq!(eval[0]["mean_score"], play[0]["score"]);
}

#[test]
fn what_cannot_be_played_is_refused_and_nothing_is_touched() {
    let place = Place::new();
    std::fs::write(place.path("here.gif"), "mine").unwrap();
    std::fs::create_dir(place.path("folder")).unwrap();
    let before = names(place.0.path());
    for (arguments, code, words) in [
        ("", 2, &["--task", "--run"][..]),
        ("--task pong-mimi", 2, &["pong-mimi", "pong-mini"]),
        ("--task pong-mini --out here.gif", 2, &["here.gif", "exists already"]),
        ("--task pong-mini --out folder", 2, &["folder", "exists already"]),
        ("--task pong-mini --out film.mp4", 2, &["film.mp4", ".gif"]),
        ("--task pong-mini --out here.gif/x.gif", 3, &["cannot write"]),
        ("--task pong-mini --episodes 0", 2, &["--episodes"]),
        ("--task pong-mini --steps 0", 2, &["--steps"]),
        ("--task pong-mini --fps 0", 2, &["--fps", "50"]),
        ("--task pong-mini --fps 51", 2, &["--fps", "50"]),
        ("--task pong-mini --epsilon 2", 2, &["--epsilon"]),
        ("--task pong-mini --agent spectral-s1", 2, &["--run"]),
        ("--task pong-mini --set observatoin=planes", 2, &["observation"]),
        ("--run absent --out film.gif", 2, &["absent"]),
    ] {
        place.run(&format!("play {arguments}")).code(code).says(words);
        assert_eq!(names(place.0.path()), before, "{arguments}");
    }
    assert_eq!(std::fs::read(place.path("here.gif")).unwrap(), b"mine");
}
