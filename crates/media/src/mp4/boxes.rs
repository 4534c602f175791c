//! Reads and writes MP4 boxes and the numbers in them, in memory. Reading never goes past a box's end and never
//! allocates.

use super::error::Mp4Error;
use super::{CHILDREN_MAX, FourCc};

const HEADER_BYTES: usize = 8;

/// Reads a box's content from front to back.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    pub kind: FourCc,
    bytes: &'a [u8],
    /// The offset of `bytes` in the file, for error messages.
    offset: u64,
}

impl<'a> Reader<'a> {
    /// Reads the content of a box of `kind` that starts at `offset` in the file.
    pub fn new(kind: FourCc, bytes: &'a [u8], offset: u64) -> Reader<'a> {
        Reader { kind, bytes, offset }
    }

    /// The offset in the file of the next byte to read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// The next `count` bytes; if the box ends earlier, the error names it.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Mp4Error> {
        let Some((taken, rest)) = self.bytes.split_at_checked(count) else {
            return Err(self.truncated(count as u64));
        };
        self.bytes = rest;
        self.offset += count as u64;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Mp4Error> {
        Ok(self.take(N)?.try_into().expect("as many were taken"))
    }

    pub fn u8(&mut self) -> Result<u8, Mp4Error> {
        Ok(self.array::<1>()?[0])
    }

    pub fn u16(&mut self) -> Result<u16, Mp4Error> {
        self.array().map(u16::from_be_bytes)
    }

    pub fn u32(&mut self) -> Result<u32, Mp4Error> {
        self.array().map(u32::from_be_bytes)
    }

    pub fn u64(&mut self) -> Result<u64, Mp4Error> {
        self.array().map(u64::from_be_bytes)
    }

    /// A time: eight bytes if `is_wide`, otherwise four, depending on the box's version.
    pub fn time(&mut self, is_wide: bool) -> Result<u64, Mp4Error> {
        if is_wide { self.u64() } else { self.u32().map(u64::from) }
    }

    /// The version of a full box; skips its flags.
    pub fn version(&mut self) -> Result<u8, Mp4Error> {
        self.array::<4>().map(|bytes| bytes[0])
    }

    /// Reads a table's entry count and checks that so many entries of `entry_bytes` are there.
    pub fn count(&mut self, entry_bytes: usize) -> Result<usize, Mp4Error> {
        let count = self.u32()?;
        let bytes = u64::from(count) * entry_bytes as u64;
        if bytes > self.bytes.len() as u64 {
            return Err(self.truncated(bytes));
        }
        Ok(count as usize)
    }

    /// The remaining child boxes. A rest shorter than a box header is QuickTime's terminator.
    pub fn children(self) -> impl Iterator<Item = Result<Reader<'a>, Mp4Error>> {
        let mut rest = self;
        let mut count = 0;
        std::iter::from_fn(move || {
            if rest.bytes.len() < HEADER_BYTES {
                return None;
            }
            count += 1;
            let child = if count > CHILDREN_MAX {
                let what = format!("box {} with more boxes", self.kind);
                Err(Mp4Error::TooMuch { what, offset: rest.offset, limit: CHILDREN_MAX as u64 })
            } else {
                rest.child()
            };
            if child.is_err() {
                rest.bytes = &[];
            }
            Some(child)
        })
    }

    /// The first of the remaining child boxes of this kind.
    pub fn find(self, kind: &[u8; 4]) -> Result<Option<Reader<'a>>, Mp4Error> {
        for child in self.children() {
            let child = child?;
            if child.kind.0 == *kind {
                return Ok(Some(child));
            }
        }
        Ok(None)
    }

    /// Like [`find`](Reader::find), but a missing box is an error.
    pub fn require(self, kind: &[u8; 4]) -> Result<Reader<'a>, Mp4Error> {
        let missing = || self.malformed(format!("box {} has no box {}", self.kind, FourCc(*kind)));
        self.find(kind)?.ok_or_else(missing)
    }

    /// An error with the given text and the offset in the file.
    pub fn malformed(&self, what: String) -> Mp4Error {
        Mp4Error::Malformed { what, offset: self.offset }
    }

    fn truncated(&self, wanted: u64) -> Mp4Error {
        let what = format!("the content of box {}", self.kind);
        Mp4Error::Truncated { what, offset: self.offset, end: self.offset.saturating_add(wanted) }
    }

    fn child(&mut self) -> Result<Reader<'a>, Mp4Error> {
        let start = self.offset;
        let size = self.u32()?;
        let kind = FourCc(self.array()?);
        let (size, header) = match size {
            0 => (self.bytes.len() as u64 + HEADER_BYTES as u64, HEADER_BYTES),
            1 => (self.u64()?, 2 * HEADER_BYTES),
            size => (u64::from(size), HEADER_BYTES),
        };
        let offset = self.offset;
        match size.checked_sub(header as u64) {
            Some(content) if content <= self.bytes.len() as u64 => {
                Ok(Reader::new(kind, self.take(content as usize)?, offset))
            }
            Some(_) => {
                let what = format!("box {kind} within box {}", self.kind);
                Err(Mp4Error::Truncated { what, offset: start, end: start.saturating_add(size) })
            }
            None => {
                let what = format!("box {kind} is smaller than its own header");
                Err(Mp4Error::Malformed { what, offset: start })
            }
        }
    }
}

/// A buffer to which boxes are appended.
#[derive(Debug, Default)]
pub struct BoxWriter {
    bytes: Vec<u8>,
}

impl BoxWriter {
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub fn position(&self) -> usize {
        self.bytes.len()
    }

    /// Appends a box of `kind` whose content is written by `content`.
    pub fn boxed(&mut self, kind: &[u8; 4], content: impl FnOnce(&mut BoxWriter)) {
        let start = self.position();
        self.u32(0);
        self.bytes(kind);
        content(self);
        let size = (self.position() - start) as u32;
        self.replace_u32(start, size);
    }

    pub fn full(&mut self, kind: &[u8; 4], version: u8, flags: u32, content: impl FnOnce(&mut BoxWriter)) {
        self.boxed(kind, |writer| {
            writer.u32(u32::from(version) << 24 | flags);
            content(writer);
        });
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn zeros(&mut self, count: usize) {
        self.bytes.resize(self.position() + count, 0);
    }

    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    /// Overwrites the four bytes at `position`.
    pub fn replace_u32(&mut self, position: usize, value: u32) {
        self.bytes[position..position + 4].copy_from_slice(&value.to_be_bytes());
    }
}
