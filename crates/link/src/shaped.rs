//! A link carried by the kernel: a veth pair with a queueing discipline at each end.
//!
//! No packet passes through this program, which only waits for the end. The clients' end is in the link's namespace,
//! and the pair disappears with that.

use std::io;
use std::os::fd::BorrowedFd;

use sojourn_measure::{Nanos, clock};
use sojourn_queueing::distribution::RandomVariable;

use crate::carrier::{Carrier, Link};
use crate::epoll::Readiness;
use crate::iproute::{self, ShapingError};
use crate::line::Line;
use crate::namespace::Namespace;
use crate::netlink::{self, Netlink};
use crate::report::{DirectionReport, Report, Shaper};
use crate::tc::{self, Counts, Discipline};

/// The clients' end, in a namespace without other devices except loopback.
const CLIENT_DEVICE: &str = "sojourn0";

/// Both ends have the same hardware address and no ARP, so neither needs to ask for the other's: only IP crosses the
/// line.
const END: &str = "address 02:00:00:00:00:01 arp off";

pub struct Shaped {
    link: Link,
    // Dropped before the namespace, so that the pair is gone and the next link may use its addresses.
    server: ServerEnd,
    namespace: Namespace,
    up: Discipline,
    down: Discipline,
    readiness: Readiness,
    begin: Nanos,
}

/// The server's end of the pair; dropping it deletes both ends.
struct ServerEnd {
    name: String,
    index: u32,
}

impl Shaped {
    /// Starts a link: the server's side in the calling thread's network namespace, the clients' in a new one. Needs
    /// `CAP_NET_ADMIN` and `CAP_SYS_ADMIN`. Ignores the seed and the lateness limit.
    ///
    /// # Errors
    /// [`ShapingError::Unsupported`] if the kernel cannot emulate the link; nothing has been created then.
    pub fn new(link: Link) -> Result<Shaped, ShapingError> {
        if link.lines != 1 {
            return Err(ShapingError::Unsupported("a separate line for each client"));
        }
        if link.line_delay.is_some() {
            return Err(ShapingError::Unsupported("a delay drawn for each line"));
        }
        let (up, down) = (Discipline::of(&link.up)?, Discipline::of(&link.down)?);
        let namespace = Namespace::create()?;
        let server = ServerEnd::create(&namespace, &up, &down)?;
        // Disciplines before addresses, so that no packet bypasses them.
        add(&down, &server.name, None)?;
        add(&up, CLIENT_DEVICE, Some(&namespace))?;
        link.network.put_server(&server.name)?;
        namespace.inside(|| link.network.put_clients(CLIENT_DEVICE, link.lines))?;
        Ok(Shaped { link, server, namespace, up, down, readiness: Readiness::new()?, begin: clock::now() })
    }
}

impl Carrier for Shaped {
    fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    fn watch(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.readiness.add(fd, token)
    }

    fn run(&mut self, mut is_over: impl FnMut(u64) -> io::Result<bool>) -> io::Result<()> {
        loop {
            for token in self.readiness.wait()? {
                if is_over(token)? {
                    return Ok(());
                }
            }
        }
    }

    fn report(&self) -> io::Result<Report> {
        Ok(Report {
            shaper: Shaper::Kernel,
            server_address: self.link.network.server(),
            client_address: self.link.network.client(0),
            lines: self.link.lines,
            seed: None,
            duration_seconds: (clock::now() - self.begin).seconds(),
            cpu_seconds: None,
            limited: None,
            lateness_limit_seconds: None,
            up: way(&self.link.up, &self.up, counts(CLIENT_DEVICE, Some(&self.namespace))?),
            down: way(&self.link.down, &self.down, counts(&self.server.name, None)?),
        })
    }
}

impl ServerEnd {
    /// Creates the pair, one end here and the other in `namespace`.
    fn create(namespace: &Namespace, up: &Discipline, down: &Discipline) -> Result<ServerEnd, ShapingError> {
        // A process has one link, so its ID makes the name unique.
        let process = std::process::id();
        let name = format!("sojourn-{process}");
        let there = format!("/proc/{process}/fd/{}", namespace.raw());
        let words = format!(
            "link add {name} {END} gso_max_segs {} type veth \
             peer name {CLIENT_DEVICE} {END} gso_max_segs {} netns {there}",
            down.at_once_packets, up.at_once_packets
        );
        iproute::run("ip", &words, None, "veth devices")?;
        Ok(ServerEnd { index: netlink::index_of(&name)?, name })
    }
}

impl Drop for ServerEnd {
    fn drop(&mut self) {
        // If this fails, the pair still disappears with the namespace a moment later.
        let _ = Netlink::new().and_then(|netlink| netlink.remove(self.index));
    }
}

fn add(discipline: &Discipline, device: &str, namespace: Option<&Namespace>) -> Result<(), ShapingError> {
    for (kind, words) in discipline.added_to(device) {
        iproute::run("tc", &words, namespace, &format!("{kind} queueing discipline"))?;
    }
    Ok(())
}

fn counts(device: &str, namespace: Option<&Namespace>) -> io::Result<Counts> {
    let shown = iproute::run("tc", &tc::shown(device), namespace, "queueing disciplines");
    Counts::read(&shown.map_err(io::Error::other)?)
}

fn way(line: &Line, discipline: &Discipline, counts: Counts) -> DirectionReport {
    // With configured loss, the same counter includes lost packets and those that found the queue full.
    let is_lossless = line.loss.mean() == 0.0;
    DirectionReport {
        rate_bits_per_second: line.rate,
        mean_delay_seconds: line.delay.as_ref().map_or(0.0, RandomVariable::mean),
        loss_probability: line.loss.mean(),
        packets: counts.packets + counts.dropped_packets + counts.queued_packets,
        bytes: None,
        delivered_packets: counts.packets,
        delivered_bytes: discipline.sent_bytes(counts),
        dropped_packets: counts.dropped_packets,
        overflowed_packets: is_lossless.then_some(counts.dropped_packets),
        lost_packets: is_lossless.then_some(0),
        foreign_packets: None,
        refused_packets: None,
        pending_packets: counts.queued_packets,
        queue_packets_max: None,
        lateness_seconds: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::Loss;

    #[test]
    fn drops_are_told_apart_only_where_nothing_is_to_be_lost() {
        let counts = Counts { packets: 10, bytes: 9_000, dropped_packets: 3, queued_packets: 2 };
        let lossless =
            Line { rate: None, delay: None, loss: Loss::Never, queue_packets_max: 100, reorders: false };
        let lossy = Line { loss: Loss::Independent(0.1), ..lossless.clone() };
        let [sure, unsure] =
            [lossless, lossy].map(|line| way(&line, &Discipline::of(&line).unwrap(), counts));
        assert_eq!((sure.overflowed_packets, sure.lost_packets), (Some(3), Some(0)));
        assert_eq!((unsure.overflowed_packets, unsure.lost_packets), (None, None));
        assert_eq!((unsure.packets, unsure.dropped_packets), (15, 3));
    }
}
