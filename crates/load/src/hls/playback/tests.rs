//! Films of scripted servers: what is requested, in which order and when.

use super::*;

const SECOND: Nanos = Nanos(1_000_000_000);
const START: Nanos = Nanos(50_000_000_000);

fn at(seconds: f64) -> Nanos {
    START + Nanos::from_seconds(seconds)
}

/// Starts with two seconds of media, and buffers four.
fn viewer(start: Option<f64>) -> Playback {
    let plan = HlsPlan { variant: Variant::Lowest, buffer: Nanos(4 * SECOND.0) };
    let location = Location { host: "h".into(), path: "/f/film.m3u8".into() };
    Playback::new(location, plan, Nanos(2 * SECOND.0), start, START)
}

/// A playlist of segments of one second each.
fn list(first: u64, count: u64, is_ended: bool) -> Playlist {
    let lines: String = (first..first + count).map(|number| format!("#EXTINF:1,\n{number}.ts\n")).collect();
    let end = if is_ended { "#EXT-X-ENDLIST\n" } else { "" };
    let text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXT-X-MEDIA-SEQUENCE:{first}\n{lines}{end}");
    read(&text)
}

fn read(text: &str) -> Playlist {
    let location = Location { host: "h".into(), path: "/f/film.m3u8".into() };
    Playlist::read(text.as_bytes(), &location).unwrap()
}

fn answer(status: u16, body_bytes: u64, seconds: f64) -> HlsResponse {
    HlsResponse { status, body_bytes, arrival: at(seconds), is_void: false }
}

/// Takes the next request and answers it; returns its path and the outcome.
fn step(viewer: &mut Playback, seconds: f64, playlist: Option<Playlist>) -> (String, ResponseClass) {
    assert_eq!(viewer.next(at(seconds)), Next::Ask);
    let path = viewer.request().unwrap().path.clone();
    let found = viewer.on_response(&answer(200, 1_000, seconds), |_| playlist.ok_or("no playlist"));
    (path, found)
}

#[test]
fn segments_are_asked_for_while_there_is_room() {
    let mut viewer = viewer(None);
    assert_eq!(
        step(&mut viewer, 0.0, Some(list(0, 6, true))),
        ("/f/film.m3u8".into(), ResponseClass::Preparation)
    );
    for number in 0..4 {
        let (path, found) = step(&mut viewer, 0.0, None);
        assert_eq!(path, format!("/f/{number}.ts"));
        assert!(matches!(found, ResponseClass::Segment(arrival) if !arrival.late));
    }
    // Four are buffered, none is shown.
    assert_eq!(viewer.next(at(0.0)), Next::Ask, "room for four is room until there are four");
}

#[test]
fn a_full_player_waits_until_it_has_shown_something() {
    let mut viewer = viewer(None);
    step(&mut viewer, 0.0, Some(list(0, 6, true)));
    for _ in 0..5 {
        step(&mut viewer, 0.0, None);
    }
    assert_eq!(viewer.next(at(0.5)), Next::At(at(1.0)));
    let (path, _) = step(&mut viewer, 1.25, None);
    assert_eq!(path, "/f/5.ts");
    assert_eq!((viewer.next(at(9.0)), viewer.player().left(at(5.0))), (Next::Nothing, Some(SECOND)));
    assert_eq!(viewer.expected_and_lost(), (6, 0));
}

#[test]
fn what_is_asked_for_late_is_the_generators_doing() {
    let mut viewer = viewer(None);
    step(&mut viewer, 0.0, Some(list(0, 6, true)));
    for _ in 0..5 {
        step(&mut viewer, 0.0, None);
    }
    assert_eq!(viewer.next(at(1.75)), Next::Ask);
    assert_eq!(viewer.request().unwrap().due, at(1.0));
}

