//! A cache key: a text, and 128 bits of its hash.
//!
//! The hash finds an object, the text confirms it: an object with another text does not match, even if someone makes
//! the hashes collide.

use std::borrow::Cow;

use xxhash_rust::xxh3::xxh3_128;

/// The longest text of a key, the part that tells variants apart included.
pub const KEY_TEXT_BYTES_MAX: usize = 64 * 1024;

/// Begins the text of the key of parts. Those of variants begin with 0, and what can be read with neither.
const PARTS: u8 = 1;

/// A key: a normalised text, such as the URL, and its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    hash: u128,
    text: Cow<'a, [u8]>,
}

impl<'a> Key<'a> {
    /// The key of `text`, which begins with anything but a zero byte: such texts are those of variants.
    pub fn new(text: &'a [u8]) -> Key<'a> {
        debug_assert!(text.first() != Some(&0), "a key's text begins with something to read");
        Key::of_text(text)
    }

    /// The key with this text, a variant's or not.
    pub(crate) fn of_text(text: &'a [u8]) -> Key<'a> {
        Key { hash: xxh3_128(text), text: Cow::Borrowed(text) }
    }

    /// The key of one variant of this resource, identified by `secondary`.
    pub fn variant(&self, secondary: &[u8]) -> Key<'static> {
        let mut text = Vec::with_capacity(5 + self.text.len() + secondary.len());
        text.push(0);
        text.extend_from_slice(&(self.text.len() as u32).to_le_bytes());
        text.extend_from_slice(&self.text);
        text.extend_from_slice(secondary);
        Key { hash: xxh3_128(&text), text: Cow::Owned(text) }
    }

    /// The key of the parts that are held of what this key names.
    pub(crate) fn parts(&self) -> Key<'static> {
        let text = [&[PARTS], self.text()].concat();
        Key { hash: xxh3_128(&text), text: Cow::Owned(text) }
    }

    pub fn into_owned(self) -> Key<'static> {
        Key { hash: self.hash, text: Cow::Owned(self.text.into_owned()) }
    }

    pub fn hash(&self) -> u128 {
        self.hash
    }

    pub fn text(&self) -> &[u8] {
        &self.text
    }
}

/// Half of a key's hash, for uses in which a collision does no harm.
pub fn identity(hash: u128) -> u64 {
    (hash >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variants_are_told_apart() {
        let (short, long) = (Key::new(b"http://a/"), Key::new(b"http://a/b"));
        assert_ne!(short.variant(b"b"), long.variant(b""));
        assert_ne!(short.variant(b"gzip"), short.variant(b"br"));
        assert_eq!(short.variant(b"gzip"), short.clone().into_owned().variant(b"gzip"));
        assert_ne!(short.variant(b""), short);
    }
}
