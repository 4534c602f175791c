//! Session descriptions (SDP, RFC 8866) of films for players, with the parameters of the codecs (RFC 6184, 8.1; RFC 7798,
//! 7.1; RFC 3640, 4.1) and the names by which RTSP sets up the tracks (RFC 2326, appendix C).
//!
//! `sdp-types` writes the lines, so that no value can inject one. The load generator reads descriptions with its own
//! parser, because the library's refuses descriptions without `v=`, which players accept.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sdp_types::{
    Bandwidth, BandwidthType, Fmtp, FmtpParam, Media, MediaType, Origin, RtpMap, Time, TransportProto,
};

use crate::mp4::{Aac, Codec, H264, H265, Index, Track};

pub const MEDIA_TYPE: &str = "application/sdp";

/// The first dynamic payload type (RFC 3551, 6).
const PAYLOAD_TYPE_FIRST: u8 = 96;

/// The prefix of a track's control name; the track's number follows.
pub const CONTROL: &str = "trackID=";

/// Session parameters that do not come from the film.
#[derive(Clone, Copy, Debug)]
pub struct Session<'a> {
    /// The session's name; control characters become spaces.
    pub title: &'a str,
    /// Identifies the version of the film: a changed film needs another number.
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

/// The position in [`Index::tracks`] of the track whose control name is `name`.
pub fn controlled(index: &Index, name: &str) -> Option<usize> {
    let id = name.strip_prefix(CONTROL)?.parse::<u32>().ok()?;
    index.tracks().iter().position(|track| track.id() == id)
}

pub fn describe(index: &Index, session: &Session<'_>) -> String {
    let Session { title, version, address } = *session;
    let title: String = title.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    let any: IpAddr =
        if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    let seconds = index.duration().as_secs_f64();
    let tracks = index.tracks().iter().enumerate();
    let description = sdp_types::Session::builder(
        Origin::with_ip_addr(version, version, address),
        if title.trim().is_empty() { "-" } else { &title },
    )
    .connection(any)
    .time(Time::new(0, 0))
    .attribute_with_value("control", "*")
    .attribute_with_value("range", format_args!("npt=0-{seconds:.3}"))
    .medias(tracks.map(|(position, track)| media(track, payload_type(position))))
    .build();
    let mut text = Vec::with_capacity(1024);
    description.write(&mut text).expect("writing to memory cannot fail");
    String::from_utf8(text).expect("every value is text")
}

fn media(track: &Track, payload_type: u8) -> Media {
    let codec = track.codec();
    let (kind, encoding) = match codec {
        Codec::H264(_) => (MediaType::Video, "H264"),
        Codec::H265(_) => (MediaType::Video, "H265"),
        Codec::Aac(_) => (MediaType::Audio, "mpeg4-generic"),
    };
    let (channels, parameters) = match codec {
        Codec::H264(h264) => (None, h264_parameters(h264)),
        Codec::H265(h265) => (None, h265_parameters(h265)),
        Codec::Aac(aac) => (Some(aac.channels), aac_parameters(aac)),
    };
    let kilobits = track.bits_per_second().div_ceil(1000);
    Media::builder(kind, 0, TransportProto::RtpAvp, payload_type)
        .bandwidth(Bandwidth::new(BandwidthType::As, kilobits))
        .attribute(
            RtpMap::builder(payload_type, encoding, codec.clock_rate())
                .encoding_params_if_some(channels)
                .build(),
        )
        .attribute(Fmtp::builder(payload_type).format_specific_params(parameters).build())
        .attribute_with_value("control", control(track))
        .build()
}

fn h264_parameters(h264: &H264) -> Vec<FmtpParam> {
    let profile_level = h264.profile_level.map(|byte| format!("{byte:02X}")).concat();
    let mut parameters = vec![
        FmtpParam::with_value("packetization-mode", 1),
        FmtpParam::with_value("profile-level-id", profile_level),
    ];
    parameters.extend(sets("sprop-parameter-sets", h264.parameter_sets.iter()));
    parameters
}

fn h265_parameters(h265: &H265) -> Vec<FmtpParam> {
    let names = [("sprop-vps", 32), ("sprop-sps", 33), ("sprop-pps", 34)];
    let of_kind =
        |(name, kind)| sets(name, h265.parameter_sets.iter().filter(move |set| set[0] >> 1 & 0x3f == kind));
    let parameters: Vec<_> = names.into_iter().filter_map(of_kind).collect();
    if parameters.is_empty() { vec![FmtpParam::with_value("tx-mode", "SRST")] } else { parameters }
}

fn sets<'a>(name: &str, sets: impl Iterator<Item = &'a Box<[u8]>>) -> Option<FmtpParam> {
    let sets: Vec<String> = sets.map(|set| STANDARD.encode(set)).collect();
    (!sets.is_empty()).then(|| FmtpParam::with_value(name, sets.join(",")))
}

fn aac_parameters(aac: &Aac) -> Vec<FmtpParam> {
    let configuration: String = aac.configuration.iter().map(|byte| format!("{byte:02x}")).collect();
    let mode = [("streamtype", "5"), ("profile-level-id", aac_level(aac)), ("mode", "AAC-hbr")];
    let headers = [("sizelength", "13"), ("indexlength", "3"), ("indexdeltalength", "3")];
    let parameters = mode.into_iter().chain(headers).chain([("config", configuration.as_str())]);
    parameters.map(|(name, value)| FmtpParam::with_value(name, value)).collect()
}

/// The level of the AAC profile (ISO/IEC 14496-3, table 1.14).
fn aac_level(aac: &Aac) -> &'static str {
    match (aac.channels, aac.sample_rate) {
        (..=2, ..=24_000) => "40",
        (..=2, ..=48_000) => "41",
        (_, ..=48_000) => "42",
        _ => "43",
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
        let read = sdp_types::Session::parse(text.as_bytes()).unwrap();
        assert_eq!((read.medias.len(), read.session_name.as_str()), (2, "a film"));
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
