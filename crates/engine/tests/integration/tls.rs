//! Tests of HTTPS over every architecture: responses, session resumption, and clients that do not speak TLS.

use crate::engine;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::engine::Successor;
use crate::engine::tls::{Identity, VERSIONS, connect, get, presented, trusting_all};
use crate::engine::{Client, ENGINE, Server, over_all};
use rustls::HandshakeKind;
use sojourn_server::Counter;
use sojourn_testing::fixture;

#[test]
fn every_byte_arrives_in_both_versions() {
    let identity = Identity::new();
    let configs = VERSIONS.map(|version| Arc::new(identity.trusted_in(&[version])));
    over_all(&identity.flags(), |server, root| {
        let huge: Vec<u8> = (0..5_000_000).map(|index: u32| (index / 7 % 251) as u8).collect();
        fixture::write(root, "huge.bin", &huge);
        let address = server.another_address(0);
        for config in &configs {
            let mut client = connect(address, config);
            for _ in 0..2 {
                // Pipelined requests, answered in order.
                client.send(b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n");
                client.send(b"GET /huge.bin HTTP/1.1\r\nHost: h\r\n\r\n");
                client.send(b"GET /medium.bin HTTP/1.1\r\nHost: h\r\n\r\n");
                client.send(b"GET /large.bin HTTP/1.1\r\nHost: h\r\nRange: bytes=70000-2900000\r\n\r\n");
                client.send(b"GET /large.bin HTTP/1.1\r\nHost: h\r\nRange: bytes=-5,0-0\r\n\r\n");
                assert_eq!(body(&mut client), b"hello");
                assert!(body(&mut client) == huge);
                assert_eq!(body(&mut client), [b'm'; 20_000]);
                assert!(body(&mut client) == fixture::large()[70_000..=2_900_000]);
                assert!(body(&mut client).windows(4).any(|four| four == b"\r\n\r\n"));
            }
        }
        let counted = server.stop();
        assert_eq!(counted.value(Counter::TlsHandshakes), 2);
        assert_eq!(counted.value(Counter::Requests), 20);
        assert_eq!(counted.value(Counter::ConnectionErrors), 0);
    });
}

/// The body of the next response.
fn body(client: &mut engine::tls::Client) -> Vec<u8> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.extend(client.take(1));
    }
    let head = String::from_utf8(head).unwrap();
    let length = head.split_once("Content-Length: ").unwrap().1.split_once("\r\n").unwrap().0;
    client.take(length.parse().unwrap())
}

