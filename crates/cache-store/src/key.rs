//! A cache key: a text and its 128-bit hash.
//!
//! The hash finds an object, the text confirms it, so even a deliberate hash collision cannot return the wrong object.

use std::borrow::Cow;

use xxhash_rust::xxh3::xxh3_128;

/// The longest text of a key, including a variant's secondary key.
pub const KEY_TEXT_BYTES_MAX: usize = 64 * 1024;

/// The first byte of the key under which parts of a body are stored. Variants' keys begin with 0, ordinary keys with
/// neither.
const PARTS: u8 = 1;

/// A normalised text, such as the URL, and its hash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    hash: u128,
    text: Cow<'a, [u8]>,
}

impl<'a> Key<'a> {
    /// The key of `text`, which must not begin with a zero byte; variants' keys do.
    pub fn new(text: &'a [u8]) -> Key<'a> {
        debug_assert!(text.first() != Some(&0), "a key's text begins with something to read");
        Key::of_text(text)
    }

    /// The key of a text read back from the store, which may be a variant's.
    pub(crate) fn of_text(text: &'a [u8]) -> Key<'a> {
        Key { hash: xxh3_128(text), text: Cow::Borrowed(text) }
    }

    pub fn variant(&self, secondary: &[u8]) -> Key<'static> {
        let mut text = Vec::with_capacity(5 + self.text.len() + secondary.len());
        text.push(0);
        text.extend_from_slice(&(self.text.len() as u32).to_le_bytes());
        text.extend_from_slice(&self.text);
        text.extend_from_slice(secondary);
        Key { hash: xxh3_128(&text), text: Cow::Owned(text) }
    }

    /// The key under which parts of this key's body are stored.
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

/// Half of the hash, for uses in which a collision does no harm.
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
