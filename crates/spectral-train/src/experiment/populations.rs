//! Which agents train together: as many as the limits allow, and on a GPU only those that it can train in lockstep.

use crate::devices::{Chosen, Place, unshared};
use crate::error::TrainError;
use crate::memory::Memory;
use crate::plan::{AgentPlan, Plan};
use crate::registry::Registry;
use crate::resolve::{Parts, ResolvedRun, build_codecs};

/// The share of available memory that a population may plan to use.
pub(super) const MEMORY_SHARE: f64 = 0.9;

/// How large a population may be. By default nothing limits it.
///
/// ```
/// use spectral_train::experiment::{Experiment, Limits, Overrides, RunIndex};
/// use spectral_train::registry::Registry;
/// let registry = Registry::default();
/// let wish = Overrides { agents: Some("spectral,clipped".into()), ..Overrides::default() };
/// let experiment = Experiment::find("mini-fig3", &wish, &registry)?;
/// let index = RunIndex::scan("no/such/folder".as_ref(), &registry)?;
/// let limits = Limits { agents: Some(4), ..Limits::default() };
/// let jobs = index.jobs(&experiment, &registry, &limits)?;
/// // 10 runs a task: 4, 3 and 3 rather than 4, 4 and 2.
/// assert_eq!(jobs.iter().take(3).map(|job| job.run.plan.agents.len()).collect::<Vec<_>>(), [4, 3, 3]);
/// # Ok::<(), spectral_train::error::TrainError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of main memory that there are. A GPU's own memory limits what trains on it in any case where this is known.
    pub memory: Option<u64>,
    /// Agents of one population; 0 counts as 1.
    pub agents: Option<usize>,
    /// The machine that is to train them.
    pub place: Place,
}

/// Agents in groups that train together. Seeds come before agents, so that the first group has something of all of them.
pub(super) fn populations(
    plan: &Plan,
    agents: Vec<AgentPlan>,
    registry: &Registry,
    limits: &Limits,
) -> Result<Vec<Vec<AgentPlan>>, TrainError> {
    let mut groups = Vec::new();
    for kind in kinds(plan, agents, registry, &limits.place)? {
        groups.extend(split(plan, kind, registry, limits)?);
    }
    Ok(groups)
}

/// The agent alone, with the task and the device that it would have. All together might be sent to the CPU just because they
/// are too many.
fn alone(
    plan: &Plan,
    agent: &AgentPlan,
    registry: &Registry,
    place: &Place,
) -> Result<ResolvedRun, TrainError> {
    registry.resolve_plan_for(Plan { agents: vec![agent.clone()], ..plan.clone() }, place)
}

/// Agents that can train together where they would train. Those that the CPU trains are one kind, whatever they share.
fn kinds(
    plan: &Plan,
    agents: Vec<AgentPlan>,
    registry: &Registry,
    place: &Place,
) -> Result<Vec<Vec<AgentPlan>>, TrainError> {
    // Of each kind one agent, and the group to which the kind belongs.
    let mut alike: Vec<(AgentPlan, usize)> = Vec::new();
    let mut placed: Vec<usize> = Vec::new();
    for agent in &agents {
        let known = alike.iter().find(|(other, _)| unshared(&other.settings, &agent.settings).is_none());
        let kind = known.map(|(_, kind)| *kind);
        placed.push(kind.unwrap_or(alike.len()));
        if kind.is_none() {
            alike.push((agent.clone(), alike.len()));
        }
    }
    if alike.len() > 1 {
        let mut on_cpu = None;
        for (agent, kind) in &mut alike {
            if alone(plan, agent, registry, place)?.device == Chosen::Cpu {
                *kind = *on_cpu.get_or_insert(*kind);
            }
        }
    }
    let mut groups: Vec<Vec<AgentPlan>> = vec![Vec::new(); alike.len()];
    for (agent, kind) in agents.into_iter().zip(placed) {
        groups[alike[kind].1].push(agent);
    }
    groups.retain(|group| !group.is_empty());
    Ok(groups)
}

