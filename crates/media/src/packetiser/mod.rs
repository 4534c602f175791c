//! Samples as RTP payloads: RFC 6184 (H.264, mode 1), RFC 7798 (H.265), RFC 3640 (AAC, mode AAC-hbr).
//!
//! A [`Packetiser`] is made once per track and size of packets. It says which samples go together (a [`Unit`]: one
//! picture, or as much sound as fits into a packet), and where their bytes are in the file, in one piece. Whoever has
//! read them is given [`Packet`]s: a few bytes of head, and a slice of what was read, so that nothing is copied before
//! the system call that sends both. RTP's own header is the caller's: the payload type, the sequence number, the
//! stream's identity, and the random offset that is added to [`Packet::timestamp`].
//!
//! Files hold no parameter sets among their samples, and players that join late need them: they are sent before every
//! picture that decoding can begin with.

mod aac;
mod nal_units;
#[cfg(test)]
mod tests;

use std::ops::Range;

use crate::mp4::{Codec, Sample, Track};

/// The least that a packet may carry: the longest head and one byte.
pub const PAYLOAD_BYTES_MIN: usize = HEAD_BYTES_MAX + 1;

/// A packet's head is never longer: the headers of [`AAC_UNITS_MAX`] access units.
pub const HEAD_BYTES_MAX: usize = 2 + 2 * AAC_UNITS_MAX;

/// Access units of AAC in one packet: as many as 0.7 s of 22.05 kHz.
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

/// Samples that are read and sent at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    pub samples: Range<u32>,
    /// The first of them, whose time is the packets'.
    pub first: Sample,
    /// Bytes of all of them, which begin at `first.offset` of the file.
    pub size: u32,
}

/// The payload of an RTP packet: head and body, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: u8,
    /// Part of the samples, or parameter sets of the packetiser's.
    pub body: &'a [u8],
    /// RTP's marker bit: the last packet of a picture, or the end of whole access units of sound.
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

    /// The bytes before the body.
    pub fn head(&self) -> &[u8] {
        &self.head[..usize::from(self.head_bytes)]
    }

    /// Bytes of head and body.
    pub fn payload_bytes(&self) -> usize {
        usize::from(self.head_bytes) + self.body.len()
    }
}

/// Why samples cannot be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PacketiseError {
    /// The lengths within a picture do not add up.
    #[error("sample {number} is damaged: a NAL unit at its byte {place} is longer than what is left of it")]
    Damaged { number: u32, place: u32 },
    /// An access unit whose size cannot be said.
    #[error("sample {number} of {size} bytes is too large for RFC 3640, which counts to 8191")]
    TooLarge { number: u32, size: u32 },
    #[error("sample {number}: {given} bytes were read in place of {wanted}")]
    Missing { number: u32, given: usize, wanted: u32 },
}

impl Packetiser {
    /// For packets that carry at most `payload_bytes_max` after RTP's header (at least [`PAYLOAD_BYTES_MIN`]): for an
    /// MTU of 1500, less 20 of IPv4 (40 of IPv6), 8 of UDP and 12 of RTP, 1460 (1440).
    pub fn new(track: &Track, payload_bytes_max: usize) -> Packetiser {
        let payload_bytes_max = payload_bytes_max.max(PAYLOAD_BYTES_MIN);
        let form = match track.codec() {
            Codec::H264(h264) => PayloadFormat::Nal(nal_units::PayloadFormat::h264(h264, payload_bytes_max)),
            Codec::H265(h265) => PayloadFormat::Nal(nal_units::PayloadFormat::h265(h265, payload_bytes_max)),
            Codec::Aac(_) => PayloadFormat::Aac,
        };
        Packetiser { form, payload_bytes_max }
    }

    /// The unit that starts with sample `first` of the track, if it exists; the next one starts with
    /// `unit.samples.end`.
    pub fn unit(&self, track: &Track, first: u32) -> Option<Unit> {
        let sample = track.sample(first)?;
        let mut unit = Unit { samples: first..first + 1, first: sample, size: sample.size };
        if let PayloadFormat::Aac = self.form {
            aac::extend(&mut unit, track, self.payload_bytes_max);
        }
        Some(unit)
    }

    /// The packets of `unit` of `track`, whose bytes are these. A unit without content has none.
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

/// The packets of a unit, in the order in which they are sent.
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
