//! RTCP (RFC 3550, 6): sender and receiver reports, source descriptions, goodbyes; several in one datagram.
//!
//! Reading is lenient about which come together and in what order, as RFC 5506 allows, and strict about lengths:
//! a datagram whose packets do not fill it exactly is refused.

use super::{NtpTime, VERSION, u16_at, u32_at, u64_at};

const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const SOURCE_DESCRIPTION: u8 = 202;
const GOODBYE: u8 = 203;

/// Type, length and the first source.
const HEAD_BYTES: usize = 8;
const SENDER_BYTES: usize = 20;
const RECEPTION_BYTES: usize = 24;

/// The item of a description that names a source for good (6.5.1).
const CNAME: u8 = 1;

/// Names longer than this do not fit into their item.
pub const CNAME_BYTES_MAX: usize = 255;

/// Reports and goodbyes count what they hold in five bits.
pub const COUNT_MAX: usize = 31;

/// The sender part of a sender report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderReport {
    pub source: u32,
    pub ntp: NtpTime,
    /// The same instant by the clock of its RTP packets.
    pub timestamp: u32,
    pub packets: u32,
    pub octets: u32,
}

/// A reception report block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reception {
    /// The sender it is about (SSRC).
    pub source: u32,
    /// Packets lost since the last report, in 256ths of those expected.
    pub fraction_lost: u8,
    /// Packets lost in all; fewer than none if some came twice. 24 bits.
    pub lost: i32,
    /// The highest sequence number received, with the times it has begun anew above it.
    pub highest_sequence: u32,
    /// By how much packets arrive unevenly, by the clock of the RTP packets.
    pub jitter: u32,
    /// The middle of the NTP time of the last sender report, or zero.
    pub last_report: u32,
    /// How long ago that came, in 65,536ths of a second.
    pub since_last_report: u32,
}

/// One packet of a datagram.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet<'p> {
    /// A sender's report, with what it receives itself.
    Sender(SenderReport, Receptions<'p>),
    Receiver {
        source: u32,
        receptions: Receptions<'p>,
    },
    /// A source description: the CNAME of the first source, if it has one.
    Description {
        source: u32,
        name: Option<&'p [u8]>,
    },
    /// A source leaves; the first, if there are several.
    Goodbye {
        source: u32,
    },
    /// Something else, by its type.
    Other(u8),
}

/// The receptions of a report, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receptions<'p>(&'p [u8]);

/// Why bytes are no RTCP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RtcpError {
    /// They end before what they announce.
    #[error("the packet ends before what it announces")]
    Truncated,
    /// Another version than 2.
    #[error("the packet has RTP version {0}, not 2")]
    Version(u8),
}

/// The packets of a datagram; the first error ends them.
pub fn packets(datagram: &[u8]) -> impl Iterator<Item = Result<Packet<'_>, RtcpError>> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        match split(rest) {
            Ok((packet, after)) => {
                rest = after;
                Some(take_apart(packet))
            }
            Err(error) => {
                rest = &[];
                Some(Err(error))
            }
        }
    })
}

/// The first packet and what follows it.
fn split(bytes: &[u8]) -> Result<(&[u8], &[u8]), RtcpError> {
    let version = bytes.first().map_or(0, |first| first >> 6);
    if version != VERSION {
        return Err(RtcpError::Version(version));
    }
    // In words of four bytes, the first one not counted.
    let words = u16_at(bytes, 2).ok_or(RtcpError::Truncated)?;
    bytes.split_at_checked(4 * (usize::from(words) + 1)).ok_or(RtcpError::Truncated)
}

fn take_apart(packet: &[u8]) -> Result<Packet<'_>, RtcpError> {
    let (count, kind) = (usize::from(packet[0] & 0x1f), packet[1]);
    let known = match kind {
        SENDER_REPORT => sender(packet, count),
        RECEIVER_REPORT => {
            let source = u32_at(packet, 4);
            let receptions = receptions(packet, HEAD_BYTES, count);
            source.zip(receptions).map(|(source, receptions)| Packet::Receiver { source, receptions })
        }
        SOURCE_DESCRIPTION if count > 0 => {
            u32_at(packet, 4).map(|source| Packet::Description { source, name: name(&packet[HEAD_BYTES..]) })
        }
        GOODBYE if count > 0 => u32_at(packet, 4).map(|source| Packet::Goodbye { source }),
        _ => Some(Packet::Other(kind)),
    };
    known.ok_or(RtcpError::Truncated)
}

