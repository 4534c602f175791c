//! https against a server that speaks TLS by the same library, and against some that only pretend to.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    path::PathBuf,
    sync::Arc,
    thread,
    time::Duration,
};

use crate::scripted::{MS, ok, report};
use rcgen::{CertificateParams, KeyPair, date_time_ymd};
use rustls::{
    ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
};
use sojourn_load::{
    Arrivals, Catalogue, Connections, Distribution, Form, Limits, Observe, Pick, Plan, Report, Requests,
    Schedule, StopRule, Target, Think, Tls, Transport, Trust, Version, Waiting,
};
use sojourn_measure::Nanos;

/// A server with a certificate of its own, which lies in a file.
struct Server {
    address: SocketAddr,
    certificate: tempfile::NamedTempFile,
}

impl Server {
    /// Answers every request with so many bytes, for as long as the client wants.
    fn start(name: &str, last_year: i32, body_bytes: usize) -> Server {
        let key = KeyPair::generate().unwrap();
        let mut parameters = CertificateParams::new([name.to_owned()]).unwrap();
        parameters.not_before = date_time_ymd(2001, 1, 1);
        parameters.not_after = date_time_ymd(last_year, 1, 1);
        let signed = parameters.self_signed(&key).unwrap();
        let certificate = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(certificate.path(), signed.pem()).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(ring::default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![signed.der().clone()], key)
            .unwrap();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let config = Arc::new(config);
        let response = Arc::new(ok(body_bytes));
        let address = accept(move |stream| {
            let session = ServerConnection::new(Arc::clone(&config)).unwrap();
            answer_all(StreamOwned::new(session, stream), &response);
        });
        Server { address, certificate }
    }

    fn trusted(&self) -> Trust {
        Trust::File(self.certificate.path().to_owned())
    }
}

fn accept(serve: impl Fn(TcpStream) + Clone + Send + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let serve = serve.clone();
            thread::spawn(move || serve(stream));
        }
    });
    address
}

fn answer_all(mut stream: StreamOwned<ServerConnection, TcpStream>, response: &[u8]) {
    let (mut head, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(count) => head.extend_from_slice(&bytes[..count]),
        }
        assert_eq!(stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        while let Some(end) = head.windows(4).position(|end| end == b"\r\n\r\n") {
            head.drain(..end + 4);
            if stream.write_all(response).is_err() {
                return;
            }
        }
    }
}

/// Three clients of `https://localhost`, whichever address that is here.
fn plan(address: SocketAddr, trust: &Trust, connections: Connections, resumes: bool) -> Plan<'static> {
    let url = format!("https://localhost:{}/page", address.port());
    let target = Target { address, ..Target::resolve(&url).unwrap() };
    Plan {
        tls: Some(Tls::new(&target, trust, resumes).unwrap()),
        catalogue: Catalogue::single(&Form::get(&target, Version::Http11, connections)),
        target,
        arrivals: Arrivals::Closed { clients: 3 },
        requests: Requests::Pick(Pick::First),
        think: Think::AfterAnswer(Distribution { mean: Nanos(5 * MS), ..Distribution::NONE }),
        connections,
        transport: Transport::default(),
        schedule: Schedule::single(Nanos::ZERO, Nanos(60_000 * MS), None),
        stop: StopRule::Requests(60),
        limits: Limits { drain: Nanos(500 * MS), ..Limits::default() },
        waiting: Waiting::Sleep { timer_slack: Nanos::ZERO },
        observe: Observe::default(),
        seed: 1,
    }
}

fn kept(address: SocketAddr, trust: &Trust) -> Plan<'static> {
    plan(address, trust, Connections::KeepAlive, true)
}

fn causes(report: &Report) -> Vec<&str> {
    report.figures.errors_by_cause.keys().copied().collect()
}

#[test]
fn answers_of_every_size_come_through() {
    for body_bytes in [0, 500, 16_384, 1_000_000] {
        let server = Server::start("localhost", 4000, body_bytes);
        let report = report(kept(server.address, &server.trusted()));
        let figures = &report.figures;
        assert_eq!((figures.requests, figures.errors), (60, 0), "{:?}", figures.errors_by_cause);
        assert_eq!(report.steps[0].response_bytes_mean, Some(body_bytes as f64));
        assert_eq!((figures.handshake_time_seconds.count, figures.connect_time_seconds.count), (3, 3));
        assert!(figures.handshake_time_seconds.p50 > Some(0.0));
    }
}

