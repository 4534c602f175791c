//! RTP and RTCP (RFC 3550): headers as values, to bytes and back.
//!
//! Pure, and in both directions, so that the server and the load generator share it. What a payload holds is the
//! packetisers' business.

mod header;
pub mod rtcp;

use std::time::Duration;

pub use header::{HEADER_BYTES, Header, RtpError};

/// From 1900, where NTP begins to count, to 1970 (RFC 868).
const NTP_EPOCH_SECONDS: u64 = 2_208_988_800;

/// A time of day in seconds since 1900, 32 bits before the point and 32 after it (RFC 3550, 4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct NtpTime(pub u64);

impl NtpTime {
    /// The time so long after the beginning of 1970.
    pub fn from_unix(since: Duration) -> NtpTime {
        let seconds = since.as_secs().wrapping_add(NTP_EPOCH_SECONDS) << 32;
        NtpTime(seconds | ((u64::from(since.subsec_nanos()) << 32) / 1_000_000_000))
    }

    /// The middle 32 bits, by which a receiver names the sender report that it answers.
    pub fn middle(self) -> u32 {
        (self.0 >> 16) as u32
    }
}

/// A big-endian number at `offset`, where there is room for it.
fn number<const N: usize>(bytes: &[u8], offset: usize) -> Option<[u8; N]> {
    bytes.get(offset..offset + N)?.try_into().ok()
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    number(bytes, offset).map(u16::from_be_bytes)
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    number(bytes, offset).map(u32::from_be_bytes)
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    number(bytes, offset).map(u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day() {
        assert_eq!(NtpTime::from_unix(Duration::ZERO).0, NTP_EPOCH_SECONDS << 32);
        let half = NtpTime::from_unix(Duration::from_millis(1_500));
        assert_eq!(half.0 - (NTP_EPOCH_SECONDS << 32), 3 << 31);
        assert_eq!(half.middle() & 0xffff, 0x8000);
    }
}
