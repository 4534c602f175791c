//! Viewers of a scripted server: exact figures, the end by either side, and hostile servers.

use crate::film_server;
use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::{
    film_server::{FilmServer, Script, goodbye, packet},
    scripted::{Server, answer, ok},
};
use sojourn_load::viewers::{
    Film, HlsPlan, Quality, StreamLimits, StreamPlan, StreamReport, Transport, run_streams,
};
use sojourn_measure::Nanos;
use sojourn_media::rtsp::Method;

const MS: u64 = 1_000_000;
const BOTH: [Transport; 2] = [Transport::Udp, Transport::Interleaved];

/// One viewer for a while, whose generator may read packets late on a busy machine.
fn plan(server: &FilmServer, transport: Transport, milliseconds: u64) -> StreamPlan {
    StreamPlan {
        films: vec![Film::resolve(&server.url()).unwrap()],
        clients: 1,
        clients_per_second: 1_000.0,
        duration: Nanos(milliseconds * MS),
        transport,
        hls: HlsPlan::default(),
        random_start: false,
        slow_share: 0.0,
        slow_bytes_per_second: 1_000.0,
        vanishing_share: 0.0,
        quality: Quality { prebuffer: Nanos(1_000 * MS), ..Quality::default() },
        limits: StreamLimits { receive_lag: Nanos(60_000 * MS), ..StreamLimits::default() },
        receive_buffer_bytes: None,
        interval: Nanos(200 * MS),
        seed: 1,
        core: None,
    }
}

fn played(plan: StreamPlan) -> StreamReport {
    run_streams(plan, &AtomicBool::new(false), None).unwrap().report()
}

#[test]
fn losses_copies_and_disorder_are_counted_to_the_packet() {
    // 200 packets of 10 ms each are sent in a burst: 1, 2, 7 and 8 are missing, 20 comes after 25, 30 comes twice.
    let mut numbers: Vec<u16> = (0..200).filter(|number| ![1, 2, 7, 8, 20].contains(number)).collect();
    numbers.insert(numbers.iter().position(|&number| number == 26).unwrap(), 20);
    numbers.insert(numbers.iter().position(|&number| number == 31).unwrap(), 30);
    let first = 65_500;
    let packets = numbers.iter().map(|&number| packet(number.wrapping_add(first), 10 * u32::from(number)));
    let script = Script { packets: packets.collect(), ..Script::default() };
    for transport in BOTH {
        let server = FilmServer::start(script.clone());
        let report = played(plan(&server, transport, 1_000));
        let found = report.streaming.packets.as_ref().unwrap();
        assert_eq!(
            (found.deliveries.received, found.deliveries.expected, found.deliveries.lost),
            (196, 200, 4),
            "{transport:?}"
        );
        assert_eq!((found.reordered, found.duplicates), (1, 1), "{transport:?}");
        assert_eq!(
            (found.deliveries.late, found.deliveries.void, found.foreign, found.malformed),
            (0, 0, 0, 0),
            "{transport:?}"
        );
        let streams = &report.streaming.streams;
        // Four of 200 are more than the 1 % that may be lost.
        assert_eq!((streams.started, streams.judged, streams.conforming), (1, 1, 0), "{transport:?}");
        assert_eq!(streams.faults.get("late_or_lost"), Some(&1), "{transport:?}");
        assert!(report.complete && server.asked_for(Method::Teardown) == 1, "{transport:?}");
        assert_eq!(report.time_to_first_packet_seconds.count, 1);
        assert!(
            report.generator.arrival_clock.contains("SO_TIMESTAMPNS"),
            "{}",
            report.generator.arrival_clock
        );
    }
}

#[test]
fn late_packets_and_starvation_are_told_apart() {
    // A burst of 3 s of media, of which two packets in the middle come after their deadlines (at 1200 ms): late, while
    // there was later material. What follows the burst is wanted at 4000 ms and comes then and half a second later.
    // So many fit into a socket's buffer, whenever the generator looks.
    let numbered = |number: u16| packet(number, 20 * u32::from(number));
    let mut packets: Vec<_> = (0..150).filter(|number| ![10, 11].contains(number)).map(numbered).collect();
    packets.extend([10, 11].map(|number| numbered(number).at(2_000)));
    packets.extend((150..155).map(|number| numbered(number).at(4_600)));
    let server = FilmServer::start(Script { packets, ..Script::default() });
    let report = played(plan(&server, Transport::Udp, 5_000));
    let found = report.streaming.packets.as_ref().unwrap();
    assert_eq!((found.deliveries.received, found.deliveries.lost, found.reordered), (155, 0, 2));
    assert_eq!(found.deliveries.late, 2 + 5);
    let starvation = &report.streaming.starvation;
    assert_eq!(starvation.streams, 1);
    assert!(starvation.seconds > 0.5 && starvation.seconds < 30.0, "{}", starvation.seconds);
    assert_eq!(report.streaming.streams.faults.get("starved"), Some(&1));
    // 1800 ms behind the pace of the first: the packet that was the latest but for those that starved the player.
    assert!(report.behind_seconds.max.unwrap() >= 1.6, "{:?}", report.behind_seconds);
}

