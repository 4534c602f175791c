//! Decodes field blocks. The dynamic table belongs to the connection, so a block is decoded to its end even if its
//! fields are invalid.

use super::static_table::STATIC;
use super::table::Table;
use super::{integer, string};

/// A block that cannot be decoded: COMPRESSION_ERROR (RFC 9113, 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadBlock;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
}

/// The decoder's state.
#[derive(Debug)]
pub struct Decoder {
    table: Table,
    table_bytes_allowed: usize,
    /// The current literal: its name, then its value.
    text: Vec<u8>,
}

impl Decoder {
    /// A decoder whose peer may use a table of this size.
    pub fn new(table_bytes: usize) -> Decoder {
        Decoder { table: Table::new(table_bytes), table_bytes_allowed: table_bytes, text: Vec::new() }
    }

    /// Calls `take` with every field of `block`.
    pub fn read(&mut self, mut block: &[u8], mut take: impl FnMut(Field<'_>)) -> Result<(), BadBlock> {
        let mut may_resize = true;
        while let Some(first) = block.first().copied() {
            if first & 0xe0 == 0x20 {
                let bytes = integer(&mut block, 5)?;
                // RFC 7541, 4.2 and 6.3.
                if !may_resize || bytes > self.table_bytes_allowed {
                    return Err(BadBlock);
                }
                self.table.resize(bytes);
                continue;
            }
            may_resize = false;
            if first & 0x80 != 0 {
                let (name, value) = self.entry(integer(&mut block, 7)?)?;
                take(Field { name, value });
                continue;
            }
            let is_kept = first & 0x40 != 0;
            let name_index = integer(&mut block, if is_kept { 6 } else { 4 })?;
            let mut text = std::mem::take(&mut self.text);
            text.clear();
            match name_index {
                0 => string(&mut block, &mut text)?,
                index => text.extend_from_slice(self.entry(index)?.0),
            }
            let name_bytes = text.len();
            string(&mut block, &mut text)?;
            self.text = text;
            let (name, value) = self.text.split_at(name_bytes);
            take(Field { name, value });
            if is_kept {
                self.table.insert(name, value);
            }
        }
        Ok(())
    }

    /// Counts the changes of the table: without one, a block means the same as before.
    pub fn table_changes(&self) -> u64 {
        self.table.changes()
    }

    /// Gives back memory for long literals.
    pub fn trim(&mut self, bytes_max: usize) {
        if self.text.capacity() > bytes_max {
            self.text = Vec::new();
        }
    }

    /// The field at `index` of both tables (RFC 7541, 2.3.3).
    fn entry(&self, index: usize) -> Result<(&[u8], &[u8]), BadBlock> {
        let place = index.checked_sub(1).ok_or(BadBlock)?;
        if let Some((name, value)) = STATIC.get(place) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        self.table.entry(place - STATIC.len()).ok_or(BadBlock)
    }
}
