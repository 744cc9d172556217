//! Shrinking equals OpenCV's `INTER_AREA` in every byte.

use proptest::prelude::*;
use spectral_atari::preprocess::{Area, Pooler, SIDE, WIDTH};
use std::io::Write;
use std::process::{Command, Stdio};

/// OpenCV's arithmetic, written out plainly: tables of single-precision weights, each source row shrunk across, the rows
/// then added with their weights, and the sum rounded, halves to even.
fn plain(source: &[u8], height: usize) -> Vec<u8> {
    fn table(source: usize) -> Vec<(usize, usize, f32)> {
        let scale = source as f64 / SIDE as f64;
        let mut all = Vec::new();
        for result in 0..SIDE {
            let begin = result as f64 * scale;
            let end = begin + scale;
            let cell = scale.min(source as f64 - begin);
            let last = (end.floor() as usize).min(source - 1);
            let first = (begin.ceil() as usize).min(last);
            if first as f64 - begin > 1e-3 {
                all.push((result, first - 1, ((first as f64 - begin) / cell) as f32));
            }
            all.extend((first..last).map(|pixel| (result, pixel, (1.0 / cell) as f32)));
            if end - last as f64 > 1e-3 {
                all.push((result, last, ((end - last as f64).min(1.0).min(cell) / cell) as f32));
            }
        }
        all
    }
    let (columns, rows) = (table(WIDTH), table(height));
    let mut sums = vec![0.0f32; SIDE * SIDE];
    for &(y, row, weight) in &rows {
        let mut across = [0.0f32; SIDE];
        for &(x, column, weight) in &columns {
            across[x] += f32::from(source[row * WIDTH + column]) * weight;
        }
        for x in 0..SIDE {
            sums[y * SIDE + x] += weight * across[x];
        }
    }
    sums.iter().map(|sum| sum.round_ties_even() as u8).collect()
}

/// A picture with flat areas, stripes, blocks and noise, in a proportion that the seed chooses.
fn picture(height: usize, seed: u32) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state >> 24
    };
    let mut pixels = vec![next() as u8; height * WIDTH];
    if seed.is_multiple_of(3) {
        pixels.fill_with(|| next() as u8);
        return pixels;
    }
    for _ in 0..40 {
        let (top, left) = (next() as usize % height, next() as usize % WIDTH);
        let (tall, wide, value) = (1 + next() as usize % 40, 1 + next() as usize % 32, next() as u8);
        for row in top..(top + tall).min(height) {
            pixels[row * WIDTH + left..row * WIDTH + (left + wide).min(WIDTH)].fill(value);
        }
    }
    pixels
}

fn shrunk(source: &[u8], height: usize) -> Vec<u8> {
    let mut out = vec![0; SIDE * SIDE];
    Area::new(height).shrink(source, &mut out);
    out
}

/// FNV-1a, 64 bits.
fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn integers_give_what_single_precision_gives(
        height in prop::sample::select(vec![210_usize, 250, 214, 220, 230, 85, 168, 256]),
        seed in any::<u32>(),
    ) {
        let source = picture(height, seed);
        prop_assert_eq!(shrunk(&source, height), plain(&source, height));
    }

    /// Two grey levels whose mean is often a half: every doubtful pixel at once.
    #[test]
    fn halves_are_rounded_as_single_precision_rounds_them(low in 0..255_u8, seed in any::<u32>()) {
        for height in [210, 250] {
            let source: Vec<u8> = picture(height, seed | 1).iter().map(|&value| low + (value & 1)).collect();
            prop_assert_eq!(shrunk(&source, height), plain(&source, height));
        }
    }
}

/// Hashes of what OpenCV 5.0.0 makes of some of the pictures that `equal_to_opencv` compares.
#[test]
fn known_results() {
    let known = [
        (210, 0, 0xc86c_43d3_4b51_4eb8),
        (210, 1, 0x1a5c_3a73_6213_cf51),
        (210, 2, 0x93c0_f99f_29c4_2a12),
        (250, 0, 0xb4ca_c0af_3b8e_839f),
        (250, 1, 0x27cf_cd0e_d191_aba4),
        (250, 2, 0x8e45_b97b_0499_21b3),
    ];
    for (height, seed, expected) in known {
        let found = hash(&shrunk(&picture(height, seed), height));
        assert_eq!(found, expected, "{height} lines, seed {seed}: {found:#018x}");
    }
}

#[test]
fn the_brighter_of_two_frames_is_seen() {
    let grey: [u8; 256] = std::array::from_fn(|colour| (colour as u8).wrapping_mul(77).wrapping_add(13));
    let (first, second) = (picture(210, 1), picture(210, 2));
    let brighter: Vec<u8> =
        first.iter().zip(&second).map(|(&a, &b)| grey[usize::from(a)].max(grey[usize::from(b)])).collect();
    let mut out = vec![0; SIDE * SIDE];
    Pooler::new(210, grey).pool(&first, &second, &mut out);
    assert_eq!(out, plain(&brighter, 210));
    let alone: Vec<u8> = first.iter().map(|&a| grey[usize::from(a)]).collect();
    Pooler::new(210, grey).single(&first, &mut out);
    assert_eq!(out, plain(&alone, 210));
}

/// Random pictures of every height that a game has, and screens of real games, by OpenCV itself.
#[test]
fn equal_to_opencv() {
    if std::env::var("SPECTRAL_ORACLES").map_or(true, |value| value != "1") {
        let why = "SKIPPED: comparison of shrunk pictures with OpenCV; set SPECTRAL_ORACLES=1 to run it";
        let _ = writeln!(std::io::stderr(), "{why}");
        return;
    }
    let python = std::env::var("SPECTRAL_PYTHON").unwrap_or_else(|_| "python3".into());
    let mut child = Command::new(&python)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/preprocess_oracle.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("{python}: {error}"));
    let mut pictures = Vec::new();
    for height in [210, 250, 214, 220, 230] {
        pictures.extend((0..60).map(|seed| (height, picture(height, seed))));
    }
    let mut stdin = child.stdin.take().unwrap();
    let sent = pictures.clone();
    let writer = std::thread::spawn(move || {
        for (height, pixels) in sent {
            stdin.write_all(&(height as u32).to_le_bytes()).unwrap();
            stdin.write_all(&pixels).unwrap();
        }
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(output.status.success(), "{python} failed");
    let mut results = &output.stdout[..];
    let mut take = |len: usize| {
        let (taken, rest) = results.split_at(len);
        results = rest;
        taken
    };
    for (height, pixels) in &pictures {
        assert!(take(SIDE * SIDE) == shrunk(pixels, *height), "{height} lines");
    }
    // Screens of games: two pictures of palette indices, the grey of each index, and the pooled result.
    let screens = u32::from_le_bytes(take(4).try_into().unwrap());
    assert!(screens >= 20);
    for _ in 0..screens {
        let height = u32::from_le_bytes(take(4).try_into().unwrap()) as usize;
        let (first, second) = (take(height * WIDTH).to_vec(), take(height * WIDTH).to_vec());
        let grey: [u8; 256] = take(256).try_into().unwrap();
        let mut out = vec![0; SIDE * SIDE];
        Pooler::new(height, grey).pool(&first, &second, &mut out);
        assert!(take(SIDE * SIDE) == out, "a screen of {height} lines");
    }
}
