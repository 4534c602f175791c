//! Keeps a number of worker processes alive until the stop.

use std::io;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Children;
use super::backoff::RestartBackoff;
use super::log_writer::LogWriter;
use crate::counters::scoreboard::Slot;
use crate::runtime::sockets::registry;
use crate::site::Site;
use crate::stop::Stop;

/// Keeps `site.workers` processes running `life` until `stop`, then waits for their end. Replaces `log_writer`, too, whose
/// successor first calls `close_inherited`.
///
/// # Errors
/// If not a single one can be started.
pub fn supervise(
    site: &Site,
    stop: &Stop,
    log_writer: Option<&LogWriter>,
    close_inherited: impl Fn(),
    life: impl Fn(Slot, &'static Stop) -> io::Result<()>,
) -> io::Result<()> {
    registry::complete();
    let mut children = Children::new(&site.scoreboard)?;
    let mut backoff = RestartBackoff::default();
    let slot = site.scoreboard.connection_slot();
    while !stop.is_requested() {
        complete(&mut children, &mut backoff, site, &life)?;
        children.publish(&slot);
        let pause = log_writer.and_then(LogWriter::pause);
        wait(&children, stop, log_writer, [backoff.left(), pause].into_iter().flatten().min())?;
        log_writer.into_iter().for_each(|log_writer| log_writer.replace_if_ended(&close_inherited));
        for ended in children.reap() {
            site.scoreboard.release(ended.permit);
            backoff.record(&ended);
        }
    }
    children.request_stop();
    children.wait_for_all(site.drain_timeout(), |children, ended| {
        ended.iter().for_each(|ended| site.scoreboard.release(ended.permit));
        children.publish(&slot);
    });
    Ok(())
}

fn complete(
    children: &mut Children,
    backoff: &mut RestartBackoff,
    site: &Site,
    life: &impl Fn(Slot, &'static Stop) -> io::Result<()>,
) -> io::Result<()> {
    while children.len() < site.workers && backoff.left().is_none() {
        let replaces = children.started() >= site.workers as u64;
        let started = children.start(site.scoreboard.slot(), life);
        match started {
            Ok(_) if replaces => children.count_replaced(),
            Ok(_) => {}
            Err(error) if children.len() == 0 => return Err(error),
            // The other children serve meanwhile.
            Err(_) => backoff.begin(),
        }
    }
    Ok(())
}

fn wait(
    children: &Children,
    stop: &Stop,
    log_writer: Option<&LogWriter>,
    timeout: Option<Duration>,
) -> io::Result<()> {
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    let mut waits = vec![PollFd::new(children, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
    waits.extend(log_writer.map(|log_writer| PollFd::from_borrowed_fd(log_writer.end(), PollFlags::IN)));
    match poll(&mut waits, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
