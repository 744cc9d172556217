//! `spectral eval`.

use crate::args::EvalArgs;
use crate::failure::{Failure, SUCCESS};
use crate::output::note;
use crate::table::Table;
use serde_json::json;
use spectral_train::devices::DeviceChoice;
use spectral_train::eval::evaluate;
use spectral_train::registry::Registry;
use spectral_train::run_dir::RunDir;

/// Plays with every agent of a run.
pub fn run(args: &EvalArgs, registry: &Registry) -> Result<u8, Failure> {
    if args.episodes == 0 || !(0.0..=1.0).contains(&args.epsilon) {
        return Err(Failure::usage("--episodes must be at least 1 and --epsilon between 0 and 1"));
    }
    let (dir, file) = RunDir::open(&args.run, registry)?;
    // Evaluation plays on the CPU, wherever the run trained.
    let run = registry.resolve_plan(file.plan.with(|run| run.device = DeviceChoice::Cpu))?;
    let agents = &run.plan.agents;
    if !dir.finished() {
        note!("{} is not at its planned end: a model it has is that of an earlier end", args.run.display());
    }
    let mut table = Table::new(&["agent", "seed", "episodes", "mean_score", "least", "most", "mean_return"]);
    // A run that was copied in part has some of its models; without any, the first one's absence is the error.
    let (mut with, without): (Vec<usize>, Vec<usize>) =
        (0..agents.len()).partition(|&agent| dir.model(&agents[agent].id).exists());
    if with.is_empty() {
        with = vec![0];
    } else if !without.is_empty() {
        let ids: Vec<&str> = without.iter().map(|&agent| agents[agent].id.as_str()).collect();
        note!("without a model, and left out: {}", ids.join(", "));
    }
    for (done, &number) in with.iter().enumerate() {
        let agent = &agents[number];
        let result = evaluate(&dir, &run, number, args.episodes, args.epsilon)?;
        note!("{} has played ({} of {})", agent.id, done + 1, with.len());
        let n = result.scores.len() as f64;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / n;
        table.row(vec![
            json!(agent.agent),
            json!(agent.seed),
            json!(args.episodes),
            json!(mean(&result.scores)),
            json!(result.scores.iter().copied().fold(f64::INFINITY, f64::min)),
            json!(result.scores.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
            json!(mean(&result.returns)),
        ]);
    }
    table.print(args.table.json)?;
    Ok(SUCCESS)
}
