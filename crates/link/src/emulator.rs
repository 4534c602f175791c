//! Emulates a link in user space: moves packets between the two sides at the times that their lines give.
//!
//! One thread waits for packets from either device, the next delivery, and the caller's descriptor. A packet's time
//! starts when it is read. Its lateness at delivery is recorded, because lateness adds to the configured delay.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use sojourn_measure::{Histogram, Nanos, clock};
use sojourn_queueing::distribution::RandomVariable;
use sojourn_queueing::random::Random;

use crate::carrier::{Carrier, Link};
use crate::epoll::Readiness;
use crate::line::{Direction, Draws, Line, Passage};
use crate::namespace::Namespace;
use crate::network::Network;
use crate::report::{DirectionReport, Report, Shaper};
use crate::tun::{PACKET_BYTES_MAX, Tun};

/// Packets read from one side before due packets are delivered and the other side is read.
const PACKETS_PER_ITERATION: usize = 64;

/// The most packets in transit in one direction (1.5 GB of the longest); more are dropped as if the queue were full.
const FLYING_PACKETS_MAX: usize = 1_000_000;

/// The largest acceptable share of late packets.
const LATE_SHARE_MAX: f64 = 0.01;

/// Offsets of the addresses in an IPv4 header (RFC 791, 3.1).
const SOURCE_AT: usize = 12;
const DESTINATION_AT: usize = 16;

const UP: u64 = 0;
const DOWN: u64 = 1;
const DUE: u64 = 2;
/// Tokens of the caller's descriptors start here.
const OTHERS: u64 = 3;

pub struct Emulator {
    link: Link,
    namespace: Namespace,
    up: Carriage,
    down: Carriage,
    readiness: Readiness,
    timer: OwnedFd,
    alarm: Nanos,
    begin: Nanos,
    cpu_begin: Nanos,
}

/// One direction of all lines.
struct Carriage {
    line: Line,
    from: Tun,
    network: Network,
    /// Offset of the client's address in a packet's header.
    client_at: usize,
    directions: Vec<Direction>,
    draws: Draws,
    flying: BinaryHeap<Reverse<Flying>>,
    tally: Tally,
}

/// A packet in transit; ordered by due time, then by arrival.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Flying {
    due: Nanos,
    number: u64,
    packet: Box<[u8]>,
}

#[derive(Default)]
struct Tally {
    packets: u64,
    bytes: u64,
    delivered_packets: u64,
    delivered_bytes: u64,
    overflowed_packets: u64,
    lost_packets: u64,
    foreign_packets: u64,
    refused_packets: u64,
    queue_packets_max: usize,
    lateness: Histogram,
}

impl Emulator {
    /// Starts a link: the server's side in the calling thread's network namespace, the clients' side in a new one.
    /// Needs `CAP_NET_ADMIN` and `CAP_SYS_ADMIN`.
    pub fn new(link: Link) -> io::Result<Emulator> {
        let namespace = Namespace::create()?;
        let server = link.network.server_side()?;
        let client = link.network.client_side(&namespace, link.lines)?;
        let mut random = Random::stream(link.seed, 4);
        let extra =
            |_| Nanos::from_seconds(link.line_delay.as_ref().map_or(0.0, |law| law.sample(&mut random)));
        let extras: Vec<Nanos> = (0..link.lines).map(extra).collect();
        let readiness = Readiness::new()?;
        let timer = rustix::time::timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        for (fd, token) in [(client.as_fd(), UP), (server.as_fd(), DOWN), (timer.as_fd(), DUE)] {
            readiness.add(fd, token)?;
        }
        Ok(Emulator {
            up: Carriage::new(&link.up, client, (link.network, SOURCE_AT), &extras, Draws::new(link.seed, 0)),
            down: Carriage::new(
                &link.down,
                server,
                (link.network, DESTINATION_AT),
                &extras,
                Draws::new(link.seed, 1),
            ),
            link,
            namespace,
            readiness,
            timer,
            alarm: Nanos::MAX,
            begin: clock::now(),
            cpu_begin: clock::thread_cpu(),
        })
    }

    fn set_alarm(&mut self, due: Nanos) -> io::Result<()> {
        if due == self.alarm {
            return Ok(());
        }
        self.alarm = due;
        let at = if due == Nanos::MAX { Nanos::ZERO } else { due }; // zero stops it
        let value =
            Timespec { tv_sec: (at.0 / 1_000_000_000) as i64, tv_nsec: (at.0 % 1_000_000_000) as i64 };
        let never = Timespec { tv_sec: 0, tv_nsec: 0 };
        let setting = Itimerspec { it_interval: never, it_value: value };
        rustix::time::timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &setting)?;
        Ok(())
    }
}

impl Carrier for Emulator {
    fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    fn watch(&mut self, fd: BorrowedFd<'_>, token: u64) -> io::Result<()> {
        self.readiness.add(fd, OTHERS + token)
    }

