//! The file format of an object: layout and checksums. Does no input or output.
//!
//! Little-endian throughout, in this order:
//!
//! | what | bytes |
//! |---|---|
//! | magic `SJCACHE1` | 8 |
//! | kind, length of the key's text, capacity of a metadata slot (u32 each), zero (u32) | 16 |
//! | length of the body (u64) | 8 |
//! | hash of the key's text (u128) | 16 |
//! | number of the object (u64): ties new metadata to its body | 8 |
//! | checksum of the table (u64) | 8 |
//! | checksum of all before and of the text (u64) | 8 |
//! | the key's text | its length |
//! | two metadata slots: sequence (u64), length (u32), zero (u32), checksum (u64), bytes up to the capacity | 24 + capacity, each |
//! | the body | its length |
//! | the table: a checksum (u64) of each 64 KiB of the body | 8 for each |
//!
//! Checksums are XXH3 with 64 bits. Those of chunks and slots are seeded with the object's number and their position,
//! so a misplaced block from another file is detected. New metadata goes to the slot with the lower sequence: if that
//! write is torn, the other slot is still valid.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::key::KEY_TEXT_BYTES_MAX;
use crate::object::ObjectKind;

const MAGIC: [u8; 8] = *b"SJCACHE1";
const FIXED_BYTES: usize = 72;
const SLOT_HEAD_BYTES: usize = 24;

/// The number of body bytes per checksum.
pub const CHUNK_BYTES: u64 = 64 * 1024;

/// The largest metadata that is written to disk.
pub const METADATA_BYTES_MAX: usize = 256 * 1024;

/// Spare bytes in a metadata slot, so that it can grow.
const SLOT_SLACK_BYTES: usize = 128;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub kind: ObjectKind,
    pub text: Vec<u8>,
    pub slot_capacity: usize,
    pub length: u64,
    pub hash: u128,
    pub number: u64,
    pub table_checksum: u64,
}

/// Why bytes are not a valid object file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Damaged(pub &'static str);

impl Header {
    pub fn slot_capacity_for(metadata: &[u8]) -> usize {
        (metadata.len() + SLOT_SLACK_BYTES).next_multiple_of(SLOT_SLACK_BYTES)
    }

    /// Encodes the header and the key's text.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED_BYTES + self.text.len());
        bytes.extend_from_slice(&MAGIC);
        for number in [self.kind as u32, self.text.len() as u32, self.slot_capacity as u32, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&self.length.to_le_bytes());
        bytes.extend_from_slice(&self.hash.to_le_bytes());
        bytes.extend_from_slice(&self.number.to_le_bytes());
        bytes.extend_from_slice(&self.table_checksum.to_le_bytes());
        bytes.extend_from_slice(&self.checksum(&bytes).to_le_bytes());
        bytes.extend_from_slice(&self.text);
        bytes
    }

    /// Decodes the start of a file, which must include the whole text.
    pub fn decode(bytes: &[u8]) -> Result<Header, Damaged> {
        let Some((fixed, rest)) = bytes.split_first_chunk::<FIXED_BYTES>() else {
            return Err(Damaged("it is shorter than a header"));
        };
        if fixed[..8] != MAGIC {
            return Err(Damaged("it does not begin with SJCACHE1"));
        }
        let kind = match u32_at(fixed, 8) {
            1 => ObjectKind::Response,
            2 => ObjectKind::Variants,
            _ => return Err(Damaged("its kind is unknown")),
        };
        let text_length = u32_at(fixed, 12) as usize;
        let slot_capacity = u32_at(fixed, 16) as usize;
        if text_length > KEY_TEXT_BYTES_MAX || slot_capacity > METADATA_BYTES_MAX + 2 * SLOT_SLACK_BYTES {
            return Err(Damaged("a length in its header is above its limit"));
        }
        let text = rest.get(..text_length).ok_or(Damaged("it ends in its key"))?.to_vec();
        let hash = u128::from(u64_at(fixed, 32)) | u128::from(u64_at(fixed, 40)) << 64;
        let (length, number, table_checksum) = (u64_at(fixed, 24), u64_at(fixed, 48), u64_at(fixed, 56));
        let header = Header { kind, text, slot_capacity, length, hash, number, table_checksum };
        let is_it = header.checksum(&fixed[..FIXED_BYTES - 8]) == u64_at(fixed, FIXED_BYTES - 8);
        if is_it && length <= i64::MAX as u64 / 2 {
            Ok(header)
        } else {
            Err(Damaged("its header was altered"))
        }
    }

    fn checksum(&self, fixed: &[u8]) -> u64 {
        xxh3_64_with_seed(&self.text, xxh3_64(fixed))
    }

    /// The length of header, text and slots, after which the body begins.
    pub fn front_bytes(&self) -> usize {
        self.slot_start(2)
    }

    pub fn file_bytes(&self) -> u64 {
        self.table_start() + 8 * self.chunks()
    }

    pub fn table_start(&self) -> u64 {
        self.front_bytes() as u64 + self.length
    }

    pub fn chunks(&self) -> u64 {
        self.length.div_ceil(CHUNK_BYTES)
    }

    /// The offset of slot 0 or 1.
    pub fn slot_start(&self, slot: usize) -> usize {
        FIXED_BYTES + self.text.len() + slot * (SLOT_HEAD_BYTES + self.slot_capacity)
    }

    /// Encodes `metadata` as a slot that supersedes `sequence`; `None` if it does not fit.
    pub fn encode_slot(&self, sequence: u64, metadata: &[u8]) -> Option<Vec<u8>> {
        if metadata.len() > self.slot_capacity {
            return None;
        }
        let mut bytes = Vec::with_capacity(SLOT_HEAD_BYTES + metadata.len());
        bytes.extend_from_slice(&sequence.to_le_bytes());
        bytes.extend_from_slice(&(metadata.len() as u64).to_le_bytes());
        bytes.extend_from_slice(&self.slot_checksum(sequence, metadata).to_le_bytes());
        bytes.extend_from_slice(metadata);
        Some(bytes)
    }

    /// The valid metadata with the highest sequence, and that sequence.
    pub fn metadata<'a>(&self, front: &'a [u8]) -> Result<(u64, &'a [u8]), Damaged> {
        let slots = [0, 1].map(|slot| self.decode_slot(front.get(self.slot_start(slot)..)?));
        let latest = slots.into_iter().flatten().max_by_key(|(sequence, _)| *sequence);
        latest.ok_or(Damaged("its metadata was altered"))
    }

    fn decode_slot<'a>(&self, slot: &'a [u8]) -> Option<(u64, &'a [u8])> {
        let (head, bytes) = slot.split_first_chunk::<SLOT_HEAD_BYTES>()?;
        let (sequence, length) = (u64_at(head, 0), u64_at(head, 8));
        let length = usize::try_from(length).ok().filter(|length| *length <= self.slot_capacity)?;
        let metadata = bytes.get(..length)?;
        (sequence > 0 && self.slot_checksum(sequence, metadata) == u64_at(head, 16))
            .then_some((sequence, metadata))
    }

    fn slot_checksum(&self, sequence: u64, metadata: &[u8]) -> u64 {
        xxh3_64_with_seed(metadata, self.number.rotate_left(32) ^ sequence)
    }
}