/// AES-128 is the server's choice, unless the client prefers ChaCha20 or has something else alone.
#[test]
fn the_cheapest_suite_is_chosen_unless_the_client_prefers_chacha20() {
    use rustls::CipherSuite as Suite;
    let identity = Identity::new();
    let root = fixture::site();
    let server = Server::start("amped", root.path(), &identity.flags());
    for (version, offered, expected) in [
        (1, &["AES_256", "CHACHA20", "AES_128"][..], Suite::TLS13_AES_128_GCM_SHA256),
        (1, &["CHACHA20", "AES_256", "AES_128"], Suite::TLS13_CHACHA20_POLY1305_SHA256),
        (1, &["AES_256", "CHACHA20"], Suite::TLS13_AES_256_GCM_SHA384),
        (0, &["AES_256", "CHACHA20", "AES_128"], Suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
        (0, &["CHACHA20", "AES_128"], Suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    ] {
        let config = Arc::new(identity.trusted_with(VERSIONS[version], offered));
        for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
            let mut client = connect(server.another_address(0), &config);
            client.send(b"GET /hello.txt HTTP/1.0\r\n\r\n");
            assert!(client.rest().ends_with(b"hello"));
            let session = &client.stream.conn;
            let suite = session.negotiated_cipher_suite().unwrap().suite();
            assert_eq!((suite, session.handshake_kind()), (expected, Some(kind)), "{offered:?}");
        }
    }
    server.stop();
}

/// A ticket is used once, and every connection brings the next one.
#[test]
fn a_connection_brings_a_ticket() {
    let identity = Identity::new();
    let root = fixture::site();
    let server = Server::start("amped", root.path(), &identity.flags());
    let config = Arc::new(identity.trusted_in(&[VERSIONS[1]]));
    for kind in [HandshakeKind::Full, HandshakeKind::Resumed, HandshakeKind::Resumed] {
        let mut client = connect(server.another_address(0), &config);
        client.send(b"GET /hello.txt HTTP/1.0\r\n\r\n");
        assert!(client.rest().ends_with(b"hello"));
        let session = &client.stream.conn;
        assert_eq!((session.handshake_kind(), session.tls13_tickets_received()), (Some(kind), 1));
    }
    server.stop();
}

#[test]
fn sessions_are_resumed_whichever_process_serves() {
    let identity = Identity::new();
    over_all(&identity.flags(), |server, _| {
        let address = server.another_address(0);
        for version in VERSIONS {
            let config = Arc::new(identity.trusted_in(&[version]));
            assert_eq!(get(address, &config, "/hello.txt").1, HandshakeKind::Full);
            for _ in 0..5 {
                let (answer, kind) = get(address, &config, "/hello.txt");
                assert!(answer.ends_with(b"\r\n\r\nhello"));
                assert_eq!(kind, HandshakeKind::Resumed, "{version:?}");
            }
        }
        let counted = server.stop();
        assert_eq!(counted.value(Counter::TlsHandshakes), 12);
        assert_eq!(counted.value(Counter::TlsHandshakesResumed), 10);
        assert_eq!(counted.value(Counter::TlsHandshakesFailed), 0);
    });
}

/// Full and resumed handshakes of several clients succeed while the certificate is replaced.
#[test]
fn a_new_certificate_under_load_fails_nobody() {
    let identity = Identity::new();
    let root = fixture::site();
    let mut server = Server::start("amped", root.path(), &identity.flags());
    let address = server.another_address(0);
    let before = presented(address, "localhost");
    let (is_over, resumed, full) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let successor = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let config = trusting_all();
                while !is_over.load(Ordering::Relaxed) {
                    let (answer, kind) = get(address, &config, "/hello.txt");
                    assert!(answer.ends_with(b"\r\n\r\nhello"), "{:?}", String::from_utf8_lossy(&answer));
                    let count = if kind == HandshakeKind::Resumed { &resumed } else { &full };
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // Also if this thread panics.
        let _over = engine::WhenDropped(&is_over);
        std::thread::sleep(Duration::from_millis(300));
        identity.renew("localhost");
        let successor = Successor::of(&mut server);
        std::thread::sleep(Duration::from_millis(300));
        successor
    });
    assert_ne!(presented(address, "localhost"), before);
    let (resumed, full) = (resumed.into_inner(), full.into_inner());
    // A ticket of one process means nothing to the other, and for a moment both accept connections.
    assert!(full >= 4 && resumed > full, "{resumed} resumed, {full} full");
    successor.stop();
}

