//! The server over loopback as a client sees it: the example film of two seconds, by UDP and interleaved.

mod authentication;
mod limits;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use sojourn_server::{AccessLog, LogFormat, Scoreboard, Stop};

use sojourn_media::mp4::example;
use sojourn_media::rtp::{Header, rtcp};
use sojourn_media::rtsp::{Message, Parsed, Parser, track_infos};
use sojourn_rtsp_server::{Counter, Counts, Published, Server, Settings, Site, Users};

/// Longer than anything takes on a loaded machine.
const DEADLINE: Duration = Duration::from_secs(30);

/// Runs `test` against a server of the example film; returns the server's counters.
fn serving(settings: Settings, test: impl FnOnce(SocketAddr)) -> (Counts, String) {
    serving_users(None, settings, test)
}

/// The same for authenticated `users` only.
fn serving_users(
    users: Option<Users>,
    settings: Settings,
    test: impl FnOnce(SocketAddr),
) -> (Counts, String) {
    let folder = tempfile::tempdir().unwrap();
    let log_path = folder.path().join("log");
    std::fs::create_dir(folder.path().join("films")).unwrap();
    std::fs::write(folder.path().join("films/film.mp4"), example::film()).unwrap();
    std::fs::write(folder.path().join("films/notes.txt"), "no film").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (scoreboard, published) = (Scoreboard::new(), Published::default());
    let (stop, retire) = (Stop::new().unwrap(), Stop::new().unwrap());
    let log = AccessLog::open(&log_path, LogFormat::parse("combined").unwrap(), &scoreboard).unwrap();
    let site = Site {
        root: &folder.path().join("films"),
        listeners: vec![listener],
        users,
        settings,
        retire: &retire,
        scoreboard: &scoreboard,
        log: Some(&log),
        published: &published,
    };
    let counts = std::thread::scope(|scope| {
        let server = Server::new(site, &stop).unwrap();
        let server = scope.spawn(|| server.run().unwrap());
        let outcome = catch_unwind(AssertUnwindSafe(|| test(address)));
        stop.request();
        let counts = server.join().unwrap();
        if let Err(panic) = outcome {
            resume_unwind(panic);
        }
        counts
    });
    drop(log);
    (counts, std::fs::read_to_string(log_path).unwrap())
}

/// A client with a connection.
struct Client {
    socket: TcpStream,
    address: SocketAddr,
    received: Vec<u8>,
    sequence: u32,
    /// Interleaved packets received between responses: channel and bytes.
    packets: Vec<(u8, Vec<u8>)>,
}

#[derive(Debug)]
struct Answer {
    status: u16,
    fields: BTreeMap<String, String>,
    body: String,
}

impl Answer {
    fn session(&self) -> String {
        self.fields["session"].split(';').next().unwrap().to_owned()
    }
}

impl Client {
    fn connect(address: SocketAddr) -> Client {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(DEADLINE)).unwrap();
        Client { socket, address, received: Vec::new(), sequence: 0, packets: Vec::new() }
    }

    fn url(&self, path: &str) -> String {
        format!("rtsp://{}{path}", self.address)
    }

    /// Sends a request for `path` and returns the response.
    fn ask(&mut self, method: &str, path: &str, fields: &str) -> Answer {
        self.sequence += 1;
        let head = format!("{method} {} RTSP/1.0\r\nCSeq: {}\r\n{fields}\r\n", self.url(path), self.sequence);
        self.say(&head)
    }

    /// Sends text and returns the response.
    fn say(&mut self, text: &str) -> Answer {
        self.socket.write_all(text.as_bytes()).unwrap();
        loop {
            if let Some(answer) = self.next().expect("an answer before the end") {
                return answer;
            }
        }
    }

    /// The next message: a response, or a packet, which is stored; an error at the connection's end.
    fn next(&mut self) -> Result<Option<Answer>, ()> {
        loop {
            let parsed = Parser::default().parse(&self.received).unwrap();
            if let Parsed::Complete(message, length) = parsed {
                let answer = match message {
                    Message::Response(response) => Some(Answer {
                        status: response.status,
                        fields: response
                            .fields
                            .iter()
                            .map(|(n, v)| (n.to_lowercase(), v.to_owned()))
                            .collect(),
                        body: String::from_utf8(response.body.to_vec()).unwrap(),
                    }),
                    Message::Interleaved(data) => {
                        self.packets.push((data.channel, data.payload.to_vec()));
                        None
                    }
                    Message::Request(request) => panic!("{request:?}"),
                };
                self.received.drain(..length);
                return Ok(answer);
            }
            let mut room = [0; 4096];
            match self.socket.read(&mut room).unwrap() {
                0 => return Err(()),
                count => self.received.extend_from_slice(&room[..count]),
            }
        }
    }

    /// Sets up both tracks interleaved; returns the session.
    fn set_up(&mut self) -> String {
        let first =
            self.ask("SETUP", "/film.mp4/trackID=1", "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n");
        assert_eq!(first.status, 200, "{first:?}");
        let session = first.session();
        let fields = format!("Transport: RTP/AVP/TCP;unicast;interleaved=2-3\r\nSession: {session}\r\n");
        let second = self.ask("SETUP", "/film.mp4/trackID=2", &fields);
        assert_eq!((second.status, second.session()), (200, session.clone()), "{second:?}");
        session
    }
}

