//! The protocol inside TLS: with a client, or with an upstream.

use super::super::{Application, Context, Event, Launched, Wait, Want};

#[derive(Debug)]
pub(super) enum Inside {
    Client(Application),
    Launched(Launched),
}

impl Inside {
    /// Takes an event and returns the next want.
    pub fn handle(&mut self, event: Event, context: &mut Context<'_>) -> Want {
        match self {
            Inside::Client(application) => application.handle(event, context),
            Inside::Launched(machine) => machine.handle(event, context),
        }
    }

    pub fn waits_for(&self) -> Wait {
        match self {
            Inside::Client(application) => application.waits_for(),
            Inside::Launched(machine) => machine.waits_for(),
        }
    }

    /// Returns true if it carries requests side by side.
    pub fn has_streams(&self) -> bool {
        matches!(self, Inside::Client(application) if application.has_streams())
    }

    /// The share of bodies in what was sent since the last call.
    pub fn body_fraction(&mut self) -> f64 {
        match self {
            Inside::Client(application) => application.body_fraction(),
            Inside::Launched(_) => 1.0,
        }
    }

    /// It is about to be forgotten: whatever it has begun ends here.
    pub fn finish(&mut self, context: &mut Context<'_>) {
        match self {
            Inside::Client(application) => application.finish(context),
            Inside::Launched(machine) => drop(machine.finish(context)),
        }
    }
}
