//! Percentiles against what the server itself says that it took, to one per cent.
//!
//! The server asks the kernel when each request came, and looks at the clock before and after it answers: the answer
//! came to the client between the two. However late the threads of a busy machine wake up, the client's percentiles
//! have to lie between those of the server's two records.

use std::{
    io::Write,
    net::{SocketAddr, TcpListener, TcpStream},
    os::fd::AsFd,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::scripted::{MS, ok};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_load::{
    ArrivalProcess, Arrivals, Catalogue, Connections, Distribution, Form, Limits, Observe, Pick, Plan,
    Requests, Schedule, Segment, StopRule, Target, Think, Transport, Version, Waiting, timestamps,
};
use sojourn_measure::{Histogram, Nanos, clock};

const REQUESTS: usize = 1200;
const TOLERANCE: f64 = 0.01;

/// What the server knows: the minimum and maximum that each response can have taken.
#[derive(Default)]
struct Truth {
    least: Histogram,
    most: Histogram,
    /// Requests whose arrival the kernel did not report.
    unknown: usize,
}

struct Server {
    address: SocketAddr,
    truth: Arc<Mutex<Truth>>,
}

impl Server {
    fn start(delays: Vec<Duration>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let truth = Arc::new(Mutex::new(Truth::default()));
        let (delays, number, shared) = (Arc::new(delays), Arc::new(AtomicUsize::new(0)), Arc::clone(&truth));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (delays, number, truth) = (Arc::clone(&delays), Arc::clone(&number), Arc::clone(&shared));
                thread::spawn(move || serve(stream, &delays, &number, &truth));
            }
        });
        Server { address, truth }
    }
}

fn serve(mut stream: TcpStream, delays: &[Duration], number: &AtomicUsize, truth: &Mutex<Truth>) {
    stream.set_nodelay(true).unwrap();
    timestamps::enable(stream.as_fd()).unwrap();
    let (response, mut request) = (ok(100), [0; 4096]);
    while let Ok((1.., arrived)) = timestamps::receive(stream.as_fd(), &mut request) {
        let number = number.fetch_add(1, Ordering::Relaxed);
        thread::sleep(delays[number % delays.len()]);
        let before = wall_clock();
        if stream.write_all(&response).is_err() {
            return;
        }
        let after = wall_clock();
        let mut truth = truth.lock().unwrap();
        match arrived {
            Some(arrived) => {
                truth.least.record(before - arrived);
                truth.most.record(after - arrived);
            }
            None => truth.unknown += 1,
        }
    }
}

fn wall_clock() -> Nanos {
    let now = clock::now();
    now + timestamps::wall_clock_offset(now)
}

fn plan(address: SocketAddr, arrivals: Arrivals<'static>, timer_slack: Nanos) -> Plan<'static> {
    let target = Target::resolve(&format!("http://{address}/")).unwrap();
    Plan {
        catalogue: Catalogue::single(&Form::get(&target, Version::Http11, Connections::KeepAlive)),
        target,
        arrivals,
        requests: Requests::Pick(Pick::First),
        think: Think::AfterAnswer(Distribution::NONE),
        connections: Connections::KeepAlive,
        tls: None,
        transport: Transport { timestamps: true, ..Transport::default() },
        schedule: Schedule::single(Nanos::ZERO, Nanos(60_000 * MS), None),
        stop: StopRule::Requests(REQUESTS as u64),
        limits: Limits { drain: Nanos(30_000 * MS), ..Limits::default() },
        waiting: Waiting::Sleep { timer_slack },
        observe: Observe::default(),
        seed: 1,
    }
}

fn closed() -> Arrivals<'static> {
    Arrivals::Closed { clients: 24 }
}

fn open() -> Arrivals<'static> {
    let segments = vec![Segment { from: 400.0, to: 400.0, length: Nanos(60_000 * MS) }];
    Arrivals::Open { segments, process: ArrivalProcess::Poisson, under_way_max: 1000 }
}

/// Delays in milliseconds drawn by the inverse of a distribution function.
fn drawn(inverse: impl Fn(f64) -> f64) -> Vec<Duration> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    (0..REQUESTS).map(|_| Duration::from_secs_f64(inverse(random.random::<f64>()) * 1e-3)).collect()
}

fn check(name: &str, delays: Vec<Duration>, arrivals: Arrivals<'static>, timer_slack: Nanos) {
    let server = Server::start(delays);
    let outcome =
        sojourn_load::run(plan(server.address, arrivals, timer_slack), &false.into(), None).unwrap();
    let figures = outcome.report().figures;
    assert_eq!((figures.requests, figures.errors), (REQUESTS as u64, 0), "{name}");
    // The last answer may be counted here before the server has written it down.
    thread::sleep(Duration::from_millis(100));
    let truth = server.truth.lock().unwrap();
    if truth.unknown > REQUESTS / 100 || figures.receive_lag_seconds.value().is_none() {
        return; // a kernel without timestamps: nobody knows the truth
    }
    let measured = figures.time_to_first_byte_seconds;
    let percentiles = [(0.5, measured.p50), (0.9, measured.p90), (0.95, measured.p95), (0.99, measured.p99)];
    for (quantile, found) in percentiles {
        let (least, most) = (truth.least.quantile_seconds(quantile), truth.most.quantile_seconds(quantile));
        let (least, most, found) = (least.unwrap(), most.unwrap(), found.unwrap());
        let holds = (least * (1.0 - TOLERANCE)..most * (1.0 + TOLERANCE)).contains(&found);
        assert!(holds, "{name}, quantile {quantile}: {found} is not within 1 % of {least} to {most}");
    }
}

#[test]
fn exponential_delays_in_a_closed_loop() {
    check("exponential", drawn(|u| 5.0 - 25.0 * (1.0 - u).ln()), closed(), Nanos::ZERO);
}

#[test]
fn two_modes_in_a_closed_loop() {
    check("two modes", drawn(|u| if u < 0.93 { 15.0 } else { 80.0 }), closed(), Nanos::ZERO);
}

#[test]
fn uniform_delays_in_an_open_loop_that_puts_things_off() {
    check("uniform", drawn(|u| 20.0 + 80.0 * u), open(), Nanos(10 * MS));
}
