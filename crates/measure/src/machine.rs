//! What machine and kernel a measurement was made on: numbers without this cannot be compared.

use std::{fs, io};

use serde::Serialize;

use crate::{Reading, affinity, proc_file};

/// The machine, as far as it tells.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's name.
    pub cpu_model: Reading<String>,
    /// The cores this process may use.
    pub cores: Reading<Vec<usize>>,
    /// The caches of core 0. Under a hypervisor the last one is often shared with unknown neighbours.
    pub caches: Reading<Vec<Cache>>,
    /// Total memory.
    pub memory_bytes: Reading<u64>,
    /// The kernel's release.
    pub kernel: Reading<String>,
    /// Why the machine is thought to be virtual, or that nothing says so.
    pub virtualisation: Reading<String>,
    /// The frequency governor of core 0.
    pub frequency_governor: Reading<String>,
    /// The default congestion control of TCP.
    pub congestion_control: Reading<String>,
    /// Read-ahead of each disk.
    pub read_ahead: Reading<Vec<ReadAhead>>,
}

/// One cache of a core.
#[derive(Clone, Debug, Serialize)]
pub struct Cache {
    /// 1, 2 or 3.
    pub level: u8,
    /// `Data`, `Instruction` or `Unified`.
    pub kind: String,
    /// As the kernel writes it: `48K`.
    pub size: String,
}

/// How far one disk reads ahead.
#[derive(Clone, Debug, Serialize)]
pub struct ReadAhead {
    /// The block device.
    pub device: String,
    /// In KiB.
    pub kib: u64,
}

impl Machine {
    /// Describes the machine this runs on.
    pub fn describe() -> Machine {
        Machine {
            cpu_model: cpuinfo("model name").into(),
            cores: affinity::allowed_cores().into(),
            caches: caches().into(),
            memory_bytes: memory_bytes().into(),
            kernel: proc_file::read_trimmed("/proc/sys/kernel/osrelease").into(),
            virtualisation: virtualisation().into(),
            frequency_governor: proc_file::read_trimmed(
                "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            )
            .into(),
            congestion_control: proc_file::read_trimmed("/proc/sys/net/ipv4/tcp_congestion_control").into(),
            read_ahead: read_ahead().into(),
        }
    }
}

fn cpuinfo(key: &str) -> io::Result<String> {
    const PATH: &str = "/proc/cpuinfo";
    let text = proc_file::read(PATH)?;
    let mut values =
        text.lines().filter_map(|line| line.split_once(':')).filter(|(name, _)| name.trim() == key);
    let (_, value) = values.next().ok_or_else(|| proc_file::lacks(PATH, key))?;
    Ok(value.trim().to_owned())
}

fn caches() -> io::Result<Vec<Cache>> {
    const FOLDER: &str = "/sys/devices/system/cpu/cpu0/cache";
    let mut indices = names(FOLDER)?;
    indices.retain(|name| name.starts_with("index"));
    indices.sort();
    let read = |index: &str, file: &str| proc_file::read_trimmed(&format!("{FOLDER}/{index}/{file}"));
    let cache = |index: &String| {
        let level = read(index, "level")?.parse().map_err(|_| proc_file::lacks(FOLDER, "cache level"))?;
        Ok(Cache { level, kind: read(index, "type")?, size: read(index, "size")? })
    };
    indices.iter().map(cache).collect()
}

fn memory_bytes() -> io::Result<u64> {
    const PATH: &str = "/proc/meminfo";
    let text = proc_file::read(PATH)?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")).and_then(|kib| kib.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| proc_file::lacks(PATH, "MemTotal"))
}

fn virtualisation() -> io::Result<String> {
    if let Ok(kind) = proc_file::read_trimmed("/sys/hypervisor/type") {
        return Ok(kind);
    }
    let product = proc_file::read_trimmed("/sys/class/dmi/id/product_name");
    let flagged = cpuinfo("flags")?.split(' ').any(|flag| flag == "hypervisor");
    Ok(match (flagged, product) {
        (true, Ok(product)) => format!("virtual machine ({product})"),
        (true, Err(_)) => "virtual machine (the processor says so; no vendor is named)".to_owned(),
        (false, _) => "none seen".to_owned(),
    })
}

fn read_ahead() -> io::Result<Vec<ReadAhead>> {
    let mut devices = names("/sys/block")?;
    devices.retain(|name| !["loop", "ram", "zram"].iter().any(|virtual_disk| name.starts_with(virtual_disk)));
    devices.sort();
    let read = |device: String| {
        let path = format!("/sys/block/{device}/queue/read_ahead_kb");
        let kib = proc_file::read_trimmed(&path)?.parse().map_err(|_| proc_file::lacks(&path, "number"))?;
        Ok(ReadAhead { device, kib })
    };
    devices.into_iter().map(read).collect()
}

fn names(folder: &str) -> io::Result<Vec<String>> {
    let entries =
        fs::read_dir(folder).map_err(|error| io::Error::new(error.kind(), format!("{folder}: {error}")))?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_linux_tells_its_kernel_cores_and_memory() {
        let machine = Machine::describe();
        assert!(machine.kernel.value().is_some_and(|release| !release.is_empty()));
        assert!(machine.cores.value().is_some_and(|cores| !cores.is_empty()));
        assert!(machine.memory_bytes.value().is_some_and(|&bytes| bytes > 1 << 20));
    }
}