#[test]
fn sessions_are_resumed_unless_they_are_not_to_be() {
    let server = Server::start("localhost", 4000, 500);
    let once = |resumes| report(plan(server.address, &server.trusted(), Connections::Close, resumes)).figures;
    let (resumed, full) = (once(true), once(false));
    for figures in [&resumed, &full] {
        assert_eq!((figures.requests, figures.errors), (60, 0), "{:?}", figures.errors_by_cause);
        assert_eq!(figures.handshake_time_seconds.count, 60);
    }
    // The first of each client has nothing to resume.
    assert!((50..60).contains(&resumed.handshakes_resumed), "{}", resumed.handshakes_resumed);
    assert_eq!(full.handshakes_resumed, 0);
}

#[test]
fn pipelined_slow_and_stamped() {
    let server = Server::start("localhost", 4000, 20_000);
    let usual = Transport::default();
    let variants = [
        Transport { pipeline: 4, ..usual.clone() },
        Transport { read_bytes_per_second: Some(2e6), ..usual.clone() },
        Transport { timestamps: true, ..usual },
    ];
    for transport in variants {
        let figures = report(Plan { transport, ..kept(server.address, &server.trusted()) }).figures;
        assert_eq!((figures.requests, figures.errors), (60, 0), "{:?}", figures.errors_by_cause);
    }
}

#[test]
fn a_certificate_that_is_not_good_says_why() {
    let other = Server::start("other.test", 4000, 500);
    let old = Server::start("localhost", 2002, 500);
    let fine = Server::start("localhost", 4000, 500);
    let few = |server: &Server, trust: &Trust| {
        report(Plan { stop: StopRule::Requests(5), ..kept(server.address, trust) })
    };
    assert_eq!(causes(&few(&other, &other.trusted())), ["certificate_name"]);
    assert_eq!(causes(&few(&old, &old.trusted())), ["certificate_expired"]);
    assert_eq!(causes(&few(&fine, &other.trusted())), ["certificate_untrusted"]);
    for server in [&other, &old, &fine] {
        assert_eq!(few(server, &Trust::Anything).figures.requests, 5);
    }
}

#[test]
fn a_server_that_hangs_in_the_handshake_is_given_up() {
    let address = accept(|stream| {
        thread::sleep(Duration::from_secs(60));
        drop(stream);
    });
    let plan = kept(address, &Trust::Anything);
    let limits = Limits { connect_timeout: Nanos(300 * MS), ..plan.limits };
    let report = report(Plan { limits, stop: StopRule::Requests(3), ..plan });
    assert_eq!(causes(&report), ["handshake_timeout"]);
    assert_eq!(report.figures.censored.timeouts, 3);
    let waited = report.figures.error_time_seconds["handshake_timeout"].p50.unwrap();
    assert!((0.3..30.0).contains(&waited), "{waited}");
}

#[test]
fn garbage_plain_answers_and_early_ends_are_no_handshake() {
    let talks: [&[u8]; 4] =
        [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-x\r\n", &[0x16, 3, 3, 0xff, 0xff, 7], b""];
    for talk in talks {
        let address = accept(move |mut stream| {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(talk);
        });
        let report = report(Plan { stop: StopRule::Requests(3), ..kept(address, &Trust::Anything) });
        assert_eq!(causes(&report), ["tls_failed"], "{talk:?}");
    }
}

#[test]
fn a_file_without_authorities_is_refused() {
    let target = Target::resolve("https://127.0.0.1/").unwrap();
    let refused = |path: PathBuf| Tls::new(&target, &Trust::File(path), true).unwrap_err().to_string();
    let empty = tempfile::NamedTempFile::new().unwrap();
    assert!(refused(empty.path().to_owned()).contains("contains no certificate"));
    assert!(refused("/nowhere/at.all".into()).contains("/nowhere/at.all"));
}
