//! Video made of NAL units: H.264 by RFC 6184 in mode 1, H.265 by RFC 7798 without DONL.
//!
//! The two formats differ in the NAL unit header, not in how a picture is split. A NAL unit that fits is sent as a
//! packet, one that does not is fragmented, and the parameter sets are aggregated into one packet. All fragments of a
//! unit but the last have the same size, so that the kernel can split them (UDP segmentation offload).

use super::{Packet, PacketiseError};
use crate::mp4::{H264, H265, Sample};

#[derive(Clone, Copy, Debug)]
enum Standard {
    H264,
    H265,
}

/// NAL unit types of aggregation and fragmentation packets.
const H264_AGGREGATION: u8 = 24;
const H264_FRAGMENT: u8 = 28;
const H265_AGGREGATION: u8 = 48;
const H265_FRAGMENT: u8 = 49;

const START: u8 = 0x80;
const END: u8 = 0x40;

/// Bytes of a fragmentation header; H.265's is the longer one.
const FRAGMENT_HEAD_BYTES_MAX: usize = 3;

/// The codec, packet limit and parameter sets of a track.
#[derive(Clone, Debug)]
pub struct PayloadFormat {
    standard: Standard,
    length_bytes: usize,
    /// Sent before keyframes: the parameter sets, aggregated into one packet if they fit, otherwise one by one.
    parameter_sets: Vec<Box<[u8]>>,
}

impl Standard {
    fn header_bytes(self) -> usize {
        match self {
            Standard::H264 => 1,
            Standard::H265 => 2,
        }
    }

    /// The NAL unit type of a non-empty unit.
    fn kind(self, unit: &[u8]) -> u8 {
        match self {
            Standard::H264 => unit[0] & 0x1f,
            Standard::H265 => unit[0] >> 1 & 0x3f,
        }
    }

    fn is_parameter_set(self, unit: &[u8]) -> bool {
        match self {
            Standard::H264 => matches!(self.kind(unit), 7 | 8),
            Standard::H265 => matches!(self.kind(unit), 32..=34),
        }
    }

    /// Returns true for an access unit delimiter, which must stay before the parameter sets.
    fn is_delimiter(self, unit: &[u8]) -> bool {
        match self {
            Standard::H264 => self.kind(unit) == 9,
            Standard::H265 => self.kind(unit) == 35,
        }
    }

    /// The header of an aggregation packet of `units`, none of them empty.
    fn aggregation_header(self, units: &[Box<[u8]>]) -> Vec<u8> {
        match self {
            Standard::H264 => {
                // The highest importance among its units (RFC 6184, 5.7).
                let importance = units.iter().map(|unit| unit[0] & 0x60).max().unwrap_or(0);
                vec![importance | H264_AGGREGATION]
            }
            // Layer 0 and the lowest temporal layer, as parameter sets have.
            Standard::H265 => vec![H265_AGGREGATION << 1, 1],
        }
    }

    /// Writes the header of a fragment of `unit`; returns its length.
    fn fragment_head(self, unit: &[u8], flags: u8, head: &mut [u8; FRAGMENT_HEAD_BYTES_MAX]) -> usize {
        let header = flags | self.kind(unit);
        match self {
            Standard::H264 => {
                head[..2].copy_from_slice(&[unit[0] & 0xe0 | H264_FRAGMENT, header]);
                2
            }
            Standard::H265 => {
                *head = [unit[0] & 0x81 | H265_FRAGMENT << 1, unit[1], header];
                3
            }
        }
    }
}

impl PayloadFormat {
    pub fn h264(h264: &H264, payload_bytes_max: usize) -> PayloadFormat {
        PayloadFormat::new(Standard::H264, h264.length_bytes, &h264.parameter_sets, payload_bytes_max)
    }

    pub fn h265(h265: &H265, payload_bytes_max: usize) -> PayloadFormat {
        PayloadFormat::new(Standard::H265, h265.length_bytes, &h265.parameter_sets, payload_bytes_max)
    }