#[test]
fn a_good_stream_conforms_by_either_transport() {
    // 20 ms each, at their pace, 2.5 s long; the second half a second ahead.
    for transport in BOTH {
        let packets = (0..200).map(|n| packet(n, 20 * u32::from(n)).at(20 * u64::from(n.max(25) - 25)));
        let server = FilmServer::start(Script { packets: packets.collect(), ..Script::default() });
        let report = played(plan(&server, transport, 2_500));
        let streams = &report.streaming.streams;
        assert_eq!(
            (streams.conforming, streams.conforming_fraction),
            (1, Some(1.0)),
            "{transport:?} {report:?}"
        );
        assert!(report.steps[0].span.streams_playing_mean.unwrap() > 0.5);
        assert!(server.asked_for(Method::GetParameter) >= 1, "signs of life: the session ends after 2 s");
    }
}

#[test]
fn whose_film_is_over_begins_again_and_who_leaves_early_has_failed() {
    let packets: Vec<_> = (0..10).map(|number| packet(number, 10 * u32::from(number))).collect();
    let whole = FilmServer::start(Script {
        packets: packets.clone(),
        length_seconds: Some(0.5),
        ..Script::default()
    });
    let report = played(plan(&whole, Transport::Udp, 3_500));
    assert_eq!(report.streaming.streams.started, 2);
    assert_eq!(report.streaming.streams.films_over, 2);
    assert_eq!(report.streaming.streams.conforming, 2, "{report:?}");
    let script = Script {
        packets: packets.into_iter().chain([goodbye()]).collect(),
        length_seconds: Some(60.0),
        ..Script::default()
    };
    let report = played(plan(&FilmServer::start(script), Transport::Interleaved, 3_500));
    assert_eq!(report.streaming.streams.failures_by_cause.get("closed"), Some(&1));
}

#[test]
fn silence_meets_its_limits() {
    let limits = StreamLimits {
        first_packet_timeout: Nanos(300 * MS),
        silence_timeout: Nanos(600 * MS),
        receive_lag: Nanos(60_000 * MS),
        ..StreamLimits::default()
    };
    let silent = FilmServer::start(Script::default());
    let report = played(StreamPlan { limits, ..plan(&silent, Transport::Udp, 2_000) });
    assert_eq!(report.streaming.streams.failures_by_cause.get("no_packet"), Some(&1));
    assert_eq!(report.streaming.streams.timed_out, 1);
    let ceasing = FilmServer::start(Script { packets: vec![packet(0, 0)], ..Script::default() });
    // The machine may be late with the one packet that there is.
    let limits = StreamLimits { first_packet_timeout: Nanos(10_000 * MS), ..limits };
    let report = played(StreamPlan { limits, ..plan(&ceasing, Transport::Udp, 2_500) });
    assert_eq!(report.streaming.streams.failures_by_cause.get("silence"), Some(&1), "{report:?}");
}

#[test]
fn refusals_are_counted_by_status() {
    let refused = b"RTSP/1.0 453 Not Enough Bandwidth\r\nCSeq: CSEQ\r\n\r\n".to_vec();
    let server = FilmServer::start(Script { instead: Some((Method::Setup, refused)), ..Script::default() });
    let report = played(StreamPlan { clients: 5, ..plan(&server, Transport::Udp, 1_500) });
    let streams = &report.streaming.streams;
    assert_eq!((streams.refused, streams.refused_by_status.get(&453)), (5, Some(&5)));
    assert_eq!((streams.judged, streams.conforming), (5, 0));
    assert_eq!(report.steps[0].span.stream_seconds, 0.0);
}

#[test]
fn who_vanishes_is_not_judged_and_says_no_more() {
    let packets: Vec<_> =
        (0..100).map(|number| packet(number, 20 * u32::from(number)).at(20 * u64::from(number))).collect();
    let server = FilmServer::start(Script { packets, ..Script::default() });
    let report =
        played(StreamPlan { vanishing_share: 1.0, clients: 3, ..plan(&server, Transport::Udp, 1_500) });
    let streams = &report.streaming.streams;
    assert_eq!((streams.vanishing, streams.judged), (3, 0));
    assert!(server.asked_for(Method::Teardown) < 3, "whoever vanished says no goodbye");
}

