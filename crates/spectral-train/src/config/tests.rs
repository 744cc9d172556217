use super::*;
#[cfg(unix)]
use crate::experiment::{Experiment, Overrides};

fn plan(pairs: &[&str]) -> Result<Plan, TrainError> {
    let mut config = Configuration::default();
    for pair in pairs {
        config.set(pair)?;
    }
    Registry::default().plan(&config)
}

#[test]
fn every_preset_is_valid_and_described() {
    let registry = Registry::default();
    for (_, agent) in registry.agents() {
        plan(&["task=pong-mini", &format!("agents={}", agent.name)]).unwrap();
        assert!(agent.summary.len() > 20, "{}", agent.name);
    }
    for experiment in presets::EXPERIMENTS {
        let mut config = Configuration::default();
        config.toml(experiment.text, experiment.name).unwrap();
        registry.plan(&config).unwrap();
    }
}

#[test]
fn the_paper_protocol_is_the_default() {
    let plan = plan(&["task=pong-mini", "protocol=paper"]).unwrap();
    assert_eq!(plan.agents[0].settings, AgentSettings::default());
}

#[test]
#[cfg(feature = "atari")]
fn a_run_is_as_long_as_its_protocol_takes_to_learn() {
    let frames = |pairs: &[&str]| plan(pairs).unwrap().run.frames;
    assert_eq!(frames(&["task=pong-mini"]), 200_000);
    assert_eq!(frames(&["task=atari/pong"]), 40_000_000);
    assert_eq!(frames(&["task=atari/pong", "protocol=machado"]), 40_000_000);
    assert_eq!(frames(&["task=atari/pong", "protocol=quick-atari"]), 10_000_000);
    assert_eq!(frames(&["task=atari/pong", "frames=300"]), 300);
    // Rows of metrics and evaluations follow.
    let plan = plan(&["task=atari/pong"]).unwrap();
    assert_eq!((plan.run.log_frames, plan.run.eval_every), (400_000, 4_000_000));
    // By the end of each, exploration is long over.
    for protocol in presets::PROTOCOLS {
        let plan = self::plan(&["task=atari/pong", &format!("protocol={}", protocol.name)]).unwrap();
        let agent = &plan.agents[0].settings;
        assert!(plan.run.frames > 2 * (agent.learning_starts + agent.epsilon_frames), "{}", protocol.name);
    }
}

#[test]
fn later_layers_win_and_agents_can_differ() {
    let plan = plan(&[
        "task=pong-mini",
        "agents=spectral,popart",
        "agent.popart.learning_rate=7e-5",
        "learning_rate=1e-3",
    ]);
    let plan = plan.unwrap();
    let rate = |i: usize| plan.agents[i].settings.learning_rate;
    assert_eq!((rate(0), rate(1)), (1e-3, 7e-5));
    assert_eq!(plan.agents[0].settings.discount, 0.99, "from the quick protocol");
}

#[test]
fn mistakes_name_the_nearest() {
    for (pairs, want) in [
        (vec!["task=pong-mini", "agents=spectrl"], "'spectral'"),
        (vec!["task=pong-mini", "protocol=papr"], "'paper'"),
        (vec!["learing_rate=1"], "'learning_rate'"),
        (vec!["agent.spectral.bach=1"], "'batch'"),
        (vec!["task=pong-mini", "agents=spectral,spectral"], "twice"),
        (vec!["task=pong-mini", "seeds=x"], "1000..1009"),
        (vec!["task=pong-mini", "seeds=9..3"], "as in 3..9"),
        (vec!["task=pong-mini", "seeds=1000000000"], "100000 seeds at most"),
        (vec!["task=pong-mini", "seeds=1..1000000000"], "100000 seeds at most"),
        (vec!["task"], "key=value"),
        (vec!["seeds=1"], "--task"),
        (vec!["task=pong-mini", "base=0.5"], "base"),
        (vec!["task=pong-mini", "agents=popart", "agent.popart.base=3"], "codec popart"),
        (vec!["task=pong-mini", "agents=popart", "base=3"], "no agent of this run has the setting 'base'"),
        (vec!["task=pong-mini", "agent.popart.batch=3"], "'agent.popart.batch'"),
        #[cfg(feature = "atari")]
        (vec!["task=pong-mini", "mode=1"], "pong-mini has no setting 'mode'"),
        (vec!["task=pong-mini", "codec=popart"], "name another agent"),
        #[cfg(feature = "atari")]
        (vec!["task=atari/pong", "mode=7"], "one of 0, 1"),
    ] {
        let message = plan(&pairs).unwrap_err().to_string();
        assert!(message.contains(want), "{pairs:?}: {message}");
    }
    let mut config = Configuration::default();
    assert!(config.toml("task = [", "x.toml").unwrap_err().to_string().contains("x.toml"));
    assert!(config.toml("[agent.spectral]\nbatch = 16", "x.toml").is_ok());
}

/// A pipe keeps its reader waiting and a device never ends: whatever a user names is looked at before it is read.
#[test]
#[cfg(unix)]
fn what_is_no_file_of_settings_is_refused_at_once_and_in_few_words() {
    let folder = tempfile::tempdir().unwrap();
    let (pipe, zero) = (folder.path().join("pipe.toml"), folder.path().join("zero.toml"));
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    std::os::unix::fs::symlink("/dev/zero", &zero).unwrap();
    let registry = Registry::default();
    for path in [&zero, &pipe] {
        let name = path.display().to_string();
        let said = [
            Configuration::default().file(path).unwrap_err(),
            plan(&["task=catch-scale", &format!("agents={name}")]).unwrap_err(),
            Experiment::find(&name, &Overrides::default(), &registry).unwrap_err(),
        ];
        for error in said {
            assert_eq!(error.exit_code(), 2);
            assert!(error.to_string().contains("not a plain file"), "{error}");
        }
    }
    for text in [format!("a = {}", "[".repeat(200_000)), format!("{} = = 1", "x".repeat(200_000))] {
        let said = Configuration::default().toml(&text, "deep.toml").unwrap_err().to_string();
        assert!(said.starts_with("deep.toml is no valid TOML: ") && said.len() < 700, "{}", said.len());
    }
    // A short line is still shown.
    let said = Configuration::default().toml("task = = 3", "x.toml").unwrap_err().to_string();
    assert!(said.contains("task = = 3"), "{said}");
}
