//! Scheduling: the order in which the streams of a connection are served, and the results of their delegated jobs.

use sojourn_content::{Done, Job};
use sojourn_http::http2::ErrorCode;

use super::Http2;
use super::limits::CANCELLED_MAX;
use super::stream::End;
use super::wire::Unsent;
use crate::connection::{Context, Lane};
use crate::counters::Counter;

impl Http2 {
    /// Serves the streams in turn; returns true if there may be more to do for any of them.
    pub(super) fn run_streams(&mut self, context: &mut Context<'_>) -> bool {
        if self.streams.len() > 1 {
            self.streams.sort_by_cached_key(|stream| stream.turn(&self.protocol));
        }
        let unsent = self.streams.iter().map(|stream| stream.unsent(&self.protocol));
        self.wire.unsent = unsent.fold(Unsent::default(), |sum, unsent| sum + unsent);
        let (mut moved, mut last_moved) = (0, 0);
        for (place, stream) in self.streams.iter_mut().enumerate() {
            if stream.advance(&mut self.protocol, &mut self.wire, context) {
                (moved, last_moved) = (moved + 1, place);
                self.progress += 1;
                stream.served = self.progress;
            }
        }
        if moved == 1 {
            // It need not wait for turns of others.
            let stream = &mut self.streams[last_moved];
            while stream.end().is_none() && stream.advance(&mut self.protocol, &mut self.wire, context) {}
        }
        let (mut answered, mut cancelled) = (0, 0);
        self.streams.retain_mut(|stream| {
            match stream.end() {
                None => return true,
                Some(End::Answered) => answered += 1,
                Some(End::Cancelled) => cancelled += 1,
                Some(End::Rejected) => {}
                Some(End::Failed) => context.served.count(Counter::StreamsFailed),
            }
            stream.finish(context);
            self.protocol.discard(stream.discard_upload());
            false
        });
        self.answered = self.answered.saturating_add(answered);
        self.cancelled = self.cancelled.saturating_add(cancelled);
        context.served.add(Counter::StreamsCancelled, cancelled.into());
        if self.cancelled > self.answered.saturating_add(CANCELLED_MAX) {
            self.protocol.shut_down(ErrorCode::ENHANCE_YOUR_CALM);
        }
        moved > 0 && !self.wire.is_full(&mut self.protocol)
    }

    /// The job of the stream whose turn it is, and the stream.
    pub(super) fn next_job(&mut self) -> Option<(u32, Job)> {
        let (stream, job) = self.streams.iter_mut().find_map(|stream| {
            let job = stream.take_job()?;
            Some((stream, job))
        })?;
        self.progress += 1;
        stream.served = self.progress;
        Some((stream.id(), job))
    }

    pub(super) fn free_lane(&self) -> Option<usize> {
        self.lanes.iter().position(Option::is_none)
    }

    pub(super) fn deliver(&mut self, lane: Lane, done: Option<Done>, context: &mut Context<'_>) {
        let id = self.lanes[lane.index()].take();
        if let Some(stream) = self.streams.iter_mut().find(|stream| Some(stream.id()) == id) {
            stream.deliver(done, &mut self.protocol, context);
        }
    }
}
