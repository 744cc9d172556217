//! What the machine offers: processor, memory, time.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// The hardware of a run, as its directory records it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hardware {
    /// The processor's name.
    pub cpu: String,
    /// Its cores, as far as this process may use them.
    pub cores: usize,
    /// What trains: `cpu`, or the name of a GPU.
    pub device: String,
}

impl Hardware {
    /// This machine, training on its CPU.
    pub fn here() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = info
            .lines()
            .find_map(|line| line.strip_prefix("model name"))
            .and_then(|rest| rest.split_once(':'));
        let cpu =
            name.map_or_else(|| std::env::consts::ARCH.to_string(), |(_, name)| name.trim().to_string());
        Hardware { cpu, cores, device: "cpu".into() }
    }
}

/// Bytes of memory that a new process could use, if the system says so: what is free, or what is left of the limit of a
/// container, whichever is less.
pub fn available_memory() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("MemAvailable:"))?;
    let free = line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kib| kib * 1024)?;
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let left = container_memory(Path::new("/sys/fs/cgroup"), &groups);
    Some(left.map_or(free, |left| left.min(free)))
}

/// What is left of the memory limits of this process's control groups; `None` if there is no limit. `groups` is
/// `/proc/self/cgroup`. Files that could be dropped from memory do not count as used.
fn container_memory(root: &Path, groups: &str) -> Option<u64> {
    let mut least: Option<u64> = None;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let (base, [limit, usage, droppable]) = match controllers {
            "" => (root.to_path_buf(), ["memory.max", "memory.current", "inactive_file"]),
            _ if controllers.split(',').any(|name| name == "memory") => (
                root.join("memory"),
                ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"],
            ),
            _ => continue,
        };
        // Every group above has its say. Inside a container the path may be that of the machine and not be there.
        let own = base.join(path.trim_start_matches('/'));
        for group in own.ancestors().take_while(|group| group.starts_with(&base)) {
            let number =
                |file: &str| std::fs::read_to_string(group.join(file)).ok()?.trim().parse::<u64>().ok();
            let (Some(limit), Some(usage)) = (number(limit), number(usage)) else { continue };
            let stat = std::fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
            let dropped =
                stat.lines().find_map(|line| line.strip_prefix(droppable)?.trim().parse::<u64>().ok());
            let left = limit.saturating_sub(usage.saturating_sub(dropped.unwrap_or(0)));
            least = Some(least.map_or(left, |least| least.min(left)));
        }
    }
    least
}

/// Bytes that this process may still write on the disk of a folder, or of the nearest one above it that exists; `None` if
/// the system does not say.
#[cfg(unix)]
pub fn free_disk(folder: &Path) -> Option<u64> {
    let existing = folder.ancestors().find(|f| f.exists()).unwrap_or(Path::new("."));
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    let found = rustix::fs::statvfs(existing).ok()?;
    Some(found.f_bavail.saturating_mul(found.f_frsize))
}

/// The system does not say.
#[cfg(not(unix))]
pub fn free_disk(_folder: &Path) -> Option<u64> {
    None
}

/// This machine's name; empty if the system does not say.
pub fn host_name() -> String {
    #[cfg(unix)]
    return rustix::system::uname().nodename().to_string_lossy().into_owned();
    #[cfg(not(unix))]
    std::env::var("COMPUTERNAME").unwrap_or_default()
}

/// The number of the user to whom this process belongs, if the system has such numbers.
pub fn user_id() -> Option<u32> {
    #[cfg(unix)]
    return Some(rustix::process::getuid().as_raw());
    #[cfg(not(unix))]
    None
}

/// Gives the calling thread the lowest priority. Where that does not work it has the usual one, which only costs time: only Linux
/// has a priority for each thread.
pub(crate) fn give_way() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, 19);
}

/// Seconds since 1970.
pub fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

/// The present moment as ISO 8601 text, in UTC.
pub fn timestamp() -> String {
    iso_8601(unix_seconds() as u64)
}

/// Seconds since 1970 as ISO 8601 text (the civil-from-days method: years that begin in March).
fn iso_8601(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let (month, day) =
        (if shifted < 10 { shifted + 3 } else { shifted - 9 }, day_of_year - (153 * shifted + 2) / 5 + 1);
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// A number of bytes as people read it.
///
/// ```
/// assert_eq!(spectral_train::machine::human_bytes(7_063_000_000), "7.1 GB");
/// ```
pub fn human_bytes(bytes: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{bytes} B") } else { format!("{value:.1} {}", units[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_limit_of_a_container_counts() {
        let root = std::env::temp_dir().join(format!("spectral-groups-{}", std::process::id()));
        let put = |group: &str, files: &[(&str, &str)]| {
            std::fs::create_dir_all(root.join(group)).unwrap();
            for (name, text) in files {
                std::fs::write(root.join(group).join(name), text).unwrap();
            }
        };
        put(
            "pod",
            &[("memory.max", "1000\n"), ("memory.current", "700\n"), ("memory.stat", "inactive_file 50\n")],
        );
        put("pod/box", &[("memory.max", "max\n"), ("memory.current", "600\n")]);
        assert_eq!(
            container_memory(&root, "0::/pod/box\n"),
            Some(350),
            "the pod's, without what can be dropped"
        );
        put("pod/box", &[("memory.max", "800\n")]);
        assert_eq!(container_memory(&root, "0::/pod/box\n"), Some(200));
        assert_eq!(container_memory(&root, "0::/elsewhere\n"), None);
        assert_eq!(container_memory(&root, "3:cpuset:/\nnonsense\n"), None);
        // The older kind, whose path is that of the machine outside.
        put("memory", &[("memory.limit_in_bytes", "500"), ("memory.usage_in_bytes", "900")]);
        assert_eq!(container_memory(&root, "4:cpu,memory:/docker/abc\n"), Some(0), "nothing is left");
        std::fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_has_its_name() {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
        assert_eq!(host_name(), name.trim());
    }

    #[test]
    fn dates_are_right() {
        assert_eq!(iso_8601(0), "1970-01-01T00:00:00Z");
        assert_eq!(iso_8601(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(iso_8601(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(iso_8601(1_767_225_599), "2025-12-31T23:59:59Z");
    }
}
