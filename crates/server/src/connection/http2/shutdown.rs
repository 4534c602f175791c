//! The end of a connection: graceful shutdown (GOAWAY), timeout, lingering close.

use sojourn_http::http2::ErrorCode;

use super::{Http2, Operation};
use crate::connection::{Context, Reason, Want};
use crate::counters::Counter;

impl Http2 {
    /// Announces once that no more requests are accepted (GOAWAY), because the server stops or the connection has had
    /// its number of requests. Requests already sent are answered.
    pub(super) fn notice_stop(&mut self, context: &mut Context<'_>) {
        let has_had_all = context.limits.requests_per_connection.is_some_and(|max| self.requests >= max);
        // Before its preface a client does not understand frames.
        if self.is_stopping || !(context.is_draining || has_had_all) || !self.protocol.is_begun() {
            return;
        }
        if has_had_all {
            context.served.count(Counter::LimitRequestsPerConnection);
        }
        self.protocol.leave();
        self.is_stopping = true;
    }

    /// The deadline has passed: sends GOAWAY, unless the client does not read, behind the answers to requests whose bodies
    /// have not arrived.
    pub(super) fn expire(&mut self, context: &mut Context<'_>) -> Option<Want> {
        match self.operation {
            Operation::Lingering(_) => return Some(Want::Close(Reason::Finished)),
            Operation::Sending => return Some(Want::Close(Reason::TimedOut)),
            _ => {}
        }
        context.served.count(Counter::Timeouts);
        self.operation = Operation::Nothing;
        if self.streams.iter().any(|stream| stream.is_uploading()) {
            self.streams.iter_mut().for_each(|stream| stream.time_out(&mut self.protocol, context));
            self.run_streams(context);
        }
        self.protocol.shut_down(ErrorCode::NO_ERROR);
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
        if self.input.unread().is_empty() {
            context.pool.put_buffer(std::mem::take(&mut self.input));
        }
        if self.protocol.output().is_empty() {
            context.pool.put(self.protocol.take_output());
        }
        self.protocol.trim();
    }
}
