//! `attack`: changes the inputs of the corpus at random and calls the targets with them, on any toolchain.

use spectral_attacks::attack::{Limits, attack, repeat};
use spectral_attacks::guard::Noting;
use spectral_attacks::{TARGETS, Target, corpus, target};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[global_allocator]
static NOTING: Noting = Noting;

const HELP: &str = "\
usage: attack [TARGET…] [--executions N] [--minutes M] [--seed S] [--keep FOLDER]
       attack corpus                     makes fuzz/corpus anew
       attack TARGET --input FILE        one execution, as to look for the cause

Without a target all are attacked, one after the other; limits are each target's.
";

struct Wish {
    targets: Vec<&'static Target>,
    limits: Limits,
    seed: u64,
    keep: PathBuf,
    input: Option<PathBuf>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let done = match words.first().map(String::as_str) {
        Some("--help" | "-h") => {
            print!("{HELP}");
            for target in TARGETS {
                println!("  {:<12}{}", target.name, target.about);
            }
            return ExitCode::SUCCESS;
        }
        Some("corpus") => corpus::write(&corpus::folder()).map_err(|e| e.to_string()),
        _ => parse(&words).and_then(|wish| carry_out(&wish)),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("attack: {why}");
            ExitCode::FAILURE
        }
    }
}

fn parse(words: &[String]) -> Result<Wish, String> {
    let limits = Limits { executions: u64::MAX, time: None };
    let keep = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/artifacts");
    let mut wish = Wish { targets: Vec::new(), limits, seed: 1, keep, input: None };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value"));
        let number =
            |text: &String| text.parse::<u64>().map_err(|_| format!("{word}: {text} is no whole number"));
        match word.as_str() {
            "--executions" => wish.limits.executions = number(value()?)?,
            "--minutes" => wish.limits.time = Some(Duration::from_secs(60 * number(value()?)?)),
            "--seed" => wish.seed = number(value()?)?,
            "--keep" => wish.keep = value()?.into(),
            "--input" => wish.input = Some(value()?.into()),
            name => wish
                .targets
                .push(target(name).ok_or_else(|| format!("no target is called '{name}'; see --help"))?),
        }
    }
    if wish.targets.is_empty() {
        wish.targets = TARGETS.iter().collect();
    }
    Ok(wish)
}

fn carry_out(wish: &Wish) -> Result<(), String> {
    for target in &wish.targets {
        if let Some(input) = &wish.input {
            repeat(target, input).map_err(|e| format!("{}: {e}", input.display()))?;
            continue;
        }
        let limits = match wish.limits {
            Limits { executions: u64::MAX, time: None } => Limits { executions: target.rounds, time: None },
            limits => limits,
        };
        let outcome =
            attack(target, &corpus::folder(), wish.seed, limits, &wish.keep).map_err(|e| e.to_string())?;
        match outcome {
            Ok(survived) => println!(
                "{:<12}{:>12} executions, seed {}, {:>7.1} s, largest allocation {} KiB",
                target.name,
                survived.executions,
                wish.seed,
                survived.time.as_secs_f64(),
                survived.largest / 1024
            ),
            Err(found) => return Err(format!("{}; the input is {}", found.what, found.input.display())),
        }
    }
    Ok(())
}