/// The packets on each channel up to the BYE of `tracks` tracks: headers and payloads.
fn packets_until_goodbye(client: &mut Client, tracks: usize) -> BTreeMap<u8, Vec<(Header, Vec<u8>)>> {
    let mut goodbyes = 0;
    let mut packets: BTreeMap<u8, Vec<_>> = BTreeMap::new();
    while goodbyes < tracks {
        for (channel, bytes) in std::mem::take(&mut client.packets) {
            if channel % 2 == 0 {
                let (header, payload) = Header::parse(&bytes).unwrap();
                packets.entry(channel).or_default().push((header, payload.to_vec()));
            } else {
                let said: Vec<_> = rtcp::packets(&bytes).map(Result::unwrap).collect();
                assert!(matches!(said[..2], [rtcp::Packet::Sender(..), rtcp::Packet::Description { .. }]));
                goodbyes += said.iter().filter(|it| matches!(it, rtcp::Packet::Goodbye { .. })).count();
            }
        }
        if goodbyes < tracks {
            assert!(client.next().unwrap().is_none());
        }
    }
    packets
}

fn check_sequence(packets: &[(Header, Vec<u8>)]) {
    for pair in packets.windows(2) {
        assert_eq!(pair[1].0.sequence, pair[0].0.sequence.wrapping_add(1));
        assert_eq!((pair[1].0.source, pair[1].0.payload_type), (pair[0].0.source, pair[0].0.payload_type));
    }
}

