//! Limits on what clients get, and on how long they may be silent.

use std::io::Write;
use std::net::UdpSocket;
use std::time::Duration;

use rustix::net::sockopt::set_socket_send_buffer_size;

use super::{Answer, Client, serving};
use crate::{Counter, Settings};
use sojourn_media::rtp::rtcp;

fn udp(port: u16) -> String {
    format!("Transport: RTP/AVP;unicast;client_port={}-{}\r\n", port, port + 1)
}

fn set_up(client: &mut Client, port: u16) -> Answer {
    client.ask("SETUP", "/film.mp4/trackID=1", &udp(port))
}

fn play(client: &mut Client, session: &str) -> u16 {
    client.ask("PLAY", "/film.mp4", &format!("Session: {session}\r\nRange: npt=0-\r\n")).status
}

#[test]
fn bandwidth_is_given_to_who_plays() {
    let settings = Settings { bandwidth_bits_per_second: Some(60_000), ..Settings::default() };
    let (counts, _) = serving(settings, |address| {
        let mut client = Client::connect(address);
        let mut sessions: Vec<_> =
            (0..20).map(|pair| set_up(&mut client, 40_000 + 2 * pair).session()).collect();
        let played: Vec<_> = sessions.iter().map(|session| play(&mut client, session)).collect();
        let room = played.iter().filter(|status| **status == 200).count();
        assert!((1..20).contains(&room) && played[room..].iter().all(|status| *status == 453), "{played:?}");
        assert_eq!(set_up(&mut client, 41_000).status, 453, "it is told early");
        let fields = format!("Session: {}\r\n", sessions.remove(0));
        assert_eq!(client.ask("TEARDOWN", "/film.mp4", &fields).status, 200);
        assert_eq!(play(&mut client, sessions.last().unwrap()), 200, "there is room again");
    });
    assert!(counts.value(Counter::RefusedBandwidth) >= 2);
    assert_eq!(counts.value(Counter::BandwidthReserved), 0);
}

#[test]
fn tracks_that_come_and_go_are_promised_no_more_than_they_take() {
    let settings = Settings { bandwidth_bits_per_second: Some(100_000), ..Settings::default() };
    let (counts, _) = serving(settings, |address| {
        let mut client = Client::connect(address);
        let session = client.set_up();
        assert_eq!(play(&mut client, &session), 200);
        let fields = format!("Session: {session}\r\n");
        assert_eq!(client.ask("PAUSE", "/film.mp4", &fields).status, 200);
        for _ in 0..50 {
            assert_eq!(client.ask("TEARDOWN", "/film.mp4/trackID=2", &fields).status, 200);
            let fields = format!("Transport: RTP/AVP/TCP;interleaved=2-3\r\n{fields}");
            assert_eq!(client.ask("SETUP", "/film.mp4/trackID=2", &fields).status, 200);
        }
    });
    assert_eq!(counts.value(Counter::BandwidthReserved), 0);
}

#[test]
fn sessions_are_limited_by_those_who_played() {
    let settings = Settings { sessions_max: 2, ..Settings::default() };
    let (counts, _) = serving(settings, |address| {
        let mut client = Client::connect(address);
        let sessions = [0, 2, 4].map(|pair| set_up(&mut client, 42_000 + pair).session());
        assert_eq!(sessions.each_ref().map(|session| play(&mut client, session)), [200, 200, 503]);
        assert_eq!(set_up(&mut client, 42_006).status, 503);
    });
    assert_eq!(counts.value(Counter::LimitSessions), 2);
    let settings = Settings { sessions_per_address: Some(1), ..Settings::default() };
    let (counts, _) = serving(settings, |address| {
        let mut client = Client::connect(address);
        let sessions = [0, 2].map(|pair| set_up(&mut client, 42_000 + pair).session());
        assert_eq!(sessions.each_ref().map(|session| play(&mut client, session)), [200, 503]);
    });
    assert_eq!(counts.value(Counter::LimitSessionsPerAddress), 1);
}

#[test]
fn who_never_plays_gives_way() {
    let settings = Settings { setups_max: 3, ..Settings::default() };
    let (counts, log) = serving(settings, |address| {
        let mut client = Client::connect(address);
        let first = set_up(&mut client, 44_000).session();
        assert_eq!(play(&mut client, &first), 200);
        let others = [2, 4, 6, 8, 10].map(|pair| set_up(&mut client, 44_000 + pair).session());
        // The oldest of those who never played are gone; who played is there.
        assert_eq!(
            others.each_ref().map(|session| play(&mut client, session)),
            [454, 454, 200, 200, 200],
            "{others:?}"
        );
        assert_eq!(play(&mut client, &first), 200);
    });
    assert_eq!((counts.value(Counter::LimitSetups), counts.value(Counter::SessionsUnplayed)), (2, 0));
    assert_eq!(log.matches("end=displaced\n").count(), 2, "{log}");
}

