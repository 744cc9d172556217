//! Inputs to begin with: small, sound, and made here rather than collected.

use crate::{Target, fixture, targets};
use miniz_oxide::deflate::compress_to_vec;
use spectral_train::presets::{FIGURES, PROTOCOLS};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// Where the corpus is kept: `fuzz/corpus`, a folder for each target.
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus")
}

/// The inputs of a target, in the order of their names.
pub fn read(folder: &Path, target: &Target) -> io::Result<Vec<Vec<u8>>> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder.join(target.name))?
        .map(|entry| entry.map(|e| e.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    paths.iter().map(fs::read).collect()
}

/// The corpus of every target: by name, the name of each input and its bytes. The same on every machine but for `checkpoint`'s
/// runs, of which it holds no numbers.
pub fn make() -> BTreeMap<&'static str, Vec<(&'static str, Vec<u8>)>> {
    BTreeMap::from([
        ("container", containers()),
        ("checkpoint", changes()),
        ("settings", settings()),
        ("tables", tables()),
        ("tensors", tensors()),
        ("zip", archives()),
        ("engines", programs()),
        ("http", requests()),
    ])
}

type Inputs = Vec<(&'static str, Vec<u8>)>;

fn containers() -> Inputs {
    let noise: Vec<u8> = (0..200u32).map(|i| (i * i / 3) as u8).collect();
    let manifest = fixture::with_all(|runs| {
        runs[0]
            .containers
            .iter()
            .flat_map(|(_, parts)| parts)
            .find(|(name, _)| name.starts_with("segments/"))
            .cloned()
    });
    let parts = |parts: &[(&str, &[u8])]| {
        let owned: Vec<_> = parts.iter().map(|(name, bytes)| (name.to_string(), bytes.to_vec())).collect();
        fixture::container(&owned)
    };
    vec![
        ("empty", parts(&[])),
        ("plain", parts(&[("noise", &noise), ("nothing", &[])])),
        ("packed", parts(&[("zeros", &[0; 5000]), ("noise", &noise)])),
        ("manifest", fixture::container(&manifest.into_iter().collect::<Vec<_>>())),
    ]
}

/// For every run, a few places in its parts, which are named here so that no change lands in another part than was meant.
fn changes() -> Inputs {
    // A change's kind, its place in the part, counted from the end if it is negative, and its value.
    let of = |run: usize, name: &str, list: &[(u8, i32, u8)]| {
        fixture::with_all(|runs| {
            let mut parts = runs[run].containers.iter().enumerate().flat_map(|(container, (_, parts))| {
                parts.iter().enumerate().map(move |(part, (name, bytes))| (container, part, name, bytes))
            });
            let (container, part, _, bytes) =
                parts.find(|(_, _, found, _)| found.starts_with(name)).expect("a part of this name");
            let mut input = vec![run as u8, container as u8, part as u8];
            for &(what, at, value) in list {
                let at = if at < 0 { bytes.len() as i32 + at } else { at };
                let [low, high] = u16::try_from(at).expect("a place within reach").to_le_bytes();
                input.extend([what, low, high, value]);
            }
            input
        })
    };
    vec![
        ("nothing", of(0, "manifest", &[])),
        // Behind the number of counters, the first of them.
        ("steps", of(0, "agent/", &[(3, 8, 1)])),
        ("statistics", of(1, "agent/", &[(3, 200, 5)])),
        ("priorities", of(2, "agent/", &[(4, 512, 2)])),
        ("masks", of(3, "records", &[(0, 100, 255)])),
        // The last actions stand before the length of a piece and the sum of the only one.
        ("recipe", of(4, "recipe", &[(2, -20, 1)])),
        ("recipe-step", of(4, "recipe", &[(0, 0, 9)])),
        ("recipe-task", of(4, "recipe", &[(0, 30, 255)])),
        ("range", of(4, "range", &[(0, 8, 7)])),
        ("segments", of(0, "segments/", &[(3, 12, 1)])),
        ("light", of(5, "agent/", &[(5, 100, 0)])),
        ("mean", of(1, "average/", &[(4, 8, 1)])),
    ]
}

/// The text of `run.toml` without what differs from machine to machine.
fn run_file() -> String {
    let text = fixture::with_all(|runs| runs[0].text("run.toml"));
    let fixed = |line: &str| match line.split(" = ").next() {
        Some("created") => "created = \"2026-01-01T00:00:00Z\"".to_owned(),
        Some("cpu") => "cpu = \"a processor\"".to_owned(),
        Some("cores") => "cores = 2".to_owned(),
        _ => line.to_owned(),
    };
    text.lines().map(|line| fixed(line) + "\n").collect()
}

fn settings() -> Inputs {
    let of = |kind: u8, text: &str| [&[kind], text.as_bytes()].concat();
    let preset = |list: &[spectral_train::presets::Preset], name: &str| {
        list.iter().find(|preset| preset.name == name).expect("a preset").text
    };
    vec![
        ("run", of(0, &run_file())),
        ("protocol", of(1, preset(PROTOCOLS, "quick"))),
        (
            "user",
            of(
                1,
                "task = \"2048\"\nagents = [\"spectral\", \"popart\"]\nseeds = \"1..3\"\n[agent.popart]\nlearning_rate = 1e-4\n",
            ),
        ),
        ("experiment", of(2, preset(FIGURES, "mini-2048"))),
        ("computed", of(2, preset(FIGURES, "mini-encoding"))),
    ]
}

fn tables() -> Inputs {
    let of = |kind: u8, text: &str| [&[kind], text.as_bytes()].concat();
    let (episodes, metrics) =
        fixture::with_all(|runs| (runs[0].text("episodes.csv"), runs[0].text("metrics.csv")));
    let head = |text: &str| text.lines().take(6).map(|line| format!("{line}\n")).collect::<String>();
    vec![
        ("episodes", of(0, &head(&episodes))),
        ("metrics", of(1, &head(&metrics))),
        ("evaluations", of(2, targets::EVALUATIONS)),
        ("run", of(3, &run_file())),
        (
            "state",
            of(
                4,
                "status = \"finished\"\nseconds = 1.5\n\n[[agents]]\nid = \"spectral-s1\"\nframes = 400\nstatus = \"finished\"\nreason = \"\"\n",
            ),
        ),
    ]
}

fn tensors() -> Inputs {
    let bytes = |name: &str| {
        fixture::with_all(|runs| {
            let files = runs.iter().flat_map(|run| &run.files);
            files
                .filter(|(path, _)| path.ends_with(name))
                .map(|(_, bytes)| bytes.clone())
                .next()
                .expect("a model")
        })
    };
    let model = bytes("spectral-s1/model.safetensors");
    let plain = br#"{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    let small = [&(plain.len() as u64).to_le_bytes()[..], plain, &[0; 8]].concat();
    vec![("unsummed", without_sum(&model)), ("model", model), ("small", small)]
}

/// A model as programs leave it that edit models: without its checksum. With it, what is changed is refused for that alone.
fn without_sum(model: &[u8]) -> Vec<u8> {
    let (len, rest) = model.split_first_chunk::<8>().expect("a length");
    let (head, data) = rest.split_at(u64::from_le_bytes(*len) as usize);
    let head = std::str::from_utf8(head).expect("a head of text");
    let (before, sum) = head.split_once(",\"crc32\":\"").expect("a checksum");
    let (_, after) = sum.split_once('"').expect("the end of a checksum");
    // Readers want numbers to lie at multiples of their size.
    let mut head = format!("{before}{}", after.trim_end());
    head += &" ".repeat(head.len().next_multiple_of(8) - head.len());
    [&(head.len() as u64).to_le_bytes()[..], head.as_bytes(), data].concat()
}

fn archives() -> Inputs {
    let long: Vec<u8> = (0..4096u32).map(|i| (i >> 4) as u8).collect();
    vec![
        ("empty", archive(&[])),
        ("stored", archive(&[("a.bin", &long[..300], false), ("b", b"x", false)])),
        ("packed", archive(&[("a.bin", &long, true), ("folder/b.bin", &long[..2048], true)])),
    ]
}

/// A zip archive of these files, packed or not.
fn archive(files: &[(&str, &[u8], bool)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, bytes, packed) in files {
        let body = if *packed { compress_to_vec(bytes, 6) } else { bytes.to_vec() };
        let mut fields = vec![20, 0, 0, 0, if *packed { 8 } else { 0 }, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        for length in [body.len(), bytes.len()].map(|n| n as u32) {
            fields.extend(length.to_le_bytes());
        }
        // The length of the name, and no extra field.
        fields.extend((name.len() as u32).to_le_bytes());
        let local = (out.len() as u32).to_le_bytes();
        directory.extend([b"PK\x01\x02\x14\x00", &fields[..], &[0; 10], &local, name.as_bytes()].concat());
        out.extend([b"PK\x03\x04", &fields[..], name.as_bytes(), &body].concat());
    }
    let count = (files.len() as u16).to_le_bytes();
    let [size, start] = [directory.len(), out.len()].map(|n| (n as u32).to_le_bytes());
    [&out[..], &directory, b"PK\x05\x06\0\0\0\0", &count, &count, &size, &start, &[0, 0]].concat()
}

fn programs() -> Inputs {
    let of = |scheme: u8, sticks: u8, code: &[u8]| [&[scheme, 1, sticks, 128], code].concat();
    // Colours for every line of a picture, with the timer for the blank ones.
    let picture: &[u8] = &[
        0xA9, 0x02, 0x85, 0x00, 0x85, 0x02, 0x85, 0x02, 0x85, 0x02, 0xA9, 0x00, 0x85, 0x00, 0xA9, 0x2B, 0x8D,
        0x96, 0x02, 0xAD, 0x84, 0x02, 0xD0, 0xFB, 0x85, 0x01, 0xA2, 0xC0, 0x85, 0x02, 0x86, 0x09, 0x86, 0x0D,
        0x86, 0x1B, 0xCA, 0xD0, 0xF5, 0xA9, 0x02, 0x85, 0x01, 0x4C, 0x00, 0xF0,
    ];
    let stack: &[u8] = &[
        0xA2, 0xFF, 0x9A, 0xD8, 0x20, 0x10, 0xF0, 0xE6, 0x80, 0x08, 0x68, 0x48, 0x28, 0x4C, 0x00, 0xF0, 0xF8,
        0x69, 0x19, 0xD8, 0x60,
    ];
    let banks: &[u8] = &[
        0xAD, 0xF8, 0xFF, 0xA5, 0x80, 0x85, 0x02, 0xAD, 0xF9, 0xFF, 0xE6, 0x81, 0x85, 0x1B, 0x4C, 0x00, 0xF0,
    ];
    vec![
        ("picture", of(1, 0, picture)),
        ("paddles", of(1, 8, &[picture, &[0xA5, 0x38, 0x85, 0x80]].concat())),
        ("stack", of(0, 1, stack)),
        ("banks", of(2, 2, banks)),
        ("extra-memory", of(3, 4, banks)),
        ("slices", of(8, 0, banks)),
        ("calls", of(9, 0, stack)),
        // A store of Commavid's cartridges, in a program that is shorter than any of them.
        ("short", of(0, 0, &[0x9D, 0xFF, 0xF3])),
    ]
}

fn requests() -> Inputs {
    vec![
        ("get", b"GET /events?agent=a%20b&x=1 HTTP/1.1\r\nHost: 127.0.0.1:80\r\nAuthorization: Bearer x\r\n\r\n".to_vec()),
        (
            "post",
            b"POST /control HTTP/1.1\r\nHost: [::1]:80\r\nOrigin: http://[::1]:80\r\nContent-Length: 2\r\n\r\n{}".to_vec(),
        ),
        ("other", b"OPTIONS * HTTP/1.0\r\nHost: a\r\nExpect: 100-continue\r\n\r\n".to_vec()),
    ]
}

/// Writes the corpus into a folder, in place of what is there.
pub fn write(folder: &Path) -> io::Result<()> {
    for (target, inputs) in make() {
        assert!(
            targets::TARGETS.iter().any(|known| known.name == target),
            "a corpus of an unknown target: {target}"
        );
        let folder = folder.join(target);
        if folder.is_dir() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        for (name, bytes) in inputs {
            fs::write(folder.join(name), bytes)?;
        }
    }
    Ok(())
}
