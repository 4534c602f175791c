//! Deterministic simulation: several connections over one handler, with a driver that chooses events by a seed.
//!
//! Requests arrive in pieces, sends are short, the disk answers late or never, clients leave halfway, timers fire,
//! caches are short of memory, the server stops. In any order, a client must receive a sequence of complete responses
//! to its requests with the right bytes, of which only the last may be cut, and only after a fault; no connection is
//! forgotten, and a closed connection leaves nothing behind. Seeds that once failed stay in [`KEPT`].

use std::time::Duration;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_content::{Budgets, Caches, Done, Job, LoadError, OpenError, Origin};

use super::bench::Bench;
use super::{Connection, Event, Output, Piece, Reason, SendPath, Wait, Want};
use crate::counters::{Counter, Served};
use crate::handler::static_files::StaticFiles;

/// Seeds that once failed: a request's body was discarded twice, and with it the start of the next request.
const KEPT: &[u64] = &[0];

/// The schedules in every test run, and the steps of each.
const SCHEDULES: u64 = 20;
const STEPS: usize = 600;

const CONNECTIONS: usize = 6;
const BODY_BUDGET_BYTES: usize = 300_000;

/// Files whose bytes tell their origin; their lengths lie around those at which bodies are sent differently.
const LENGTHS: [usize; 7] = [0, 1, 4_000, 16_384, 65_537, 200_000, 700_000];

fn content(file: usize) -> Vec<u8> {
    (0..LENGTHS[file]).map(|at| ((at * (2 * file + 3)) >> 3) as u8).collect()
}

/// The source of random events.
struct Lot(Xoshiro256PlusPlus);

impl Lot {
    fn below(&mut self, limit: usize) -> usize {
        self.0.random_range(0..limit)
    }

