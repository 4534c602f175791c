//! The entrance of a server that accepts for others: whom it lets in, whom it sheds, when it pauses.

use std::net::{IpAddr, TcpListener};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use crate::counters::{Counter, Served};
use crate::site::Site;
use crate::sockets::accept::{Accepted, Acceptor, shed};

/// How long nobody is accepted after descriptors have run out.
const PAUSE: Duration = Duration::from_millis(250);

/// Attempts to let somebody in before others have their turn.
const ATTEMPTS_MAX: usize = 64;

/// The listening socket and the limit on who is inside.
pub struct Entrance<'a> {
    site: &'a Site,
    acceptor: Acceptor,
    paused_until: Option<Instant>,
}

impl<'a> Entrance<'a> {
    /// Lets those who come to `listener` in, as far as the limits of `site` allow.
    pub fn new(site: &'a Site, listener: TcpListener) -> std::io::Result<Entrance<'a>> {
        Ok(Entrance { site, acceptor: Acceptor::new(listener)?, paused_until: None })
    }

    /// The next who is let in. Who is counts as [inside](crate::Board::enter) until somebody says otherwise.
    pub fn next(&mut self, served: &mut Served) -> Option<(OwnedFd, IpAddr)> {
        if self.pause().is_some() {
            return None;
        }
        for _ in 0..ATTEMPTS_MAX {
            match self.acceptor.accept() {
                Accepted::Connection(socket, peer) => {
                    if self.site.board.enter(self.site.limits.connections_max) {
                        return Some((socket, peer));
                    }
                    turn_away(&socket, served);
                }
                Accepted::Shed => served.count(Counter::ConnectionsShed),
                Accepted::Failed => served.count(Counter::AcceptErrors),
                Accepted::Nobody => return None,
                Accepted::Exhausted => {
                    served.count(Counter::AcceptErrors);
                    self.paused_until = Some(Instant::now() + PAUSE);
                    return None;
                }
            }
        }
        None
    }

    /// How long nobody will be let in.
    pub fn pause(&self) -> Option<Duration> {
        let left = self.paused_until?.saturating_duration_since(Instant::now());
        (!left.is_zero()).then_some(left)
    }

    /// Readable when somebody waits.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.acceptor.fd()
    }
}

/// Tells somebody that there is no room.
pub fn turn_away(socket: &OwnedFd, served: &mut Served) {
    shed(socket);
    served.count(Counter::ConnectionsShed);
}
