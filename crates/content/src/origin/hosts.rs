//! Several local directories as one origin, one per virtual host.

use std::io;

use super::{Directory, Found, OpenError, Origin};
use crate::document::Document;
use crate::resource::Resource;

#[derive(Debug)]
pub struct Directories(Vec<Directory>);

impl Directories {
    /// One directory per host; the first belongs to the default host.
    ///
    /// # Panics
    /// If there is none.
    pub fn new(directories: Vec<Directory>) -> Directories {
        assert!(!directories.is_empty(), "some host answers to any name");
        Directories(directories)
    }

    fn at(&self, resource: &Resource<'_>) -> &Directory {
        &self.0[usize::from(resource.host.0)]
    }
}

impl Origin for Directories {
    fn open(&self, resource: &Resource<'_>) -> Result<Found, OpenError> {
        self.at(resource).open(resource)
    }

    fn open_now(&self, resource: &Resource<'_>) -> Option<Result<Found, OpenError>> {
        self.at(resource).open_now(resource)
    }

    fn directories(&self) -> &[Directory] {
        &self.0
    }

    fn is_current(&self, resource: &Resource<'_>, document: &Document) -> bool {
        self.at(resource).is_current(resource, document)
    }

    fn read(&self, document: &Document, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.0[0].read(document, offset, into)
    }
}