#[test]
fn a_film_within_the_connection() {
    let (counts, log) = serving(Settings::default(), |address| {
        let mut client = Client::connect(address);
        let described = client.ask("DESCRIBE", "/film.mp4", "Accept: application/sdp\r\n");
        assert_eq!((described.status, described.fields["content-type"].as_str()), (200, "application/sdp"));
        assert_eq!(described.fields["content-base"], client.url("/film.mp4/"));
        assert!(described.body.contains("a=control:trackID=1\r\n"), "{}", described.body);
        let session = client.set_up();
        let played = client.ask("PLAY", "/film.mp4", &format!("Session: {session}\r\nUser-Agent: \"x\r\n"));
        assert_eq!(played.status, 200);
        let infos: Vec<_> = track_infos(&played.fields["rtp-info"]).collect();
        assert_eq!(infos[0].url, client.url("/film.mp4/trackID=1"));
        let packets = packets_until_goodbye(&mut client, 2);
        let (pictures, sounds) = (&packets[&0], &packets[&2]);
        assert_eq!(infos[0].sequence, Some(pictures[0].0.sequence));
        assert_eq!(infos[0].timestamp, Some(pictures[0].0.timestamp));
        check_sequence(pictures);
        check_sequence(sounds);
        assert_eq!(pictures.iter().filter(|(header, _)| header.marker).count(), 10);
        let sound_bytes: usize = sounds.iter().map(|(_, payload)| payload.len()).sum();
        // The first is cut by the edit list.
        assert!(sound_bytes > example::sounds()[1..].concat().len(), "{sound_bytes}");
        // It can be played again, from elsewhere.
        let again = client.ask(
            "PLAY",
            "/film.mp4",
            &format!("Session: {session}\r\nRange: npt=1.5-\r\nScale: 1\r\n"),
        );
        assert_eq!((again.status, again.fields["range"].as_str()), (200, "npt=1-2"), "{again:?}");
        assert_eq!(again.fields["scale"], "1.0");
        assert_eq!(client.ask("PAUSE", "/film.mp4", &format!("Session: {session}\r\n")).status, 200);
        assert_eq!(client.ask("TEARDOWN", "/film.mp4", &format!("Session: {session}\r\n")).status, 200);
        assert_eq!(client.ask("PLAY", "/film.mp4", &format!("Session: {session}\r\n")).status, 454);
    });
    assert_eq!((counts.value(Counter::SessionsBegun), counts.value(Counter::SessionsEnded)), (1, 1));
    assert!(counts.value(Counter::Packets) > 10 && counts.value(Counter::FramesDropped) == 0);
    assert!(log.starts_with("127.0.0.1 - - [") && log.ends_with("end=teardown\n"), "{log}");
    assert!(log.contains(" transport=tcp ") && log.contains("/film.mp4 RTSP/1.0\" 200 "), "{log}");
}

#[test]
fn a_film_by_datagrams() {
    let (counts, log) = serving(Settings::default(), |address| {
        let mut client = Client::connect(address);
        let (rtp, rtcp) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let ports = [&rtp, &rtcp].map(|socket| {
            socket.set_read_timeout(Some(DEADLINE)).unwrap();
            socket.local_addr().unwrap().port()
        });
        let offer = format!("Transport: RTP/AVP;unicast;client_port={}-{}\r\n", ports[0], ports[1]);
        let set_up = client.ask("SETUP", "/film.mp4/trackID=1", &offer);
        assert_eq!(set_up.status, 200);
        let session = set_up.session();
        assert_eq!(client.ask("PLAY", "/film.mp4", &format!("Session: {session}\r\n")).status, 200);
        let mut room = [0; 2000];
        let (mut headers, mut pictures) = (Vec::new(), 0);
        while pictures < 10 {
            let (length, from) = rtp.recv_from(&mut room).unwrap();
            assert!(set_up.fields["transport"].contains(&format!("server_port={}-", from.port())));
            let (header, payload) = Header::parse(&room[..length]).unwrap();
            pictures += usize::from(header.marker);
            headers.push((header, payload.to_vec()));
        }
        check_sequence(&headers);
        // The first of what is said of them; then a receiver answers, and so does a stranger.
        let (length, from) = rtcp.recv_from(&mut room).unwrap();
        let Some(Ok(rtcp::Packet::Sender(report, _))) = rtcp::packets(&room[..length]).next() else {
            panic!()
        };
        assert_eq!(report.source, headers[0].0.source);
        let reception = rtcp::Reception { source: report.source, lost: 2, ..rtcp::Reception::default() };
        let mut datagram = Vec::new();
        rtcp::append_receiver_report(&mut datagram, 1, &[reception]);
        rtcp.send_to(&datagram, from).unwrap();
        UdpSocket::bind("127.0.0.1:0").unwrap().send_to(&datagram, from).unwrap();
        // Both were read before what follows is answered.
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(client.ask("TEARDOWN", "/film.mp4", &format!("Session: {session}\r\n")).status, 200);
    });
    assert_eq!(counts.value(Counter::ReceiverReports), 1);
    assert_eq!((counts.value(Counter::ReportsIgnored), counts.value(Counter::PacketsReportedLost)), (1, 2));
    assert!(log.contains(" transport=udp ") && log.contains(" lost=2 "), "{log}");
    assert!(counts.lateness.count() >= 10);
}

