//! Reactions to protocol errors of the client: resets the stream, or ends the connection (RFC 9113, 5.4).

use std::time::Duration;

use h2::Reason as Code;

use super::Http2;
use super::frames::Faults;
use super::limits::{FAULTS_MAX, FAULTS_PER_SECOND};
use crate::connection::{Buffer, Context};
use crate::counters::Counter;

/// The number of errors that a client may still make; it grows with time.
#[derive(Debug)]
pub struct Allowance {
    left: u32,
    grown: Duration,
}

impl Default for Allowance {
    fn default() -> Allowance {
        Allowance { left: FAULTS_MAX, grown: Duration::ZERO }
    }
}

impl Allowance {
    /// Returns false if `count` exceeds the allowance.
    fn take(&mut self, count: u32, now: Duration) -> bool {
        let more = now.saturating_sub(self.grown).as_secs().saturating_mul(FAULTS_PER_SECOND.into());
        if more > 0 {
            self.left = u32::try_from(more).unwrap_or(u32::MAX).saturating_add(self.left).min(FAULTS_MAX);
            self.grown = now;
        }
        self.left.checked_sub(count).map(|left| self.left = left).is_some()
    }
}

impl Faults {
    /// The error of a stream that has only now been accepted.
    pub fn take(&mut self, stream: u32) -> Option<Code> {
        let place = self.streams.iter().position(|(id, _)| *id == stream)?;
        Some(self.streams.swap_remove(place).1)
    }
}

impl Http2 {
    /// Passes on the valid part of the received bytes and records errors.
    pub(super) fn receive(&mut self, buffer: Buffer, context: &mut Context<'_>) {
        let mut sound = context.pool.take_buffer();
        let known = self.faults.streams.len();
        self.frames.read(buffer.unread(), sound.space(), &mut self.faults);
        context.pool.put_buffer(buffer);
        context.pool.put_buffer(self.pipe.receive(sound));
        let count = (self.faults.streams.len() - known) as u32;
        context.served.add(Counter::StreamsRejected, count.into());
        if count > 0 && !self.allowance.take(count, context.clock.now) {
            self.faults.connection = Some(Code::ENHANCE_YOUR_CALM);
        }
    }

    /// Resets streams with errors, and ends the connection after a connection error.
    pub(super) fn punish(&mut self, context: &mut Context<'_>) {
        if let Some(code) = self.faults.connection.take() {
            self.shut_down(code);
            return self.poll(context);
        }
        // The stream may be in bytes that have not been read yet.
        if self.faults.streams.is_empty() || !self.pipe.is_read() {
            return;
        }
        for (id, code) in std::mem::take(&mut self.faults.streams) {
            match self.streams.iter_mut().find(|stream| stream.id() == id) {
                Some(stream) => stream.reject(code),
                // RFC 9113, 5.1: nothing more is expected on a closed stream.
                None if matches!(code, Code::STREAM_CLOSED | Code::FRAME_SIZE_ERROR) => self.shut_down(code),
                None => {}
            }
        }
        self.poll(context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allowance_grows_with_time() {
        let mut allowance = Allowance::default();
        assert!(allowance.take(FAULTS_MAX, Duration::ZERO));
        assert!(!allowance.take(1, Duration::from_millis(900)));
        assert!(allowance.take(FAULTS_PER_SECOND, Duration::from_secs(1)));
        assert!(!allowance.take(1, Duration::from_secs(1)));
        assert!(allowance.take(FAULTS_MAX, Duration::from_secs(1000)));
        assert!(!allowance.take(1, Duration::from_secs(1000)));
    }
}
