//! What a film is, for players: its session description (RFC 8866), with the parameters of its codecs (RFC 6184, 8.1;
//! RFC 7798, 7.1; RFC 3640, 4.1) and the names by which RTSP sets up its tracks (RFC 2326, appendix C).

use std::fmt::Write;
use std::net::IpAddr;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::mp4::{Aac, Codec, H264, H265, Index, Track};

/// The media type of a description.
pub const MEDIA_TYPE: &str = "application/sdp";

/// The first payload type that stands for nothing by itself (RFC 3551, 6).
const PAYLOAD_TYPE_FIRST: u8 = 96;

/// The prefix of a track's control name; its number follows.
pub const CONTROL: &str = "trackID=";

/// Session parameters besides the film.
#[derive(Clone, Copy, Debug)]
pub struct Session<'a> {
    /// Control characters become spaces.
    pub title: &'a str,
    /// A number that is another for another version of the film.
    pub version: u64,
    pub address: IpAddr,
}

/// The RTP payload type of the track at `position` in [`Index::tracks`].
pub fn payload_type(position: usize) -> u8 {
    PAYLOAD_TYPE_FIRST + position as u8
}

/// The suffix that turns the film's URL into the URL of `track`.
pub fn control(track: &Track) -> String {
    format!("{CONTROL}{}", track.id())
}

/// The position of the track that [`control`] calls `name`.
pub fn controlled(index: &Index, name: &str) -> Option<usize> {
    let id = name.strip_prefix(CONTROL)?.parse::<u32>().ok()?;
    index.tracks().iter().position(|track| track.id() == id)
}

/// The description of the film with this index.
pub fn describe(index: &Index, session: &Session<'_>) -> String {
    let family = if session.address.is_ipv4() { "IP4" } else { "IP6" };
    let anywhere = if session.address.is_ipv4() { "0.0.0.0" } else { "::" };
    let title: String = session.title.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    let title = if title.trim().is_empty() { "-" } else { &title };
    let Session { version, address, .. } = session;
    let seconds = index.duration().as_secs_f64();
    let mut text = format!(
        "v=0\r\n\
         o=- {version} {version} IN {family} {address}\r\n\
         s={title}\r\n\
         c=IN {family} {anywhere}\r\n\
         t=0 0\r\n\
         a=control:*\r\n\
         a=range:npt=0-{seconds:.3}\r\n"
    );
    for (position, track) in index.tracks().iter().enumerate() {
        append_track(&mut text, track, payload_type(position));
    }
    text
}

fn append_track(text: &mut String, track: &Track, payload_type: u8) {
    let codec = track.codec();
    let kind = if codec.is_video() { "video" } else { "audio" };
    let (clock_rate, control) = (codec.clock_rate(), control(track));
    let kilobits = track.bits_per_second().div_ceil(1000);
    let (encoding, parameters) = match codec {
        Codec::H264(h264) => (format!("H264/{clock_rate}"), h264_parameters(h264)),
        Codec::H265(h265) => (format!("H265/{clock_rate}"), h265_parameters(h265)),
        Codec::Aac(aac) => (format!("mpeg4-generic/{clock_rate}/{}", aac.channels), aac_parameters(aac)),
    };
    let _ = write!(
        text,
        "m={kind} 0 RTP/AVP {payload_type}\r\n\
         b=AS:{kilobits}\r\n\
         a=rtpmap:{payload_type} {encoding}\r\n\
         a=fmtp:{payload_type} {parameters}\r\n\
         a=control:{control}\r\n"
    );
}

fn h264_parameters(h264: &H264) -> String {
    let profile_level = h264.profile_level.map(|byte| format!("{byte:02X}")).concat();
    let mut text = format!("packetization-mode=1;profile-level-id={profile_level}");
    append_sets(&mut text, "sprop-parameter-sets", h264.parameter_sets.iter());
    text
}

fn h265_parameters(h265: &H265) -> String {
    let mut text = String::new();
    for (name, kind) in [("sprop-vps", 32), ("sprop-sps", 33), ("sprop-pps", 34)] {
        append_sets(&mut text, name, h265.parameter_sets.iter().filter(|set| set[0] >> 1 & 0x3f == kind));
    }
    if text.is_empty() { "tx-mode=SRST".to_owned() } else { text }
}

fn append_sets<'a>(text: &mut String, name: &str, sets: impl Iterator<Item = &'a Box<[u8]>>) {
    let sets: Vec<String> = sets.map(|set| STANDARD.encode(set)).collect();
    if !sets.is_empty() {
        let separator = if text.is_empty() { "" } else { ";" };
        let _ = write!(text, "{separator}{name}={}", sets.join(","));
    }
}

fn aac_parameters(aac: &Aac) -> String {
    let configuration: String = aac.configuration.iter().map(|byte| format!("{byte:02x}")).collect();
    let level = aac_level(aac);
    format!(
        "streamtype=5;profile-level-id={level};mode=AAC-hbr;sizelength=13;indexlength=3;indexdeltalength=3;\
         config={configuration}"
    )
}

/// The level of the AAC profile (ISO/IEC 14496-3, table 1.14).
fn aac_level(aac: &Aac) -> u8 {
    match (aac.channels, aac.sample_rate) {
        (..=2, ..=24_000) => 0x28,
        (..=2, ..=48_000) => 0x29,
        (_, ..=48_000) => 0x2a,
        _ => 0x2b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mp4::example;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn session(title: &str) -> Session<'_> {
        Session { title, version: 7, address: Ipv4Addr::new(192, 0, 2, 1).into() }
    }

    #[test]
    fn a_film_is_described() {
        let text = describe(&example::index(), &session("a film"));
        let lines: Vec<_> = text.split_terminator("\r\n").collect();
        assert_eq!(
            lines,
            [
                "v=0",
                "o=- 7 7 IN IP4 192.0.2.1",
                "s=a film",
                "c=IN IP4 0.0.0.0",
                "t=0 0",
                "a=control:*",
                "a=range:npt=0-2.000",
                "m=video 0 RTP/AVP 96",
                "b=AS:28",
                "a=rtpmap:96 H264/90000",
                "a=fmtp:96 packetization-mode=1;profile-level-id=42C00A;sprop-parameter-sets=Z0LACtp7,aM48gA==",
                "a=control:trackID=1",
                "m=audio 0 RTP/AVP 97",
                "b=AS:3",
                "a=rtpmap:97 mpeg4-generic/8000/1",
                "a=fmtp:97 streamtype=5;profile-level-id=40;mode=AAC-hbr;sizelength=13;indexlength=3;\
                 indexdeltalength=3;config=1588",
                "a=control:trackID=2",
            ]
        );
    }

    #[test]
    fn a_title_cannot_add_lines() {
        let text = describe(&example::index(), &session("a\r\nm=video"));
        assert!(text.contains("\r\ns=a  m=video\r\n"));
        assert!(describe(&example::index(), &session("\n")).contains("\r\ns=-\r\n"));
        let session = Session { address: Ipv6Addr::LOCALHOST.into(), ..session("x") };
        assert!(describe(&example::index(), &session).contains(" IN IP6 ::1\r\ns=x\r\nc=IN IP6 ::\r\n"));
    }

    #[test]
    fn tracks_are_found_by_the_names_they_are_given() {
        let index = example::index();
        for (position, track) in index.tracks().iter().enumerate() {
            assert_eq!(controlled(&index, &control(track)), Some(position));
        }
        for name in ["trackID=3", "trackID=", "trackID=-1", "1", ""] {
            assert_eq!(controlled(&index, name), None);
        }
    }
}
