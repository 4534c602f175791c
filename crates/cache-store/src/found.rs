//! What the store answers: to who looks, to who wants to fill, and to people.

use std::sync::Arc;

use super::{Fill, Filling, Object, Opening, Variants, variants_of};

/// What a lookup finds.
#[derive(Clone, Debug)]
pub enum Found {
    /// An object.
    Hit(Arc<Object>),
    /// Variants, to choose from: look up one of [their keys](Variants::keys).
    Varies(Arc<Variants>),
    /// A body on its way.
    Filling(Arc<Filling>),
    /// Perhaps something on disk: it is being looked at.
    Opening(Arc<Opening>),
    /// Nothing.
    Miss,
}

impl Found {
    /// What finding `object` is.
    pub fn of(object: Arc<Object>) -> Found {
        match variants_of(&object) {
            Some(variants) => Found::Varies(Arc::new(variants)),
            None => Found::Hit(object),
        }
    }
}

/// What is kept at a key, for people to look at.
#[derive(Clone, Debug)]
pub struct Inspected {
    /// The object; its body may be missing.
    pub object: Arc<Object>,
    /// Bytes of the body.
    pub body_bytes: u64,
    /// Whether the body is in memory.
    pub is_in_memory: bool,
    /// Whether there is a file of it.
    pub is_on_disk: bool,
}

/// What becomes of the wish to fill.
#[derive(Debug)]
pub enum Begun {
    /// It is yours to fill.
    Fill(Fill),
    /// Somebody is at it: follow.
    Filling(Arc<Filling>),
    /// It has come meanwhile.
    Hit(Arc<Object>),
}
