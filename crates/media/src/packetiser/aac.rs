//! AAC in RTP by RFC 3640, mode AAC-hbr. A packet starts with a header per access unit: 13 bits of size and 3 bits of
//! index, which is always 0. An access unit that does not fit is fragmented; each fragment's header gives the size of
//! the whole unit.

use super::{AAC_UNITS_MAX, HEAD_BYTES_MAX, Packet, PacketiseError, Unit};
use crate::mp4::{Sample, Track};

const SIZE_MAX: u32 = (1 << 13) - 1;

/// Bytes of the field with the length of all headers in bits, and bytes of one header.
const LENGTH_BYTES: usize = 2;
const HEADER_BYTES: usize = 2;

/// Extends the unit by samples that are adjacent in the file, follow in time and fit into one packet.
pub fn extend(unit: &mut Unit, track: &Track, payload_bytes_max: usize) {
    let step = unit.first.duration_ticks;
    for sample in track.samples_from(unit.samples.end) {
        let count = (sample.number - unit.samples.start) as usize;
        let heads = LENGTH_BYTES + HEADER_BYTES * (count + 1);
        let fits = count < AAC_UNITS_MAX && heads + (unit.size + sample.size) as usize <= payload_bytes_max;
        // Receivers compute the times of all access units but the first from a common duration.
        let follows = sample.offset == unit.first.offset + u64::from(unit.size)
            && sample.presentation_ticks() == unit.first.presentation_ticks() + (step * count as u64) as i64;
        if !fits || !follows || sample.size == 0 || unit.first.size == 0 {
            return;
        }
        unit.samples.end += 1;
        unit.size += sample.size;
    }
}

/// A unit's packets: one, or the fragments of one access unit.
#[derive(Clone, Debug)]
pub struct Packets<'a> {
    head: [u8; HEAD_BYTES_MAX],
    head_bytes: usize,
    rest: &'a [u8],
    payload_bytes_max: usize,
    timestamp: u32,
}

impl<'a> Packets<'a> {
    pub fn new(
        track: &Track,
        unit: &Unit,
        bytes: &'a [u8],
        payload_bytes_max: usize,
        timestamp: u32,
    ) -> Result<Packets<'a>, PacketiseError> {
        let mut head = [0; HEAD_BYTES_MAX];
        let mut head_bytes = LENGTH_BYTES;
        let samples = track.samples_from(unit.samples.start).take(unit.samples.len());
        for Sample { number, size, .. } in samples {
            if size > SIZE_MAX {
                return Err(PacketiseError::TooLarge { number, size });
            }
            let header = (size as u16) << 3;
            head[head_bytes..head_bytes + HEADER_BYTES].copy_from_slice(&header.to_be_bytes());
            head_bytes += HEADER_BYTES;
        }
        let header_bits = 8 * (head_bytes - LENGTH_BYTES) as u16;
        head[..LENGTH_BYTES].copy_from_slice(&header_bits.to_be_bytes());
        Ok(Packets { head, head_bytes, rest: bytes, payload_bytes_max, timestamp })
    }
}

impl<'a> Iterator for Packets<'a> {
    type Item = Packet<'a>;

    fn next(&mut self) -> Option<Packet<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let count = self.rest.len().min(self.payload_bytes_max - self.head_bytes);
        let (body, rest) = self.rest.split_at(count);
        self.rest = rest;
        Some(Packet::new(&self.head[..self.head_bytes], body, rest.is_empty(), self.timestamp))
    }
}
