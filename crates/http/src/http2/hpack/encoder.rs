//! Encodes field blocks. What comes again is added to the table; what differs from message to message, or is secret, is
//! sent as a literal.

use super::static_table::{STATIC, index_of};
use super::table::Table;
use super::{TABLE_BYTES, append_integer, append_plain, append_short};

/// Longer fields are not added to the table.
const KEPT_FIELD_BYTES_MAX: usize = TABLE_BYTES / 4;

/// Bits before an index or a literal (RFC 7541, 6).
const INDEXED: u8 = 0x80;
const KEPT: u8 = 0x40;
const RESIZED: u8 = 0x20;
const SECRET: u8 = 0x10;

/// The encoder's state.
#[derive(Debug)]
pub struct Encoder {
    table: Table,
    /// The smallest table size that the peer has asked for since the last block, and the current one.
    resized: Option<(usize, usize)>,
}

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder { table: Table::new(TABLE_BYTES), resized: None }
    }
}

impl Encoder {
    /// The peer allows a table of this size (SETTINGS_HEADER_TABLE_SIZE).
    pub fn allow(&mut self, table_bytes: usize) {
        let bytes = table_bytes.min(TABLE_BYTES);
        let least = self.resized.map_or(bytes, |(least, _)| least.min(bytes));
        let is_news = least != bytes || bytes != self.table.bytes_max();
        self.resized = is_news.then_some((least, bytes));
    }

    /// Starts a block: a change of the table's size comes first (RFC 7541, 4.2).
    pub fn begin(&mut self, block: &mut Vec<u8>) {
        let Some((least, bytes)) = self.resized.take() else { return };
        if least < bytes {
            append_integer(block, RESIZED, 5, least);
        }
        append_integer(block, RESIZED, 5, bytes);
        self.table.resize(least);
        self.table.resize(bytes);
    }

    /// Appends a field whose name is in lower case.
    pub fn field(&mut self, block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        let index = index_of(name);
        // Names with values in the static table have them in sequence.
        if let Some(first) = index
            && let Some(whole) = (usize::from(first)..)
                .zip(&STATIC[usize::from(first) - 1..])
                .take_while(|(_, (other, _))| other.as_bytes() == name)
                .find_map(|(index, (_, other))| {
                    (other.as_bytes() == value && !value.is_empty()).then_some(index)
                })
        {
            return append_integer(block, INDEXED, 7, whole);
        }
        match use_of(name, value) {
            Use::Again => {
                if let Some(place) = self.table.find(name, value) {
                    return append_integer(block, INDEXED, 7, STATIC.len() + 1 + place);
                }
                self.append_name(block, KEPT, 6, index, name);
                append_short(block, value);
                self.table.insert(name, value);
            }
            Use::Once => {
                self.append_name(block, 0, 4, index, name);
                append_plain(block, value);
            }
            Use::Secret => {
                self.append_name(block, SECRET, 4, index, name);
                append_short(block, value);
            }
        }
    }

    fn append_name(&self, block: &mut Vec<u8>, first: u8, prefix_bits: u32, index: Option<u8>, name: &[u8]) {
        let of_table = || self.table.find_name(name).map(|place| STATIC.len() + 1 + place);
        match index.map(usize::from).or_else(of_table) {
            Some(index) => append_integer(block, first, prefix_bits, index),
            None => {
                block.push(first);
                append_short(block, name);
            }
        }
    }
}

/// How a field is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Probably again: added to the table.
    Again,
    Once,
    /// Never added to any table (RFC 7541, 7.1.3).
    Secret,
}

fn use_of(name: &[u8], value: &[u8]) -> Use {
    match name {
        b"authorization" | b"proxy-authorization" | b"set-cookie" => Use::Secret,
        b"content-length"
        | b"content-range"
        | b"etag"
        | b"last-modified"
        | b"expires"
        | b"age"
        | b"location"
        | b"content-location"
        | b"content-disposition"
        | b"link"
        | b":path"
        | b"range"
        | b"if-match"
        | b"if-none-match"
        | b"if-modified-since"
        | b"if-unmodified-since"
        | b"if-range" => Use::Once,
        _ if name.len() + value.len() > KEPT_FIELD_BYTES_MAX => Use::Once,
        _ => Use::Again,
    }
}
