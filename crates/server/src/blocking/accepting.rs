//! Accepting connections and serving each before the next is accepted.
//!
//! Several workers wait in `accept` on one socket: the kernel wakes the one that has waited longest, so all have
//! their share and none wakes in vain. Whoever finds all workers busy waits in the socket's backlog.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::Worker;
use crate::counters::Counter;
use crate::sockets::accept::{Accepted, Acceptor, shed};

/// How long a worker waits in `accept` before it looks whether it is to stop.
pub const ACCEPT_PATIENCE: Duration = Duration::from_millis(250);

/// Serves who comes to `acceptor` (which waits for [`ACCEPT_PATIENCE`]) until a stop; then those who have come.
pub fn accept_and_serve(worker: &mut Worker<'_>, acceptor: &Acceptor) {
    let site = worker.service.site;
    while !worker.is_overdue() {
        // Those who have connected already are served; nobody is waited for any more.
        if worker.stop.is_requested() && !somebody_waits(acceptor) {
            return;
        }
        match acceptor.accept() {
            Accepted::Connection(socket, peer) => {
                if site.board.enter(site.limits.connections_max) {
                    worker.serve(socket, peer);
                    site.board.leave(1);
                } else {
                    shed(&socket);
                    worker.service.count(Counter::ConnectionsShed);
                }
            }
            Accepted::Shed => worker.service.count(Counter::ConnectionsShed),
            Accepted::Failed => worker.service.count(Counter::AcceptErrors),
            Accepted::Nobody => {}
            Accepted::Exhausted => {
                worker.service.count(Counter::AcceptErrors);
                // Trying again at once would find the same.
                std::thread::sleep(ACCEPT_PATIENCE);
            }
        }
        worker.write_due_lines();
    }
}

fn somebody_waits(acceptor: &Acceptor) -> bool {
    let listener = acceptor.fd();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(&listener, PollFlags::IN)], Some(&now)).is_ok_and(|count| count > 0)
}
