//! Which process this is: on which machine, since when, in whose job.

use crate::machine::host_name;
use std::env::var;
use std::fs::read_to_string;

/// A process among those of all machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    /// The machine's name.
    pub host: String,
    /// Which start of the machine's kernel; empty if the system does not say.
    pub boot: String,
    /// The process's number.
    pub process: u32,
    /// When the process began, in the kernel's ticks since its start; 0 if the system does not say.
    pub began: u64,
    /// In which numbering of processes and times this is; empty if the system does not say.
    pub namespaces: String,
    /// The scheduler's job; empty if there is none.
    pub job: String,
}

impl Identity {
    /// This process.
    pub fn here() -> Self {
        let text = |path: &str| read_to_string(path).unwrap_or_default().trim().to_string();
        let link = |name: &str| {
            let link = std::fs::read_link(format!("/proc/self/ns/{name}"));
            link.map(|link| link.to_string_lossy().into_owned()).unwrap_or_default()
        };
        let process = std::process::id();
        Identity {
            host: plain(&host_name()),
            boot: plain(&text("/proc/sys/kernel/random/boot_id")),
            process,
            began: began(process).unwrap_or(0),
            namespaces: plain(&[link("pid"), link("time")].join(" ")),
            job: plain(&job(|name| var(name).ok())),
        }
    }

    /// Whether this is another process that certainly lives, on the kernel that `me` runs on.
    pub fn lives(&self, me: &Identity) -> bool {
        let comparable = !me.namespaces.trim().is_empty() && self.namespaces == me.namespaces;
        let lives = || stat(self.process).is_some_and(|stat| !stat.starts_with(['Z', 'X']));
        comparable
            && self.process != me.process
            && self.began != 0
            && began(self.process) == Some(self.began)
            && lives()
    }

    /// Whether this process, which was seen by the kernel that `me` runs on, has certainly ended.
    pub fn is_gone(&self, me: &Identity) -> bool {
        // Numbers mean something only among those who count alike.
        let comparable = !me.namespaces.trim().is_empty() && self.namespaces == me.namespaces;
        if !comparable || self.process == 0 {
            return false;
        }
        // Emulators tell each thread of a process another time since when it runs; what was read once counts.
        if self.process == me.process {
            return self.began != 0 && me.began != 0 && self.began != me.began;
        }
        // The signal 0 tells; /proc may hide processes of other users.
        #[cfg(unix)]
        {
            let Some(pid) = i32::try_from(self.process).ok().and_then(rustix::process::Pid::from_raw) else {
                return false;
            };
            if rustix::process::test_kill_process(pid) == Err(rustix::io::Errno::SRCH) {
                return true;
            }
        }
        // Another process may have got the number.
        began(self.process).is_some_and(|began| self.began != 0 && began != self.began)
    }
}

/// When a process began, from `/proc`.
fn began(process: u32) -> Option<u64> {
    stat(process)?.split_whitespace().nth(19)?.parse().ok()
}

/// What `/proc` says of a process, from its state on.
fn stat(process: u32) -> Option<String> {
    let stat = read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The program's name, in brackets, may hold anything.
    Some(stat.rsplit_once(')')?.1.trim_start().to_string())
}

/// The job of Slurm or Ray that these variables of the environment tell of.
fn job(var: impl Fn(&str) -> Option<String>) -> String {
    let on = |node: Option<String>| node.map_or(String::new(), |node| format!(" on node {node}"));
    if let Some(id) = var("SLURM_JOB_ID") {
        let task = var("SLURM_ARRAY_JOB_ID").zip(var("SLURM_ARRAY_TASK_ID"));
        let id = task.map_or(id, |(array, task)| format!("{array}_{task}"));
        return format!("Slurm job {id}{}", on(var("SLURMD_NODENAME")));
    }
    var("RAY_JOB_ID").map_or(String::new(), |id| format!("Ray job {id}"))
}

/// The longest text that a claim holds of others.
const LONGEST: usize = 100;

/// Text that may be shown and written, whoever it comes from.
pub(super) fn plain(text: &str) -> String {
    let fit = |c: char| if c.is_ascii_alphanumeric() || "-_.:,+@/[] ".contains(c) { c } else { '?' };
    text.chars().take(LONGEST).map(fit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_lives_and_others_that_ended_are_gone() {
        let me = Identity::here();
        assert!(!me.is_gone(&me) && !me.host.is_empty() && me.process > 0);
        if cfg!(target_os = "linux") {
            assert!(me.began > 0 && me.boot.len() > 30 && me.namespaces.contains("pid:["), "{me:?}");
            let later = Identity { began: me.began + 1, ..me.clone() };
            assert!(later.is_gone(&me), "another process has the number now");
            let mut child =
                std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
            let living = Identity { process: child.id(), began: began(child.id()).unwrap(), ..me.clone() };
            assert!(living.lives(&me) && !living.is_gone(&me) && !me.lives(&me));
            let other = Identity { process: child.id(), began: 1, ..me.clone() };
            assert!(!other.lives(&me));
            drop(child.stdin.take());
            child.wait().unwrap();
            assert!(!living.lives(&me));
            assert!(other.is_gone(&me));
            let elsewhere = Identity { namespaces: "pid:[1] time:[1]".into(), ..other.clone() };
            assert!(!elsewhere.is_gone(&me), "its number means nothing here");
            let huge = Identity { process: u32::MAX, ..me.clone() };
            assert!(!huge.is_gone(&me));
        }
    }

    #[test]
    fn jobs_are_named_as_their_schedulers_name_them() {
        let of = |pairs: &[(&str, &str)]| {
            job(|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.into()))
        };
        assert_eq!(of(&[]), "");
        assert_eq!(of(&[("SLURM_JOB_ID", "7")]), "Slurm job 7");
        let array = [("SLURM_JOB_ID", "9"), ("SLURM_ARRAY_JOB_ID", "7"), ("SLURM_ARRAY_TASK_ID", "2")];
        assert_eq!(of(&[&array[..], &[("SLURMD_NODENAME", "n1")]].concat()), "Slurm job 7_2 on node n1");
        assert_eq!(of(&[("RAY_JOB_ID", "03000000")]), "Ray job 03000000");
    }

    #[test]
    fn strange_text_is_made_harmless() {
        assert_eq!(plain("n1.example \x1b[2J\"\n="), "n1.example ?[2J???");
        assert_eq!(plain(&"x".repeat(1000)).len(), LONGEST);
    }
}
