//! Encodes field blocks. What comes again is added to the table; what differs from message to message, or is secret, is
//! sent as a literal.

use std::sync::atomic::{AtomicU64, Ordering};

use super::static_table::{STATIC, index_of};
use super::table::Table;
use super::{TABLE_BYTES, append_integer, append_plain, append_short, hash};

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
    /// Prepared fields that were encoded lately; without memory until the first.
    encoded: Vec<Encoded>,
}

/// Prepared fields as they were encoded, which is right as long as the table is the same.
#[derive(Clone, Debug, Default)]
struct Encoded {
    number: u64,
    table_changes: u64,
    bytes: Vec<u8>,
}

/// How many of them are kept: two for a response.
const ENCODED_MAX: usize = 8;

impl Default for Encoder {
    fn default() -> Encoder {
        Encoder { table: Table::new(TABLE_BYTES), resized: None, encoded: Vec::new() }
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
        let form = Form::of(name, value);
        match form.sent {
            Sent::Whole(whole) => append_integer(block, INDEXED, 7, whole.into()),
            Sent::Again => self.again(block, form.name_index, hash_of(name, value), name, value),
            Sent::Once => append_once(block, self.index_of(form.name_index, name), name, value),
            Sent::Secret => {
                append_name(block, SECRET, 4, self.index_of(form.name_index, name), name);
                append_short(block, value);
            }
        }
    }

    /// Appends fields that were prepared.
    pub fn prepared(&mut self, block: &mut Vec<u8>, fields: &Prepared) {
        if self.encoded.is_empty() {
            self.encoded.resize_with(ENCODED_MAX, Default::default);
        }
        let (slot, table_changes) = (fields.number as usize % ENCODED_MAX, self.table.changes());
        let encoded = &self.encoded[slot];
        if (encoded.number, encoded.table_changes) == (fields.number, table_changes) {
            return block.extend_from_slice(&encoded.bytes);
        }
        let (start, mut sent) = (block.len(), 0);
        for Again { before, name_index, hash, name, value } in &fields.again {
            block.extend_from_slice(&fields.literals[sent..*before]);
            sent = *before;
            self.again(block, *name_index, *hash, name, value);
        }
        block.extend_from_slice(&fields.literals[sent..]);
        if self.table.changes() == table_changes {
            let encoded = &mut self.encoded[slot];
            (encoded.number, encoded.table_changes) = (fields.number, table_changes);
            encoded.bytes.clear();
            encoded.bytes.extend_from_slice(&block[start..]);
        }
    }

    /// Appends a field that is in the table, or comes into it.
    fn again(&mut self, block: &mut Vec<u8>, name_index: Option<u8>, hash: u32, name: &[u8], value: &[u8]) {
        if let Some(place) = self.table.find(hash, name, value) {
            return append_integer(block, INDEXED, 7, STATIC.len() + 1 + place);
        }
        append_name(block, KEPT, 6, self.index_of(name_index, name), name);
        append_short(block, value);
        self.table.insert(name, value);
    }

    /// The index of a name: in the static table, or else in the connection's.
    fn index_of(&self, name_index: Option<u8>, name: &[u8]) -> Option<usize> {
        let of_table = || self.table.find_name(name).map(|place| STATIC.len() + 1 + place);
        name_index.map(usize::from).or_else(of_table)
    }
}

/// Fields of which everything is encoded that is the same over every connection.
#[derive(Debug)]
pub struct Prepared {
    /// No others have it.
    number: u64,
    literals: Vec<u8>,
    again: Vec<Again>,
}

/// A field that depends on the connection's table.
#[derive(Debug)]
struct Again {
    /// The literals before it.
    before: usize,
    name_index: Option<u8>,
    hash: u32,
    name: Box<[u8]>,
    value: Box<[u8]>,
}

impl Default for Prepared {
    fn default() -> Prepared {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        Prepared { number: NEXT.fetch_add(1, Ordering::Relaxed), literals: Vec::new(), again: Vec::new() }
    }
}

impl Prepared {
    /// Adds a field whose name is in lower case. Returns false if it is secret: that is not to be kept.
    pub fn add(&mut self, name: &[u8], value: &[u8]) -> bool {
        let Form { name_index, sent } = Form::of(name, value);
        match sent {
            Sent::Whole(whole) => append_integer(&mut self.literals, INDEXED, 7, whole.into()),
            Sent::Again => {
                let before = self.literals.len();
                let (name, value, hash) = (name.into(), value.into(), hash_of(name, value));
                self.again.push(Again { before, name_index, hash, name, value });
            }
            Sent::Once => append_once(&mut self.literals, name_index.map(usize::from), name, value),
            Sent::Secret => return false,
        }
        true
    }
}

/// By which the table remembers where a field is.
fn hash_of(name: &[u8], value: &[u8]) -> u32 {
    (hash(name).rotate_left(1) ^ hash(value)) as u32
}

fn append_once(block: &mut Vec<u8>, index: Option<usize>, name: &[u8], value: &[u8]) {
    append_name(block, 0, 4, index, name);
    append_plain(block, value);
}

fn append_name(block: &mut Vec<u8>, first: u8, prefix_bits: u32, index: Option<usize>, name: &[u8]) {
    match index {
        Some(index) => append_integer(block, first, prefix_bits, index),
        None => {
            block.push(first);
            append_short(block, name);
        }
    }
}

/// How a field is sent, as far as that is the same over every connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Form {
    /// The name's index in the static table.
    name_index: Option<u8>,
    sent: Sent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// By its index in the static table.
    Whole(u8),
    /// Probably again: added to the table.
    Again,
    Once,
    /// Never added to any table (RFC 7541, 7.1.3).
    Secret,
}

impl Form {
    fn of(name: &[u8], value: &[u8]) -> Form {
        let name_index = index_of(name);
        let whole = name_index.and_then(|first| whole_index(first, name, value));
        Form { name_index, sent: whole.map_or_else(|| sent(name, value), Sent::Whole) }
    }
}

/// The index of the whole field in the static table, of which `first` is the first with its name. Names with values
/// there have them in sequence.
fn whole_index(first: u8, name: &[u8], value: &[u8]) -> Option<u8> {
    (first..)
        .zip(&STATIC[usize::from(first) - 1..])
        .take_while(|(_, (other, _))| other.as_bytes() == name)
        .find_map(|(index, (_, other))| (other.as_bytes() == value && !value.is_empty()).then_some(index))
}

fn sent(name: &[u8], value: &[u8]) -> Sent {
    match name {
        b"authorization" | b"proxy-authorization" | b"set-cookie" => Sent::Secret,
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
        | b"if-range" => Sent::Once,
        _ if name.len() + value.len() > KEPT_FIELD_BYTES_MAX => Sent::Once,
        _ => Sent::Again,
    }
}
