//! Random access to the sessions of a trace file: by number, or by position in the sum of all durations.
//!
//! A file is scanned once. Every n-th session is an index point whose position is kept; to find a session, those from
//! its index point on are read. The number of index points does not grow with the file.

use std::io::{BufReader, Read, Seek, SeekFrom};

use super::{Head, Place, TraceFileError, TraceReader};
use crate::arrivals::{Templates, Totals};
use crate::trace::{Request, Session};

/// The most index points, of 40 bytes each.
pub const PLACES_MAX: usize = 1 << 16;

const BUFFER_BYTES: usize = 64 << 10;

/// Index points, and sums over the sessions before them.
#[derive(Clone, Debug)]
pub struct Index {
    landmarks: Vec<Landmark>,
    places_max: usize,
    /// The number of sessions per index point.
    stride: u32,
    think_scale: f64,
    /// The sum of the durations of all sessions, and the same times the think scale.
    duration_ns: f64,
    scaled_duration_ns: f64,
}

#[derive(Clone, Copy, Debug)]
struct Landmark {
    place: Place,
    /// The sum of the durations of earlier sessions times the think scale.
    scaled_duration_ns: f64,
}

impl Index {
    pub fn new(think_scale: f64) -> Self {
        Index::with_places(PLACES_MAX, think_scale)
    }

    fn with_places(places_max: usize, think_scale: f64) -> Self {
        let landmarks = Vec::new();
        Index { landmarks, places_max, stride: 1, think_scale, duration_ns: 0.0, scaled_duration_ns: 0.0 }
    }

    /// Adds the next session with its position and duration.
    pub fn session(&mut self, place: Place, duration_ns: u64) {
        if place.sessions_before.is_multiple_of(self.stride) {
            if self.landmarks.len() == self.places_max {
                self.thin_out();
            }
            if place.sessions_before.is_multiple_of(self.stride) {
                self.landmarks.push(Landmark { place, scaled_duration_ns: self.scaled_duration_ns });
            }
        }
        self.duration_ns += duration_ns as f64;
        self.scaled_duration_ns += duration_ns as f64 * self.think_scale;
    }

    fn thin_out(&mut self) {
        self.stride *= 2;
        let stride = self.stride;
        self.landmarks.retain(|landmark| landmark.place.sessions_before.is_multiple_of(stride));
    }
}

pub struct IndexedTrace<R: Read + Seek> {
    reader: BufReader<R>,
    head: Head,
    index: Index,
    /// The sessions from one index point to the next.
    block: Block,
    requests: Vec<Request>,
}

#[derive(Default)]
struct Block {
    landmark: Option<usize>,
    sessions: Vec<Session>,
    requests: Vec<Request>,
}

impl<R: Read + Seek> IndexedTrace<R> {
    /// Opens a file with the `index` of an earlier scan of it.
    pub fn new(reader: R, head: Head, index: Index) -> Self {
        let reader = BufReader::with_capacity(BUFFER_BYTES, reader);
        IndexedTrace { reader, head, index, block: Block::default(), requests: Vec::new() }
    }

    pub fn requests_of(&mut self, session: u32) -> Result<&[Request], TraceFileError> {
        self.load((session / self.index.stride) as usize)?;
        Ok(self.block.requests_of((session % self.index.stride) as usize))
    }

    fn load(&mut self, landmark: usize) -> Result<(), TraceFileError> {
        if self.block.landmark == Some(landmark) {
            return Ok(());
        }
        self.block = Block { landmark: None, ..std::mem::take(&mut self.block) };
        self.block.sessions.clear();
        self.block.requests.clear();
        let place = self.index.landmarks[landmark].place;
        self.reader.seek(SeekFrom::Start(place.at_bytes))?;
        let mut file = TraceReader::resume(&mut self.reader, self.head, place);
        let count = self.index.stride.min(self.head.sessions - place.sessions_before);
        for _ in 0..count {
            let Some(start_ns) = file.session(&mut self.requests)? else { break };
            let first = self.block.requests.len() as u32;
            self.block.sessions.push(Session { start_ns, first, count: self.requests.len() as u32 });
            self.block.requests.append(&mut self.requests);
        }
        self.block.landmark = Some(landmark);
        Ok(())
    }
}

