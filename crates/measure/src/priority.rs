//! Real-time priority: a thread that has it runs as soon as it can, before all that have not.

use std::io;

/// The lowest of the real-time priorities: others' real-time threads (a watchdog's, an audio server's) still go first.
const LOWEST: i32 = 1;

/// Gives the calling thread, and threads that it starts later, real-time priority: each runs until it waits. The kernel
/// keeps a twentieth of each core for the others (`sched_rt_runtime_us`).
///
/// # Errors
/// If it is not permitted (`CAP_SYS_NICE`, `RLIMIT_RTPRIO`, the real-time budget of a control group).
pub fn take_real_time() -> io::Result<()> {
    let lowest = libc::sched_param { sched_priority: LOWEST };
    // SAFETY: the parameter lives until the call returns.
    match unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const lowest) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// True if the calling thread has real-time priority.
pub fn is_real_time() -> bool {
    // SAFETY: the call takes a number and only reads.
    let policy = unsafe { libc::sched_getscheduler(0) };
    policy == libc::SCHED_FIFO || policy == libc::SCHED_RR
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_real_time_priority_if_that_was_permitted() {
        let (permitted, has) =
            std::thread::spawn(|| (take_real_time().is_ok(), is_real_time())).join().unwrap();
        assert_eq!(permitted, has);
        assert!(!is_real_time(), "other threads keep theirs");
    }
}