fn sender(packet: &[u8], count: usize) -> Option<Packet<'_>> {
    let report = SenderReport {
        source: u32_at(packet, 4)?,
        ntp: NtpTime(u64_at(packet, 8)?),
        timestamp: u32_at(packet, 16)?,
        packets: u32_at(packet, 20)?,
        octets: u32_at(packet, 24)?,
    };
    Some(Packet::Sender(report, receptions(packet, HEAD_BYTES + SENDER_BYTES, count)?))
}

fn receptions(packet: &[u8], start: usize, count: usize) -> Option<Receptions<'_>> {
    packet.get(start..start + count * RECEPTION_BYTES).map(Receptions)
}

/// The CNAME among the items of a source, which end with a zero.
fn name(mut items: &[u8]) -> Option<&[u8]> {
    while let [kind, length, rest @ ..] = items {
        let (text, after) = rest.split_at_checked(usize::from(*length))?;
        match *kind {
            0 => return None,
            CNAME => return Some(text),
            _ => items = after,
        }
    }
    None
}

impl Iterator for Receptions<'_> {
    type Item = Reception;

    fn next(&mut self) -> Option<Reception> {
        let (block, rest) = self.0.split_at_checked(RECEPTION_BYTES)?;
        self.0 = rest;
        let lost = u32_at(block, 4)?;
        Some(Reception {
            source: u32_at(block, 0)?,
            fraction_lost: (lost >> 24) as u8,
            // The sign of 24 bits.
            lost: ((lost << 8) as i32) >> 8,
            highest_sequence: u32_at(block, 8)?,
            jitter: u32_at(block, 12)?,
            last_report: u32_at(block, 16)?,
            since_last_report: u32_at(block, 20)?,
        })
    }
}

/// Appends a sender report; of `receptions` the first [`COUNT_MAX`].
pub fn append_sender_report(datagram: &mut Vec<u8>, report: &SenderReport, receptions: &[Reception]) {
    append(datagram, SENDER_REPORT, receptions.len().min(COUNT_MAX), |packet| {
        packet.extend(report.source.to_be_bytes());
        packet.extend(report.ntp.0.to_be_bytes());
        packet.extend(report.timestamp.to_be_bytes());
        packet.extend(report.packets.to_be_bytes());
        packet.extend(report.octets.to_be_bytes());
        append_receptions(packet, receptions);
    });
}

/// Appends the report of receiver `source`; of `receptions` the first [`COUNT_MAX`].
pub fn append_receiver_report(datagram: &mut Vec<u8>, source: u32, receptions: &[Reception]) {
    append(datagram, RECEIVER_REPORT, receptions.len().min(COUNT_MAX), |packet| {
        packet.extend(source.to_be_bytes());
        append_receptions(packet, receptions);
    });
}

/// Appends that `source` is called `name`, of which [`CNAME_BYTES_MAX`] bytes count.
pub fn append_description(datagram: &mut Vec<u8>, source: u32, name: &str) {
    let name = &name.as_bytes()[..name.len().min(CNAME_BYTES_MAX)];
    append(datagram, SOURCE_DESCRIPTION, 1, |packet| {
        packet.extend(source.to_be_bytes());
        packet.extend([CNAME, name.len() as u8]);
        packet.extend(name);
        // At least one zero, up to the end of a word.
        packet.extend([0; 4].iter().take(4 - (2 + name.len()) % 4));
    });
}

/// Appends BYE for `source`.
pub fn append_goodbye(datagram: &mut Vec<u8>, source: u32) {
    append(datagram, GOODBYE, 1, |packet| packet.extend(source.to_be_bytes()));
}