pub fn chunk_checksum(number: u64, index: u64, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, number.wrapping_add(index))
}

pub fn encode_table(checksums: &[u64]) -> (Vec<u8>, u64) {
    let bytes: Vec<u8> = checksums.iter().flat_map(|checksum| checksum.to_le_bytes()).collect();
    let checksum = xxh3_64(&bytes);
    (bytes, checksum)
}

/// Decodes the table and verifies it against the header's checksum.
pub fn decode_table(header: &Header, bytes: &[u8]) -> Result<Box<[u64]>, Damaged> {
    if bytes.len() as u64 != 8 * header.chunks() || xxh3_64(bytes) != header.table_checksum {
        return Err(Damaged("its table was altered"));
    }
    Ok(bytes.chunks_exact(8).map(|word| u64_at(word, 0)).collect())
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn header(text: &[u8], capacity: usize) -> Header {
        Header {
            kind: ObjectKind::Response,
            text: text.to_vec(),
            slot_capacity: capacity,
            length: 100_000,
            hash: 7 << 100 | 9,
            number: 11,
            table_checksum: 13,
        }
    }

    fn front(header: &Header, first: &[u8], second: Option<&[u8]>) -> Vec<u8> {
        let mut bytes = header.encode();
        for (sequence, metadata) in [(1, Some(first)), (2, second)] {
            let start = bytes.len();
            bytes.extend(metadata.map(|it| header.encode_slot(sequence, it).unwrap()).unwrap_or_default());
            bytes.resize(start + SLOT_HEAD_BYTES + header.slot_capacity, 0);
        }
        bytes
    }

    #[test]
    fn the_later_slot_counts_and_if_torn_the_earlier() {
        let header = header(b"http://a/", 128);
        let mut bytes = front(&header, b"old", Some(b"new"));
        assert_eq!(Header::decode(&bytes), Ok(header.clone()));
        assert_eq!(header.metadata(&bytes), Ok((2, b"new".as_slice())));
        let at = header.slot_start(1) + SLOT_HEAD_BYTES;
        bytes[at] ^= 1;
        assert_eq!(header.metadata(&bytes), Ok((1, b"old".as_slice())));
        assert_eq!(header.encode_slot(3, &[0; 129]), None);
    }

    proptest! {
        #[test]
        fn no_altered_byte_of_header_or_metadata_passes(at in 0..1000_usize, flip in 1..=255_u8) {
            let header = header(b"http://example.com/", 128);
            let whole = front(&header, b"metadata", None);
            let used = header.slot_start(0) + SLOT_HEAD_BYTES + b"metadata".len();
            let mut bytes = whole.clone();
            bytes[at % used] ^= flip;
            let passes = Header::decode(&bytes).and_then(|it| it.metadata(&bytes).map(|_| ()));
            prop_assert!(passes.is_err(), "{}", at % used);
        }

        #[test]
        fn nonsense_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
            let with_magic = [MAGIC.as_slice(), &bytes].concat();
            prop_assert!(Header::decode(&bytes).is_err() && Header::decode(&with_magic).is_err());
        }
    }
}
