//! Several local directories as one origin: each host has its own.

use std::io;

use super::{Directory, Found, OpenError, Origin};
use crate::document::Document;
use crate::place::Place;

/// The directories, by the number of their host.
#[derive(Debug)]
pub struct Directories(Vec<Directory>);

impl Directories {
    /// One for each host, that of the host which answers to any name first.
    ///
    /// # Panics
    /// If there is none.
    pub fn new(directories: Vec<Directory>) -> Directories {
        assert!(!directories.is_empty(), "some host answers to any name");
        Directories(directories)
    }

    fn at(&self, place: &Place<'_>) -> &Directory {
        &self.0[usize::from(place.host.0)]
    }
}

impl Origin for Directories {
    fn open(&self, place: &Place<'_>) -> Result<Found, OpenError> {
        self.at(place).open(place)
    }

    fn open_now(&self, place: &Place<'_>) -> Option<Result<Found, OpenError>> {
        self.at(place).open_now(place)
    }

    fn directories(&self) -> &[Directory] {
        &self.0
    }

    fn is_current(&self, place: &Place<'_>, document: &Document) -> bool {
        self.at(place).is_current(place, document)
    }

    fn read(&self, document: &Document, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0[0].read(document, offset, into)
    }
}
