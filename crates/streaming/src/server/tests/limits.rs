//! Limits on what clients get, and on how long they may be silent.

use std::io::Write;
use std::time::Duration;

use super::{Client, serving};
use crate::server::{Counter, Settings};

#[test]
fn bandwidth_and_sessions_are_limited() {
    let of = |bits: u64| Settings { bandwidth_bits_per_second: Some(bits), ..Settings::default() };
    let udp = |port: u16| format!("Transport: RTP/AVP;unicast;client_port={}-{}\r\n", port, port + 1);
    let (counts, _) = serving(of(60_000), |address| {
        let mut client = Client::connect(address);
        let mut sessions = Vec::new();
        for port in (40_000..40_100).step_by(2) {
            let answer = client.ask("SETUP", "/film.mp4/trackID=1", &udp(port));
            if answer.status != 200 {
                assert_eq!(answer.status, 453);
                break;
            }
            sessions.push(answer.session());
        }
        assert!((1..20).contains(&sessions.len()), "{}", sessions.len());
        let fields = format!("Session: {}\r\n", sessions[0]);
        assert_eq!(client.ask("TEARDOWN", "/film.mp4", &fields).status, 200);
        assert_eq!(
            client.ask("SETUP", "/film.mp4/trackID=1", &udp(41_000)).status,
            200,
            "there is room again"
        );
    });
    assert_eq!(counts.value(Counter::RefusedBandwidth), 1);
    let settings = Settings { sessions_max: 1, newcomers_max: 2, ..Settings::default() };
    let (counts, _) = serving(settings, |address| {
        let mut client = Client::connect(address);
        client.set_up();
        let mut other = Client::connect(address);
        assert_eq!(other.ask("SETUP", "/film.mp4/trackID=1", &udp(42_000)).status, 503);
        let mut third = Client::connect(address);
        assert_eq!(third.ask("OPTIONS", "/", "").status, 200);
        let mut fourth = Client::connect(address);
        assert_eq!(fourth.say("").status, 503);
    });
    let hits = [Counter::LimitSessions, Counter::LimitNewcomers].map(|limit| counts.value(limit));
    assert_eq!(hits, [1, 1]);
}

#[test]
fn silent_and_vanished_clients_are_let_go() {
    let second = Duration::from_secs(1);
    let settings = Settings {
        session_timeout: second,
        idle_timeout: second,
        head_timeout: second,
        ..Settings::default()
    };
    let (counts, log) = serving(settings, |address| {
        let mut silent = Client::connect(address);
        let fields = "Transport: RTP/AVP;unicast;client_port=43000-43001\r\n";
        let session = silent.ask("SETUP", "/film.mp4/trackID=1", fields).session();
        let mut vanishing = Client::connect(address);
        vanishing.set_up();
        drop(vanishing);
        // A session that is over, and then a connection without one.
        assert!(silent.next().is_err());
        let mut half = Client::connect(address);
        half.socket.write_all(b"OPTIONS * RTSP/1.0\r\n").unwrap();
        assert!(half.next().is_err());
        let mut again = Client::connect(address);
        assert_eq!(again.ask("PLAY", "/film.mp4", &format!("Session: {session}\r\n")).status, 454);
    });
    assert_eq!((counts.value(Counter::SessionsTimedOut), counts.value(Counter::SessionsEnded)), (1, 2));
    assert_eq!((counts.value(Counter::LimitHead), counts.value(Counter::LimitIdle)), (1, 1));
    assert!(log.contains("end=timeout\n") && log.contains("end=closed\n"), "{log}");
}
