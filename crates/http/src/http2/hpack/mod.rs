//! HPACK (RFC 7541): field blocks, decoded and encoded.

use super::huffman;

mod decoder;
mod encoder;
mod static_table;
mod table;

pub use decoder::{BadBlock, Decoder, Field};
pub use encoder::{Encoder, Prepared};

/// The table size of either side unless it says otherwise (RFC 9113, 6.5.2).
pub const TABLE_BYTES: usize = 4096;

/// The overhead of an entry (RFC 7541, 4.1), and of a field in a list's size (RFC 9113, 6.5.2).
pub const ENTRY_OVERHEAD_BYTES: usize = 32;

/// The largest accepted integer; nothing is that long.
const INTEGER_MAX: usize = 1 << 28;

/// Decodes an integer with a prefix of this many bits (RFC 7541, 5.1).
#[inline]
fn integer(block: &mut &[u8], prefix_bits: u32) -> Result<usize, BadBlock> {
    let mask = (1_usize << prefix_bits) - 1;
    let mut next = || block.split_off_first().map(|byte| usize::from(*byte)).ok_or(BadBlock);
    let mut value = next()? & mask;
    if value < mask {
        return Ok(value);
    }
    for shift in (0..28).step_by(7) {
        let byte = next()?;
        value += (byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return if value <= INTEGER_MAX { Ok(value) } else { Err(BadBlock) };
        }
    }
    Err(BadBlock)
}

/// Encodes an integer with a prefix of this many bits, behind the bits of `first` (RFC 7541, 5.1).
#[inline]
fn append_integer(block: &mut Vec<u8>, first: u8, prefix_bits: u32, value: usize) {
    let mask = (1_usize << prefix_bits) - 1;
    let Some(mut rest) = value.checked_sub(mask) else { return block.push(first | value as u8) };
    block.push(first | mask as u8);
    while rest >= 0x80 {
        block.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    block.push(rest as u8);
}

/// Decodes a string and appends it to `text` (RFC 7541, 5.2).
fn string(block: &mut &[u8], text: &mut Vec<u8>) -> Result<(), BadBlock> {
    let is_coded = block.first().ok_or(BadBlock)? & 0x80 != 0;
    let length = integer(block, 7)?;
    let bytes = block.split_off(..length).ok_or(BadBlock)?;
    if is_coded {
        return huffman::decode(bytes, text).ok_or(BadBlock);
    }
    text.extend_from_slice(bytes);
    Ok(())
}

/// Encodes a string as it is.
fn append_plain(block: &mut Vec<u8>, text: &[u8]) {
    append_integer(block, 0, 7, text.len());
    block.extend_from_slice(text);
}

/// Encodes a string, by Huffman's code if that is shorter.
fn append_short(block: &mut Vec<u8>, text: &[u8]) {
    let length = huffman::coded_length(text);
    if length >= text.len() {
        return append_plain(block, text);
    }
    append_integer(block, 0x80, 7, length);
    huffman::encode(text, block);
}

/// A quick hash of fields. Whoever makes texts collide has them encoded anew, no more.
pub fn hash(text: &[u8]) -> u64 {
    // The golden ratio, as in Fibonacci hashing.
    let mix = |hash: u64, word: u64| (hash.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (pairs, rest) = text.as_chunks::<16>();
    // Two at a time, because a multiplication waits for the one before it.
    let lanes = pairs.iter().fold([text.len() as u64, 0], |[even, odd], pair| {
        let (first, second) = pair.split_at(8);
        let word = |bytes: &[u8]| bytes.try_into().map_or(0, u64::from_le_bytes);
        [mix(even, word(first)), mix(odd, word(second))]
    });
    let (words, rest) = rest.as_chunks();
    let whole = words.iter().fold(mix(lanes[0], lanes[1]), |hash, word| mix(hash, u64::from_le_bytes(*word)));
    let hash = rest.iter().fold(whole, |hash, byte| mix(hash, (*byte).into()));
    // The best bits are the high ones.
    hash ^ hash >> 32
}

#[cfg(test)]
mod tests;
