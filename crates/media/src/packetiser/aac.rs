//! AAC in the mode AAC-hbr of RFC 3640: before the access units of a packet stand their sizes, 13 bits and 3 of an
//! index that is always 0. An access unit that does not fit is cut; each of its pieces has the head of the whole.

use super::{AAC_UNITS_MAX, HEAD_BYTES_MAX, Packet, PacketiseError, Unit};
use crate::mp4::{Sample, Track};

/// The largest size in 13 bits.
const SIZE_MAX: u32 = (1 << 13) - 1;

/// Bytes that say how many bits of headers follow, and bytes of a header.
const LENGTH_BYTES: usize = 2;
const HEADER_BYTES: usize = 2;

/// Adds the samples after the first that lie behind it in the file, follow it in time and fit into one packet.
pub fn extend(unit: &mut Unit, track: &Track, payload_bytes_max: usize) {
    let step = unit.first.duration_ticks;
    for sample in track.samples_from(unit.samples.end) {
        let count = (sample.number - unit.samples.start) as usize;
        let heads = LENGTH_BYTES + HEADER_BYTES * (count + 1);
        let fits = count < AAC_UNITS_MAX && heads + (unit.size + sample.size) as usize <= payload_bytes_max;
        // A receiver reckons the times of all but the first from their common duration.
        let follows = sample.offset == unit.first.offset + u64::from(unit.size)
            && sample.presentation_ticks() == unit.first.presentation_ticks() + (step * count as u64) as i64;
        if !fits || !follows || sample.size == 0 || unit.first.size == 0 {
            return;
        }
        unit.samples.end += 1;
        unit.size += sample.size;
    }
}

/// The packets of a unit: one, or the pieces of an access unit.
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