    fn happens(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

/// A sent request, as far as its response depends on it.
#[derive(Clone, Copy, Debug)]
struct Asked {
    /// None for a path without a file.
    file: Option<usize>,
    is_head: bool,
    range: Option<(usize, usize)>,
}

struct Peer {
    connection: Connection,
    /// None once it is closed.
    want: Option<Want>,
    input: Vec<u8>,
    given: usize,
    asked: Vec<Asked>,
    output: Vec<u8>,
    /// A fault that may have cut or replaced a response.
    is_disturbed: bool,
    /// The reason for which it was closed.
    ended: Option<Reason>,
}

struct World {
    lot: Lot,
    bench: Bench,
    files: Vec<Vec<u8>>,
    peers: Vec<Peer>,
}

impl World {
    fn new(seed: u64, root: &std::path::Path, files: &[Vec<u8>]) -> World {
        let mut lot = Lot(Xoshiro256PlusPlus::seed_from_u64(seed));
        let mut bench = Bench::new(root);
        let budgets = Budgets {
            body_bytes: BODY_BUDGET_BYTES,
            documents_max: 3,
            recheck_after: Duration::from_millis(lot.below(3) as u64 * 500),
            ..Budgets::default()
        };
        bench.handler = Box::new(StaticFiles::new(Caches::new(&budgets), std::sync::Arc::default()));
        bench.send_path = SendPath {
            copied_bytes_max: [0, 8 << 10, 64 << 10][lot.below(3)],
            memory_bytes_max: [0, 64 << 10, 1 << 20][lot.below(3)],
            aligns_heads: lot.happens(2),
        };
        bench.limits.requests_per_connection = lot.happens(3).then_some(3);
        let mut world = World { lot, bench, files: files.to_vec(), peers: Vec::new() };
        for _ in 0..CONNECTIONS {
            let peer = world.peer();
            world.peers.push(peer);
        }
        world
    }

    /// A new client with random requests.
    fn peer(&mut self) -> Peer {
        let connection = Connection::new([127, 0, 0, 1].into(), None);
        let (mut input, mut asked) = (Vec::new(), Vec::new());
        for _ in 0..1 + self.lot.below(5) {
            let file = (!self.lot.happens(8)).then(|| self.lot.below(LENGTHS.len()));
            let is_head = self.lot.happens(6);
            let length = file.map_or(0, |file| LENGTHS[file]);
            let range = (length > 1 && self.lot.happens(4)).then(|| {
                let first = self.lot.below(length - 1);
                (first, first + self.lot.below(length - first))
            });
            let name = file.map_or("none".to_owned(), |file| format!("f{file}"));
            let method = if is_head { "HEAD" } else { "GET" };
            let mut head = format!("{method} /{name} HTTP/1.1\r\nHost: h\r\n");
            if let Some((first, last)) = range {
                head += &format!("Range: bytes={first}-{last}\r\n");
            }
            let body = if self.lot.happens(6) { "abc" } else { "" };
            if !body.is_empty() {
                head += "Content-Length: 3\r\n";
            }
            input.extend_from_slice(format!("{head}\r\n{body}").as_bytes());
            // Ranges apply to GET only (RFC 9110, 14.2).
            asked.push(Asked { file, is_head, range: range.filter(|_| !is_head) });
        }
        let want = Some(connection.start());
        Peer {
            connection,
            want,
            input,
            given: 0,
            asked,
            output: Vec::new(),
            is_disturbed: false,
            ended: None,
        }
    }

    /// Simulates one event on one connection.
    fn step(&mut self, has_faults: bool) {
        let index = self.lot.below(self.peers.len());
        let is_fault = has_faults && self.lot.happens(40);
        let Some(want) = self.peers[index].want.take() else {
            if has_faults {
                // Replaced by a new client.
                self.peers[index] = self.peer();
            }
            return;
        };
        self.bench.clock.now += Duration::from_millis(self.lot.below(30) as u64);
        let event = match want {
            Want::Receive(_) if is_fault => {
                self.peers[index].is_disturbed = true;
                [Event::Failed, Event::Expired, Event::Ended]
                    .into_iter()
                    .nth(self.lot.below(3))
                    .expect("one of three")
            }
            Want::Receive(buffer) => {
                let rest = self.peers[index].input.len() - self.peers[index].given;
                if rest == 0 {
                    Event::Ended
                } else {
                    let most = [1, 20, 1_000][self.lot.below(3)];
                    let count = rest.min(1 + self.lot.below(most));
                    let mut buffer = self.bench.pool.fill(buffer);
                    let peer = &mut self.peers[index];
                    buffer.space().extend_from_slice(&peer.input[peer.given..peer.given + count]);
                    peer.given += count;
                    Event::Received(buffer)
                }
            }
            Want::Send(_) if is_fault => {
                self.peers[index].is_disturbed = true;
                if self.lot.happens(2) { Event::Failed } else { Event::Expired }
            }
            Want::Send(output) => match self.send(index, output) {
                Ok(event) => event,
                Err(rest) => {
                    self.peers[index].want = Some(rest);
                    return;
                }
            },
            Want::Open(_) | Want::Load(_) if is_fault => {
                self.peers[index].is_disturbed = true;
                match want {
                    _ if self.lot.happens(2) => Event::Refused,
                    Want::Open(_) => Event::Done(Done::Opened(Err(OpenError::Busy))),
                    _ => Event::Done(Done::Loaded(Err(LoadError::Truncated))),
                }
            }
            Want::Open(opening) => self.perform(&Job::Open(opening)),
            Want::Load(range) => self.perform(&Job::Load(range)),
            Want::Close(reason) => return self.close(index, reason),
            other => panic!("a connection of HTTP/1 does not want {other:?}"),
        };
        let want = self.peers[index].connection.handle(event, &mut self.bench.context());
        self.peers[index].want = Some(want);
    }

    fn perform(&mut self, job: &Job) -> Event {
        Event::Done(job.perform(&self.bench.origin, &mut Vec::new()))
    }

    /// The client reads some of the output.
    fn send(&mut self, index: usize, mut output: Output) -> Result<Event, Want> {
        let rest = output.total_bytes() - output.sent;
        let most = [1, 3_000, 1 << 20][self.lot.below(3)];
        let count = rest.min(self.lot.below(most + 1));
        let bytes = self.bytes_of(&output);
        self.peers[index].output.extend_from_slice(&bytes[output.sent..output.sent + count]);
        output.sent += count;
        if output.sent == output.total_bytes() { Ok(Event::Sent(output)) } else { Err(Want::Send(output)) }
    }

    fn bytes_of(&self, output: &Output) -> Vec<u8> {
        let mut bytes = output.bytes.clone();
        match &output.body {
            None => {}
            Some(Piece::File(range)) => {
                let start = bytes.len();
                bytes.resize(start + range.length, 0);
                self.bench.origin.read(&range.document, range.offset, &mut bytes[start..]).unwrap();
            }
            Some(body) => body.in_memory(0).for_each(|piece| bytes.extend_from_slice(piece)),
        }
        bytes
    }

    fn close(&mut self, index: usize, reason: Reason) {
        self.peers[index].connection.finish(&mut self.bench.context());
        self.peers[index].ended = Some(reason);
        self.check(index);
    }

    /// Checks that the client has received responses to its requests.
    fn check(&self, index: usize) {
        let peer = &self.peers[index];
        let mut rest = &peer.output[..];
        let mut answers = 0;
        let mut asked = peer.asked.iter();
        while !rest.is_empty() {
            let Some(head_end) = rest.windows(4).position(|four| four == b"\r\n\r\n") else {
                assert!(peer.is_disturbed, "a head is cut: {:?}", String::from_utf8_lossy(rest));
                return;
            };
            let head = std::str::from_utf8(&rest[..head_end]).expect("a head is text");
            rest = &rest[head_end + 4..];
            let status: u16 = head[9..12].parse().expect("a status");
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let length: usize = length.expect("a length").parse().expect("a number");
            let asked = asked.next().unwrap_or_else(|| panic!("nobody asked for this: {head}"));
            answers += 1;
            let taken = if asked.is_head { 0 } else { length.min(rest.len()) };
            let is_cut = !asked.is_head && taken < length;
            assert!(!is_cut || peer.is_disturbed, "a body is cut at {taken} of {length}");
            let (body, behind) = rest.split_at(taken);
            rest = behind;
            match (status, asked.file) {
                (200 | 206, Some(file)) => {
                    let whole = &self.files[file];
                    let expected = match asked.range {
                        Some((first, last)) => &whole[first..=last.min(whole.len() - 1)],
                        None => whole,
                    };
                    assert_eq!(
                        (status, length),
                        (if asked.range.is_some() { 206 } else { 200 }, expected.len())
                    );
                    assert!(body == &expected[..taken], "other bytes than those of the file");
                }
                (404, None) => {}
                (400 | 408 | 500 | 503, _) if peer.is_disturbed => {}
                other => panic!(
                    "{asked:?} is answered {other:?}: {head}\nall that was asked: {:?}\ndisturbed: {}\nall that was answered: {:?}",
                    String::from_utf8_lossy(&peer.input[..peer.given]),
                    peer.is_disturbed,
                    String::from_utf8_lossy(&peer.output[..peer.output.len().min(1000)])
                ),
            }
        }
        let limit = self.bench.limits.requests_per_connection.map_or(usize::MAX, |max| max as usize);
        let expected = peer.asked.len().min(limit);
        assert!(
            answers == expected || peer.is_disturbed || self.bench.is_draining,
            "{answers} answers to {expected} requests"
        );
    }

    /// Checks that nothing stays behind.
    fn end(&mut self) {
        for _ in 0..200_000 {
            if self.peers.iter().all(|peer| peer.ended.is_some()) {
                break;
            }
            self.step(false);
        }
        for peer in &self.peers {
            assert!(peer.ended.is_some(), "forgotten while it waits for {:?}", peer.connection.waits_for());
        }
        assert!(!self.bench.handler.is_busy());
        let mut served = Served::default();
        self.bench.handler.report(self.bench.clock.now, &mut served);
        let held = served.value(Counter::BodyCacheBytes);
        assert!(held <= BODY_BUDGET_BYTES as u64, "{held} bytes of bodies are held");
    }
}

fn play(seed: u64, steps: usize, root: &std::path::Path, files: &[Vec<u8>]) {
    let mut world = World::new(seed, root, files);
    let stops_at = world.lot.below(4 * steps);
    for step in 0..steps {
        world.bench.is_draining |= step == stops_at;
        world.step(true);
        for peer in world.peers.iter().filter(|peer| peer.ended.is_none()) {
            let is_waiting = !matches!(peer.connection.waits_for(), Wait::UpstreamIdle | Wait::Tunnel);
            assert!(peer.want.is_some() && is_waiting, "a connection waits for nothing");
        }
    }
    world.end();
}

fn play_all(seeds: impl Iterator<Item = u64>, steps: usize) {
    let root = tempfile::tempdir().unwrap();
    let files: Vec<_> = (0..LENGTHS.len()).map(content).collect();
    for (number, file) in files.iter().enumerate() {
        std::fs::write(root.path().join(format!("f{number}")), file).unwrap();
    }
    for seed in seeds {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            play(seed, steps, root.path(), &files);
        }));
        assert!(outcome.is_ok(), "the schedule of seed {seed} fails: add it to KEPT");
    }
}

#[test]
fn every_schedule_gives_whole_responses() {
    play_all(KEPT.iter().copied().chain(1..SCHEDULES), STEPS);
}

/// Run it by hand: `SIMULATION_SCHEDULES=10000 cargo test --release -p sojourn-server --lib many_schedules --
/// --ignored`.
#[test]
#[ignore = "as long as you like"]
fn many_schedules() {
    let number =
        |name: &str, default| std::env::var(name).map_or(default, |text| text.parse().expect("a number"));
    let (first, count) = (number("SIMULATION_SEED", 1_000), number("SIMULATION_SCHEDULES", 2_000));
    play_all(first..first + count, 4 * STEPS);
}
