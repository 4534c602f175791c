//! A receiver reassembles the samples from the packets.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::mp4::{H265, example};

/// Reassembles NAL units as a receiver does, for both formats (RFC 6184 mode 1, RFC 7798).
fn received(packets: &[Packet<'_>], header_bytes: usize) -> Vec<Vec<u8>> {
    let mut units: Vec<Vec<u8>> = Vec::new();
    for packet in packets {
        let payload = [packet.head(), packet.body].concat();
        assert_eq!(payload.len(), packet.payload_bytes());
        let kind = if header_bytes == 1 { payload[0] & 0x1f } else { payload[0] >> 1 & 0x3f };
        match (header_bytes, kind) {
            (1, 24) | (2, 48) => {
                let mut rest = &payload[header_bytes..];
                while let [high, low, after @ ..] = rest {
                    let (unit, after) = after.split_at(usize::from(u16::from_be_bytes([*high, *low])));
                    units.push(unit.to_vec());
                    rest = after;
                }
            }
            (1, 28) => fragment(&mut units, vec![payload[0] & 0xe0 | payload[1] & 0x1f], &payload[1..]),
            (2, 49) => {
                let header = vec![payload[0] & 0x81 | (payload[2] & 0x3f) << 1, payload[1]];
                fragment(&mut units, header, &payload[2..]);
            }
            _ => units.push(payload),
        }
    }
    units
}

fn fragment(units: &mut Vec<Vec<u8>>, header: Vec<u8>, payload: &[u8]) {
    let (flags, content) = (payload[0], &payload[1..]);
    assert!(flags & 0xc0 != 0xc0, "no fragment is first and last");
    if flags & 0x80 != 0 {
        units.push(header);
    }
    units.last_mut().expect("a start came before").extend_from_slice(content);
}

fn h264_form(payload_bytes_max: usize) -> nal_units::PayloadFormat {
    let index = example::index();
    let Codec::H264(h264) = index.tracks()[0].codec() else { panic!("H.264") };
    nal_units::PayloadFormat::h264(h264, payload_bytes_max)
}

/// A sample of these NAL units, each with a length of four bytes.
fn sample_of(units: &[&[u8]]) -> Vec<u8> {
    units.iter().flat_map(|unit| [&(unit.len() as u32).to_be_bytes()[..], unit].concat()).collect()
}

fn sample(bytes: &[u8], is_sync: bool) -> Sample {
    let (size, is_sync) = (bytes.len() as u32, is_sync);
    Sample { size, is_sync, ..example::index().tracks()[0].sample(0).unwrap() }
}

fn nal_packets<'a>(
    form: &'a nal_units::PayloadFormat,
    bytes: &'a [u8],
    is_sync: bool,
    max: usize,
) -> Result<Vec<Packet<'a>>, PacketiseError> {
    nal_units::Packets::new(form, &sample(bytes, is_sync), bytes, max, 7).map(Iterator::collect)
}

#[test]
fn a_film_arrives_as_it_is() {
    let (film, index) = (example::film(), example::index());
    let track = &index.tracks()[0];
    let packetiser = Packetiser::new(track, 1000);
    for number in 0..track.sample_count() {
        let unit = packetiser.unit(track, number).unwrap();
        assert_eq!(unit.samples, number..number + 1);
        let bytes = &film[unit.first.offset as usize..unit.first.end() as usize];
        let packets: Vec<_> = packetiser.packets(track, &unit, bytes).unwrap().collect();
        let markers: Vec<_> = packets.iter().map(|packet| packet.marker).collect();
        assert_eq!(markers.iter().position(|marker| *marker), Some(packets.len() - 1));
        assert!(packets.iter().all(|packet| packet.timestamp == track.rtp_timestamp(&unit.first)));
        let units = received(&packets, 1);
        let (sets, content) = units.split_at(if unit.first.is_sync { 2 } else { 0 });
        assert!(sets.is_empty() || sets == [example::SPS, example::PPS]);
        assert_eq!(sample_of(&content.iter().map(Vec::as_slice).collect::<Vec<_>>()), bytes);
    }
}

