//! Contention for workers: a client that keeps its worker waiting gives way to clients that wait for one.
//!
//! A worker serves one connection at a time, so as many idle connections as there are workers would keep everybody else
//! out until their timeout. A worker that waits for its client therefore watches for connections that no worker accepts.
//! Then its next response is the connection's last, and the connection ends without one after [`IDLE_PERIOD`] if it is idle,
//! and after [`CONTENDED_TIMEOUT`] if a part of a request has come. Without contention the usual timeouts apply.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::connection::Wait;
use crate::counters::scoreboard::Scoreboard;

/// How long a connection may be idle before it gives way, and the time between two looks. Most clients that make one
/// request after another are faster.
const IDLE_PERIOD: Duration = Duration::from_millis(100);

/// How long a client that makes request after request has its worker before the first look, and between two looks.
const BUSY_PERIOD: Duration = Duration::from_millis(250);

/// How long free workers have to accept a connection before it is taken to be waiting.
const ACCEPT_TIME: Duration = Duration::from_millis(5);

/// How long a client may take over a request while others wait: its first one, or the rest of one.
const CONTENDED_TIMEOUT: Duration = Duration::from_secs(1);

/// The clients that wait for one of a server's workers.
pub struct Backlog<'a> {
    listeners: Vec<BorrowedFd<'a>>,
    scoreboard: &'a Scoreboard,
    workers: u64,
}

impl<'a> Backlog<'a> {
    /// The backlog before `workers` that accept one connection at a time from these listeners, counted on the scoreboard.
    pub fn new(listeners: Vec<BorrowedFd<'a>>, scoreboard: &'a Scoreboard, workers: usize) -> Backlog<'a> {
        Backlog { listeners, scoreboard, workers: workers as u64 }
    }

    /// Returns true if a connection waits to be accepted.
    pub fn has_waiting(&self) -> bool {
        let mut waits: Vec<_> = self.listeners.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut waits, Some(&now)).is_ok_and(|count| count > 0)
    }

    /// Returns true if a connection waits and all workers serve others.
    fn is_neglected(&self) -> bool {
        self.scoreboard.open() >= self.workers && self.has_waiting()
    }
}

/// What one worker knows of the clients that wait while it serves a connection.
pub struct Contention<'a> {
    /// `None` if nobody waits where the worker could see it.
    backlog: Option<&'a Backlog<'a>>,
    state: State,
    next_look: Duration,
    next_busy_look: Duration,
    /// What the client is waited for, after how many answers, and since when.
    wait: Wait,
    answers: u64,
    since: Duration,
    has_answered: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Nobody is known to wait.
    None,
    /// A connection waits; a free worker may be about to accept it.
    Waiting,
    /// No worker is free.
    Certain,
}