/// Agents of one kind in groups that keep to the limits.
fn split(
    plan: &Plan,
    mut agents: Vec<AgentPlan>,
    registry: &Registry,
    limits: &Limits,
) -> Result<Vec<Vec<AgentPlan>>, TrainError> {
    let most = limits.agents.unwrap_or(usize::MAX).max(1);
    // Of another machine, its GPU's memory is known.
    let limited = limits.memory.is_some() || limits.place != Place::Here;
    let model = match agents.first().filter(|_| limited) {
        Some(first) => Some(alone(plan, first, registry, &limits.place)?),
        None => None,
    };
    let fits = |agents: &[AgentPlan]| -> Result<bool, TrainError> {
        let Some(model) = &model else { return Ok(true) };
        let plan = Plan { agents: agents.to_vec(), ..plan.clone() };
        let codecs = build_codecs(registry, agents)?;
        let needed = Memory::of(
            Parts { plan: &plan, task: &model.task, codecs: &codecs, place: &limits.place },
            &model.device,
        )?;
        let allowed = limits.memory.map_or(u64::MAX, |memory| (memory as f64 * MEMORY_SHARE) as u64);
        Ok(needed.needed <= allowed && needed.device.is_none_or(|device| device.needed <= device.available))
    };
    if agents.len() <= most && fits(&agents)? {
        return Ok(vec![agents]);
    }
    let order: Vec<String> = agents.iter().map(|agent| agent.id.clone()).collect();
    agents.sort_by_key(|agent| agent.seed);
    let mut sizes = Vec::new();
    let mut rest = &agents[..];
    while !rest.is_empty() {
        let size = largest(rest.len().min(most), |size| fits(&rest[..size]))?;
        sizes.push(size);
        rest = &rest[size..];
    }
    if limits.agents.is_some() {
        // As many groups, as equal as can be; whether they fit must be asked anew, because agents need unlike memory.
        let equal = balanced(agents.len(), sizes.len());
        let groups = cut(&agents, &equal);
        if groups.iter().map(|group| fits(group)).collect::<Result<Vec<_>, _>>()?.into_iter().all(|fits| fits)
        {
            sizes = equal;
        }
    }
    let mut groups: Vec<Vec<AgentPlan>> = cut(&agents, &sizes).into_iter().map(<[_]>::to_vec).collect();
    // Inside a group, the experiment's own order.
    for group in &mut groups {
        group.sort_by_key(|agent| order.iter().position(|id| *id == agent.id));
    }
    Ok(groups)
}

/// The largest size up to `most` that fits, and 1 if none does: training refuses such an agent with the reason.
fn largest(most: usize, fits: impl Fn(usize) -> Result<bool, TrainError>) -> Result<usize, TrainError> {
    let (mut yes, mut no) = (1, most + 1);
    while no - yes > 1 {
        let middle = yes + (no - yes) / 2;
        if fits(middle)? {
            yes = middle;
        } else {
            no = middle;
        }
    }
    Ok(yes)
}

/// The sizes of so many groups that differ by one at most, the larger ones first.
fn balanced(agents: usize, groups: usize) -> Vec<usize> {
    (0..groups).map(|number| agents / groups + usize::from(number < agents % groups)).collect()
}

