//! Pins the calling thread to a core, so that generator and server do not compete for one.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::proc_file;

/// Cores on which the calling thread may run, in ascending order.
pub fn allowed_cores() -> io::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect())
}

/// Online cores in ascending order, including those this process may not use.
pub fn online_cores() -> io::Result<Vec<usize>> {
    const PATH: &str = "/sys/devices/system/cpu/online";
    core_list(&proc_file::read(PATH)?).ok_or_else(|| proc_file::missing_entry(PATH, "list of cores"))
}

/// Parses the kernel's list format, such as `0-3,8`.
fn core_list(text: &str) -> Option<Vec<usize>> {
    let mut cores = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        cores.extend(first.parse::<usize>().ok()?..=last.parse().ok()?);
    }
    Some(cores)
}

/// Restricts the calling thread, and threads that it starts later, to one core.
pub fn pin_to(core: usize) -> io::Result<()> {
    let allowed = allowed_cores()?;
    if !allowed.contains(&core) {
        let message = format!("core {core} is not among the cores this process may use: {allowed:?}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let mut only = CpuSet::new();
    only.set(core);
    Ok(sched_setaffinity(None, &only)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_runs_on_its_core() {
        std::thread::spawn(|| {
            let core = *allowed_cores().unwrap().last().unwrap();
            pin_to(core).unwrap();
            assert_eq!(allowed_cores().unwrap(), [core]);
            assert_eq!(rustix::thread::sched_getcpu(), core);
        })
        .join()
        .unwrap();
    }

    #[test]
    fn lists_of_cores_are_read_as_the_kernel_writes_them() {
        assert_eq!(core_list("0-2,8\n"), Some(vec![0, 1, 2, 8]));
        assert_eq!(core_list(""), None);
        let online = online_cores().unwrap();
        assert!(allowed_cores().unwrap().iter().all(|core| online.contains(core)));
    }

    #[test]
    fn a_core_that_does_not_exist_is_named() {
        assert!(pin_to(1000).unwrap_err().to_string().contains("core 1000"));
    }
}
