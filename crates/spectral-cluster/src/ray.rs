//! Ray: a driver of a few lines in Python that runs a plan's jobs as tasks of a cluster.

use crate::environment::Environment;
use crate::plan::{JobPlan, Resources};
use spectral_train::error::TrainError;
use spectral_train::store::write_atomically;
use std::path::PathBuf;

const DRIVER: &str = include_str!("../assets/ray_driver.py");

/// Writes the driver into the plan's folder and returns its path. `program` are the words that run this program, and `environment` is
/// what its jobs are to find there.
pub fn write_driver(
    plan: &JobPlan,
    program: &[String],
    environment: &Environment,
) -> Result<PathBuf, TrainError> {
    let Resources { cpus, gpus, memory } = plan.resources;
    let words: Vec<String> = program.iter().map(|word| python(word)).collect();
    let pairs = environment.pairs().map(|(name, value)| format!("{}: {}", python(name), python(value)));
    let pairs = pairs.collect::<Vec<_>>().join(", ");
    let text = DRIVER
        .replace("\"{{program}}\"", &format!("[{}]", words.join(", ")))
        .replace("\"{{jobs}}\"", &plan.jobs.len().to_string())
        .replace("\"{{cpus}}\"", &cpus.to_string())
        .replace("\"{{gpus}}\"", &gpus.to_string())
        .replace("\"{{memory}}\"", &memory.to_string())
        .replace("\"{{environment}}\"", &format!("{{{pairs}}}"));
    let path = plan.folder().join("ray_driver.py");
    write_atomically(&path, |out| out.write_all(text.as_bytes()))?;
    Ok(path)
}

/// A text as Python reads it.
fn python(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_pythons() {
        assert_eq!(python("a\"b\\c\n"), r#""a\"b\\c\u000a""#);
    }

    #[test]
    fn every_place_holder_of_the_driver_is_known() {
        let known = ["program", "jobs", "cpus", "gpus", "memory", "environment"];
        let names: Vec<&str> =
            DRIVER.split("\"{{").skip(1).filter_map(|rest| rest.split("}}\"").next()).collect();
        assert_eq!(names, known);
    }
}
