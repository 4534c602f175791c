//! RTCP (RFC 3550, 6): sender and receiver reports, source descriptions, goodbyes; several in one datagram.
//!
//! `rtcp-types` reads and writes the packets; the types here hold the values that the server and the load generator
//! use. Any order of packets is accepted, as RFC 5506 allows. Packets whose lengths do not fill the datagram exactly
//! make the whole datagram malformed.

pub use rtcp_types::RtcpParseError;
use rtcp_types::prelude::*;
use rtcp_types::{
    Bye, Compound, ReceiverReport, ReportBlock, ReportBlockBuilder, Sdes, SdesChunk, SdesItem,
    SenderReport as SenderReportPacket,
};

use super::NtpTime;

/// The longest CNAME: its length is one byte.
pub const CNAME_BYTES_MAX: usize = 255;

/// The most report blocks of a report: the count has five bits.
pub const COUNT_MAX: usize = 31;

/// A sender's statistics about its own packets (RFC 3550, 6.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderReport {
    /// The sender's SSRC.
    pub source: u32,
    /// Wall-clock time when the report was sent.
    pub ntp: NtpTime,
    /// The same instant by the clock of the RTP packets.
    pub timestamp: u32,
    /// Packets sent since transmission began.
    pub packets: u32,
    /// Bytes of payload sent since transmission began.
    pub octets: u32,
}

/// A receiver's statistics about one source: a report block (RFC 3550, 6.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reception {
    /// SSRC of the source.
    pub source: u32,
    /// Packets lost since the last report, in 256ths of those expected.
    pub fraction_lost: u8,
    /// Packets lost since the start; negative if duplicates arrived. 24 bits.
    pub lost: i32,
    /// The highest sequence number received; the upper 16 bits count its wraparounds.
    pub highest_sequence: u32,
    /// Interarrival jitter, in units of the RTP timestamp.
    pub jitter: u32,
    /// The middle 32 bits of the last sender report's NTP time, or zero.
    pub last_report: u32,
    /// The delay since that report arrived, in 65,536ths of a second.
    pub since_last_report: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// A sender report, with report blocks on what the sender receives.
    Sender(SenderReport, Vec<Reception>),
    Receiver {
        /// The receiver's SSRC.
        source: u32,
        receptions: Vec<Reception>,
    },
    /// A source description (SDES); of several sources, the first.
    Description { source: u32, cname: Option<Vec<u8>> },
    /// A source leaves the session (BYE); of several, the first.
    Goodbye { source: u32 },
    /// Any other packet, with its type.
    Other(u8),
}

/// The packets of a datagram. The first error ends the iteration; an empty datagram has no packets.
pub fn packets(datagram: &[u8]) -> impl Iterator<Item = Result<Packet, RtcpParseError>> {
    let (compound, error) = match Compound::parse(datagram) {
        Ok(compound) => (Some(compound), None),
        Err(_) if datagram.is_empty() => (None, None),
        Err(error) => (None, Some(Err(error))),
    };
    compound.into_iter().flatten().map(|packet| packet.map(|packet| Packet::from(&packet))).chain(error)
}

impl From<&rtcp_types::Packet<'_>> for Packet {
    fn from(packet: &rtcp_types::Packet<'_>) -> Packet {
        match packet {
            rtcp_types::Packet::Sr(report) => Packet::Sender(
                SenderReport {
                    source: report.ssrc(),
                    ntp: NtpTime(report.ntp_timestamp()),
                    timestamp: report.rtp_timestamp(),
                    packets: report.packet_count(),
                    octets: report.octet_count(),
                },
                report.report_blocks().map(Reception::from).collect(),
            ),
            rtcp_types::Packet::Rr(report) => Packet::Receiver {
                source: report.ssrc(),
                receptions: report.report_blocks().map(Reception::from).collect(),
            },
            rtcp_types::Packet::Sdes(description) => match description.chunks().next() {
                Some(chunk) => {
                    let cname = chunk.items().find(|item| item.type_() == SdesItem::CNAME);
                    Packet::Description {
                        source: chunk.ssrc(),
                        cname: cname.map(|item| item.value().to_vec()),
                    }
                }
                None => Packet::Other(Sdes::PACKET_TYPE),
            },
            rtcp_types::Packet::Bye(bye) => match bye.ssrcs().next() {
                Some(source) => Packet::Goodbye { source },
                None => Packet::Other(Bye::PACKET_TYPE),
            },
            other => Packet::Other(other.header_data()[1]),
        }
    }
}

impl From<ReportBlock<'_>> for Reception {
    fn from(block: ReportBlock<'_>) -> Reception {
        Reception {
            source: block.ssrc(),
            fraction_lost: block.fraction_lost(),
            // Sign-extends the 24-bit number.
            lost: ((block.cumulative_lost() << 8) as i32) >> 8,
            highest_sequence: block.extended_sequence_number(),
            jitter: block.interarrival_jitter(),
            last_report: block.last_sender_report_timestamp(),
            since_last_report: block.delay_since_last_sender_report_timestamp(),
        }
    }
}