#[test]
fn connections_without_a_session_give_way() {
    let settings = Settings { sessionless_connections_max: 2, ..Settings::default() };
    let (counts, _) = serving(settings, |address| {
        let mut viewer = Client::connect(address);
        viewer.set_up();
        let mut idle: Vec<_> = (0..4).map(|_| Client::connect(address)).collect();
        let mut newest = idle.pop().unwrap();
        assert_eq!(newest.ask("OPTIONS", "/", "").status, 200);
        assert!(idle[0].next().is_err() && idle[1].next().is_err());
        assert_eq!(idle[2].ask("OPTIONS", "/", "").status, 200);
        assert_eq!(viewer.ask("OPTIONS", "/", "").status, 200);
    });
    assert_eq!(counts.value(Counter::LimitSessionlessConnections), 2);
    // Where there is no place for any connection, the first to go is one that never played.
    let settings = Settings { connections_max: 2, ..Settings::default() };
    let (counts, _) = serving(settings, |address| {
        let mut viewer = Client::connect(address);
        let session = viewer.set_up();
        assert_eq!(play(&mut viewer, &session), 200);
        let mut half_open = Client::connect(address);
        half_open.set_up();
        let mut third = Client::connect(address);
        let session = third.set_up();
        assert_eq!(play(&mut third, &session), 200);
        assert!(half_open.next().is_err());
        let mut fourth = Client::connect(address);
        assert_eq!(fourth.say("").status, 503);
    });
    assert_eq!(counts.value(Counter::LimitConnections), 2);
}

#[test]
fn a_session_that_makes_no_room_for_a_connection_stays() {
    let settings = Settings { connections_max: 2, ..Settings::default() };
    let (counts, log) = serving(settings, |address| {
        // A session waits for its client to connect again, ...
        let mut vanishing = Client::connect(address);
        let orphan = set_up(&mut vanishing, 46_000).session();
        drop(vanishing);
        std::thread::sleep(Duration::from_millis(300));
        // ... and another one has not played, beside one that has.
        let mut viewer = Client::connect(address);
        let played = set_up(&mut viewer, 46_002).session();
        assert_eq!(play(&mut viewer, &played), 200);
        let unplayed = set_up(&mut viewer, 46_004).session();
        let mut other = Client::connect(address);
        let session = other.set_up();
        assert_eq!(play(&mut other, &session), 200);
        let mut third = Client::connect(address);
        assert_eq!(third.say("").status, 503);
        for session in [&played, &unplayed, &orphan] {
            assert_eq!(play(&mut viewer, session), 200, "{session}");
        }
    });
    assert_eq!(counts.value(Counter::LimitConnections), 1, "the one that was refused");
    assert!(!log.contains("end=displaced"), "{log}");
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
        let session = set_up(&mut silent, 43_000).session();
        let mut vanishing = Client::connect(address);
        vanishing.set_up();
        drop(vanishing);
        // A session that is over, and then a connection without one.
        assert!(silent.next().is_err());
        let mut half = Client::connect(address);
        half.socket.write_all(b"OPTIONS * RTSP/1.0\r\n").unwrap();
        assert!(half.next().is_err());
        let mut again = Client::connect(address);
        assert_eq!(play(&mut again, &session), 454);
    });
    assert_eq!((counts.value(Counter::SessionsTimedOut), counts.value(Counter::SessionsEnded)), (1, 2));
    assert_eq!((counts.value(Counter::LimitHead), counts.value(Counter::LimitIdle)), (1, 1));
    assert!(log.contains("end=timeout\n") && log.contains("end=closed\n"), "{log}");
}

