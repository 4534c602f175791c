//! The origin of a proxy: it has no documents of its own.

use std::io;

use sojourn_content::{Document, Found, OpenError, Origin, Place};

/// An origin without documents.
pub struct Nothing;

impl Origin for Nothing {
    fn open(&self, _place: &Place<'_>) -> Result<Found, OpenError> {
        Err(OpenError::NotFound)
    }

    fn is_current(&self, _place: &Place<'_>, _document: &Document) -> bool {
        false
    }

    fn read(&self, _document: &Document, _offset: u64, _into: &mut [u8]) -> io::Result<usize> {
        Ok(0)
    }
}