#[test]
fn one_of_several_variants_is_played_with_what_its_segments_need() {
    let mut viewer = viewer(None);
    let master =
        "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=9\nhigh.m3u8\n#EXT-X-STREAM-INF:BANDWIDTH=3\nlow/x.m3u8\n";
    step(&mut viewer, 0.0, Some(read(master)));
    let media = "#EXTM3U\n#EXT-X-MAP:URI=\"all.mp4\",BYTERANGE=\"10@0\"\n#EXTINF:1,\n#EXT-X-BYTERANGE:20@10\nall.mp4\n\
        #EXT-X-ENDLIST\n";
    assert_eq!(step(&mut viewer, 0.0, Some(read(media))).0, "/f/low/x.m3u8");
    for (range, length) in [("bytes=0-9", 10), ("bytes=10-29", 20)] {
        assert_eq!(viewer.next(START), Next::Ask);
        let request = String::from_utf8(viewer.request_bytes()).unwrap();
        assert!(request.starts_with("GET /f/all.mp4 HTTP/1.1\r\nHost: h\r\n"), "{request}");
        assert!(request.contains(&format!("Range: {range}\r\n")), "{request}");
        viewer.on_response(&answer(206, length, 0.0), |_| Err("no playlist"));
    }
    // The film is shorter than the start-up buffer: it starts with all there is.
    assert_eq!(viewer.player().left(START), Some(SECOND));
}

#[test]
fn refusals_and_answers_that_make_no_sense() {
    let with_range = "#EXTM3U\n#EXTINF:1,\n#EXT-X-BYTERANGE:20@10\na.ts\n#EXT-X-ENDLIST\n";
    for (status, bytes, is_refused) in [(404, 0, true), (416, 0, true), (200, 500, false), (206, 19, false)] {
        let mut viewer = viewer(None);
        step(&mut viewer, 0.0, Some(read(with_range)));
        viewer.next(START);
        let found = viewer.on_response(&answer(status, bytes, 0.0), |_| Err("no playlist"));
        assert_eq!(found == ResponseClass::Refused(status), is_refused, "{status}: {found:?}");
        assert_eq!(matches!(found, ResponseClass::Invalid(_)), !is_refused, "{status}: {found:?}");
    }
    let loops = || read("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=9\nfilm.m3u8\n");
    let mut viewer = viewer(None);
    let last = (0..9)
        .map(|_| step(&mut viewer, 0.0, Some(loops())).1)
        .find(|found| *found != ResponseClass::Preparation);
    assert!(matches!(last, Some(ResponseClass::Invalid(_))));
}

#[test]
fn a_random_start_leaves_something_to_be_played() {
    for (start, path) in [(0.0, "/f/0.ts"), (0.5, "/f/4.ts"), (0.999, "/f/8.ts")] {
        let mut viewer = viewer(Some(start));
        step(&mut viewer, 0.0, Some(list(0, 10, true)));
        assert_eq!(step(&mut viewer, 0.0, None).0, path);
    }
}

#[test]
fn a_live_film_is_begun_near_its_end_and_asked_for_again() {
    let mut viewer = viewer(Some(0.1));
    step(&mut viewer, 0.0, Some(list(10, 6, false)));
    for number in 13..16 {
        assert_eq!(step(&mut viewer, 0.0, None).0, format!("/f/{number}.ts"));
    }
    assert_eq!(viewer.next(at(0.5)), Next::At(at(1.0)));
    assert_eq!(step(&mut viewer, 1.0, Some(list(10, 6, false))).0, "/f/film.m3u8");
    // Nothing was new: half the time.
    assert_eq!(viewer.next(at(1.0)), Next::At(at(1.5)));
    // 16 and 17 are gone.
    step(&mut viewer, 1.5, Some(list(18, 1, false)));
    assert_eq!(step(&mut viewer, 1.5, None).0, "/f/18.ts");
    assert_eq!(viewer.expected_and_lost(), (6, 2));
    step(&mut viewer, 2.5, Some(list(18, 1, true)));
    assert_eq!(viewer.next(at(2.5)), Next::Nothing);
    assert!(viewer.player().left(at(2.5)).is_some());
}
