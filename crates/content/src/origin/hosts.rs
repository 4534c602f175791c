//! Several origins as one, one per virtual host: local directories, or any kinds of origin.

use std::io;
use std::sync::Arc;

use super::{Directory, Found, OpenError, Origin, OriginCounts, remote};
use crate::document::{Document, Extract};
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

    fn extract(
        &self,
        resource: &Resource<'_>,
        file: &Document,
        extract: Extract<'_>,
    ) -> Result<Arc<Document>, OpenError> {
        self.at(resource).extract(resource, file, extract)
    }
}

/// One origin per host, of any kind; helper processes cannot serve them.
pub struct Origins(Vec<Arc<dyn Origin>>);

impl Origins {
    /// The first belongs to the default host.
    ///
    /// # Panics
    /// If there is none.
    pub fn new(origins: Vec<Arc<dyn Origin>>) -> Origins {
        assert!(!origins.is_empty(), "some host answers to any name");
        Origins(origins)
    }

    fn at(&self, resource: &Resource<'_>) -> &dyn Origin {
        &*self.0[usize::from(resource.host.0)]
    }
}

impl Origin for Origins {
    fn open(&self, resource: &Resource<'_>) -> Result<Found, OpenError> {
        self.at(resource).open(resource)
    }

    fn open_now(&self, resource: &Resource<'_>) -> Option<Result<Found, OpenError>> {
        self.at(resource).open_now(resource)
    }

    fn is_current(&self, resource: &Resource<'_>, document: &Document) -> bool {
        self.at(resource).is_current(resource, document)
    }

    fn read(&self, document: &Document, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        // A document knows where its bytes are.
        remote::read(document, offset, into)
    }

    fn extract(
        &self,
        resource: &Resource<'_>,
        file: &Document,
        extract: Extract<'_>,
    ) -> Result<Arc<Document>, OpenError> {
        self.at(resource).extract(resource, file, extract)
    }

    fn counts(&self) -> Option<OriginCounts> {
        self.0.iter().filter_map(|origin| origin.counts()).reduce(OriginCounts::plus)
    }
}
