//! The protocol inside TLS: a client's, or that of an upstream connection.

use super::super::{Application, Context, Event, Launched, Wait, Want};

#[derive(Debug)]
pub(super) enum Inner {
    Client(Application),
    Launched(Launched),
}

impl Inner {
    /// Handles an event and returns the next want.
    pub fn handle(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        match self {
            Inner::Client(application) => application.handle(event, context),
            Inner::Launched(machine) => machine.handle(event, context),
        }
    }

    pub fn waits_for(&self) -> Wait {
        match self {
            Inner::Client(application) => application.waits_for(),
            Inner::Launched(machine) => machine.waits_for(),
        }
    }

    /// Returns true if it multiplexes requests.
    pub fn has_streams(&self) -> bool {
        matches!(self, Inner::Client(application) if application.has_streams())
    }

    /// The share of body bytes among the bytes sent since the last call.
    pub fn body_fraction(&mut self) -> f64 {
        match self {
            Inner::Client(application) => application.body_fraction(),
            Inner::Launched(_) => 1.0,
        }
    }

    /// Called before it is dropped: ends whatever it has started.
    pub fn finish(&mut self, context: &mut Context<'_>) {
        match self {
            Inner::Client(application) => application.finish(context),
            Inner::Launched(machine) => drop(machine.finish(context)),
        }
    }
}
