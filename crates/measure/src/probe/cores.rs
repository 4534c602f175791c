//! Time of a core, or of all, by state: /proc/stat, in seconds.

use super::Source;
use crate::core_time::CoreTime;
use crate::process::TICK;
use crate::{Nanos, Reading};

pub const NAMES: &[&str] = &[
    "core_user_seconds",
    "core_system_seconds",
    "core_interrupt_seconds",
    "core_softirq_seconds",
    "core_iowait_seconds",
    "core_steal_seconds",
    "core_idle_seconds",
];

pub struct Cores(Option<usize>);

impl Cores {
    /// Reads this core, or with `None` the sum of all.
    pub fn new(core: Option<usize>) -> Cores {
        Cores(core)
    }
}

impl Source for Cores {
    fn names(&self) -> &'static [&'static str] {
        NAMES
    }

    fn read(&mut self) -> Vec<Reading<f64>> {
        let time = match CoreTime::read(self.0) {
            Ok(time) => time,
            Err(error) => return NAMES.iter().map(|_| Reading::unavailable(&error)).collect(),
        };
        let ticks =
            [time.user, time.system, time.interrupt, time.softirq, time.iowait, time.steal, time.idle];
        ticks.map(|ticks| Reading::Value(Nanos(ticks * TICK.0).seconds())).into()
    }
}