#[test]
fn signs_of_life_do_not_replace_a_play() {
    let settings = Settings { setup_timeout: Duration::from_secs(1), ..Settings::default() };
    let (counts, _) = serving(settings, |address| {
        let mut client = Client::connect(address);
        let mut other = Client::connect(address);
        let (played, session) = (other.set_up(), client.set_up());
        assert_eq!(play(&mut other, &played), 200);
        let fields = format!("Session: {session}\r\n");
        while client.ask("GET_PARAMETER", "/film.mp4", &fields).status == 200 {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(play(&mut client, &session), 454);
        assert_eq!(play(&mut other, &played), 200);
    });
    assert_eq!((counts.value(Counter::LimitSetup), counts.value(Counter::SessionsTimedOut)), (1, 0));
}

#[test]
fn reports_are_heard_for_whom_they_are_about() {
    let (counts, log) = serving(Settings::default(), |address| {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let port = receiver.local_addr().unwrap().port();
        let offer = format!("Transport: RTP/AVP;unicast;client_port={port}-{port}\r\n");
        let mut viewer = Client::connect(address);
        let set_up = viewer.ask("SETUP", "/film.mp4/trackID=1", &offer);
        let session = set_up.session();
        assert_eq!(play(&mut viewer, &session), 200);
        // Somebody else there names the same ports.
        let mut thief = Client::connect(address);
        let taken = thief.ask("SETUP", "/film.mp4/trackID=1", &offer).session();
        assert_eq!(play(&mut thief, &taken), 200);
        let field = |name: &str| {
            let parts = set_up.fields["transport"].split(';');
            parts.filter_map(|part| part.strip_prefix(name)).next().unwrap().to_owned()
        };
        let rtcp: u16 = field("server_port=").split('-').nth(1).unwrap().parse().unwrap();
        let source = u32::from_str_radix(&field("ssrc="), 16).unwrap();
        let mut datagram = Vec::new();
        rtcp::append_receiver_report(
            &mut datagram,
            1,
            &[rtcp::Reception { source, lost: 3, ..rtcp::Reception::default() }],
        );
        receiver.send_to(&datagram, (address.ip(), rtcp)).unwrap();
        // What had come before a request was read before it is answered.
        for (client, session) in [(&mut viewer, session), (&mut thief, taken)] {
            let fields = format!("Session: {session}\r\n");
            assert_eq!(client.ask("TEARDOWN", "/film.mp4", &fields).status, 200);
        }
    });
    assert_eq!(counts.value(Counter::PacketsReportedLost), 3);
    assert!(log.contains("lost=3") && log.contains("lost=- "), "{log}");
}

#[test]
fn who_reads_no_answers_is_read_no_more() {
    let (counts, _) = serving(Settings::default(), |address| {
        let mut client = Client::connect(address);
        set_socket_send_buffer_size(&client.socket, 16 * 1024).unwrap();
        client.socket.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        let request = format!("DESCRIBE {} RTSP/1.0\r\nCSeq: 1\r\n\r\n", client.url("/film.mp4"));
        let burst = request.repeat(1000).into_bytes();
        // What waits is little: the rest stays with the client, whose buffers are full at last.
        let mut sent = 0;
        while let Ok(count) = client.socket.write(&burst[sent % request.len()..]) {
            sent += count;
            assert!(sent < 200 << 20, "the server takes whatever comes");
        }
        // Once it reads, it gets its answers, also those that were not thought of yet.
        let whole = sent / request.len();
        assert!(whole > 1000, "{sent}");
        for _ in 0..1000 {
            let answer = client.next().unwrap().unwrap();
            assert_eq!((answer.status, answer.fields["cseq"].as_str()), (200, "1"));
        }
    });
    assert!(counts.value(Counter::Requests) > 100);
}

#[test]
fn a_storm_of_seeks_is_sent_no_more_than_one_viewer_can_see() {
    let (counts, _) = serving(Settings::default(), |address| {
        let mut client = Client::connect(address);
        let session = client.set_up();
        let storm = |from: u32, count: u32, url: String| -> String {
            let one = |number| {
                format!(
                    "PLAY {url} RTSP/1.0\r\nCSeq: {number}\r\nSession: {session}\r\nRange: npt=0-\r\n\r\n"
                )
            };
            (from..from + count).map(one).collect()
        };
        client.socket.write_all(storm(1000, 2000, client.url("/film.mp4")).as_bytes()).unwrap();
        for number in 1000..3000 {
            let answer = loop {
                if let Some(answer) = client.next().unwrap() {
                    break answer;
                }
            };
            assert_eq!((answer.status, answer.fields["cseq"].clone()), (200, number.to_string()));
        }
        client.packets.clear();
        assert_eq!(client.ask("TEARDOWN", "/film.mp4", &format!("Session: {session}\r\n")).status, 200);
    });
    let samples = counts.value(Counter::FramesSent);
    assert!(samples < 1000, "{samples} samples for 2,000 beginnings");
}

#[test]
fn a_film_that_does_not_open_in_time_is_refused() {
    // Without helpers nothing is ever read, as from a mount whose server has gone.
    let settings = Settings { helpers: 0, open_timeout: Duration::from_millis(50), ..Settings::default() };
    let (counts, _) = serving(settings, |address| {
        let mut client = Client::connect(address);
        assert_eq!(client.ask("DESCRIBE", "/film.mp4", "").status, 503);
        assert!(client.next().is_err(), "the film may come later, and is not another request's");
        let mut other = Client::connect(address);
        assert_eq!(other.ask("OPTIONS", "/film.mp4", "").status, 200);
    });
    assert_eq!(counts.value(Counter::LimitOpen), 1);
}
