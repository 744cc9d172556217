//! `spectral eval`.

use crate::args::EvalArgs;
use crate::failure::{Failure, SUCCESS};
use crate::output::note;
use crate::table::Table;
use serde_json::json;
use spectral_train::devices::DeviceChoice;
use spectral_train::eval::evaluate_model;
use spectral_train::kept_model::KeptModel;
use spectral_train::registry::Registry;
use spectral_train::run_dir::RunDir;

const COLUMNS: [&str; 9] =
    ["agent", "seed", "episodes", "mean_score", "least", "most", "mean_return", "model", "frame"];

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
        note!("{} is not at its planned end", args.run.display());
    }
    let mut columns: Vec<String> = COLUMNS.map(String::from).to_vec();
    if let Some((name, _)) = run.make_task()?.highlight() {
        columns.extend([format!("{name}_median"), format!("{name}_most")]);
    }
    let mut table = Table::new(&columns);
    let mut with = Vec::new();
    let mut without = Vec::new();
    for (number, agent) in agents.iter().enumerate() {
        match KeptModel::find(&dir, &run, number, args.model)? {
            Some(model) => with.push((number, model)),
            None => without.push(agent.id.as_str()),
        }
    }
    // A run that was copied in part has some of its models; without any, the first one's absence is the error.
    if with.is_empty() {
        return Err(KeptModel::absent(&dir, &run, 0, args.model).into());
    } else if !without.is_empty() {
        note!("without a model, and left out: {}", without.join(", "));
    }
    for (done, (number, model)) in with.iter().enumerate() {
        let agent = &agents[*number];
        let (episodes, epsilon) = (args.episodes, args.epsilon);
        let result = evaluate_model(&dir, &run, *number, model, episodes, epsilon, args.arithmetic)?;
        note!("{} has played ({} of {})", agent.id, done + 1, with.len());
        let n = result.scores.len() as f64;
        let mean = |values: &[f64]| values.iter().sum::<f64>() / n;
        let mut row = vec![
            json!(agent.agent),
            json!(agent.seed),
            json!(args.episodes),
            json!(mean(&result.scores)),
            json!(result.scores.iter().copied().fold(f64::INFINITY, f64::min)),
            json!(result.scores.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
            json!(mean(&result.returns)),
            json!(args.model.to_string()),
            json!(model.frames),
        ];
        let mut highlights = result.highlights;
        highlights.sort_by(f64::total_cmp);
        if let (Some(median), Some(most)) = (highlights.get(highlights.len() / 2), highlights.last()) {
            row.extend([json!(median), json!(most)]);
        }
        table.row(row);
    }
    table.print(args.table.json)?;
    Ok(SUCCESS)
}
