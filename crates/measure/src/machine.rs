//! Describes the machine and its kernel settings, without which figures are not comparable.
//!
//! Every printed result contains this object.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::caches::{self, Cache};
use crate::{Reading, affinity, clock, proc_file};

/// The machine, its kernel and the settings that figures depend on.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(debug_assertions, derive(schemars::JsonSchema))]
pub struct Machine {
    pub host_name: Reading<String>,
    /// Differs between machines and from boot to boot: recordings with the same ID share the monotonic clock.
    pub boot_id: Reading<String>,
    /// The kernel's clock source, such as `tsc`.
    pub clock_source: Reading<String>,
    /// True if the wall clock is synchronised, so that timestamps of several machines can be compared.
    pub clock_synchronised: Reading<bool>,
    pub processor: Reading<String>,
    /// Cores that this process may use.
    pub cores_usable: Reading<usize>,
    /// Groups of CPUs that share a physical core, as the kernel lists them.
    pub smt_siblings: Reading<Vec<String>>,
    /// The caches of the first usable core.
    pub caches: Reading<Vec<Cache>>,
    pub memory_bytes: Reading<u64>,
    pub kernel: Reading<String>,
    pub operating_system: Reading<String>,
    pub virtualised: Reading<bool>,
    pub hypervisor: Reading<String>,
    /// The frequency governors of the usable cores; more than one if they differ.
    pub frequency_governor: Reading<Vec<String>>,
    pub congestion_control: Reading<String>,
    /// The default queueing discipline of new interfaces.
    pub default_qdisc: Reading<String>,
    pub listen_backlog_limit: Reading<String>,
    /// The local ports for outgoing connections.
    pub port_range: Reading<String>,
    /// The kernel's setting; the active choice is in brackets.
    pub transparent_huge_pages: Reading<String>,
    /// Read-ahead by disk.
    pub read_ahead_bytes: Reading<BTreeMap<String, u64>>,
    /// True if the processor's performance counters are visible.
    pub hardware_counters: Reading<bool>,
}

impl Machine {
    pub fn describe() -> Machine {
        let cores = Reading::from(affinity::allowed_cores());
        let first = cores.value().and_then(|cores| cores.first()).copied().unwrap_or(0);
        Machine {
            host_name: line("/proc/sys/kernel/hostname"),
            boot_id: line("/proc/sys/kernel/random/boot_id"),
            clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            clock_synchronised: clock::is_synchronised().into(),
            processor: processor(),
            cores_usable: cores.clone().map(|cores| cores.len()),
            smt_siblings: of_cores(&cores, "topology/thread_siblings_list"),
            caches: caches::of_core(first),
            memory_bytes: memory_bytes(),
            kernel: line("/proc/sys/kernel/osrelease"),
            operating_system: operating_system(),
            virtualised: cpu_info().map(|text| is_virtualised(&text)),
            hypervisor: hypervisor(),
            frequency_governor: of_cores(&cores, "cpufreq/scaling_governor"),
            congestion_control: line("/proc/sys/net/ipv4/tcp_congestion_control"),
            default_qdisc: line("/proc/sys/net/core/default_qdisc"),
            listen_backlog_limit: line("/proc/sys/net/core/somaxconn"),
            port_range: line("/proc/sys/net/ipv4/ip_local_port_range"),
            transparent_huge_pages: line("/sys/kernel/mm/transparent_hugepage/enabled"),
            read_ahead_bytes: read_ahead(Path::new("/sys/block")),
            hardware_counters: Reading::Value(Path::new("/sys/bus/event_source/devices/cpu").exists()),
        }
    }
}

fn line(path: &str) -> Reading<String> {
    // Some files separate words by tabs.
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    proc_file::read(path).map(words).into()
}

fn cpu_info() -> Reading<String> {
    proc_file::read("/proc/cpuinfo").into()
}

fn processor() -> Reading<String> {
    // Arm's kernels give the model only as numbers.
    let name = |text: String| {
        let of = |key: &str| text.lines().find_map(|line| value(line, key, ':')).map(str::to_owned);
        of("model name").or_else(|| of("CPU part")).ok_or("/proc/cpuinfo has no model name")
    };
    cpu_info().and_then(name)
}

fn operating_system() -> Reading<String> {
    let name = |text: String| {
        let name = text.lines().find_map(|line| value(line, "PRETTY_NAME", '='));
        name.map(|name| name.trim_matches('"').to_owned()).ok_or("/etc/os-release has no PRETTY_NAME")
    };
    Reading::from(proc_file::read("/etc/os-release")).and_then(name)
}

/// The rest of the line that begins with `key`, after the separator.
fn value<'a>(line: &'a str, key: &str, separator: char) -> Option<&'a str> {
    let (name, value) = line.split_once(separator)?;
    (name.trim() == key).then(|| value.trim())
}