#[test]
fn what_fits_is_not_cut_and_what_does_not_is_cut_evenly() {
    let form = h264_form(100);
    let (fits, large) = ([0x41; 100], [0x41; 101]);
    let bytes = sample_of(&[&fits, &large]);
    let packets = nal_packets(&form, &bytes, false, 100).unwrap();
    let sizes: Vec<_> = packets.iter().map(Packet::payload_bytes).collect();
    assert_eq!(sizes, [100, 100, 4]);
    assert_eq!(packets.iter().map(|packet| packet.marker).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!((packets[1].head(), packets[2].head()), (&[0x5c, 0x81][..], &[0x5c, 0x41][..]));
}

#[test]
fn parameter_sets_come_once_after_the_delimiter() {
    let form = h264_form(1000);
    let (delimiter, slice) = ([0x09, 0xf0], [0x65, 1, 2]);
    let bytes = sample_of(&[&delimiter, &slice]);
    let units = received(&nal_packets(&form, &bytes, true, 1000).unwrap(), 1);
    assert_eq!(units, [&delimiter[..], example::SPS, example::PPS, &slice]);
    let own = sample_of(&[example::SPS, &[0x68, 1], &slice]);
    let units = received(&nal_packets(&form, &own, true, 1000).unwrap(), 1);
    assert_eq!(units, [example::SPS, &[0x68, 1], &slice]);
}

#[test]
fn empty_nal_units_are_nothing() {
    let form = h264_form(1000);
    let bytes = sample_of(&[&[], &[0x41, 1], &[], &[]]);
    let packets = nal_packets(&form, &bytes, false, 1000).unwrap();
    assert_eq!((packets.len(), packets[0].marker), (1, true));
    assert_eq!(nal_packets(&form, &sample_of(&[&[]]), true, 1000).unwrap(), []);
    assert_eq!(nal_packets(&form, &[], true, 1000).unwrap(), []);
}

#[test]
fn lengths_that_lie_are_told_with_their_place() {
    let form = h264_form(1000);
    let bytes = [sample_of(&[&[0x41, 1]]), vec![0, 0, 0, 9, 1]].concat();
    let damaged = PacketiseError::Damaged { number: 0, place: 6 };
    assert_eq!(nal_packets(&form, &bytes, false, 1000), Err(damaged));
    assert_eq!(nal_packets(&form, &bytes[..8], false, 1000), Err(damaged));
}

#[test]
fn sound_goes_together_where_it_lies_together() {
    let (film, index) = (example::film(), example::index());
    let track = &index.tracks()[1];
    // Two chunks of eight access units are adjacent, but a packet has room for fewer.
    let packetiser = Packetiser::new(track, 300);
    let (mut next, mut heard) = (0, Vec::new());
    while let Some(unit) = packetiser.unit(track, next) {
        let offset = unit.first.offset as usize;
        let bytes = &film[offset..offset + unit.size as usize];
        let packets: Vec<_> = packetiser.packets(track, &unit, bytes).unwrap().collect();
        let [packet] = packets[..] else { panic!("one packet") };
        assert!(packet.marker && packet.payload_bytes() <= 300);
        let bits = u16::from_be_bytes([packet.head()[0], packet.head()[1]]);
        assert_eq!(usize::from(bits), 16 * unit.samples.len());
        let mut body = packet.body;
        for header in packet.head()[2..].chunks(2) {
            let size = u16::from_be_bytes([header[0], header[1]]) >> 3;
            let (sound, rest) = body.split_at(usize::from(size));
            heard.push(sound.to_vec());
            body = rest;
        }
        assert!(body.is_empty() && unit.samples.len() > 1);
        next = unit.samples.end;
    }
    assert_eq!(heard, example::sounds());
}

#[test]
fn sound_that_does_not_fit_is_cut() {
    let (film, index) = (example::film(), example::index());
    let track = &index.tracks()[1];
    let packetiser = Packetiser::new(track, 0);
    let unit = packetiser.unit(track, 15).unwrap();
    let bytes = &film[unit.first.offset as usize..unit.first.end() as usize];
    let packets: Vec<_> = packetiser.packets(track, &unit, bytes).unwrap().collect();
    let sizes: Vec<_> = packets.iter().map(|packet| (packet.body.len(), packet.marker)).collect();
    assert_eq!(sizes, [(31, false), (24, true)]);
    assert!(packets.iter().all(|packet| packet.head() == [0, 16, 1, 0xb8]));
    let missing = PacketiseError::Missing { number: 15, given: 54, wanted: 55 };
    assert_eq!(packetiser.packets(track, &unit, &bytes[1..]).err(), Some(missing));
}

fn h265_form(payload_bytes_max: usize) -> nal_units::PayloadFormat {
    let parameter_sets = [H265_VPS, H265_SPS, H265_PPS].map(Box::from).to_vec();
    let h265 = H265 { length_bytes: 4, parameter_sets, configuration: Box::default(), size_pixels: (16, 16) };
    nal_units::PayloadFormat::h265(&h265, payload_bytes_max)
}

const H265_VPS: &[u8] = &[0x40, 1, 0xc];
const H265_SPS: &[u8] = &[0x42, 1, 1, 2];
const H265_PPS: &[u8] = &[0x44, 1, 0xc1];

#[test]
fn h265_has_headers_of_two_bytes() {
    let form = h265_form(40);
    let slice: Vec<u8> = [0x26, 1].into_iter().chain(0..60).collect();
    let bytes = sample_of(&[&slice]);
    let packets = nal_packets(&form, &bytes, true, 40).unwrap();
    assert_eq!(packets[0].body[..5], [0x60, 1, 0, 3, 0x40]);
    assert_eq!((packets[1].head(), packets[2].head()), (&[0x62, 1, 0x93][..], &[0x62, 1, 0x53][..]));
    assert_eq!(received(&packets, 2), [H265_VPS, H265_SPS, H265_PPS, &slice]);
}

#[test]
fn parameter_sets_that_do_not_fit_together_go_alone() {
    let form = h265_form(16);
    let bytes = sample_of(&[&[0x26, 1, 7]]);
    let packets = nal_packets(&form, &bytes, true, 16).unwrap();
    let sizes: Vec<_> = packets.iter().map(Packet::payload_bytes).collect();
    assert_eq!(sizes, [3, 4, 3, 3]);
}

proptest! {
    /// A receiver reassembles any picture; packets keep the size limit, and only the last has the marker.
    #[test]
    fn pictures_arrive_as_they_are(
        units in vec(vec(any::<u8>(), 2..400), 1..6),
        payload_bytes_max in PAYLOAD_BYTES_MIN..300,
        is_h264: bool,
    ) {
        // Types of coded pictures, none that aggregation or fragmentation use.
        let header = |unit: &Vec<u8>| if is_h264 { vec![unit[0] & 0xe0 | 1] } else { vec![2, unit[1]] };
        let units: Vec<Vec<u8>> = units.iter().map(|unit| [header(unit), unit[1..].to_vec()].concat()).collect();
        let bytes = sample_of(&units.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let form = if is_h264 { h264_form(payload_bytes_max) } else { h265_form(payload_bytes_max) };
        let packets = nal_packets(&form, &bytes, false, payload_bytes_max).unwrap();
        prop_assert!(packets.iter().all(|packet| packet.payload_bytes() <= payload_bytes_max));
        let last = packets.len() - 1;
        prop_assert!(packets.iter().enumerate().all(|(place, packet)| packet.marker == (place == last)));
        prop_assert_eq!(received(&packets, if is_h264 { 1 } else { 2 }), units);
    }

    /// Any bytes given as a picture become non-empty packets, or an error with a position.
    #[test]
    fn no_bytes_are_too_strange(bytes in vec(any::<u8>(), 0..200), is_sync: bool, is_h264: bool) {
        let form = if is_h264 { h264_form(50) } else { h265_form(50) };
        match nal_packets(&form, &bytes, is_sync, 50) {
            Ok(packets) => prop_assert!(packets.iter().all(|packet| !packet.body.is_empty())),
            Err(PacketiseError::Damaged { place, .. }) => prop_assert!((place as usize) < bytes.len()),
            Err(other) => prop_assert!(false, "{other}"),
        }
    }
}
