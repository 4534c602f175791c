//! RTP (RFC 3550): reads and writes packet headers and NTP times; RTCP is in [`rtcp`].
//!
//! The server and the load generator share it. Payloads come from [`packetiser`](crate::packetiser).
//!
//! Not `rtp-types`: an adapter to [`Header`] is as long as the 40 lines here, and reading or writing a header takes 15 ns on
//! the path of every packet.

pub mod rtcp;

use std::time::Duration;

/// Bytes of a header without contributing sources and extension, the only kind sent here.
pub const HEADER_BYTES: usize = 12;

/// The RTP version, in the first two bits.
const VERSION: u8 = 2;

const PADDING: u8 = 1 << 5;
const EXTENSION: u8 = 1 << 4;
const SOURCES_MASK: u8 = 0x0f;
const MARKER: u8 = 1 << 7;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The marker bit, such as the last packet of a picture; its meaning depends on the payload format.
    pub marker: bool,
    /// The payload type, whose format the session description gives; seven bits.
    pub payload_type: u8,
    /// Increases by one per packet.
    pub sequence: u16,
    /// The sampling instant of the payload, in units of the format's clock.
    pub timestamp: u32,
    /// The synchronisation source (SSRC).
    pub source: u32,
}

/// Why bytes are not an RTP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RtpError {
    /// The packet is shorter than its header says.
    #[error("the packet is shorter than its header announces")]
    Truncated,
    /// A version other than 2.
    #[error("the packet has RTP version {0}, not 2")]
    Version(u8),
}

impl Header {
    /// The header's bytes, which precede the payload.
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[0] = VERSION << 6;
        bytes[1] = if self.marker { MARKER } else { 0 } | self.payload_type & !MARKER;
        bytes[2..4].copy_from_slice(&self.sequence.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.timestamp.to_be_bytes());
        bytes[8..].copy_from_slice(&self.source.to_be_bytes());
        bytes
    }

    /// Splits `packet` into header and payload; contributing sources, extension and padding are dropped.
    ///
    /// # Errors
    /// If it is not an RTP packet of version 2.
    pub fn parse(packet: &[u8]) -> Result<(Header, &[u8]), RtpError> {
        let (first, second) = match packet {
            [first, second, ..] => (*first, *second),
            _ => return Err(RtpError::Truncated),
        };
        if first >> 6 != VERSION {
            return Err(RtpError::Version(first >> 6));
        }
        let header = Header {
            marker: second & MARKER != 0,
            payload_type: second & !MARKER,
            sequence: u16_at(packet, 2).ok_or(RtpError::Truncated)?,
            timestamp: u32_at(packet, 4).ok_or(RtpError::Truncated)?,
            source: u32_at(packet, 8).ok_or(RtpError::Truncated)?,
        };
        let payload = payload(packet, first).ok_or(RtpError::Truncated)?;
        Ok((header, payload))
    }
}

/// The payload of `packet`, whose first byte is `first`, without header, extension and padding.
fn payload(packet: &[u8], first: u8) -> Option<&[u8]> {
    let mut start = HEADER_BYTES + 4 * usize::from(first & SOURCES_MASK);
    if first & EXTENSION != 0 {
        start += 4 + 4 * usize::from(u16_at(packet, start + 2)?);
    }
    // The last byte of the padding is its length, itself included.
    let padding = if first & PADDING == 0 { 0 } else { usize::from(*packet.last()?).max(1) };
    packet.get(start..packet.len().checked_sub(padding)?)
}

/// Seconds from 1900, the NTP epoch, to 1970 (RFC 868).
const NTP_EPOCH_SECONDS: u64 = 2_208_988_800;

/// NTP time: seconds since 1900 as 32.32 fixed point (RFC 3550, 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NtpTime(pub u64);

impl NtpTime {
    /// The NTP time at `since` after 1970.
    pub fn from_unix(since: Duration) -> NtpTime {
        let seconds = since.as_secs().wrapping_add(NTP_EPOCH_SECONDS) << 32;
        NtpTime(seconds | ((u64::from(since.subsec_nanos()) << 32) / 1_000_000_000))
    }

    /// The middle 32 bits, with which a receiver refers to a sender report.
    pub fn middle(self) -> u32 {
        (self.0 >> 16) as u32
    }
}

/// The big-endian number at `offset`; `None` past the end.
fn number<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset + N)?.try_into().ok()
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    number(bytes, offset).map(u16::from_be_bytes)
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    number(bytes, offset).map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEADER: Header = Header {
        marker: true,
        payload_type: 96,
        sequence: 0x1234,
        timestamp: 0x0102_0304,
        source: 0xdead_beef,
    };

    #[test]
    fn bytes_on_the_wire() {
        let expected = [0x80, 0xe0, 0x12, 0x34, 1, 2, 3, 4, 0xde, 0xad, 0xbe, 0xef];
        assert_eq!(HEADER.bytes(), expected);
        assert_eq!(Header::parse(&expected), Ok((HEADER, [].as_slice())));
    }

    #[test]
    fn what_surrounds_the_payload_is_left_out() {
        let mut packet = HEADER.bytes().to_vec();
        // Two contributing sources, an extension of one word, two bytes of padding.
        packet[0] = 0b1011_0010;
        packet.extend([0; 8]);
        packet.extend([0xbe, 0xde, 0, 1, 9, 9, 9, 9]);
        packet.extend(b"payload\0\x02");
        assert_eq!(Header::parse(&packet), Ok((HEADER, b"payload".as_slice())));
        packet.truncate(26);
        assert_eq!(Header::parse(&packet), Err(RtpError::Truncated));
    }

    #[test]
    fn other_bytes() {
        for (packet, error) in [
            (b"".as_slice(), RtpError::Truncated),
            (b"\x80\x60\0\0\0\0\0\0\0\0\0", RtpError::Truncated),
            (b"GET / HTTP/1.1", RtpError::Version(1)),
            // More padding than packet.
            (b"\xa0\x60\0\0\0\0\0\0\0\0\0\x09", RtpError::Truncated),
        ] {
            assert_eq!(Header::parse(packet), Err(error), "{packet:?}");
        }
    }

    #[test]
    fn times_of_day() {
        assert_eq!(NtpTime::from_unix(Duration::ZERO).0, NTP_EPOCH_SECONDS << 32);
        let half = NtpTime::from_unix(Duration::from_millis(1_500));
        assert_eq!(half.0 - (NTP_EPOCH_SECONDS << 32), 3 << 31);
        assert_eq!(half.middle() & 0xffff, 0x8000);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(marker: bool, payload_type in 0..128_u8, sequence: u16, timestamp: u32, source: u32,
                                   payload in proptest::collection::vec(any::<u8>(), 0..64)) {
            let header = Header { marker, payload_type, sequence, timestamp, source };
            let packet = [header.bytes().as_slice(), &payload].concat();
            prop_assert_eq!(Header::parse(&packet), Ok((header, payload.as_slice())));
        }

        #[test]
        fn any_bytes_are_survived(packet in proptest::collection::vec(any::<u8>(), 0..80)) {
            if let Ok((_, payload)) = Header::parse(&packet) {
                prop_assert!(payload.len() + HEADER_BYTES <= packet.len());
            }
        }
    }
}