/// The machine's memory, without regard to control groups.
pub(crate) fn memory_bytes() -> Reading<u64> {
    let total = |text: String| {
        let kibibytes = text.lines().find_map(|line| value(line, "MemTotal", ':')?.strip_suffix(" kB"));
        let kibibytes = kibibytes.and_then(|number| number.trim().parse::<u64>().ok());
        kibibytes.map(|number| number << 10).ok_or("/proc/meminfo has no MemTotal")
    };
    Reading::from(proc_file::read("/proc/meminfo")).and_then(total)
}

/// The distinct contents of a file of every usable core.
fn of_cores(cores: &Reading<Vec<usize>>, file: &str) -> Reading<Vec<String>> {
    cores.clone().and_then(|cores| {
        let mut found = Vec::new();
        for core in cores {
            let path = format!("/sys/devices/system/cpu/cpu{core}/{file}");
            let said = proc_file::read(&path).map_err(|error| error.to_string())?.trim().to_owned();
            if !found.contains(&said) {
                found.push(said);
            }
        }
        Ok::<_, String>(found)
    })
}

/// x86 processors report it in their flags; for Arm, firmware may.
fn is_virtualised(cpu_info: &str) -> bool {
    let flags = cpu_info.lines().find_map(|line| value(line, "flags", ':'));
    flags.is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor"))
}

#[cfg(target_arch = "x86_64")]
fn hypervisor() -> Reading<String> {
    /// The CPUID leaf of the hypervisor, whose registers hold its signature.
    const SIGNATURE: u32 = 0x4000_0000;
    if cpu_info().value().is_none_or(|text| !is_virtualised(text)) {
        return Reading::unavailable("the processor reports no hypervisor");
    }
    let answer = std::arch::x86_64::__cpuid(SIGNATURE);
    let bytes: Vec<u8> =
        [answer.ebx, answer.ecx, answer.edx].iter().flat_map(|part| part.to_le_bytes()).collect();
    let name = String::from_utf8_lossy(&bytes).trim_matches('\0').trim().to_owned();
    if name.is_empty() {
        Reading::unavailable("the hypervisor reports no name")
    } else {
        Reading::Value(name)
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn hypervisor() -> Reading<String> {
    line("/sys/hypervisor/type")
}

/// Read-ahead of disks in use, without unused loop and memory devices.
fn read_ahead(block_devices: &Path) -> Reading<BTreeMap<String, u64>> {
    let Ok(entries) = fs::read_dir(block_devices) else {
        return Reading::unavailable(format!("{} is not there", block_devices.display()));
    };
    let number = |path: &Path| fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let disk = |folder: &Path| {
        let is_used = number(&folder.join("size"))? > 0;
        let kibibytes = number(&folder.join("queue/read_ahead_kb"))?;
        is_used.then(|| Some((folder.file_name()?.to_str()?.to_owned(), kibibytes << 10)))?
    };
    let found: BTreeMap<_, _> = entries.flatten().filter_map(|entry| disk(&entry.path())).collect();
    if found.is_empty() {
        return Reading::unavailable(format!("{} has no disk", block_devices.display()));
    }
    Reading::Value(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_described_or_the_reason_is_given() {
        let machine = Machine::describe();
        assert!(machine.memory_bytes.value().is_some_and(|&bytes| bytes > 1 << 20), "{machine:?}");
        assert!(
            machine.kernel.value().is_some() && machine.cores_usable.value().is_some_and(|&count| count > 0)
        );
        assert_eq!(machine.boot_id, Machine::describe().boot_id);
    }

    #[test]
    fn a_hypervisor_is_a_flag_and_not_a_part_of_another_word() {
        assert!(is_virtualised("processor : 0\nflags\t\t: fpu hypervisor lm\n"));
        assert!(!is_virtualised("flags\t\t: fpu hypervisor_guest\n"));
    }

    #[test]
    fn read_ahead_is_of_disks_that_hold_something() {
        let folder = tempfile::tempdir().unwrap();
        for (name, size, ahead) in [("vda", "100", "128"), ("loop0", "0", "128")] {
            fs::create_dir_all(folder.path().join(name).join("queue")).unwrap();
            fs::write(folder.path().join(name).join("size"), size).unwrap();
            fs::write(folder.path().join(name).join("queue/read_ahead_kb"), ahead).unwrap();
        }
        let expected = BTreeMap::from([("vda".to_owned(), 128 << 10)]);
        assert_eq!(read_ahead(folder.path()), Reading::Value(expected));
        assert!(read_ahead(&folder.path().join("vda/queue")).value().is_none());
    }
}