/// An answer that `openssl ocsp` has signed reaches `openssl s_client`.
#[test]
fn an_answer_about_revocation_goes_with_the_certificate() {
    if run("openssl", &["version"], b"").is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let openssl = |words: &str| {
        let mut command = Command::new("openssl");
        command.args(words.split(' ')).current_dir(folder.path()).stdin(Stdio::null());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{words}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let key = "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes";
    openssl(&format!("req -x509 {key} -keyout ca.key -out ca.pem -subj /CN=authority -days 2"));
    openssl(&format!(
        "req {key} -keyout key.pem -out ask.pem -subj /CN=localhost -addext subjectAltName=DNS:localhost"
    ));
    openssl(
        "x509 -req -in ask.pem -CA ca.pem -CAkey ca.key -set_serial 4096 -days 2 -copy_extensions copy -out certificate.pem",
    );
    std::fs::write(folder.path().join("index.txt"), "V\t991231235959Z\t\t1000\tunknown\t/CN=localhost\n")
        .unwrap();
    openssl("ocsp -issuer ca.pem -cert certificate.pem -no_nonce -reqout ask.der");
    openssl(
        "ocsp -index index.txt -CA ca.pem -rsigner ca.pem -rkey ca.key -reqin ask.der -respout answer.der -ndays 1",
    );

    let root = fixture::site();
    let [certificate, key, answer] =
        ["certificate.pem", "key.pem", "answer.der"].map(|name| folder.path().join(name));
    let [certificate, key, answer] = [&certificate, &key, &answer].map(|file| file.to_str().unwrap());
    let flags = [
        "--tls-listen",
        "127.0.0.1:0",
        "--tls-certificate",
        certificate,
        "--tls-key",
        key,
        "--tls-ocsp",
        answer,
    ];
    let server = Server::start("amped", root.path(), &flags);
    let address = server.another_address(0);
    for version in ["-tls1_2", "-tls1_3"] {
        let said = openssl(&format!(
            "s_client -connect {address} -servername localhost -CAfile ca.pem -status -verify_return_error {version}"
        ));
        assert!(said.contains("OCSP Response Status: successful (0x0)"), "{version}: {said}");
        assert!(
            said.contains("Serial Number: 1000\n") && said.contains("Cert Status: good"),
            "{version}: {said}"
        );
    }
}

#[test]
fn who_speaks_no_tls_is_told_and_closed() {
    let identity = Identity::new();
    let flags = [&identity.flags()[..], &["--head-timeout", "300ms", "--end-timeout", "300ms"]].concat();
    over_all(&flags, |server, _| {
        let address = server.another_address(0);
        let answer = |bytes: &[u8]| {
            let mut client = Client::to(address);
            client.send(bytes);
            client.rest()
        };
        assert!(answer(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").starts_with(b"HTTP/1.1 400 "));
        // An alert: a record of type 21, fatal.
        let said = answer(&[7; 500]);
        assert!(said.starts_with(&[21]) && said.len() == 7 && said[5] == 2, "{said:?}");
        // A ClientHello that never ends, and one that the client cuts short.
        let begun = Instant::now();
        assert_eq!(answer(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]), b"");
        assert!(begun.elapsed() >= Duration::from_millis(250));
        let mut client = Client::to(address);
        client.send(&[22, 3, 1, 2, 0, 1]);
        client.end();
        assert_eq!(client.rest(), b"");
        // A client that connects and leaves at once.
        drop(Client::to(address));
        assert!(get(address, &identity.trusted(), "/hello.txt").0.ends_with(b"hello"));
        let counted = server.stop();
        assert_eq!(counted.value(Counter::TlsHandshakes), 1);
        assert_eq!(counted.value(Counter::TlsHandshakesFailed), 4);
        assert_eq!(counted.value(Counter::Timeouts), 1);
    });
}

#[test]
fn half_a_record_is_half_a_request() {
    let identity = Identity::new();
    let flags = [&identity.flags()[..], &["--head-timeout", "300ms"]].concat();
    over_all(&flags, |server, _| {
        let config = identity.trusted();
        let mut client = connect(server.another_address(0), &config);
        client.send(b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n");
        assert_eq!(body(&mut client), b"hello");
        let begun = Instant::now();
        client.stream.sock.write_all(&[23, 3, 3, 1, 0, 0]).unwrap();
        // The connection ends with close_notify, which `rest` checks.
        assert_eq!(client.rest(), b"");
        assert!((250..5000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
        assert_eq!(server.stop().value(Counter::Timeouts), 1);
    });
}

#[test]
fn a_client_that_vanishes_without_a_goodbye_harms_nobody() {
    let identity = Identity::new();
    over_all(&identity.flags(), |server, _| {
        let (address, config) = (server.another_address(0), identity.trusted());
        for sent in [&b""[..], b"GET /hel", b"GET /large.bin HTTP/1.1\r\nHost: h\r\n\r\n"] {
            let mut client = connect(address, &config);
            client.send(b"GET /hello.txt HTTP/1.1\r\nHost: h\r\n\r\n");
            assert_eq!(body(&mut client), b"hello");
            client.send(sent);
            drop(client);
        }
        assert!(get(address, &config, "/hello.txt").0.ends_with(b"hello"));
        server.wait_until(Counter::ConnectionsOpen, 0);
    });
}

#[test]
fn the_name_asked_for_chooses_the_certificate() {
    let (first, second) = (Identity::new(), Identity::new());
    second.renew("second.example");
    let root = fixture::site();
    let flags = [&first.flags()[..], &second.flags()[2..]].concat();
    let server = Server::start("amped", root.path(), &flags);
    let address = server.another_address(0);
    assert_eq!(presented(address, "second.example"), second.der());
    assert_eq!(presented(address, "localhost"), first.der());
    assert_eq!(presented(address, "elsewhere.example"), first.der());
}

/// Runs a program with `input` on standard input; `None` where it is not installed.
fn run(program: &str, arguments: &[&str], input: &[u8]) -> Option<Vec<u8>> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let Ok(mut child) = command.spawn() else {
        eprintln!("skipped: no {program} here");
        return None;
    };
    let _ = child.stdin.take().unwrap().write_all(input);
    let mut output = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut output).unwrap();
    child.wait().unwrap();
    Some(output)
}

#[test]
fn other_implementations_agree() {
    let identity = Identity::new();
    let certificate = identity.certificate();
    over_all(&identity.flags(), |server, root| {
        let port = server.another_address(0).port();
        let session = root.join("session.pem");
        let (certificate, session) = (certificate.to_str().unwrap(), session.to_str().unwrap());
        for version in ["1.2", "1.3"] {
            let url = format!("https://localhost:{port}/{{hello.txt,large.bin,medium.bin}}");
            let here = format!("localhost:{port}:127.0.0.1");
            let flags = ["-s", "--http1.1", "--tlsv1.2", "--tls-max", version, "--cacert", certificate];
            let rest = ["--resolve", &here, &url];
            let Some(answer) = run("curl", &[&flags[..], &rest].concat(), b"") else { return };
            assert_eq!(answer.len(), 5 + fixture::LARGE_BYTES + 20_000, "{version}");
            assert!(answer[5..].starts_with(&fixture::large()));
        }
        let address = format!("127.0.0.1:{port}");
        for version in ["-tls1_2", "-tls1_3"] {
            let flags = ["s_client", "-connect", &address, version, "-ign_eof", "-CAfile", certificate];
            let request = b"GET /hello.txt HTTP/1.0\r\n\r\n";
            let first = [&flags[..], &["-sess_out", session]].concat();
            if run("openssl", &first, request).is_none() {
                return;
            }
            let said = run("openssl", &[&flags[..], &["-sess_in", session]].concat(), request).unwrap();
            let said = String::from_utf8_lossy(&said);
            assert!(said.contains("\nReused, TLSv1") && said.contains("\r\n\r\nhello"), "{version}: {said}");
            assert!(said.contains("Verify return code: 0 (ok)"), "{version}: {said}");
        }
    });
}

#[test]
fn mistakes_are_named() {
    let (identity, other) = (Identity::new(), Identity::new());
    let [listen, address, certificate_flag, certificate, key_flag, key] = identity.flags();
    let check = |flags: &[&str], expected: &str| {
        let output = Command::new(ENGINE).args(["serve", "."]).args(flags).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.starts_with(&format!("error: {expected}")) && said.contains("\nhint: "), "{said}");
    };
    check(&[listen, address], "TLS needs a certificate");
    check(&[listen, address, certificate_flag, certificate], "1 --tls-certificate but 0 --tls-key");
    check(
        &[certificate_flag, certificate, key_flag, key, "--listen", address],
        "there are certificates, but no TLS listener",
    );
    check(
        &[listen, address, certificate_flag, "/nowhere.pem", key_flag, key],
        "cannot read the certificate /nowhere.pem: No such file",
    );
    check(
        &[listen, address, certificate_flag, certificate, key_flag, other.flags()[5]],
        &format!("the key {} does not belong to the certificate {certificate}", other.flags()[5]),
    );
}
