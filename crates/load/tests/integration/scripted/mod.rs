//! A scripted HTTP server: a thread per connection, known delays, deliberate faults.

#![allow(dead_code)] // each test file uses its own part

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex, RwLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use sojourn_load::{
    ArrivalProcess, Arrivals, Catalogue, Connections, Distribution, Figures, Form, Limits, LoggedVisit,
    Observe, Pick, Plan, Replayed, Report, Requests, Schedule, Segment, StopRule, Target, Think, Transport,
    Version, Waiting, run,
};
use sojourn_measure::Nanos;
use sojourn_workload::{
    arrivals::Arrival,
    trace::{Document, Request, Session, Trace, site_path},
};

pub const MS: u64 = 1_000_000;

/// How long a run waits for the last responses, which may be late on a busy machine; a run ends as soon as the last one
/// has arrived. Tests of servers that never respond wait less.
const DRAIN: Nanos = Nanos(60_000 * MS);

/// Whether a scripted connection continues with the next request.
pub enum Then {
    GoOn,
    Close,
}

pub struct Server {
    pub address: SocketAddr,
    pub connections: Arc<AtomicUsize>,
    pub requests: Arc<AtomicUsize>,
    /// While a test holds the write lock, nothing is answered.
    pub pause: Arc<RwLock<()>>,
    stopped: Arc<AtomicBool>,
}

impl Server {
    /// Serves with a script that gets the connection, the request's head and its number over all connections.
    pub fn start(script: impl Fn(&mut TcpStream, &str, usize) -> Then + Send + Sync + 'static) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server {
            address: listener.local_addr().unwrap(),
            connections: Arc::default(),
            requests: Arc::default(),
            pause: Arc::default(),
            stopped: Arc::default(),
        };
        let (connections, requests) = (Arc::clone(&server.connections), Arc::clone(&server.requests));
        let (pause, stopped) = (Arc::clone(&server.pause), Arc::clone(&server.stopped));
        let script = Arc::new(script);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                connections.fetch_add(1, Ordering::SeqCst);
                let (script, requests, pause) =
                    (Arc::clone(&script), Arc::clone(&requests), Arc::clone(&pause));
                thread::spawn(move || serve(stream, &*script, &requests, &pause));
            }
        });
        server
    }

    /// Answers every request with `body_bytes` bytes after a delay.
    pub fn delayed(delay: impl Fn(usize) -> Duration + Send + Sync + 'static, body_bytes: usize) -> Server {
        let response = ok(body_bytes);
        Server::start(move |stream, _, number| {
            thread::sleep(delay(number));
            answer(stream, &response)
        })
    }

    /// Answers nothing until this many requests have arrived, and then everything at once.
    pub fn holding(requests: usize, body_bytes: usize) -> Server {
        let response = ok(body_bytes);
        let (is_open, opened) = (Mutex::new(false), Condvar::new());
        Server::start(move |stream, _, number| {
            let mut is_open = is_open.lock().unwrap();
            *is_open |= number + 1 >= requests;
            opened.notify_all();
            drop(opened.wait_while(is_open, |is_open| !*is_open).unwrap());
            answer(stream, &response)
        })
    }

    /// Stops listening.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }

    pub fn url(&self) -> String {
        format!("http://{}/page", self.address)
    }
}

fn serve(
    mut stream: TcpStream,
    script: &dyn Fn(&mut TcpStream, &str, usize) -> Then,
    requests: &AtomicUsize,
    pause: &RwLock<()>,
) {
    let _ = stream.set_nodelay(true);
    while let Some(head) = read_head(&mut stream) {
        drop(pause.read());
        let number = requests.fetch_add(1, Ordering::SeqCst);
        if let Then::Close = script(&mut stream, &head, number) {
            return;
        }
    }
}

fn read_head(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut bytes) = (Vec::new(), [0; 4096]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => return None,
            Ok(count) => head.extend_from_slice(&bytes[..count]),
        }
    }
    String::from_utf8(head).ok()
}

/// Writes a response, or as much as the client accepts.
pub fn answer(stream: &mut TcpStream, response: &[u8]) -> Then {
    if stream.write_all(response).is_ok() { Then::GoOn } else { Then::Close }
}

pub fn ok(body_bytes: usize) -> Vec<u8> {
    let mut response = format!("HTTP/1.1 200 OK\r\nContent-Length: {body_bytes}\r\n\r\n").into_bytes();
    response.resize(response.len() + body_bytes, b'x');
    response
}

/// The size at the end of a built site's path.
pub fn size_in(head: &str) -> usize {
    let path = head.split(' ').nth(1).unwrap_or_default();
    path.rsplit('-').next().and_then(|size| size.parse().ok()).unwrap_or(0)
}