impl<'a> Contention<'a> {
    /// For a connection that is served from `now` on, after `answers` to other clients.
    pub fn new(backlog: Option<&'a Backlog<'a>>, answers: u64, now: Duration) -> Contention<'a> {
        Contention {
            backlog,
            state: State::None,
            next_look: now.saturating_add(IDLE_PERIOD),
            next_busy_look: now.saturating_add(BUSY_PERIOD),
            wait: Wait::Request,
            answers,
            since: now,
            has_answered: false,
        }
    }

    /// The worker waits for its client, which has got so many answers.
    pub fn observe(&mut self, wait: Wait, answers: u64, now: Duration) {
        self.has_answered |= answers != self.answers;
        if (wait, answers) == (self.wait, self.answers) {
            return;
        }
        (self.wait, self.answers, self.since) = (wait, answers, now);
        if self.state == State::None {
            self.next_look = now.saturating_add(IDLE_PERIOD);
            if now >= self.next_busy_look {
                self.next_busy_look = now.saturating_add(BUSY_PERIOD);
                self.look(now);
            }
        }
    }

    /// Returns true if the client's next response should be its last.
    pub fn is_certain(&self) -> bool {
        self.state == State::Certain
    }

    /// When the worker must go on even if nothing happens, and the descriptors to watch until then besides the client's.
    /// Neither, if the client `may` not give way.
    pub fn next(&self, now: Duration, may: bool) -> (Option<Duration>, &'a [BorrowedFd<'a>]) {
        match self.backlog.filter(|_| may) {
            None => (None, &[]),
            Some(backlog) if self.state == State::None && now >= self.next_look => (None, &backlog.listeners),
            Some(_) => (Some(self.next_look), &[]),
        }
    }

    /// Looks without watching, if that is due.
    pub fn look_if_due(&mut self, now: Duration) {
        if self.state == State::None && now >= self.next_look {
            self.next_look = now.saturating_add(IDLE_PERIOD);
            self.look(now);
        }
    }

    fn look(&mut self, now: Duration) {
        if self.backlog.is_some_and(Backlog::is_neglected) {
            self.on_readable(now);
        }
    }

    /// A watched descriptor is readable.
    pub fn on_readable(&mut self, now: Duration) {
        (self.state, self.next_look) = (State::Waiting, now.saturating_add(ACCEPT_TIME));
    }

    /// Looks again if that is due; returns true if the connection must end now.
    pub fn ends(&mut self, now: Duration) -> bool {
        if self.state != State::None && now >= self.next_look {
            let is_neglected = self.backlog.is_some_and(Backlog::is_neglected);
            self.state = if is_neglected { State::Certain } else { State::None };
            self.next_look = now.saturating_add(IDLE_PERIOD);
        }
        self.is_certain() && self.timeout().is_some_and(|timeout| now >= self.since.saturating_add(timeout))
    }

    /// How long this wait may take while others wait; `None` if it is not for the client, or what it waits for must
    /// come.
    fn timeout(&self) -> Option<Duration> {
        match self.wait {
            Wait::Request | Wait::Quiet(_) if self.has_answered => Some(IDLE_PERIOD),
            Wait::Request | Wait::Quiet(_) | Wait::Head(_) | Wait::End => Some(CONTENDED_TIMEOUT),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    use super::*;
    use crate::counters::scoreboard::Permit;
    use crate::limits::Limits;

    fn at(milliseconds: u64) -> Duration {
        Duration::from_millis(milliseconds)
    }

    /// A scoreboard on which this many workers serve somebody.
    fn with_busy(count: usize) -> Scoreboard {
        let scoreboard = Scoreboard::new();
        for _ in 0..count {
            assert_eq!(scoreboard.acquire([127, 0, 0, 1].into(), &Limits::default()), Ok(Permit::ANY));
        }
        scoreboard
    }

    #[test]
    fn an_idle_client_gives_way_to_one_that_nobody_accepts() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let scoreboard = with_busy(2);
        let backlog = Backlog::new(vec![listener.as_fd()], &scoreboard, 2);
        let mut contention = Contention::new(Some(&backlog), 7, at(0));
        contention.observe(Wait::Request, 8, at(10));
        let next = |contention: &Contention<'_>, now| {
            let (look, watched) = contention.next(at(now), true);
            (look, watched.len())
        };
        assert_eq!(next(&contention, 109), (Some(at(110)), 0));
        assert_eq!(next(&contention, 110), (None, 1));
        assert!(contention.next(at(110), false).1.is_empty());
        // It is accepted soon.
        contention.on_readable(at(120));
        assert_eq!(next(&contention, 120), (Some(at(125)), 0));
        assert!(!contention.ends(at(125)) && !contention.is_certain());
        // It is not.
        let _waiting = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        contention.on_readable(at(300));
        assert!(!contention.ends(at(304)));
        assert!(contention.ends(at(305)) && contention.is_certain());
        // The client has gone on meanwhile, and the other one has been accepted.
        contention.observe(Wait::Upload, 8, at(310));
        assert!(!contention.ends(at(320)) && contention.is_certain());
        drop(listener.accept().unwrap());
        contention.observe(Wait::Request, 9, at(500));
        assert!(!contention.ends(at(500)) && !contention.is_certain());
    }

    #[test]
    fn a_free_worker_is_given_the_time_that_it_takes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _waiting = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let scoreboard = with_busy(1);
        let backlog = Backlog::new(vec![listener.as_fd()], &scoreboard, 2);
        let mut contention = Contention::new(Some(&backlog), 0, at(0));
        contention.observe(Wait::Request, 1, at(0));
        contention.on_readable(at(200));
        assert!(!contention.ends(at(5000)) && !contention.is_certain());
        assert!(Contention::new(None, 0, at(0)).next(at(5000), true).1.is_empty());
    }

    #[test]
    fn a_client_that_is_never_idle_gives_way_with_its_next_response() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _waiting = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let scoreboard = with_busy(1);
        let backlog = Backlog::new(vec![listener.as_fd()], &scoreboard, 1);
        let mut contention = Contention::new(Some(&backlog), 0, at(0));
        for number in 1..=26 {
            assert!(!contention.is_certain(), "{number}");
            contention.observe(Wait::Request, number, at(10 * number));
            assert!(!contention.ends(at(10 * number)), "{number}");
        }
        assert!(contention.is_certain());
    }

    #[test]
    fn who_has_not_been_answered_has_more_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let _waiting = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let scoreboard = with_busy(1);
        let backlog = Backlog::new(vec![listener.as_fd()], &scoreboard, 1);
        for (wait, since) in [(Wait::Request, 0), (Wait::Head(0), 20)] {
            let mut contention = Contention::new(Some(&backlog), 7, at(0));
            contention.observe(wait, 7, at(20));
            contention.on_readable(at(60));
            assert!(!contention.ends(at(70)) && contention.is_certain());
            assert!(!contention.ends(at(since + 999)), "{wait:?}");
            assert!(contention.ends(at(since + 1000)), "{wait:?}");
        }
    }
}
