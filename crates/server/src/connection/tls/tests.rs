//! The layer alone, with HTTP/2 inside, a TLS client at the other end, and a disk that answers on request.

use std::io::{Read, Write};

use rcgen::generate_simple_self_signed;
use rustls::crypto::ring::default_provider;
use rustls::pki_types::{PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig};
use sojourn_content::Job;

use super::*;
use crate::connection::Lane;
use crate::connection::bench::Bench;
use crate::tls::{ALPN, session};
use sojourn_testing::fixture;

/// The preface, SETTINGS, and a request for `/hello.txt` of host `h` with literals without Huffman coding.
const HELLO: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\
    \0\0\x11\x01\x05\0\0\0\x01\x82\x86\x01\x01h\x04\x0a/hello.txt";

/// The DATA frame of the response, which ends the stream.
const HELLO_DATA: &[u8] = b"\0\0\x05\0\x01\0\0\0\x01hello";

const PING: &[u8] = b"\0\0\x08\x06\0\0\0\0\0pingpong";

const PING_ACK: &[u8] = b"\0\0\x08\x06\x01\0\0\0\0pingpong";

const GOAWAY: &[u8] = b"\0\0\x08\x07\0\0\0\0\0";

struct Pair {
    bench: Bench,
    layer: TlsConnection,
    client: ClientConnection,
    received: Vec<u8>,
    /// The disk job for `/hello.txt`.
    job: Option<(Lane, Job)>,
    _root: tempfile::TempDir,
}

impl Pair {
    /// After the handshake and [`HELLO`]: the disk job is delegated, and the layer receives.
    fn new() -> Pair {
        let (mut pair, look) = Pair::asking();
        assert!(matches!(pair.settle(look), Want::Receive(_)));
        pair
    }

    /// The same, but the layer still polls for input.
    fn asking() -> (Pair, Want) {
        let mut pair = Pair::shaken();
        let hello = pair.record(HELLO);
        let Want::Delegate(lane, job) = pair.receive(&hello) else { panic!("the disk is asked") };
        pair.job = Some((lane, job));
        let Want::Send(settings) = pair.handle(Event::Delegated) else {
            panic!("HTTP/2 says first how it is spoken")
        };
        let look = pair.send(settings);
        (pair, look)
    }