impl From<&Reception> for ReportBlockBuilder {
    fn from(reception: &Reception) -> ReportBlockBuilder {
        let lost = reception.lost.clamp(-(1 << 23), (1 << 23) - 1) as u32 & 0x00ff_ffff;
        ReportBlock::builder(reception.source)
            .fraction_lost(reception.fraction_lost)
            .cumulative_lost(lost)
            .extended_sequence_number(reception.highest_sequence)
            .interarrival_jitter(reception.jitter)
            .last_sender_report_timestamp(reception.last_report)
            .delay_since_last_sender_report_timestamp(reception.since_last_report)
    }
}

/// Appends a sender report with the first [`COUNT_MAX`] of `receptions`.
pub fn append_sender_report(datagram: &mut Vec<u8>, report: &SenderReport, receptions: &[Reception]) {
    let packet = SenderReportPacket::builder(report.source)
        .ntp_timestamp(report.ntp.0)
        .rtp_timestamp(report.timestamp)
        .packet_count(report.packets)
        .octet_count(report.octets);
    let blocks = receptions.iter().take(COUNT_MAX);
    append(datagram, &blocks.fold(packet, |packet, reception| packet.add_report_block(reception.into())));
}

/// Appends a receiver report with the first [`COUNT_MAX`] of `receptions`.
pub fn append_receiver_report(datagram: &mut Vec<u8>, source: u32, receptions: &[Reception]) {
    let packet = ReceiverReport::builder(source);
    let blocks = receptions.iter().take(COUNT_MAX);
    append(datagram, &blocks.fold(packet, |packet, reception| packet.add_report_block(reception.into())));
}

/// Appends a source description with the CNAME `name`, cut at [`CNAME_BYTES_MAX`] bytes.
pub fn append_description(datagram: &mut Vec<u8>, source: u32, name: &str) {
    let cut = (0..=name.len().min(CNAME_BYTES_MAX)).rev().find(|end| name.is_char_boundary(*end));
    let name = &name[..cut.unwrap_or(0)];
    let chunk = SdesChunk::builder(source).add_item(SdesItem::builder(SdesItem::CNAME, name));
    append(datagram, &Sdes::builder().add_chunk(chunk));
}

pub fn append_goodbye(datagram: &mut Vec<u8>, source: u32) {
    append(datagram, &Bye::builder().add_source(source));
}

fn append(datagram: &mut Vec<u8>, packet: &impl RtcpPacketWriter) {
    let start = datagram.len();
    let bytes = packet.calculate_size().expect("counts, names and losses are within their limits");
    datagram.resize(start + bytes, 0);
    packet.write_into_unchecked(&mut datagram[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(datagram: &[u8]) -> Vec<Result<Packet, RtcpParseError>> {
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
            Ok(Packet::Sender(report, Vec::new())),
            Ok(Packet::Description { source: 7, cname: Some(b"sojourn".to_vec()) }),
            Ok(Packet::Goodbye { source: 7 }),
        ];
        assert_eq!(all(&datagram), expected);
    }

    #[test]
    fn report_blocks_are_read_as_they_were_written() {
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
        assert_eq!(*receptions, [reception, Reception::default()]);
    }

    #[test]
    fn malformed_datagrams_are_refused_whole() {
        let truncated = |expected, actual| Err(RtcpParseError::Truncated { expected, actual });
        assert_eq!(all(b""), []);
        assert_eq!(all(b"\x40\xc9\0\x01"), [Err(RtcpParseError::UnsupportedVersion(1))]);
        assert_eq!(all(b"\x80\xc9\0"), [truncated(4, 3)]);
        assert_eq!(all(b"\x80\xc9\0\x02\0\0\0\0"), [truncated(12, 8)]);
        // One report block is announced but missing.
        assert_eq!(all(b"\x81\xc9\0\x01\0\0\0\x01"), [truncated(32, 8)]);
        // An application-defined packet, alone and before malformed bytes.
        let application = b"\x80\xcc\0\x02\0\0\0\x01name".as_slice();
        assert_eq!(all(application), [Ok(Packet::Other(204))]);
        assert_eq!(all(&[application, b"abc"].concat()), [truncated(16, 15)]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_panic(datagram in proptest::collection::vec(any::<u8>(), 0..120)) {
            for packet in packets(&datagram).flatten() {
                if let Packet::Sender(_, receptions) | Packet::Receiver { receptions, .. } = packet {
                    prop_assert!(receptions.len() <= COUNT_MAX);
                }
            }
        }

        #[test]
        fn names_of_any_length_are_read_as_they_were_written(name in "[a-z@.]{0,300}") {
            let mut datagram = Vec::new();
            append_description(&mut datagram, 1, &name);
            let expected = name.as_bytes()[..name.len().min(CNAME_BYTES_MAX)].to_vec();
            prop_assert_eq!(all(&datagram), [Ok(Packet::Description { source: 1, cname: Some(expected) })]);
        }
    }
}