fn append(datagram: &mut Vec<u8>, kind: u8, count: usize, content: impl FnOnce(&mut Vec<u8>)) {
    let start = datagram.len();
    datagram.extend([VERSION << 6 | count as u8, kind, 0, 0]);
    content(datagram);
    let words = (datagram.len() - start) / 4 - 1;
    datagram[start + 2..start + 4].copy_from_slice(&(words as u16).to_be_bytes());
}

fn append_receptions(packet: &mut Vec<u8>, receptions: &[Reception]) {
    for reception in receptions.iter().take(COUNT_MAX) {
        packet.extend(reception.source.to_be_bytes());
        let lost = (reception.lost.clamp(-(1 << 23), (1 << 23) - 1) as u32) & 0x00ff_ffff;
        packet.extend((u32::from(reception.fraction_lost) << 24 | lost).to_be_bytes());
        packet.extend(reception.highest_sequence.to_be_bytes());
        packet.extend(reception.jitter.to_be_bytes());
        packet.extend(reception.last_report.to_be_bytes());
        packet.extend(reception.since_last_report.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(datagram: &[u8]) -> Vec<Result<Packet<'_>, RtcpError>> {
        packets(datagram).collect()
    }

    #[test]
    fn a_report_with_a_name_and_a_goodbye() {
        let report = SenderReport {
            source: 7,
            ntp: NtpTime(1 << 40 | 5),
            timestamp: 90_000,
            packets: 3,
            octets: 4000,
        };
        let mut datagram = Vec::new();
        append_sender_report(&mut datagram, &report, &[]);
        append_description(&mut datagram, 7, "sojourn");
        append_goodbye(&mut datagram, 7);
        assert_eq!(datagram.len(), 28 + 20 + 8);
        assert_eq!(&datagram[..8], [0x80, 200, 0, 6, 0, 0, 0, 7]);
        let expected = [
            Ok(Packet::Sender(report, Receptions(&[]))),
            Ok(Packet::Description { source: 7, name: Some(b"sojourn") }),
            Ok(Packet::Goodbye { source: 7 }),
        ];
        assert_eq!(all(&datagram), expected);
    }

    #[test]
    fn what_receivers_say() {
        let reception = Reception {
            source: 0xfeed_f00d,
            fraction_lost: 12,
            lost: -3,
            highest_sequence: 0x0001_ffff,
            jitter: 77,
            last_report: 0x1234_5678,
            since_last_report: 65_536,
        };
        let mut datagram = Vec::new();
        append_receiver_report(&mut datagram, 9, &[reception, Reception::default()]);
        let Ok(Packet::Receiver { source: 9, receptions }) = &all(&datagram)[0] else {
            panic!("{datagram:?}")
        };
        assert_eq!(receptions.clone().collect::<Vec<_>>(), [reception, Reception::default()]);
    }

    #[test]
    fn other_bytes() {
        assert_eq!(all(b""), []);
        assert_eq!(all(b"\x40\xc9\0\x01"), [Err(RtcpError::Version(1))]);
        assert_eq!(all(b"\x80\xc9\0"), [Err(RtcpError::Truncated)]);
        assert_eq!(all(b"\x80\xc9\0\x02\0\0\0\0"), [Err(RtcpError::Truncated)]);
        // One reception announced, none there.
        assert_eq!(all(b"\x81\xc9\0\x01\0\0\0\x01"), [Err(RtcpError::Truncated)]);
        // Application-defined, then rubbish.
        assert_eq!(all(b"\x80\xcc\0\0abc"), [Ok(Packet::Other(204)), Err(RtcpError::Version(1))]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(datagram in proptest::collection::vec(any::<u8>(), 0..120)) {
            for packet in packets(&datagram).flatten() {
                if let Packet::Sender(_, receptions) | Packet::Receiver { receptions, .. } = packet {
                    prop_assert!(receptions.count() <= COUNT_MAX);
                }
            }
        }

        #[test]
        fn names_fill_whole_words(name in "[a-z@.]{0,300}") {
            let mut datagram = Vec::new();
            append_description(&mut datagram, 1, &name);
            let expected = &name.as_bytes()[..name.len().min(CNAME_BYTES_MAX)];
            prop_assert_eq!(all(&datagram), [Ok(Packet::Description { source: 1, name: Some(expected) })]);
        }
    }
}
