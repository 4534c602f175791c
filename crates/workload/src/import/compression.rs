//! Recognises plain, gzip, bzip2, xz and zstd logs by their first bytes and decompresses them on the fly.

use std::io::{self, BufRead, BufReader, Cursor, Read};

use bzip2::bufread::MultiBzDecoder;
use flate2::bufread::MultiGzDecoder;
use lzma_rust2::XzReader;

use super::ImportError;
use super::report::Compression;

/// What a decompressor is asked for at once. Who asks for so much gets it without a copy in between.
const READ_BYTES: usize = 128 << 10;

const MAGIC_BYTES: usize = 6;

/// The memory limit of an xz decoder: twice what `xz -9` needs. A header may demand 4 GiB.
const XZ_MEMORY_KIB: u32 = 128 << 10;

impl Compression {
    /// RFC 1952, 2.3.1; RFC 8878, 3.1.1; "The .xz File Format", 2.1.1.1: the magic numbers. bzip2's is followed by its level.
    fn detect(head: &[u8]) -> Self {
        match head {
            [0x1f, 0x8b, ..] => Compression::Gzip,
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Compression::Bzip2,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Compression::Xz,
            [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
            _ => Compression::Plain,
        }
    }

    /// What each read of the log's text asks for, where it matters.
    pub fn read_bytes(self) -> Option<usize> {
        (self != Compression::Plain).then_some(READ_BYTES)
    }
}

/// Decompresses a log. When a signal interrupts a read, `interrupted` decides whether to go on.
pub fn open<'a>(
    mut reader: impl BufRead + Send + 'a,
    interrupted: impl FnMut() -> Result<(), ImportError>,
) -> Result<(Compression, Box<dyn BufRead + Send + 'a>), ImportError> {
    let head = read_head(&mut reader, interrupted)?;
    let compression = Compression::detect(&head);
    let whole = Cursor::new(head).chain(reader);
    let plain: Box<dyn BufRead + Send + 'a> = match compression {
        Compression::Plain => Box::new(whole),
        Compression::Gzip => Box::new(BufReader::with_capacity(READ_BYTES, MultiGzDecoder::new(whole))),
        Compression::Bzip2 => Box::new(BufReader::with_capacity(READ_BYTES, MultiBzDecoder::new(whole))),
        Compression::Xz => {
            let decoder = XzReader::new_mem_limit(whole, true, XZ_MEMORY_KIB);
            Box::new(BufReader::with_capacity(READ_BYTES, decoder))
        }
        Compression::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(whole)
                .map_err(|source| ImportError::Read { line: 0, source })?;
            Box::new(BufReader::with_capacity(READ_BYTES, decoder))
        }
    };
    Ok((compression, plain))
}

/// Reads the first bytes, as many as the longest magic number has, because a pipe may deliver them one by one.
fn read_head(
    reader: &mut impl BufRead,
    mut interrupted: impl FnMut() -> Result<(), ImportError>,
) -> Result<Vec<u8>, ImportError> {
    let mut head = Vec::with_capacity(MAGIC_BYTES);
    while head.len() < MAGIC_BYTES {
        match reader.fill_buf() {
            Ok([]) => break,
            Ok(buffer) => {
                let taken = buffer.len().min(MAGIC_BYTES - head.len());
                head.extend_from_slice(&buffer[..taken]);
                reader.consume(taken);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => interrupted()?,
            Err(source) => return Err(ImportError::Read { line: 0, source }),
        }
    }
    Ok(head)
}