#[test]
fn a_track_that_is_set_up_again_says_who_sends_it() {
    serving(Settings::default(), |address| {
        let mut client = Client::connect(address);
        let offer = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
        let session = client.ask("SETUP", "/film.mp4/trackID=1", offer).session();
        let fields = format!("{offer}Session: {session}\r\n");
        let again = client.ask("SETUP", "/film.mp4/trackID=1", &fields);
        let source = again.fields["transport"].split(';').find_map(|part| part.strip_prefix("ssrc="));
        let source = u32::from_str_radix(source.unwrap(), 16).unwrap();
        assert_eq!(client.ask("PLAY", "/film.mp4", &format!("Session: {session}\r\n")).status, 200);
        let packets = packets_until_goodbye(&mut client, 1);
        let mut sources = packets.values().flatten().map(|(header, _)| header.source);
        assert!(!packets.is_empty() && sources.all(|sent| sent == source), "{source:08x}");
    });
}

#[test]
fn a_play_without_a_range_leaves_what_is_played_as_it_is() {
    serving(Settings::default(), |address| {
        let mut client = Client::connect(address);
        let session = client.set_up();
        let play = |number: u32, path: &str, fields: &str| {
            let url = format!("rtsp://{address}{path}");
            format!("PLAY {url} RTSP/1.0\r\nCSeq: {number}\r\nSession: {session}\r\n{fields}\r\n")
        };
        let requests = [
            play(10, "/film.mp4", "Scale: 4\r\n"),
            play(11, "/film.mp4", ""),
            play(12, "/film.mp4/trackID=1", ""),
        ];
        let faster = client.say(&requests.concat());
        assert_eq!((faster.status, faster.fields["scale"].as_str()), (200, "4.0"));
        let mut next = || {
            loop {
                if let Some(answer) = client.next().unwrap() {
                    return answer;
                }
            }
        };
        let again = next();
        assert_eq!((again.status, again.session()), (200, session.clone()));
        assert!(
            ["range", "rtp-info", "scale"].iter().all(|name| !again.fields.contains_key(*name)),
            "{again:?}"
        );
        assert_eq!(next().status, 460);
        // At this scale, the two keyframes.
        let packets = packets_until_goodbye(&mut client, 2);
        check_sequence(&packets[&0]);
        assert_eq!(packets[&0].iter().filter(|(header, _)| header.marker).count(), 2);
    });
}

#[test]
fn sound_alone_is_played_at_its_own_speed() {
    serving(Settings::default(), |address| {
        let mut client = Client::connect(address);
        let offer = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
        let session = client.ask("SETUP", "/film.mp4/trackID=2", offer).session();
        let played = client.ask("PLAY", "/film.mp4", &format!("Session: {session}\r\nScale: 2\r\n"));
        assert_eq!((played.status, played.fields["scale"].as_str()), (200, "1.0"));
        assert!(!packets_until_goodbye(&mut client, 1)[&0].is_empty());
    });
}

#[test]
fn a_track_that_was_not_set_up_does_not_take_the_session_with_it() {
    serving(Settings::default(), |address| {
        let mut client = Client::connect(address);
        let offer = "Transport: RTP/AVP/TCP;unicast;interleaved=0-1\r\n";
        let session = client.ask("SETUP", "/film.mp4/trackID=1", offer).session();
        let fields = format!("Session: {session}\r\n");
        assert_eq!(client.ask("TEARDOWN", "/film.mp4/trackID=2", &fields).status, 404);
        assert_eq!(client.ask("PLAY", "/film.mp4", &fields).status, 200);
        assert_eq!(client.ask("TEARDOWN", "/film.mp4/trackID=2", &fields).status, 404);
        assert_eq!(client.ask("TEARDOWN", "/film.mp4/trackID=1", &fields).status, 200);
        assert_eq!(client.ask("PLAY", "/film.mp4", &fields).status, 454);
    });
}

