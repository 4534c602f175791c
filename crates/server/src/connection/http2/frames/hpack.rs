//! Decodes field blocks (RFC 7541). The dynamic table belongs to the connection, so a block is decoded to its end even
//! if its fields are invalid.

use std::collections::VecDeque;

use super::huffman;

/// The overhead of an entry (RFC 7541, 4.1).
const ENTRY_OVERHEAD_BYTES: usize = 32;

/// The largest accepted integer (RFC 7541, 5.1); nothing is that long.
const INTEGER_MAX: usize = 1 << 28;

/// A block that cannot be decoded: COMPRESSION_ERROR (RFC 9113, 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadBlock;

#[derive(Clone, Copy, Debug)]
pub struct Field<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
    /// The index of an equal field in the static table.
    pub indexed: Option<u8>,
}

/// The decoder's state.
#[derive(Debug)]
pub struct Decoder {
    /// Latest entry first: name and value in one allocation, and where the value starts.
    table: VecDeque<(Box<[u8]>, usize)>,
    table_bytes: usize,
    /// The table size that the client has chosen, within the allowed size.
    table_bytes_max: usize,
    table_bytes_allowed: usize,
    /// The current literal: its name, then its value.
    text: Vec<u8>,
}

impl Decoder {
    pub fn new(table_bytes: usize) -> Decoder {
        Decoder {
            table: VecDeque::new(),
            table_bytes: 0,
            table_bytes_max: table_bytes,
            table_bytes_allowed: table_bytes,
            text: Vec::new(),
        }
    }