impl Block {
    fn requests_of(&self, session: usize) -> &[Request] {
        let session = &self.sessions[session];
        &self.requests[session.first as usize..(session.first + session.count) as usize]
    }
}

impl<R: Read + Seek> Templates for IndexedTrace<R> {
    type Error = TraceFileError;

    fn totals(&self) -> Totals {
        Totals {
            sessions: self.head.sessions,
            requests: self.head.requests.into(),
            duration_ns: self.index.duration_ns,
            scaled_duration_ns: self.index.scaled_duration_ns,
        }
    }

    fn at_duration(&mut self, mark_ns: f64) -> Result<(u32, &[Request]), TraceFileError> {
        let landmarks = &self.index.landmarks;
        let landmark =
            landmarks.partition_point(|landmark| landmark.scaled_duration_ns <= mark_ns).max(1) - 1;
        let Landmark { place, scaled_duration_ns: mut sum_ns } = landmarks[landmark];
        self.load(landmark)?;
        let last = self.block.sessions.len() - 1;
        let mut within = 0;
        while within < last {
            let duration_ns = self.block.requests_of(within).last().map_or(0, |request| request.offset_ns);
            sum_ns += duration_ns as f64 * self.index.think_scale;
            if sum_ns > mark_ns {
                break;
            }
            within += 1;
        }
        Ok((place.sessions_before + within as u32, self.block.requests_of(within)))
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use proptest::prelude::*;

    use super::*;
    use crate::arrivals::TraceTemplates;
    use crate::trace::{Document, Trace};

    /// Sessions of 1 to 4 requests, most of some length, with few distinct durations, so that marks meet them exactly.
    fn any_trace() -> impl Strategy<Value = Trace> {
        let requests = proptest::collection::vec(0_u64..4, 1..5);
        proptest::collection::vec(requests, 1..40).prop_map(|sessions| {
            let document = Document { name: "/a".into(), host: String::new(), size_bytes: 1, status: 200 };
            let mut trace = Trace { documents: vec![document], ..Trace::default() };
            for (start_ns, mut offsets) in sessions.into_iter().enumerate() {
                offsets.sort_unstable();
                let (first, count) = (trace.requests.len() as u32, offsets.len() as u32);
                trace.sessions.push(Session { start_ns: start_ns as u64, first, count });
                let request = |offset_ns| Request { offset_ns, document: 0 };
                trace.requests.extend(offsets.into_iter().map(request));
            }
            trace
        })
    }

    fn indexed(trace: &Trace, places_max: usize, think_scale: f64) -> IndexedTrace<Cursor<Vec<u8>>> {
        let mut bytes = Vec::new();
        trace.write(&mut bytes).unwrap();
        let (mut reader, _) = TraceReader::open(Cursor::new(bytes.as_slice())).unwrap();
        let head = reader.head();
        let mut index = Index::with_places(places_max, think_scale);
        let mut requests = Vec::new();
        loop {
            let place = reader.place();
            if reader.session(&mut requests).unwrap().is_none() {
                break;
            }
            index.session(place, requests.last().map_or(0, |request| request.offset_ns));
        }
        assert!(index.landmarks.len() <= places_max);
        IndexedTrace::new(Cursor::new(bytes), head, index)
    }

    proptest! {
        /// Any number of index points gives the same sessions as the trace in memory, in any order of access.
        #[test]
        fn a_file_gives_what_memory_gives(
            trace in any_trace(), places_max in 1_usize..8, marks in proptest::collection::vec(0.0..1.1, 1..20),
        ) {
            let think_scale = 0.5;
            let mut file = indexed(&trace, places_max, think_scale);
            let mut memory = TraceTemplates::new(&trace, think_scale);
            prop_assert_eq!(file.totals(), memory.totals());
            let total_ns = memory.totals().scaled_duration_ns;
            for mark in marks {
                // Durations are multiples of half a nanosecond here.
                let mark_ns = f64::round(2.0 * mark * total_ns) / 2.0;
                prop_assert_eq!(file.at_duration(mark_ns).unwrap(), memory.at_duration(mark_ns).unwrap());
            }
            for (number, session) in trace.sessions.iter().enumerate().rev() {
                prop_assert_eq!(file.requests_of(number as u32).unwrap(), trace.requests_of(session));
            }
        }
    }
}