    fn new(
        standard: Standard,
        length_bytes: usize,
        sets: &[Box<[u8]>],
        payload_bytes_max: usize,
    ) -> PayloadFormat {
        let mut aggregation = standard.aggregation_header(sets);
        for set in sets {
            // The sets' lengths come from 16-bit fields.
            aggregation.extend_from_slice(&(set.len() as u16).to_be_bytes());
            aggregation.extend_from_slice(set);
        }
        let parameter_sets = match sets {
            [_, _, ..] if aggregation.len() <= payload_bytes_max => vec![aggregation.into()],
            _ => sets.to_vec(),
        };
        PayloadFormat { standard, length_bytes, parameter_sets }
    }

    /// The first NAL unit in `bytes` that has a header, and the bytes after it. Empty units are skipped.
    fn split<'a>(&self, mut bytes: &'a [u8]) -> Result<Option<Split<'a>>, Overrun<'a>> {
        while !bytes.is_empty() {
            let (length, rest) = bytes.split_at_checked(self.length_bytes).ok_or(Overrun(bytes))?;
            let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            let (unit, rest) = rest.split_at_checked(length).ok_or(Overrun(bytes))?;
            if unit.len() >= self.standard.header_bytes() {
                return Ok(Some((unit, rest)));
            }
            bytes = rest;
        }
        Ok(None)
    }
}

type Split<'a> = (&'a [u8], &'a [u8]);

/// The bytes at which a NAL unit length exceeds the picture.
struct Overrun<'a>(&'a [u8]);

#[derive(Clone, Debug)]
pub struct Packets<'a> {
    form: &'a PayloadFormat,
    /// Parameter sets still to be sent.
    sets: &'a [Box<[u8]>],
    /// The NAL unit being sent, whole or in fragments, and the rest of it.
    unit: &'a [u8],
    left: &'a [u8],
    /// The remaining bytes, up to the end of the last non-empty NAL unit.
    rest: &'a [u8],
    payload_bytes_max: usize,
    timestamp: u32,
}

impl<'a> Packets<'a> {
    pub fn new(
        form: &'a PayloadFormat,
        sample: &Sample,
        bytes: &'a [u8],
        payload_bytes_max: usize,
        timestamp: u32,
    ) -> Result<Packets<'a>, PacketiseError> {
        let mut sets: &[Box<[u8]>] = if sample.is_sync { &form.parameter_sets } else { &[] };
        let mut rest = bytes;
        let mut end = 0;
        let damaged = |Overrun(at): Overrun<'_>| PacketiseError::Damaged {
            number: sample.number,
            place: (bytes.len() - at.len()) as u32,
        };
        while let Some((unit, after)) = form.split(rest).map_err(damaged)? {
            if form.standard.is_parameter_set(unit) {
                sets = &[];
            }
            end = bytes.len() - after.len();
            rest = after;
        }
        let rest = &bytes[..end];
        let sets = if rest.is_empty() { &[] } else { sets };
        Ok(Packets { form, sets, unit: &[], left: &[], rest, payload_bytes_max, timestamp })
    }

    /// The next whole NAL unit or aggregation packet.
    fn next_unit(&mut self) -> Option<&'a [u8]> {
        let next = self.form.split(self.rest).ok().flatten();
        match (self.sets.split_first(), next) {
            (Some(_), Some((unit, rest))) if self.form.standard.is_delimiter(unit) => {
                self.rest = rest;
                Some(unit)
            }
            (Some((set, sets)), _) => {
                self.sets = sets;
                Some(set)
            }
            (None, Some((unit, rest))) => {
                self.rest = rest;
                Some(unit)
            }
            (None, None) => None,
        }
    }

    fn is_last(&self) -> bool {
        self.rest.is_empty() && self.sets.is_empty()
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        let standard = self.form.standard;
        let mut flags = 0;
        if self.left.is_empty() {
            self.unit = self.next_unit()?;
            if self.unit.len() <= self.payload_bytes_max {
                return Some(Packet::new(&[], self.unit, self.is_last(), self.timestamp));
            }
            self.left = &self.unit[standard.header_bytes()..];
            flags = START;
        }
        let mut head = [0; FRAGMENT_HEAD_BYTES_MAX];
        let head_bytes = standard.fragment_head(self.unit, 0, &mut head);
        let (body, left) = self.left.split_at(self.left.len().min(self.payload_bytes_max - head_bytes));
        self.left = left;
        if left.is_empty() {
            flags |= END;
        }
        head[head_bytes - 1] |= flags;
        let marker = left.is_empty() && self.is_last();
        Some(Packet::new(&head[..head_bytes], body, marker, self.timestamp))
    }
}