/// A closed loop without think time; tests change what they need.
pub fn closed(server: &Server, clients: u32, warm_up_ms: u64, measured_ms: u64) -> Plan<'static> {
    closed_at(&server.url(), clients, warm_up_ms, measured_ms)
}

/// The same for another server.
pub fn closed_at(url: &str, clients: u32, warm_up_ms: u64, measured_ms: u64) -> Plan<'static> {
    let target = Target::resolve(url).unwrap();
    Plan {
        catalogue: Catalogue::single(&Form::get(&target, Version::Http11, Connections::KeepAlive)),
        target,
        arrivals: Arrivals::Closed { clients },
        requests: Requests::Pick(Pick::First),
        think: Think::AfterAnswer(Distribution::NONE),
        connections: Connections::KeepAlive,
        tls: None,
        transport: Transport::default(),
        schedule: Schedule::single(Nanos(warm_up_ms * MS), Nanos(measured_ms * MS), None),
        stop: StopRule::ScheduleEnd,
        limits: Limits { drain: DRAIN, ..Limits::default() },
        waiting: Waiting::Sleep { timer_slack: Nanos::ZERO },
        observe: Observe::default(),
        seed: 1,
    }
}

/// An open loop of constant arrivals, with this timer slack.
pub fn open(server: &Server, per_second: f64, timer_slack: Nanos, measured_ms: u64) -> Plan<'static> {
    let length = Nanos(measured_ms * MS);
    let segments = vec![Segment { from: per_second, to: per_second, length }];
    Plan {
        arrivals: Arrivals::Open { segments, process: ArrivalProcess::Constant, under_way_max: 1000 },
        schedule: Schedule::single(Nanos::ZERO, length, Some(per_second)),
        waiting: Waiting::Sleep { timer_slack },
        ..closed(server, 1, 0, measured_ms)
    }
}

/// A plan that closes every connection after one request.
pub fn closing(plan: Plan<'static>) -> Plan<'static> {
    let catalogue = Catalogue::single(&Form::get(&plan.target, Version::Http11, Connections::Close));
    Plan { catalogue, connections: Connections::Close, ..plan }
}

/// The number of requests that were due: each is answered, failed, skipped or unfinished.
pub fn due(figures: &Figures) -> u64 {
    figures.requests + figures.errors + figures.skipped + figures.unfinished + figures.abandoned
}

pub fn report(plan: Plan<'_>) -> Report {
    run(plan, &AtomicBool::new(false), None).unwrap().report()
}

/// A trace of `count` equal sessions, one every `every_ns`, with requests at these offsets.
pub fn trace(count: u32, every_ns: u64, offsets_ns: &[u64], size_bytes: u64) -> Trace {
    let length = offsets_ns.len() as u32;
    let session =
        |index: u32| Session { start_ns: u64::from(index) * every_ns, first: index * length, count: length };
    let requests = offsets_ns.iter().map(|&offset_ns| Request { offset_ns, document: 0 });
    Trace {
        documents: vec![Document::got("/", size_bytes)],
        sessions: (0..count).map(session).collect(),
        requests: (0..count).flat_map(|_| requests.clone()).collect(),
        ..Trace::default()
    }
}

/// Sessions of a trace as visits.
pub fn logged<'a>(trace: &'a Trace, arrivals: impl Iterator<Item = Arrival> + 'a) -> Arrivals<'a> {
    Arrivals::Logged(Box::new(arrivals.map(|arrival| {
        let requests = trace.requests_of(&trace.sessions[arrival.session as usize]);
        let requests = requests[arrival.first_request as usize..].into();
        LoggedVisit { connect_ns: arrival.connect_ns, start_ns: arrival.start_ns, requests }
    })))
}

/// Replays a trace as logged, measured from its first request.
pub fn replay<'a>(server: &Server, trace: &'a Trace, measured_ms: u64) -> Plan<'a> {
    let target = Target::resolve(&format!("http://{}", server.address)).unwrap();
    assert!(site_path(0, 1).starts_with('/'));
    Plan {
        catalogue: Catalogue::trace(
            &Form::get(&target, Version::Http11, Connections::KeepAlive),
            &trace.documents,
            &Replayed::default(),
        ),
        target,
        arrivals: logged(trace, sojourn_workload::arrivals::replay(trace, 1.0).unwrap()),
        requests: Requests::Logged { think_scale: 1.0 },
        think: Think::AfterAnswer(Distribution::NONE),
        connections: Connections::KeepAlive,
        tls: None,
        transport: Transport::default(),
        schedule: Schedule::single(Nanos::ZERO, Nanos(measured_ms * MS), None),
        stop: StopRule::Answered,
        limits: Limits { drain: DRAIN, ..Limits::default() },
        waiting: Waiting::Sleep { timer_slack: Nanos::ZERO },
        observe: Observe::default(),
        seed: 1,
    }
}