/// Consecutive parts of these sizes.
fn cut<'a>(mut agents: &'a [AgentPlan], sizes: &[usize]) -> Vec<&'a [AgentPlan]> {
    let mut parts = Vec::new();
    for &size in sizes {
        let (part, rest) = agents.split_at(size);
        parts.push(part);
        agents = rest;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Configuration;

    fn plan(pairs: &[&str]) -> Plan {
        let mut config = Configuration::default();
        config.set("task=pong-mini").unwrap();
        pairs.iter().for_each(|pair| config.set(pair).unwrap());
        Registry::default().plan(&config).unwrap()
    }

    fn ids(pairs: &[&str], limits: &Limits) -> Vec<Vec<String>> {
        let plan = plan(pairs);
        let groups = populations(&plan, plan.agents.clone(), &Registry::default(), limits).unwrap();
        let mut all: Vec<String> = groups.iter().flatten().map(|agent| agent.id.clone()).collect();
        let mut asked: Vec<String> = plan.agents.iter().map(|agent| agent.id.clone()).collect();
        all.sort();
        asked.sort();
        assert_eq!(all, asked, "nobody is lost or there twice");
        groups.iter().map(|group| group.iter().map(|agent| agent.id.clone()).collect()).collect()
    }

    fn at_most(agents: usize) -> Limits {
        Limits { agents: Some(agents), ..Limits::default() }
    }

    #[test]
    fn groups_are_of_equal_size_and_seeds_come_before_agents() {
        let four = ["agents=spectral,popart,clipped,compressed", "seeds=5", "device=cpu"];
        let sizes = |limits: &Limits| ids(&four, limits).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(sizes(&Limits::default()), [20]);
        assert_eq!(sizes(&at_most(20)), [20]);
        assert_eq!(sizes(&at_most(8)), [7, 7, 6]);
        assert_eq!(sizes(&at_most(19)), [10, 10]);
        assert_eq!(sizes(&at_most(1)), [1; 20]);
        assert_eq!(sizes(&at_most(0)), [1; 20]);
        let wide = Limits { memory: Some(1 << 50), ..at_most(8) };
        assert_eq!(sizes(&wide), [7, 7, 6]);
        let narrow = Limits { memory: Some(1), ..at_most(8) };
        assert_eq!(sizes(&narrow), [1; 20], "the plan does not hide what does not fit");
        let two = ["agents=spectral,popart", "seeds=3", "device=cpu"];
        let wanted = [1, 2, 3].map(|seed| [format!("spectral-s{seed}"), format!("popart-s{seed}")]);
        assert_eq!(ids(&two, &at_most(2)), wanted);
    }

    #[test]
    fn what_memory_forces_apart_is_balanced_too() {
        let registry = Registry::default();
        let pairs = ["agents=spectral", "seeds=10", "replay=20000", "device=cpu"];
        let one = Plan { agents: plan(&pairs).agents[..1].to_vec(), ..plan(&pairs) };
        let one = registry.resolve_plan(one).unwrap().memory.needed;
        let memory = Some((4.01 * one as f64 / MEMORY_SHARE) as u64);
        let sizes = |limits: Limits| ids(&pairs, &limits).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(
            sizes(Limits { memory, ..Limits::default() }),
            [4, 4, 2],
            "as they were before there was another limit"
        );
        assert_eq!(sizes(Limits { memory, agents: Some(9), ..Limits::default() }), [4, 3, 3]);
        assert_eq!(sizes(Limits { memory, agents: Some(3), ..Limits::default() }), [3, 3, 2, 2]);
    }

    #[test]
    fn only_a_cpu_trains_agents_together_that_share_no_batch() {
        let mixed = [
            "agents=spectral,popart,clipped",
            "seeds=2",
            "agent.popart.batch=16",
            "agent.popart.learning_rate=1e-4",
        ];
        let on = |device: &str| ids(&[&mixed[..], &[device]].concat(), &Limits::default());
        assert_eq!(on("device=cpu").len(), 1);
        let behind_a_pipeline = on("device=cpu-lockstep");
        assert_eq!(behind_a_pipeline.len(), 2);
        assert_eq!(behind_a_pipeline[0], ["spectral-s1", "spectral-s2", "clipped-s1", "clipped-s2"]);
        assert_eq!(behind_a_pipeline[1], ["popart-s1", "popart-s2"]);
        let apart = ids(&[&mixed[..], &["device=cpu-lockstep"]].concat(), &at_most(3));
        assert_eq!(apart.iter().map(Vec::len).collect::<Vec<_>>(), [2, 2, 2]);
        let suits = ["agents=spectral,popart", "agent.popart.learning_rate=1e-4", "device=cpu-lockstep"];
        assert_eq!(ids(&suits, &Limits::default()).len(), 1);
    }
}
