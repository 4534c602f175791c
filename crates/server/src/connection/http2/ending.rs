//! The end of a connection: graceful shutdown, close, timeout.

use h2::Reason as Code;

use super::{Http2, Operation, Session};
use crate::connection::{Buffer, Context, Reason, Wait, Want};
use crate::counters::Counter;

impl Http2 {
    /// Announces once that no more requests are accepted (GOAWAY), because the server stops or the connection has had
    /// its number of requests. Requests already sent are answered. Returns true if it must be announced now.
    pub(super) fn notice_stop(&mut self, context: &mut Context<'_>) -> bool {
        let has_had_all = context.limits.requests_per_connection.is_some_and(|max| self.requests >= max);
        // Before its preface a client does not understand frames.
        let Session::Open(connection) = &mut self.session else { return false };
        if self.is_stopping || !(context.is_draining || has_had_all) {
            return false;
        }
        if has_had_all {
            context.served.count(Counter::LimitRequestsPerConnection);
        }
        connection.graceful_shutdown();
        self.is_stopping = true;
        true
    }

    pub(super) fn shut_down(&mut self, code: Code) {
        match &mut self.session {
            Session::Open(connection) => connection.abrupt_shutdown(code),
            session => *session = Session::Over,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        matches!(self.session, Session::Over)
    }

    /// The deadline has passed: sends GOAWAY, unless the client does not read.
    pub(super) fn expire(&mut self, context: &mut Context<'_>) -> Option<Want> {
        match self.waits_for() {
            Wait::End => return Some(Want::Close(Reason::Finished)),
            Wait::Client => return Some(Want::Close(Reason::TimedOut)),
            _ => {}
        }
        context.served.count(Counter::Timeouts);
        self.operation = Operation::Nothing;
        self.shut_down(Code::NO_ERROR);
        None
    }

    /// Everything has been sent. Closing immediately could reset the connection and lose the last bytes.
    pub(super) fn linger(&mut self, context: &mut Context<'_>) -> Want {
        self.operation = Operation::Lingering(0);
        self.finish(context);
        self.start()
    }

    /// A connection that waits for its client holds no buffers.
    pub(super) fn give_back(&mut self, context: &mut Context<'_>) {
        context.pool.put_buffer(self.pipe.receive(Buffer::default()));
        if !self.pipe.has_output() {
            context.pool.put(self.pipe.take_output());
        }
    }
}