    fn run(&mut self, mut is_over: impl FnMut(u64) -> io::Result<bool>) -> io::Result<()> {
        loop {
            for token in self.readiness.wait()? {
                match token {
                    UP => self.up.take_all()?,
                    DOWN => self.down.take_all()?,
                    DUE => {
                        // The count of expirations is not needed: the clock tells the same.
                        let _ = rustix::io::read(&self.timer, &mut [0; 8]);
                        self.alarm = Nanos::MAX;
                    }
                    other => {
                        if is_over(other - OTHERS)? {
                            return Ok(());
                        }
                    }
                }
            }
            let up = self.up.hand_over(&self.down.from);
            let down = self.down.hand_over(&self.up.from);
            self.set_alarm(up.min(down))?;
        }
    }

    fn report(&self) -> io::Result<Report> {
        let limit = self.link.lateness_limit;
        let is_late = |carriage: &Carriage| {
            let lateness = &carriage.tally.lateness;
            lateness.count_above(limit) as f64 > LATE_SHARE_MAX * lateness.count() as f64
        };
        Ok(Report {
            shaper: Shaper::User,
            server_address: self.link.network.server(),
            client_address: self.link.network.client(0),
            lines: self.link.lines,
            seed: Some(self.link.seed),
            duration_seconds: (clock::now() - self.begin).seconds(),
            cpu_seconds: Some((clock::thread_cpu() - self.cpu_begin).seconds()),
            limited: Some(is_late(&self.up) || is_late(&self.down)),
            lateness_limit_seconds: Some(limit.seconds()),
            up: self.up.report(),
            down: self.down.report(),
        })
    }
}

impl Carriage {
    fn new(
        line: &Line,
        from: Tun,
        (network, client_at): (Network, usize),
        extras: &[Nanos],
        draws: Draws,
    ) -> Carriage {
        let directions = extras.iter().map(|&extra| Direction::new(line.clone(), extra)).collect();
        let (line, flying) = (line.clone(), BinaryHeap::new());
        Carriage { line, from, network, client_at, directions, draws, flying, tally: Tally::default() }
    }

    /// Reads packets from the kernel into the lines.
    fn take_all(&mut self) -> io::Result<()> {
        let mut packet = [0; PACKET_BYTES_MAX];
        for _ in 0..PACKETS_PER_ITERATION {
            let Some(count) = self.from.receive(&mut packet)? else { break };
            self.take(clock::now(), &packet[..count]);
        }
        Ok(())
    }

    fn take(&mut self, now: Nanos, packet: &[u8]) {
        let tally = &mut self.tally;
        tally.packets += 1;
        tally.bytes += packet.len() as u64;
        let line = client_of(packet, self.client_at).and_then(|client| self.network.line(client));
        let Some(direction) = line.and_then(|line| self.directions.get_mut(line as usize)) else {
            tally.foreign_packets += 1;
            return;
        };
        if self.flying.len() >= FLYING_PACKETS_MAX {
            tally.overflowed_packets += 1;
            return;
        }
        let passage = direction.take(now, packet.len(), &mut self.draws);
        tally.queue_packets_max = tally.queue_packets_max.max(direction.queued());
        match passage {
            Passage::Arrives(due) => {
                self.flying.push(Reverse(Flying { due, number: tally.packets, packet: packet.into() }));
            }
            Passage::Overflows => tally.overflowed_packets += 1,
            Passage::IsLost => tally.lost_packets += 1,
        }
    }

    /// Delivers due packets; returns when the next one is due.
    fn hand_over(&mut self, to: &Tun) -> Nanos {
        while let Some(Reverse(next)) = self.flying.peek() {
            let now = clock::now();
            if next.due > now {
                return next.due;
            }
            let (due, is_taken, bytes) = (next.due, to.send(&next.packet), next.packet.len() as u64);
            self.flying.pop();
            self.tally.lateness.record(now - due);
            if is_taken {
                self.tally.delivered_packets += 1;
                self.tally.delivered_bytes += bytes;
            } else {
                self.tally.refused_packets += 1;
            }
        }
        Nanos::MAX
    }

    fn report(&self) -> DirectionReport {
        let tally = &self.tally;
        DirectionReport {
            rate_bits_per_second: self.line.rate,
            mean_delay_seconds: self.line.delay.as_ref().map_or(0.0, RandomVariable::mean),
            loss_probability: self.line.loss.mean(),
            packets: tally.packets,
            bytes: Some(tally.bytes),
            delivered_packets: tally.delivered_packets,
            delivered_bytes: tally.delivered_bytes,
            dropped_packets: tally.overflowed_packets + tally.lost_packets,
            overflowed_packets: Some(tally.overflowed_packets),
            lost_packets: Some(tally.lost_packets),
            foreign_packets: Some(tally.foreign_packets),
            refused_packets: Some(tally.refused_packets),
            pending_packets: self.flying.len() as u64,
            queue_packets_max: Some(tally.queue_packets_max),
            lateness_seconds: Some(tally.lateness.summary()),
        }
    }
}

/// The address at this offset of an IPv4 packet.
fn client_of(packet: &[u8], at: usize) -> Option<Ipv4Addr> {
    let version = packet.first()? >> 4;
    let octets: [u8; 4] = packet.get(at..at + 4)?.try_into().expect("four bytes are four bytes");
    (version == 4).then(|| octets.into())
}