    /// After the handshake; the layer receives.
    fn shaken() -> Pair {
        let identity = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (certificate, key) = (identity.cert.der().clone(), identity.signing_key.serialize_der());
        let mut server = ServerConfig::builder_with_provider(default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![certificate.clone()], PrivateKeyDer::Pkcs8(key.into()))
            .unwrap();
        server.alpn_protocols = ALPN.iter().map(|name| name.to_vec()).collect();
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let mut client = ClientConfig::builder_with_provider(default_provider().into())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        client.alpn_protocols = vec![H2.to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        let root = fixture::site();
        let client_order = Arc::new(server);
        let session = session(&client_order);
        let mut pair = Pair {
            bench: Bench::new(root.path()),
            layer: TlsConnection::new([127, 0, 0, 1].into(), NewSession { session, client_order }),
            client: ClientConnection::new(client.into(), name).unwrap(),
            received: Vec::new(),
            job: None,
            _root: root,
        };
        while pair.client.is_handshaking() || pair.client.wants_write() {
            let flight = pair.record(b"");
            let want = pair.receive(&flight);
            assert!(matches!(pair.settle(want), Want::Receive(_)));
        }
        pair
    }

    fn delegate(&mut self, want: Want) {
        let Want::Delegate(lane, job) = self.settle(want) else { panic!("the disk is asked") };
        self.job = Some((lane, job));
        let want = self.handle(Event::Delegated);
        assert!(matches!(self.settle(want), Want::Receive(_)));
    }

    /// The layer sends a key update after it has received [`PING`], or only the first byte of its record.
    fn with_something_to_say(is_whole: bool) -> (Pair, Output) {
        let mut pair = Pair::new();
        let ping = pair.record(PING);
        pair.layer.session.refresh_traffic_keys().unwrap();
        let part = if is_whole { &ping[..] } else { &ping[..1] };
        let Want::Send(output) = pair.receive(part) else { panic!("it has something to say") };
        (pair, output)
    }

    fn handle(&mut self, event: Event) -> Want {
        self.layer.handle(event, &mut self.bench.context())
    }

    /// The client's own output, followed by `bytes`.
    fn record(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.client.writer().write_all(bytes).unwrap();
        let mut record = Vec::new();
        while self.client.wants_write() {
            self.client.write_tls(&mut record).unwrap();
        }
        record
    }

    fn receive(&mut self, bytes: &[u8]) -> Want {
        let mut buffer = self.bench.pool.take_buffer();
        buffer.space().extend_from_slice(bytes);
        self.handle(Event::Received(buffer))
    }

    fn deliver(&mut self) -> Want {
        let (lane, job) = self.job.take().expect("the disk was asked");
        let done = job.perform(&self.bench.origin, &mut Vec::new());
        self.handle(Event::Delivered(lane, Some(done)))
    }

    /// Delivers `output` to the client.
    fn send(&mut self, output: Output) -> Want {
        let mut bytes = &output.bytes[..];
        while !bytes.is_empty() {
            self.client.read_tls(&mut bytes).unwrap();
            self.client.process_new_packets().unwrap();
        }
        let _ = self.client.reader().read_to_end(&mut self.received);
        self.handle(Event::Sent(Output { sent: output.bytes.len(), ..output }))
    }

    /// Performs sends, and finds nothing when it polls for input.
    fn settle(&mut self, mut want: Want) -> Want {
        loop {
            want = match want {
                Want::Send(output) => self.send(output),
                Want::Look(_) => self.handle(Event::NothingReceived),
                want => return want,
            }
        }
    }

    fn has_received(&self, frame: &[u8]) -> bool {
        self.received.windows(frame.len()).any(|bytes| bytes == frame)
    }
}

#[test]
fn tickets_leave_together_with_the_first_output() {
    let mut pair = Pair::shaken();
    assert_eq!((pair.layer.session.wants_write(), pair.client.tls13_tickets_received()), (true, 0));
    let hello = pair.record(HELLO);
    let want = pair.receive(&hello);
    pair.delegate(want);
    assert!(!pair.layer.session.wants_write() && pair.client.tls13_tickets_received() > 0);
}

#[test]
fn a_part_of_a_record_is_nothing_for_who_looks_or_has_waited() {
    let (mut pair, look) = Pair::asking();
    let ping = pair.record(PING);
    assert!(matches!(look, Want::Look(_)));
    let want = pair.receive(&ping[..1]);
    assert!(matches!(pair.settle(want), Want::Receive(_)));
    assert!(matches!(pair.deliver(), Want::CancelReceive));
    let want = pair.receive(&ping[1..2]);
    assert!(matches!(pair.settle(want), Want::Receive(_)));
    assert!(pair.has_received(HELLO_DATA) && !pair.has_received(PING_ACK));
    assert_eq!(pair.layer.waits_for(), Wait::Quiet(1));
    let want = pair.receive(&ping[2..]);
    assert!(matches!(pair.settle(want), Want::Receive(_)));
    assert!(pair.has_received(PING_ACK));
    assert_eq!(pair.layer.waits_for(), Wait::Quiet(1));
    // What the layer has to say itself buys no time, either.
    let ping = pair.record(PING);
    pair.layer.session.refresh_traffic_keys().unwrap();
    assert!(matches!(pair.receive(&ping[..1]), Want::Send(_)));
    assert_eq!(pair.layer.waits_for(), Wait::Quiet(1));
}

#[test]
fn a_delivery_waits_while_the_layer_sends_something_of_its_own() {
    for has_ping in [false, true] {
        let (mut pair, output) = Pair::with_something_to_say(has_ping);
        assert_eq!(pair.layer.waits_for(), Wait::Client);
        assert!(matches!(pair.deliver(), Want::Wait));
        let want = pair.send(output);
        assert!(matches!(pair.settle(want), Want::Receive(_)));
        assert!(pair.has_received(HELLO_DATA));
        assert_eq!(pair.has_received(PING_ACK), has_ping);
    }
}

#[test]
fn a_stop_while_the_layer_sends_something_of_its_own_is_announced() {
    let (mut pair, output) = Pair::with_something_to_say(false);
    pair.bench.is_draining = true;
    let want = pair.send(output);
    assert!(matches!(pair.settle(want), Want::Receive(_)));
    assert!(pair.has_received(GOAWAY));
    assert!(matches!(pair.deliver(), Want::CancelReceive));
    let want = pair.handle(Event::NothingReceived);
    assert!(matches!(pair.settle(want), Want::Receive(_)));
    assert!(pair.has_received(HELLO_DATA));
}

#[test]
fn what_is_delivered_after_the_end_is_forgotten() {
    // In order, after the client has left.
    let mut pair = Pair::new();
    pair.client.send_close_notify();
    let goodbye = pair.record(b"");
    let Want::Send(answer) = pair.receive(&goodbye) else { panic!("a goodbye is answered") };
    assert!(answer.closes && matches!(pair.deliver(), Want::Wait));
    assert!(matches!(pair.send(answer), Want::Close(Reason::Finished)));
    // With an alert, after which input is discarded even while the server stops.
    let mut pair = Pair::new();
    let Want::Send(alert) =
        pair.receive(&[23, 3, 3, 0, 17, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
    else {
        panic!("what is no record is answered with an alert")
    };
    assert!(alert.is_last);
    assert!(matches!(pair.handle(Event::Sent(alert)), Want::Receive(_)));
    assert!(matches!(pair.deliver(), Want::Wait));
    pair.bench.is_draining = true;
    assert!(pair.layer.has_streams() && matches!(pair.handle(Event::NothingReceived), Want::Receive(_)));
    assert!(matches!(pair.receive(b"whatever"), Want::Receive(_)));
    assert!(matches!(pair.handle(Event::Ended), Want::Close(Reason::Failed)));
}

#[test]
fn who_has_not_begun_when_the_server_stops_is_served_and_told() {
    let mut pair = Pair::shaken();
    assert_eq!(pair.layer.waits_for(), Wait::Request);
    pair.bench.is_draining = true;
    let want = pair.handle(Event::NothingReceived);
    assert!(matches!(pair.settle(want), Want::Receive(_)));
    assert_eq!(pair.layer.waits_for(), Wait::Request);
    let hello = pair.record(HELLO);
    let want = pair.receive(&hello);
    pair.delegate(want);
    assert!(pair.has_received(GOAWAY) && matches!(pair.deliver(), Want::CancelReceive));
    let want = pair.handle(Event::NothingReceived);
    pair.settle(want);
    assert!(pair.has_received(HELLO_DATA));
}