    /// Calls `take` with every field of `block`.
    pub fn read(&mut self, mut block: &[u8], mut take: impl FnMut(Field<'_>)) -> Result<(), BadBlock> {
        let mut may_resize = true;
        while let Some(first) = block.first().copied() {
            if first & 0xe0 == 0x20 {
                self.resize(integer(&mut block, 5)?, may_resize)?;
                continue;
            }
            may_resize = false;
            if first & 0x80 != 0 {
                let index = integer(&mut block, 7)?;
                let (name, value) = self.entry(index)?;
                let indexed = u8::try_from(index).ok().filter(|_| index <= STATIC.len());
                take(Field { name, value, indexed });
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
            take(Field { name: &self.text[..name_bytes], value: &self.text[name_bytes..], indexed: None });
            if is_kept {
                self.insert(name_bytes);
            }
        }
        Ok(())
    }

    /// The field at `index` of both tables (RFC 7541, 2.3.3).
    fn entry(&self, index: usize) -> Result<(&[u8], &[u8]), BadBlock> {
        if let Some((name, value)) = index.checked_sub(1).and_then(|place| STATIC.get(place)) {
            return Ok((name.as_bytes(), value.as_bytes()));
        }
        let place = index.checked_sub(STATIC.len() + 1).ok_or(BadBlock)?;
        let (text, name_bytes) = self.table.get(place).ok_or(BadBlock)?;
        Ok(text.split_at(*name_bytes))
    }

    fn insert(&mut self, name_bytes: usize) {
        let bytes = self.text.len() + ENTRY_OVERHEAD_BYTES;
        self.evict(self.table_bytes_max.saturating_sub(bytes));
        // RFC 7541, 4.4: an entry larger than the table empties it.
        if bytes <= self.table_bytes_max {
            self.table.push_front((self.text.as_slice().into(), name_bytes));
            self.table_bytes += bytes;
        }
    }

    fn resize(&mut self, bytes: usize, may_resize: bool) -> Result<(), BadBlock> {
        // RFC 7541, 4.2 and 6.3.
        if !may_resize || bytes > self.table_bytes_allowed {
            return Err(BadBlock);
        }
        self.table_bytes_max = bytes;
        self.evict(bytes);
        Ok(())
    }

    fn evict(&mut self, bytes_max: usize) {
        while self.table_bytes > bytes_max {
            let Some((text, _)) = self.table.pop_back() else { return };
            self.table_bytes -= text.len() + ENTRY_OVERHEAD_BYTES;
        }
    }
}

/// Decodes an integer with a prefix of this many bits (RFC 7541, 5.1).
fn integer(block: &mut &[u8], prefix_bits: u32) -> Result<usize, BadBlock> {
    let mask = (1_usize << prefix_bits) - 1;
    let mut next = || block.split_off_first().map(|byte| usize::from(*byte)).ok_or(BadBlock);
    let mut value = next()? & mask;
    if value < mask {
        return Ok(value);
    }
    for shift in (0..28).step_by(7) {
        let byte = next()?;
        value += (byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return if value <= INTEGER_MAX { Ok(value) } else { Err(BadBlock) };
        }
    }
    Err(BadBlock)
}

/// Decodes a string and appends it to `text` (RFC 7541, 5.2).
fn string(block: &mut &[u8], text: &mut Vec<u8>) -> Result<(), BadBlock> {
    let is_coded = block.first().ok_or(BadBlock)? & 0x80 != 0;
    let length = integer(block, 7)?;
    let bytes = block.split_off(..length).ok_or(BadBlock)?;
    if is_coded {
        return huffman::decode(bytes, text).ok_or(BadBlock);
    }
    text.extend_from_slice(bytes);
    Ok(())
}

/// Encodes `field` as a literal that is not added to the table.
pub fn append(block: &mut Vec<u8>, field: &Field<'_>) {
    if let Some(index) = field.indexed {
        block.push(0x80 | index);
        return;
    }
    block.push(0);
    for text in [field.name, field.value] {
        append_length(block, text.len());
        block.extend_from_slice(text);
    }
}

fn append_length(block: &mut Vec<u8>, length: usize) {
    let Some(mut rest) = length.checked_sub(0x7f) else { return block.push(length as u8) };
    block.push(0x7f);
    while rest >= 0x80 {
        block.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    block.push(rest as u8);
}

/// RFC 7541, appendix A.
const STATIC: [(&str, &str); 61] = [
    (":authority", ""),
    (":method", "GET"),
    (":method", "POST"),
    (":path", "/"),
    (":path", "/index.html"),
    (":scheme", "http"),
    (":scheme", "https"),
    (":status", "200"),
    (":status", "204"),
    (":status", "206"),
    (":status", "304"),
    (":status", "400"),
    (":status", "404"),
    (":status", "500"),
    ("accept-charset", ""),
    ("accept-encoding", "gzip, deflate"),
    ("accept-language", ""),
    ("accept-ranges", ""),
    ("accept", ""),
    ("access-control-allow-origin", ""),
    ("age", ""),
    ("allow", ""),
    ("authorization", ""),
    ("cache-control", ""),
    ("content-disposition", ""),
    ("content-encoding", ""),
    ("content-language", ""),
    ("content-length", ""),
    ("content-location", ""),
    ("content-range", ""),
    ("content-type", ""),
    ("cookie", ""),
    ("date", ""),
    ("etag", ""),
    ("expect", ""),
    ("expires", ""),
    ("from", ""),
    ("host", ""),
    ("if-match", ""),
    ("if-modified-since", ""),
    ("if-none-match", ""),
    ("if-range", ""),
    ("if-unmodified-since", ""),
    ("last-modified", ""),
    ("link", ""),
    ("location", ""),
    ("max-forwards", ""),
    ("proxy-authenticate", ""),
    ("proxy-authorization", ""),
    ("range", ""),
    ("referer", ""),
    ("refresh", ""),
    ("retry-after", ""),
    ("server", ""),
    ("set-cookie", ""),
    ("strict-transport-security", ""),
    ("transfer-encoding", ""),
    ("user-agent", ""),
    ("vary", ""),
    ("via", ""),
    ("www-authenticate", ""),
];

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, BadBlock> {
        let mut fields = Vec::new();
        decoder.read(block, |field| {
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            fields.push(format!("{}: {}", text(field.name), text(field.value)));
        })?;
        Ok(fields)
    }

    /// RFC 7541, C.4.
    #[test]
    fn the_examples() {
        let mut decoder = Decoder::new(4096);
        let first = [
            0x82, 0x86, 0x84, 0x41, 0x8c, 0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4,
            0xff,
        ];
        let pseudo = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
        assert_eq!(fields(&mut decoder, &first).unwrap(), pseudo);
        let second = [0x82, 0x86, 0x84, 0xbe, 0x58, 0x86, 0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf];
        assert_eq!(
            fields(&mut decoder, &second).unwrap(),
            [&pseudo[..], &["cache-control: no-cache"]].concat()
        );
        assert_eq!(decoder.table_bytes, 110);
    }

    #[test]
    fn the_table_keeps_its_size() {
        let mut decoder = Decoder::new(100);
        for value in ["1", "2", "3"] {
            fields(&mut decoder, &[b"\x40\x01a\x01", value.as_bytes()].concat()).unwrap();
        }
        assert_eq!(fields(&mut decoder, &[0xbe, 0xbf]).unwrap(), ["a: 3", "a: 2"]);
        assert_eq!(fields(&mut decoder, &[0xc0]), Err(BadBlock), "evicted");
        assert_eq!(fields(&mut decoder, b"\x20").unwrap(), [""; 0], "emptied");
        assert_eq!(fields(&mut decoder, &[0xbe]), Err(BadBlock));
        let large = [b"\x3f\x45\x40\x01a\x7f\x01".as_slice(), &[b'x'; 128]].concat();
        assert_eq!(fields(&mut decoder, &large).unwrap().len(), 1);
        assert!(decoder.table.is_empty(), "too large for the table");
    }

    #[test]
    fn what_is_no_block() {
        for bad in [
            b"\x80".as_slice(),
            b"\xff\x80\x80\x80\x80\x80\x01",
            b"\xfe",
            b"\x82\x20",
            b"\x3f\xe2\x1f",
            b"\x00\x01",
            b"\x00\x01a\x05b",
            b"\x40\x81\xff\x01a",
            b"\x7f",
        ] {
            assert_eq!(fields(&mut Decoder::new(4096), bad), Err(BadBlock), "{bad:x?}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let (name, value) = ([b'n'; 300], [b'v'; 127]);
        let mut block = Vec::new();
        append(&mut block, &Field { name: &name, value: &value, indexed: None });
        append(&mut block, &Field { name: b":path", value: b"/", indexed: Some(4) });
        let read = fields(&mut Decoder::new(0), &block).unwrap();
        assert_eq!(read[0].len(), 300 + 2 + 127);
        assert_eq!(read[1], ":path: /");
    }
}
