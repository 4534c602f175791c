//! Pinning the calling thread to a core, so that generator and server do not take time from each other.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that the calling thread may run on, in ascending order.
pub fn allowed_cores() -> io::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect())
}

/// Lets the calling thread, and the threads it starts later, run on one core only.
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
    fn a_core_that_does_not_exist_is_named() {
        assert!(pin_to(1000).unwrap_err().to_string().contains("core 1000"));
    }
}