#[test]
fn slow_viewers_are_kept_from_reading() {
    // 100 KB a second are sent, 10 KB are read.
    let packets: Vec<_> =
        (0..1000).map(|number| packet(number, u32::from(number)).at(u64::from(number))).collect();
    let server = FilmServer::start(Script { packets, ..Script::default() });
    let slow = StreamPlan {
        slow_share: 1.0,
        slow_bytes_per_second: 10_000.0,
        ..plan(&server, Transport::Interleaved, 1_500)
    };
    let report = played(slow);
    assert_eq!((report.streaming.streams.slow, report.streaming.streams.judged), (1, 0));
    let read = report.bytes_per_second.unwrap();
    assert!(read < 30_000.0, "{read} bytes/s of 112000 were read");
}

/// A segment comes in two parts. When the line of the slow viewer is free after the first, nothing is there to read.
#[test]
fn slow_viewers_read_on_after_a_pause_of_the_server() {
    let playlist = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\na.ts\n#EXTINF:2,\nb.ts\n#EXT-X-ENDLIST\n";
    let server = Server::start(move |stream, head, _| {
        if head.starts_with("GET /film.m3u8 ") {
            let length = playlist.len();
            let response = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{playlist}");
            return answer(stream, response.as_bytes());
        }
        let segment = ok(1_000);
        answer(stream, &segment[..500]);
        thread::sleep(Duration::from_millis(200));
        answer(stream, &segment[500..])
    });
    let film = Film::resolve(&format!("http://{}/film.m3u8", server.address)).unwrap();
    let script = FilmServer::start(Script::default());
    let slow = StreamPlan {
        films: vec![film],
        slow_share: 1.0,
        slow_bytes_per_second: 100_000.0,
        ..plan(&script, Transport::Http, 2_000)
    };
    played(slow);
    assert_eq!(server.requests.load(Ordering::SeqCst), 3, "the playlist and both segments");
}

#[test]
fn receiver_reports_tell_the_server_what_was_lost() {
    let packets = (0..800)
        .filter(|number| number % 100 != 50)
        .map(|n| packet(n, 10 * u32::from(n)).at(10 * u64::from(n)));
    let server = FilmServer::start(Script { packets: packets.collect(), ..Script::default() });
    let report = played(plan(&server, Transport::Interleaved, 8_200));
    assert_eq!(report.streaming.packets.as_ref().unwrap().deliveries.lost, 8);
    let reports = server.reports.lock().unwrap();
    let (lost, highest) = reports[0];
    assert!(lost >= 2 && lost as u32 <= highest / 100 + 1, "{reports:?}");
}

