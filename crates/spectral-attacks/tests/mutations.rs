//! Every target survives its corpus and some thousand changed inputs, always the same ones. `attack` and libFuzzer go on
//! from here for as long as one likes.

use spectral_attacks::attack::{Limits, attack};
use spectral_attacks::guard::Noting;
use spectral_attacks::{TARGETS, corpus, target};
use std::path::Path;

#[global_allocator]
static NOTING: Noting = Noting;

/// One after the other, in one test: memory is noted for the whole process.
#[test]
fn targets_survive_their_corpus_and_changed_inputs() {
    what_is_not_survived_is_found_and_kept();
    for target in TARGETS {
        let limits = Limits { executions: target.rounds, time: None };
        let keep = Path::new(env!("CARGO_TARGET_TMPDIR")).join("not-survived");
        match attack(target, &corpus::folder(), 20, limits, &keep).expect("a corpus") {
            Ok(survived) => {
                println!("{}: {} executions in {:.1?}", target.name, survived.executions, survived.time);
                assert_eq!(survived.executions, target.rounds);
                assert!(survived.largest > 0, "allocations are not noted");
            }
            Err(found) => panic!("{}; the input is {}", found.what, found.input.display()),
        }
    }
}

#[test]
fn the_corpus_is_the_one_that_is_made_here_and_is_small() {
    let made = corpus::make();
    assert!(made.keys().all(|name| target(name).is_some()) && made.len() == TARGETS.len());
    for target in TARGETS {
        let kept = corpus::read(&corpus::folder(), target).expect("a corpus");
        let mut inputs = made[target.name].clone();
        inputs.sort();
        assert_eq!(kept.len(), inputs.len(), "{}", target.name);
        let size: usize = kept.iter().map(Vec::len).sum();
        assert!(size < 20_000, "{}: {size} bytes", target.name);
        // Others hold settings, which become more, and numbers of a trained network, which differ between processors.
        if matches!(target.name, "checkpoint" | "zip" | "engines" | "http") {
            assert!(
                kept.iter().eq(inputs.iter().map(|(_, bytes)| bytes)),
                "{}: run `attack corpus`",
                target.name
            );
        }
    }
}

/// The allocator and the keeper of inputs work: an attack on something that fails is noticed.
fn what_is_not_survived_is_found_and_kept() {
    use spectral_attacks::{LIMIT, Target};
    static PANICS: Target = Target {
        name: "http",
        about: "",
        run: |bytes| assert!(!bytes.contains(&0xff), "found"),
        words: &[b"\xff"],
        rounds: 0,
    };
    static EATS: Target = Target {
        name: "http",
        about: "",
        run: |bytes| {
            if bytes.contains(&0xfe) {
                std::hint::black_box(vec![1u8; LIMIT + 1]);
            }
        },
        words: &[b"\xfe"],
        rounds: 0,
    };
    let keep = Path::new(env!("CARGO_TARGET_TMPDIR")).join("found");
    for (target, word, byte) in [(&PANICS, "panicked", 0xff), (&EATS, "bytes at once", 0xfe)] {
        let limits = Limits { executions: 100_000, time: None };
        let found =
            attack(target, &corpus::folder(), 1, limits, &keep).expect("a corpus").expect_err("it fails");
        assert!(found.what.contains(word), "{}", found.what);
        assert!(std::fs::read(&found.input).expect("the input").contains(&byte));
    }
}
