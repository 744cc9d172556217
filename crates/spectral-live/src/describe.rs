//! What `GET /run` says: the run as its page has to know it, once.

use serde_json::{Value, json};
use spectral_agent::codecs::Spectrum;
use spectral_report::agent_styles;
use spectral_train::resolve::ResolvedRun;
use spectral_train::run_dir::RunDir;

/// Names of actions that do nothing.
const RESTING: [&str; 5] = ["noop", "stay", "hold", "wait", "none"];

/// Whose pictures a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Agents as they learn.
    Training,
    /// A frozen model that plays.
    Playing,
}

/// What a person plays who presses nothing, if the task has such an action.
pub(crate) fn rest_action(run: &ResolvedRun) -> Option<usize> {
    let rests = |name: &String| RESTING.contains(&name.to_lowercase().as_str());
    run.task.actions.iter().position(rests)
}

/// The run in the terms of the protocol.
pub(crate) fn describe(run: &ResolvedRun, dir: &RunDir, mode: Mode) -> Value {
    let (plan, task) = (&run.plan, &run.task);
    let mut names: Vec<&str> = Vec::new();
    for agent in &plan.agents {
        if !names.contains(&agent.agent.as_str()) {
            names.push(&agent.agent);
        }
    }
    let styles = agent_styles(&names);
    let agent = |(agent, codec): (&spectral_train::plan::AgentPlan, &std::sync::Arc<_>)| {
        let codec: &std::sync::Arc<dyn spectral_agent::codecs::Codec> = codec;
        let place = names.iter().position(|name| *name == agent.agent).unwrap_or(0);
        let (colour, dash) = &styles[place];
        let outputs = match codec.spectrum() {
            Spectrum::Value => json!({"kind": "value"}),
            Spectrum::Frequencies => {
                let weights = codec.frequency_weights().map_or_else(Vec::new, <[f64]>::to_vec);
                json!({"kind": "frequencies", "weights": weights})
            }
            Spectrum::Distribution(support) => json!({"kind": "distribution", "support": support}),
        };
        json!({
            "id": agent.id, "agent": agent.agent, "seed": agent.seed,
            "colour": colour, "dash": dash.map(|(on, off)| [on, off]),
            "sees_true_rewards": codec.sees_true_rewards(), "outputs": outputs,
        })
    };
    json!({
        "mode": match mode { Mode::Training => "training", Mode::Playing => "playing" },
        "path": dir.path().display().to_string(),
        "task": plan.task,
        "command": dir.command(),
        "protocol": plan.run.protocol,
        "version": env!("CARGO_PKG_VERSION"),
        "frames": plan.run.frames,
        "frames_per_step": task.frames_per_step,
        "actions": task.actions,
        "rest_action": rest_action(run),
        "max_player_score": task.max_player_score,
        "learning_starts": plan.agents.iter().map(|agent| agent.settings.learning_starts).max(),
        "references": run.entry().reference_scores().map(|scores| json!({"random": scores.random, "best": scores.best})),
        "agents": plan.agents.iter().zip(&run.codecs).map(agent).collect::<Vec<_>>(),
    })
}
