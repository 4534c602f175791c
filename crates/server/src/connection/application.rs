//! What is spoken over a transport, and how that is chosen.

use std::net::IpAddr;

use super::{Context, Event, Http1, Wait, Want};

/// The machine of one protocol.
#[derive(Debug)]
pub enum Application {
    /// HTTP/1.
    Http1(Http1),
}

impl Application {
    /// What is spoken on a connection from `peer` that says nothing about it; `is_secure` if nobody on the way can read
    /// it.
    pub fn new(peer: IpAddr, is_secure: bool) -> Application {
        Application::Http1(Http1::new(peer, is_secure))
    }

    /// The first want.
    pub fn start(&self) -> Want {
        match self {
            Application::Http1(machine) => machine.start(),
        }
    }

    /// Takes an event, says what is wanted next.
    pub fn handle(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        match self {
            Application::Http1(machine) => machine.handle(event, context),
        }
    }

    /// What it waits for while its want cannot be done.
    pub fn waits_for(&self) -> Wait {
        match self {
            Application::Http1(machine) => machine.waits_for(),
        }
    }

    /// It is about to be forgotten: whatever it has begun ends here.
    pub fn finish(&mut self, context: &mut Context<'_>) {
        match self {
            Application::Http1(machine) => machine.finish(context),
        }
    }
}