#[test]
fn refusals() {
    serving(Settings::default(), |address| {
        let mut client = Client::connect(address);
        let udp = "Transport: RTP/AVP;unicast;client_port=40000-40001\r\n";
        for (method, path, fields, status) in [
            ("OPTIONS", "/film.mp4", "", 200),
            ("OPTIONS", "/film.mp4", "Require: funky\r\n", 551),
            ("GET_PARAMETER", "/film.mp4", "", 200),
            ("GET_PARAMETER", "/film.mp4", "Session: 0000000000000000\r\n", 454),
            ("SET_PARAMETER", "/film.mp4", "Content-Length: 0\r\n", 200),
            ("DESCRIBE", "/nothing.mp4", "", 404),
            ("DESCRIBE", "/../film.mp4", "", 400),
            ("DESCRIBE", "/%00", "", 400),
            ("DESCRIBE", "/", "", 404),
            ("DESCRIBE", "/notes.txt", "", 415),
            ("DESCRIBE", "/film.mp4", "Accept: text/html\r\n", 406),
            ("SETUP", "/film.mp4", udp, 459),
            ("SETUP", "/film.mp4/trackID=9", udp, 404),
            ("SETUP", "/film.mp4/trackID=1", "", 400),
            ("SETUP", "/film.mp4/trackID=1", "Transport: RTP/AVP;multicast\r\n", 461),
            ("SETUP", "/film.mp4/trackID=1", "Transport: RTP/AVP;unicast\r\n", 461),
            ("SETUP", "/film.mp4/trackID=1", "Transport: RTP/AVP;unicast;client_port=0-1\r\n", 461),
            ("SETUP", "/film.mp4/trackID=1", "Transport: RTP/AVP;unicast;client_port=1022-1023\r\n", 461),
            (
                "SETUP",
                "/film.mp4/trackID=1",
                "Transport: RTP/AVP;unicast;client_port=4-5;destination=192.0.2.1\r\n",
                403,
            ),
            ("PLAY", "/film.mp4", "", 454),
            ("PLAY", "/film.mp4", "Session: rubbish\r\n", 454),
            ("PLAY", "/film.mp4", "Session: 0000000000000000\r\n", 454),
            ("RECORD", "/film.mp4", "", 405),
            ("SING", "/film.mp4", "", 501),
        ] {
            let answer = client.ask(method, path, fields);
            assert_eq!(answer.status, status, "{method} {path} {fields}");
            assert_eq!(answer.fields["cseq"], client.sequence.to_string());
        }
        let session = client.set_up();
        let mut check = |method: &str, path: &str, fields: &str, status: u16| {
            let answer = client.ask(method, path, &format!("Session: {session}\r\n{fields}"));
            assert_eq!(answer.status, status, "{method} {path} {fields}");
        };
        check("PAUSE", "/film.mp4", "", 455);
        check("PLAY", "/film.mp4/trackID=1", "", 460);
        check("PLAY", "/film.mp4", "Range: npt=99-\r\n", 457);
        check("PLAY", "/film.mp4", "Range: clock=19961108T143720.25Z-\r\n", 501);
        check("PLAY", "/film.mp4", "Range: npt=x-\r\n", 400);
        check("SETUP", "/other.mp4/trackID=1", udp, 459);
        assert_eq!(client.say("OPTIONS * RTSP/2.0\r\nCSeq: 7\r\n\r\n").status, 505);
        assert_eq!(client.say("OPTIONS * RTSP/1.0\r\n\r\n").status, 400);
        let parameters = "SET_PARAMETER * RTSP/1.0\r\nCSeq: 8\r\nContent-Length: 9\r\n\r\nvolume: 7";
        assert_eq!(client.say(parameters).status, 451);
        // What cannot be read ends the connection.
        assert_eq!(client.say("GET / HTTP/1.1\r\n\r\n").status, 400);
        assert!(client.next().is_err());
    });
}

#[test]
fn nobody_else_controls_a_session() {
    serving(Settings::default(), |address| {
        let mut client = Client::connect(address);
        let session = client.set_up();
        let fields = format!("Session: {session}\r\n");
        // Its packets go through the first connection: not even another of the same client.
        let mut other = Client::connect(address);
        for method in ["PLAY", "TEARDOWN", "GET_PARAMETER"] {
            assert_eq!(other.ask(method, "/film.mp4", &fields).status, 454, "{method}");
        }
        assert_eq!(client.ask("PLAY", "/film.mp4", &fields).status, 200);
    });
}
