//! Samples as RTP payloads: RFC 6184 (H.264, mode 1), RFC 7798 (H.265), RFC 3640 (AAC, mode AAC-hbr).
//!
//! Make one [`Packetiser`] per track and packet size. It says which samples are sent together (a [`Unit`]: one picture,
//! or as much audio as fits into a packet), and which contiguous bytes of the file they are. Given those bytes it
//! returns [`Packet`]s, each a few bytes of head and a slice of the input, so that nothing is copied before the system
//! call that sends both. The caller writes the RTP header: payload type, sequence number, SSRC, and the random offset
//! added to [`Packet::timestamp`].
//!
//! Samples in files contain no parameter sets, which players that join later need, so they are sent before every
//! keyframe.

mod aac;
mod nal_units;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::mp4::{Codec, Sample, Track};

/// The smallest payload limit: the longest head and one byte.
pub const PAYLOAD_BYTES_MIN: usize = HEAD_BYTES_MAX + 1;

/// The longest head of a packet: the headers of [`AAC_UNITS_MAX`] access units.
pub const HEAD_BYTES_MAX: usize = 2 + 2 * AAC_UNITS_MAX;

/// The most AAC access units per packet: 0.7 s at 22.05 kHz.
pub const AAC_UNITS_MAX: usize = 16;

/// Makes the RTP payloads of one track.
#[derive(Clone, Debug)]
pub struct Packetiser {
    form: PayloadFormat,
    payload_bytes_max: usize,
}

#[derive(Clone, Debug)]
enum PayloadFormat {
    Nal(nal_units::PayloadFormat),
    Aac,
}

/// Samples that are read and sent together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    pub samples: Range<u32>,
    /// The first sample, whose time is that of the packets.
    pub first: Sample,
    /// The total size of the samples, which begin at `first.offset` of the file.
    pub size: u32,
}

/// The payload of an RTP packet: head, then body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: u8,
    /// A slice of the samples, or the packetiser's parameter sets.
    pub body: &'a [u8],
    /// The RTP marker bit: set on the last packet of a picture and on packets with whole audio access units.
    pub marker: bool,
    /// The RTP timestamp, counted from the film's start.
    pub timestamp: u32,
}

impl<'a> Packet<'a> {
    fn new(head: &[u8], body: &'a [u8], marker: bool, timestamp: u32) -> Packet<'a> {
        let mut kept = [0; HEAD_BYTES_MAX];
        kept[..head.len()].copy_from_slice(head);
        Packet { head: kept, head_bytes: head.len() as u8, body, marker, timestamp }
    }

    pub fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_bytes)]
    }

    pub fn payload_bytes(&self) -> usize {
        usize::from(self.head_bytes) + self.body.len()
    }
}

/// Why samples cannot be put into packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketiseError {
    /// The NAL unit lengths in a picture are inconsistent.
    #[error("sample {number} is damaged: the NAL unit at byte {place} is longer than the rest of the sample")]
    Damaged { number: u32, place: u32 },
    /// An access unit too large for its size field.
    #[error("sample {number} of {size} bytes is too large for RFC 3640, which counts to 8191")]
    TooLarge { number: u32, size: u32 },
    #[error("sample {number}: {given} bytes were read instead of {wanted}")]
    Missing { number: u32, given: usize, wanted: u32 },
}

impl Packetiser {
    /// A packetiser whose payloads, after the RTP header, have at most `payload_bytes_max` bytes (at least
    /// [`PAYLOAD_BYTES_MIN`]). For an MTU of 1500 that is 1460 with IPv4 and 1440 with IPv6: subtract 20 or 40 bytes of
    /// IP, 8 of UDP and 12 of RTP.
    pub fn new(track: &Track, payload_bytes_max: usize) -> Packetiser {
        let payload_bytes_max = payload_bytes_max.max(PAYLOAD_BYTES_MIN);
        let form = match track.codec() {
            Codec::H264(h264) => PayloadFormat::Nal(nal_units::PayloadFormat::h264(h264, payload_bytes_max)),
            Codec::H265(h265) => PayloadFormat::Nal(nal_units::PayloadFormat::h265(h265, payload_bytes_max)),
            Codec::Aac(_) => PayloadFormat::Aac,
        };
        Packetiser { form, payload_bytes_max }
    }

    /// The unit that starts with sample `first`; `None` after the last sample. The next unit starts with
    /// `unit.samples.end`.
    pub fn unit(&self, track: &Track, first: u32) -> Option<Unit> {
        let sample = track.sample(first)?;
        let mut unit = Unit { samples: first..first + 1, first: sample, size: sample.size };
        if let PayloadFormat::Aac = self.form {
            aac::extend(&mut unit, track, self.payload_bytes_max);
        }
        Some(unit)
    }

    /// The packets of `unit`, whose bytes in the file are `bytes`. A unit without content has none.
    pub fn packets<'a>(
        &'a self,
        track: &'a Track,
        unit: &Unit,
        bytes: &'a [u8],
    ) -> Result<Packets<'a>, PacketiseError> {
        let number = unit.samples.start;
        if bytes.len() != unit.size as usize {
            return Err(PacketiseError::Missing { number, given: bytes.len(), wanted: unit.size });
        }
        let timestamp = track.rtp_timestamp(&unit.first);
        Ok(Packets(match &self.form {
            PayloadFormat::Nal(form) => {
                let max = self.payload_bytes_max;
                Inner::Nal(nal_units::Packets::new(form, &unit.first, bytes, max, timestamp)?)
            }
            PayloadFormat::Aac => {
                Inner::Aac(aac::Packets::new(track, unit, bytes, self.payload_bytes_max, timestamp)?)
            }
        }))
    }
}

/// A unit's packets in sending order.
#[derive(Clone, Debug)]
pub struct Packets<'a>(Inner<'a>);

#[derive(Clone, Debug)]
enum Inner<'a> {
    Nal(nal_units::Packets<'a>),
    Aac(aac::Packets<'a>),
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        match &mut self.0 {
            Inner::Nal(packets) => packets.next(),
            Inner::Aac(packets) => packets.next(),
        }
    }
}
