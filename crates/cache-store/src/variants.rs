//! The variants of a primary key (Vary): which request fields distinguish them, and which are stored.
//!
//! The list is stored as an object at the primary key, so it is kept, evicted and written to disk like any other. Each
//! variant is a separate object at the [variant's key](Key::variant).
//!
//! Only what is in the list is found. Objects may be left behind at the keys of other variants, because the list was lost or has
//! dropped them; a purge does not reach those. So nobody [looks there](Variants::key_of), and they are removed before
//! such a variant is listed again.

use std::sync::Arc;

use crate::key::Key;
use crate::object::{Object, ObjectKind};

/// The most variants per resource; when there are more, the oldest is no longer found.
pub const VARIANTS_MAX: usize = 64;

/// The variant that a response is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vary {
    /// The request fields that selected the response.
    pub fields: Vec<Box<[u8]>>,
    /// Their normalised values: equal for all requests that it answers.
    pub secondary_key: Box<[u8]>,
    /// The list that the lookup has found, if there is one: it may be on disk, and memory may have no room for it.
    pub listed: Option<Arc<Variants>>,
}

/// The list of a resource's variants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variants {
    /// The request fields that distinguish the variants, as the caller spells them.
    pub fields: Vec<Box<[u8]>>,
    /// The secondary key of each variant, oldest first.
    pub secondaries: Vec<Box<[u8]>>,
}

impl Variants {
    /// Decodes the list in `object`, if it is one.
    pub(crate) fn of(object: &Object) -> Option<Variants> {
        let is_list = object.kind() == ObjectKind::Variants;
        is_list.then(|| Variants::decode(object.metadata()).unwrap_or_default())
    }

    /// The variants' keys, latest first.
    pub fn keys<'a>(&'a self, primary: &'a Key<'_>) -> impl Iterator<Item = Key<'static>> + 'a {
        self.secondaries.iter().rev().map(|secondary| primary.variant(secondary))
    }

    /// The key of the variant with this secondary key, if it is in the list.
    pub fn key_of(&self, primary: &Key<'_>, secondary: &[u8]) -> Option<Key<'static>> {
        let is_listed = self.secondaries.iter().any(|known| **known == *secondary);
        is_listed.then(|| primary.variant(secondary))
    }

    /// Adds a variant as the latest; returns true if it was not in the list. If it varies by other fields, all earlier
    /// variants are dropped.
    pub fn add(&mut self, fields: &[Box<[u8]>], secondary: &[u8]) -> bool {
        if self.fields != fields {
            *self = Variants { fields: fields.to_vec(), secondaries: Vec::new() };
        }
        let count = self.secondaries.len();
        self.secondaries.retain(|known| **known != *secondary);
        let is_new = self.secondaries.len() == count;
        self.secondaries.push(secondary.into());
        if self.secondaries.len() > VARIANTS_MAX {
            self.secondaries.remove(0);
        }
        is_new
    }

    /// Encodes each list as its length and its parts, each part as length and bytes; lengths are 4 bytes,
    /// little-endian.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for list in [&self.fields, &self.secondaries] {
            bytes.extend_from_slice(&(list.len() as u32).to_le_bytes());
            for part in list {
                bytes.extend_from_slice(&(part.len() as u32).to_le_bytes());
                bytes.extend_from_slice(part);
            }
        }
        bytes
    }

    /// Decodes a list; `None` if the bytes are invalid.
    pub fn decode(mut bytes: &[u8]) -> Option<Variants> {
        let fields = list(&mut bytes)?;
        let secondaries = list(&mut bytes)?;
        bytes.is_empty().then_some(Variants { fields, secondaries })
    }
}

fn list(bytes: &mut &[u8]) -> Option<Vec<Box<[u8]>>> {
    let count = number(bytes)?;
    (0..count)
        .map(|_| {
            let length = number(bytes)?;
            let (part, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            Some(part.into())
        })
        .collect()
}

fn number(bytes: &mut &[u8]) -> Option<usize> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*number) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back_and_nonsense_does_not() {
        let mut variants = Variants::default();
        variants.add(&[b"accept-encoding".as_slice().into()], b"gzip");
        variants.add(&[b"accept-encoding".as_slice().into()], b"");
        let bytes = variants.encode();
        assert_eq!(Variants::decode(&bytes), Some(variants));
        for length in 0..bytes.len() {
            assert_eq!(Variants::decode(&bytes[..length]), None);
        }
        assert_eq!(Variants::decode(&[0xff; 64]), None);
    }

    #[test]
    fn other_fields_begin_anew_and_lists_are_bounded() {
        let mut variants = Variants::default();
        for number in 0..=VARIANTS_MAX {
            assert!(variants.add(&[b"accept".as_slice().into()], &number.to_le_bytes()));
        }
        assert_eq!(variants.secondaries.len(), VARIANTS_MAX);
        assert_eq!(*variants.secondaries[0], 1_usize.to_le_bytes());
        let (primary, known) = (Key::new(b"http://a/"), 1_usize.to_le_bytes());
        assert_eq!(variants.key_of(&primary, &known), Some(primary.variant(&known)));
        assert_eq!(variants.key_of(&primary, &0_usize.to_le_bytes()), None);
        assert!(!variants.add(&[b"accept".as_slice().into()], &known));
        variants.add(&[b"accept-language".as_slice().into()], b"de");
        assert_eq!(variants.secondaries.len(), 1);
    }
}
