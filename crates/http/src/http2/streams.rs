//! The streams of a connection: those that are alive with their windows, and how the latest others ended (RFC 9113,
//! 5.1).

use std::collections::VecDeque;

use super::priority::Priority;

/// How many ended streams are remembered, because frames of them may still be on their way. Before them comes what is
/// forgotten.
const REMEMBERED_MAX: usize = 200;

/// A stream that is alive.
#[derive(Debug)]
pub struct Stream {
    pub id: u32,
    /// The peer's message has begun with its head (a client's view of a response).
    pub has_head: bool,
    /// The peer has ended its message (END_STREAM).
    pub is_received: bool,
    /// This side has ended its message.
    pub is_sent: bool,
    /// Bytes of DATA that this side may send; negative if the peer has shrunk it since.
    pub send_window: i64,
    /// Bytes of DATA that the peer may send.
    pub receive_window: i64,
    /// Received bytes that are consumed, but not given back to the peer's window.
    pub consumed: u32,
    /// Bytes of the peer's message to come, if it said how many.
    pub content_left: Option<u64>,
    pub priority: Option<Priority>,
}

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// Both messages were complete.
    Complete,
    /// The peer has reset it.
    Reset,
    /// This side has reset it; the peer may not know yet.
    Rejected,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Not started.
    Idle,
    /// Its place among the live ones.
    Live(usize),
    Closed(Closed),
    /// Skipped, or closed long ago.
    Forgotten,
}

#[derive(Debug, Default)]
pub struct Streams {
    /// In ascending order of identifiers. Most end in about that order: from the front, without moving the others.
    live: VecDeque<Stream>,
    /// The latest stream that was started.
    last: u32,
    closed: VecDeque<(u32, Closed)>,
}

impl Streams {
    /// The state of a stream, which only the client starts: an even identifier stays idle.
    pub fn state(&self, id: u32) -> State {
        if id > self.last || id.is_multiple_of(2) {
            return State::Idle;
        }
        if let Some(place) = self.place(id) {
            return State::Live(place);
        }
        let ended = self.closed.iter().rev().find(|(other, _)| *other == id);
        ended.map_or(State::Forgotten, |(_, closed)| State::Closed(*closed))
    }

    pub fn last(&self) -> u32 {
        self.last
    }

    pub fn live(&self) -> &VecDeque<Stream> {
        &self.live
    }

    pub fn live_mut(&mut self) -> &mut VecDeque<Stream> {
        &mut self.live
    }

    pub fn get(&self, id: u32) -> Option<&Stream> {
        self.place(id).map(|place| &self.live[place])
    }

    pub fn get_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.place(id).map(|place| &mut self.live[place])
    }

    /// Starts a stream, which was idle.
    pub fn begin(&mut self, id: u32, send_window: u32, receive_window: u32) -> &mut Stream {
        self.last = id;
        self.live.push_back(Stream {
            id,
            has_head: false,
            is_received: false,
            is_sent: false,
            send_window: send_window.into(),
            receive_window: receive_window.into(),
            consumed: 0,
            content_left: None,
            priority: None,
        });
        self.live.back_mut().expect("it was pushed")
    }

    /// Ends a stream, or changes how it ended.
    pub fn end(&mut self, id: u32, how: Closed) {
        match self.place(id) {
            Some(place) => drop(self.live.remove(place)),
            None => {
                if let Some(ended) = self.closed.iter_mut().rev().find(|(other, _)| *other == id) {
                    ended.1 = how;
                }
                return;
            }
        }
        if self.closed.len() == REMEMBERED_MAX {
            self.closed.pop_front();
        }
        self.closed.push_back((id, how));
    }

    fn place(&self, id: u32) -> Option<usize> {
        match (self.live.front(), self.live.back()) {
            (Some(first), _) if first.id == id => Some(0),
            (_, Some(last)) if last.id == id => Some(self.live.len() - 1),
            _ => self.live.binary_search_by_key(&id, |stream| stream.id).ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_idle_to_forgotten() {
        let mut streams = Streams::default();
        assert_eq!(streams.state(1), State::Idle);
        streams.begin(5, 1, 1);
        assert_eq!([1, 5, 7].map(|id| streams.state(id)), [State::Forgotten, State::Live(0), State::Idle]);
        assert_eq!(streams.state(2), State::Idle, "nobody starts it");
        streams.end(5, Closed::Complete);
        assert_eq!((streams.state(5), streams.live().len()), (State::Closed(Closed::Complete), 0));
        streams.end(5, Closed::Reset);
        assert_eq!(streams.state(5), State::Closed(Closed::Reset));
        for id in (7..).step_by(2).take(REMEMBERED_MAX) {
            streams.begin(id, 1, 1);
            streams.end(id, Closed::Rejected);
        }
        assert_eq!((streams.state(5), streams.closed.len()), (State::Forgotten, REMEMBERED_MAX));
    }
}
