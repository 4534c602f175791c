//! Boxes, written: a box's size is known when its content is.

/// Bytes to which boxes are appended.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// What was written.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Where writing goes on.
    pub fn position(&self) -> usize {
        self.bytes.len()
    }

    /// A box of `kind`, whose content `content` writes.
    pub fn boxed(&mut self, kind: &[u8; 4], content: impl FnOnce(&mut Writer)) {
        let start = self.position();
        self.u32(0);
        self.bytes(kind);
        content(self);
        let size = (self.position() - start) as u32;
        self.replace_u32(start, size);
    }

    /// The same with a version and flags.
    pub fn full(&mut self, kind: &[u8; 4], version: u8, flags: u32, content: impl FnOnce(&mut Writer)) {
        self.boxed(kind, |writer| {
            writer.u32(u32::from(version) << 24 | flags);
            content(writer);
        });
    }

    /// Bytes as they are.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// So many bytes of 0.
    pub fn zeros(&mut self, count: usize) {
        self.bytes.resize(self.position() + count, 0);
    }

    /// A byte.
    pub fn u8(&mut self, value: u8) {
        self.bytes.push(value);
    }

    /// Two bytes.
    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_be_bytes());
    }

    /// Four bytes.
    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_be_bytes());
    }

    /// Eight bytes.
    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_be_bytes());
    }

    /// Four bytes in place of those at `position`.
    pub fn replace_u32(&mut self, position: usize, value: u32) {
        self.bytes[position..position + 4].copy_from_slice(&value.to_be_bytes());
    }
}
