//! Keeping a number of worker processes alive until the stop.

use std::io;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::child::say;
use super::{Children, Ended};
use crate::counters::scoreboard::Place;
use crate::runtime::sockets::registry;
use crate::site::Site;
use crate::stop::Stop;

/// A child that dies younger than this is replaced only after a pause: one that cannot live would else be started again
/// and again.
const CHILD_AGE_MIN: Duration = Duration::from_secs(1);

/// The first pause. Each that follows without a child having lived is twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// No pause is longer.
const PAUSE_MAX: Duration = Duration::from_secs(32);

/// When the next child may be started in place of one that has died.
#[derive(Debug, Default)]
pub struct Mourning {
    until: Option<Instant>,
    /// Pauses since a child has lived.
    pauses: u32,
}

impl Mourning {
    /// Takes notice of a death.
    pub fn notice(&mut self, ended: &Ended) {
        if ended.age >= CHILD_AGE_MIN {
            self.pauses = 0;
        } else if self.left().is_none() {
            // Several that die together die of one thing.
            self.begin();
            say(&format!(
                "warning: child process {} lived for {:.3} s: the next is started in {:.0} s\n",
                ended.process,
                ended.age.as_secs_f64(),
                self.left().unwrap_or_default().as_secs_f64()
            ));
        }
    }

    /// No child is started for a while.
    pub fn begin(&mut self) {
        let pause = PAUSE_MIN.saturating_mul(1 << self.pauses.min(16)).min(PAUSE_MAX);
        self.pauses += 1;
        self.until = Some(Instant::now() + pause);
    }

    /// How long it still lasts.
    pub fn left(&self) -> Option<Duration> {
        let left = self.until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }
}

/// Keeps `site.workers` processes alive that live `life`, until `stop`; then waits for their end.
///
/// # Errors
/// If not one can be started.
pub fn supervise(
    site: &Site,
    stop: &Stop,
    life: impl Fn(Place, &'static Stop) -> io::Result<()>,
) -> io::Result<()> {
    registry::complete();
    let mut children = Children::new(&site.board)?;
    let mut mourning = Mourning::default();
    let place = site.board.passing_place();
    while !stop.is_requested() {
        complete(&mut children, &mut mourning, site, &life)?;
        children.publish(&place);
        wait(&children, stop, mourning.left())?;
        for ended in children.reap() {
            site.board.leave(ended.seat);
            mourning.notice(&ended);
        }
    }
    children.request_stop();
    children.wait_for_all(site.limits.drain, |children, ended| {
        ended.iter().for_each(|ended| site.board.leave(ended.seat));
        children.publish(&place);
    });
    Ok(())
}

fn complete(
    children: &mut Children,
    mourning: &mut Mourning,
    site: &Site,
    life: &impl Fn(Place, &'static Stop) -> io::Result<()>,
) -> io::Result<()> {
    while children.len() < site.workers && mourning.left().is_none() {
        let replaces = children.started() >= site.workers as u64;
        let started = children.start(site.board.place(), life);
        match started {
            Ok(_) if replaces => children.count_replaced(),
            Ok(_) => {}
            Err(error) if children.len() == 0 => return Err(error),
            // Those who live serve meanwhile.
            Err(_) => mourning.begin(),
        }
    }
    Ok(())
}

fn wait(children: &Children, stop: &Stop, patience: Option<Duration>) -> io::Result<()> {
    let timeout = patience.and_then(|patience| Timespec::try_from(patience).ok());
    match poll(
        &mut [PollFd::new(children, PollFlags::IN), PollFd::new(stop, PollFlags::IN)],
        timeout.as_ref(),
    ) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::scoreboard::Permit;
    use rustix::process::getpid;

    #[test]
    fn pauses_grow_until_a_child_lives() {
        let ended = |age| Ended { process: getpid(), seat: Permit::default(), age };
        let mut mourning = Mourning::default();
        let mut pause = || {
            mourning.notice(&ended(Duration::from_millis(5)));
            // Another in the same moment changes nothing.
            mourning.notice(&ended(Duration::from_millis(5)));
            let pause = mourning.left().unwrap().as_secs_f64().ceil();
            mourning.until = None;
            pause
        };
        let pauses: Vec<f64> = (0..7).map(|_| pause()).collect();
        assert_eq!(pauses, [1., 2., 4., 8., 16., 32., 32.]);
        mourning.notice(&ended(CHILD_AGE_MIN));
        assert_eq!((mourning.left(), mourning.pauses), (None, 0));
    }
}
