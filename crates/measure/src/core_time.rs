//! CPU time of one core, or of all, by state: /proc/stat, in ticks of 10 ms.
//!
//! The kernel charges a whole tick to the task that ran at its end, so spans below a second are coarse.

use std::{
    io,
    ops::{Add, Sub},
};

use crate::proc_file;

const PATH: &str = "/proc/stat";

/// Ticks of a core since boot; subtract an earlier reading for a span.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CoreTime {
    pub user: u64,
    /// Kernel code on behalf of a process.
    pub system: u64,
    pub interrupt: u64,
    /// Deferred interrupt work, which includes most of the network stack's receive side.
    pub softirq: u64,
    /// Idle while a disk request was outstanding.
    pub iowait: u64,
    /// Runnable, but the hypervisor ran something else.
    pub steal: u64,
    pub idle: u64,
}

impl CoreTime {
    /// Reads the times of one core, or with `None` the sum of all.
    pub fn read(core: Option<usize>) -> io::Result<CoreTime> {
        let name = core.map_or("cpu".to_owned(), |core| format!("cpu{core}"));
        let text = proc_file::read(PATH)?;
        let line = text.lines().find(|line| line.split(' ').next() == Some(&name));
        line.and_then(parse).ok_or_else(|| proc_file::missing_entry(PATH, &name))
    }

    pub fn total(&self) -> u64 {
        self.busy() + self.iowait + self.steal + self.idle
    }

    /// Ticks in which the core did work.
    pub fn busy(&self) -> u64 {
        self.user + self.system + self.interrupt + self.softirq
    }

    /// Busy ticks as a share of the time that the hypervisor granted; `None` for an empty span.
    pub fn busy_fraction(&self) -> Option<f64> {
        fraction(self.busy(), self.total() - self.steal)
    }

    /// The share of the time that the hypervisor took.
    pub fn steal_fraction(&self) -> Option<f64> {
        fraction(self.steal, self.total())
    }

    /// The share of the time spent in deferred interrupt work.
    pub fn softirq_fraction(&self) -> Option<f64> {
        fraction(self.softirq, self.total())
    }
}

impl Add for CoreTime {
    type Output = CoreTime;

    fn add(self, other: CoreTime) -> CoreTime {
        CoreTime {
            user: self.user + other.user,
            system: self.system + other.system,
            interrupt: self.interrupt + other.interrupt,
            softirq: self.softirq + other.softirq,
            iowait: self.iowait + other.iowait,
            steal: self.steal + other.steal,
            idle: self.idle + other.idle,
        }
    }
}

impl Sub for CoreTime {
    type Output = CoreTime;

    /// The span since an earlier reading. iowait and idle may decrease by a tick, which counts as zero.
    fn sub(self, earlier: CoreTime) -> CoreTime {
        CoreTime {
            user: self.user.saturating_sub(earlier.user),
            system: self.system.saturating_sub(earlier.system),
            interrupt: self.interrupt.saturating_sub(earlier.interrupt),
            softirq: self.softirq.saturating_sub(earlier.softirq),
            iowait: self.iowait.saturating_sub(earlier.iowait),
            steal: self.steal.saturating_sub(earlier.steal),
            idle: self.idle.saturating_sub(earlier.idle),
        }
    }
}

/// Parses `cpu0 user nice system idle iowait irq softirq steal guest guest_nice`; guest time is part of user.
fn parse(line: &str) -> Option<CoreTime> {
    let ticks: Vec<u64> =
        line.split_ascii_whitespace().skip(1).map_while(|field| field.parse().ok()).collect();
    let [user, nice, system, idle, iowait, interrupt, softirq, steal, ..] = ticks[..] else {
        return None;
    };
    Some(CoreTime { user: user + nice, system, interrupt, softirq, iowait, steal, idle })
}

fn fraction(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{affinity, clock};

    #[test]
    fn parses_a_line() {
        let time = parse("cpu1 10 1 20 500 3 4 5 6 0 0").unwrap();
        assert_eq!((time.user, time.idle, time.busy(), time.total()), (11, 500, 40, 549));
        assert_eq!(parse("cpu1 10 1"), None);
    }

    #[test]
    fn a_spinning_thread_keeps_its_core_busy() {
        let core = affinity::allowed_cores().unwrap()[0];
        let before = CoreTime::read(Some(core)).unwrap();
        let spun = std::thread::spawn(move || {
            affinity::pin_to(core).unwrap();
            let (wall, cpu) = (clock::now(), clock::thread_cpu());
            while clock::now() - wall < crate::Nanos(500_000_000) {}
            clock::thread_cpu() - cpu
        });
        let spun_ticks = spun.join().unwrap().seconds() * 100.0;
        let span = CoreTime::read(Some(core)).unwrap() - before;
        assert!(span.user as f64 >= 0.7 * spun_ticks, "{span:?}, {spun_ticks} ticks of spinning");
    }

    #[test]
    fn a_core_that_does_not_exist_is_an_error() {
        assert!(CoreTime::read(Some(4096)).unwrap_err().to_string().contains("cpu4096"));
    }
}