#[test]
fn whatever_a_server_says_the_run_ends_and_names_it() {
    let reply = |text: &str| Some((Method::Describe, text.as_bytes().to_vec()));
    let sdp = |sdp: &str| {
        let length = sdp.len();
        reply(&format!("RTSP/1.0 200 OK\r\nCSeq: CSEQ\r\nContent-Length: {length}\r\n\r\n{sdp}"))
    };
    let setup = |fields: &str| {
        Some((Method::Setup, format!("RTSP/1.0 200 OK\r\nCSeq: CSEQ\r\n{fields}\r\n").into_bytes()))
    };
    let endless =
        Script { greeting: b"X-Header: 1234567890\r\n".repeat(100), floods: true, ..Script::default() };
    let cases: Vec<(&str, Script, &str)> = vec![
        (
            "rubbish at once",
            Script { greeting: b"\x16\x03\x01 no RTSP\r\n\r\n".to_vec(), ..Script::default() },
            "bad_reply",
        ),
        ("endless fields", Script { instead: reply("RTSP/1.0 200 OK\r\n"), ..endless.clone() }, "bad_reply"),
        (
            "a head without end",
            Script {
                instead: reply(&format!("RTSP/1.0 200 OK\r\nX: {}", "x".repeat(100_000))),
                ..Script::default()
            },
            "bad_reply",
        ),
        (
            "a body too long",
            Script {
                instead: reply("RTSP/1.0 200 OK\r\nContent-Length: 99999999999\r\n\r\n"),
                ..Script::default()
            },
            "bad_reply",
        ),
        ("no tracks", Script { instead: sdp("v=0\r\n"), ..Script::default() }, "bad_reply"),
        ("no session", Script { instead: setup(""), ..Script::default() }, "bad_reply"),
        ("no transport", Script { instead: setup("Session: 5\r\n"), ..Script::default() }, "bad_reply"),
        (
            "another transport",
            Script { instead: setup("Session: 5\r\nTransport: RAW\r\n"), ..Script::default() },
            "bad_reply",
        ),
        ("no answer", Script { instead: reply(""), ..Script::default() }, "reply_timeout"),
        (
            "the answer to something else",
            Script { instead: reply("RTSP/1.0 200 OK\r\nCSeq: 900\r\n\r\n"), ..Script::default() },
            "reply_timeout",
        ),
        (
            "interleaved rubbish for ever",
            Script { greeting: b"$\x63\x00\x04abcd".repeat(500), floods: true, ..Script::default() },
            "reply_timeout",
        ),
        (
            "requests for ever",
            Script {
                greeting: b"OPTIONS * RTSP/1.0\r\nCSeq: 1\r\n\r\n".repeat(50),
                floods: true,
                ..Script::default()
            },
            "reply_timeout",
        ),
    ];
    let check = |(name, script, cause): (&str, Script, &str)| {
        let server = FilmServer::start(script);
        // A bad reply may be late; where none comes, waiting for it ends within the run.
        let reply_timeout = Nanos(if cause == "reply_timeout" { 300 * MS } else { 60_000 * MS });
        let limits = StreamLimits { reply_timeout, ..StreamLimits::default() };
        let began = Instant::now();
        let plan = plan(&server, Transport::Interleaved, 2_000);
        let report = played(StreamPlan { limits, clients: 3, ..plan });
        let causes = &report.streaming.streams.failures_by_cause;
        assert!(causes.keys().eq([&cause]), "{name}: {causes:?}");
        assert!(began.elapsed() < Duration::from_secs(30), "{name}");
    };
    // A flood keeps other runs from their core, so that each has the machine to itself.
    let (floods, others): (Vec<_>, Vec<_>) = cases.into_iter().partition(|(_, script, _)| script.floods);
    thread::scope(|scope| {
        others.into_iter().for_each(|case| {
            scope.spawn(|| check(case));
        });
    });
    floods.into_iter().for_each(check);
}

#[test]
fn packets_that_are_none_are_counted_and_change_nothing() {
    let mut packets: Vec<_> = (0..50).map(|number| packet(number, 20 * u32::from(number))).collect();
    let rubbish = |bytes: &[u8]| film_server::Sent { bytes: bytes.to_vec(), ..packet(0, 0) };
    let other_source = {
        let mut sent = packet(3, 60);
        sent.bytes[11] ^= 1;
        sent
    };
    let other_type = {
        let mut sent = packet(3, 60);
        sent.bytes[1] = 97;
        sent
    };
    packets.extend([rubbish(b""), rubbish(b"$"), rubbish(&[0xff; 1400]), other_source, other_type]);
    packets.push(film_server::Sent { is_report: true, ..rubbish(b"\x80\xc8\xff\xff") });
    for transport in BOTH {
        let report = played(plan(
            &FilmServer::start(Script { packets: packets.clone(), ..Script::default() }),
            transport,
            1_500,
        ));
        let found = report.streaming.packets.as_ref().unwrap();
        assert_eq!(
            (found.deliveries.received, found.deliveries.lost, found.foreign, found.malformed),
            (50, 0, 1, 5),
            "{transport:?}"
        );
    }
}

#[test]
fn nobody_there_is_a_failure_of_each() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let server = FilmServer { address, asked: Default::default(), reports: Default::default() };
    let report = played(StreamPlan { clients: 4, ..plan(&server, Transport::Udp, 300) });
    assert_eq!(report.streaming.streams.failures_by_cause.get("connect_refused"), Some(&4));
    assert_eq!(report.streaming.streams.conforming_fraction, Some(0.0));
}

#[test]
fn an_interrupted_run_keeps_what_was_measured() {
    let packets: Vec<_> = (0..50).map(|number| packet(number, 20 * u32::from(number))).collect();
    let server = FilmServer::start(Script { packets, ..Script::default() });
    let interrupted = AtomicBool::new(false);
    let mut rows = 0;
    let mut stop = |_: &_| {
        rows += 1;
        interrupted.store(rows >= 3, Ordering::Relaxed);
    };
    let report =
        run_streams(plan(&server, Transport::Udp, 60_000), &interrupted, Some(&mut stop)).unwrap().report();
    assert!(report.interrupted && !report.complete);
    assert_eq!(report.streaming.packets.as_ref().unwrap().deliveries.received, 50);
    assert_eq!(server.asked_for(Method::Teardown), 1);
}
