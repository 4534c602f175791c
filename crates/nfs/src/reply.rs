//! Replies: a head that says whether the call was accepted, the status of the operation, and what it found.

use std::fmt;

use crate::xdr::{Malformed, Reader};
use crate::{HANDLE_BYTES_MAX, Handle};

/// The longest target of a symbolic link: that of Linux.
pub const TARGET_BYTES_MAX: usize = 4096;

/// The most bytes that may verify a reply (RFC 5531, 8.2).
const VERIFIER_BYTES_MAX: usize = 400;

/// Why a record is no reply to the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplyError {
    #[error("the reply is not valid")]
    Malformed,
    #[error("the reply is to another call")]
    OtherCall,
    /// RFC 5531, 9: `auth_stat`.
    #[error("the server does not accept the credentials ({0})")]
    Credentials(u32),
    #[error("the server does not speak this version of RPC")]
    RpcVersion,
    #[error("the server does not offer this service, or not in version 3")]
    Unavailable,
    #[error("the server failed to answer")]
    Server,
}

impl From<Malformed> for ReplyError {
    fn from(_: Malformed) -> ReplyError {
        ReplyError::Malformed
    }
}

/// What an operation found, or why it found nothing.
pub type Outcome<T> = Result<Result<T, Status>, ReplyError>;

/// Why an operation failed: `nfsstat3`, or `mountstat3`, which has the same numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u32);

impl Status {
    pub const PERMISSION: Status = Status(1);
    pub const NO_ENTRY: Status = Status(2);
    pub const ACCESS: Status = Status(13);
    pub const NO_DIRECTORY: Status = Status(20);
    pub const NAME_TOO_LONG: Status = Status(63);
    pub const STALE: Status = Status(70);
    pub const BAD_HANDLE: Status = Status(10_001);
    /// The server asks to try again later.
    pub const JUKEBOX: Status = Status(10_008);

    /// Returns true if there is no such file any more.
    pub fn is_stale(self) -> bool {
        self == Status::STALE || self == Status::BAD_HANDLE
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self.0 {
            1 => "not permitted",
            2 => "no such file or directory",
            5 => "the server's disk failed",
            13 => "permission denied",
            20 => "not a directory",
            63 => "the name is too long",
            70 => "stale file handle",
            10_001 => "bad file handle",
            10_004 => "not supported",
            10_006 => "the server failed",
            10_008 => "the server asks to try again later",
            other => return write!(f, "status {other}"),
        };
        f.write_str(text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    File,
    Directory,
    Link,
    Other,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Modified {
    pub seconds: u32,
    pub nanoseconds: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    pub kind: FileKind,
    pub size: u64,
    /// The number of the file in its file system.
    pub number: u64,
    pub modified: Modified,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookedUp {
    pub handle: Handle,
    pub attributes: Option<Attributes>,
}

/// Part of a file, and its attributes after reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part<'r> {
    pub attributes: Option<Attributes>,
    pub bytes: &'r [u8],
}

/// The results in a reply. Each call has its own form, and the caller knows which it made.
#[derive(Clone, Copy, Debug)]
pub struct Reply<'r>(Reader<'r>);

/// The results of the call `id`, if the record is an accepted and successful reply to it.
///
/// # Errors
/// If it is not.
pub fn reply(record: &[u8], id: u32) -> Result<Reply<'_>, ReplyError> {
    let mut reader = Reader(record);
    if reader.word()? != id {
        return Err(ReplyError::OtherCall);
    }
    if reader.word()? != 1 {
        return Err(ReplyError::Malformed);
    }
    if reader.word()? != 0 {
        return Err(match reader.word()? {
            0 => ReplyError::RpcVersion,
            _ => ReplyError::Credentials(reader.word()?),
        });
    }
    reader.word()?;
    reader.bytes(VERIFIER_BYTES_MAX)?;
    match reader.word()? {
        0 => Ok(Reply(reader)),
        1..=3 => Err(ReplyError::Unavailable),
        4 => Err(ReplyError::Malformed),
        _ => Err(ReplyError::Server),
    }
}

impl<'r> Reply<'r> {
    /// The port of a service; none if it is not registered.
    ///
    /// # Errors
    /// If the results are not of this form, as everywhere here.
    pub fn port(self) -> Result<Option<u16>, ReplyError> {
        let mut reader = self.0;
        let port = u16::try_from(reader.word()?).map_err(|_| ReplyError::Malformed)?;
        Ok(Some(port).filter(|port| *port != 0))
    }

    /// The handle of an export.
    ///
    /// # Errors
    /// See [`Reply::port`].
    pub fn mounted(self) -> Outcome<Handle> {
        let mut reader = self.0;
        if let Some(status) = status(&mut reader)? {
            return Ok(Err(status));
        }
        Ok(Ok(handle(&mut reader)?))
    }

    /// # Errors
    /// See [`Reply::port`].
    pub fn looked_up(self) -> Outcome<LookedUp> {
        let mut reader = self.0;
        if let Some(status) = status(&mut reader)? {
            return Ok(Err(status));
        }
        let handle = handle(&mut reader)?;
        Ok(Ok(LookedUp { handle, attributes: attributes_if_any(&mut reader)? }))
    }

    /// # Errors
    /// See [`Reply::port`].
    pub fn attributes(self) -> Outcome<Attributes> {
        let mut reader = self.0;
        if let Some(status) = status(&mut reader)? {
            return Ok(Err(status));
        }
        Ok(Ok(attributes(&mut reader)?))
    }

    /// Where a symbolic link leads.
    ///
    /// # Errors
    /// See [`Reply::port`].
    pub fn target(self) -> Outcome<&'r [u8]> {
        let mut reader = self.0;
        if let Some(status) = status(&mut reader)? {
            return Ok(Err(status));
        }
        attributes_if_any(&mut reader)?;
        Ok(Ok(reader.bytes(TARGET_BYTES_MAX)?))
    }

    /// # Errors
    /// See [`Reply::port`].
    pub fn part(self) -> Outcome<Part<'r>> {
        let mut reader = self.0;
        if let Some(status) = status(&mut reader)? {
            return Ok(Err(status));
        }
        let attributes = attributes_if_any(&mut reader)?;
        let count = reader.word()? as usize;
        // Whether it is the end: the attributes say so, too.
        reader.is_true()?;
        let bytes = reader.bytes(usize::MAX)?;
        if bytes.len() != count {
            return Err(ReplyError::Malformed);
        }
        Ok(Ok(Part { attributes, bytes }))
    }
}

fn status(reader: &mut Reader<'_>) -> Result<Option<Status>, ReplyError> {
    Ok(Some(Status(reader.word()?)).filter(|status| status.0 != 0))
}

fn handle(reader: &mut Reader<'_>) -> Result<Handle, ReplyError> {
    Ok(Handle(reader.bytes(HANDLE_BYTES_MAX)?.into()))
}

fn attributes_if_any(reader: &mut Reader<'_>) -> Result<Option<Attributes>, ReplyError> {
    if reader.is_true()? { attributes(reader).map(Some) } else { Ok(None) }
}

/// `fattr3` (RFC 1813, 2.6).
fn attributes(reader: &mut Reader<'_>) -> Result<Attributes, ReplyError> {
    let kind = match reader.word()? {
        1 => FileKind::File,
        2 => FileKind::Directory,
        5 => FileKind::Link,
        _ => FileKind::Other,
    };
    // Mode, links, owner and group.
    reader.skip(4)?;
    let size = reader.long()?;
    // Bytes used, device, file system.
    reader.skip(6)?;
    let number = reader.long()?;
    // Last access.
    reader.skip(2)?;
    let modified = Modified { seconds: reader.word()?, nanoseconds: reader.word()? };
    // Last change of the attributes.
    reader.skip(2)?;
    Ok(Attributes { kind, size, number, modified })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    /// An accepted reply to call 7 with these results.
    fn accepted(results: &[u32]) -> Vec<u8> {
        record(&[&[7, 1, 0, 0, 0, 0], results].concat())
    }

    const ATTRIBUTES: [u32; 21] = [1, 0o644, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 6, 7, 8, 9, 10, 11, 12, 13, 14];

    const EXPECTED: Attributes = Attributes {
        kind: FileKind::File,
        size: 4 << 32 | 5,
        number: 7 << 32 | 8,
        modified: Modified { seconds: 11, nanoseconds: 12 },
    };

    #[test]
    fn what_is_no_reply() {
        for (words, expected) in [
            (&[8, 1, 0, 0, 0, 0][..], ReplyError::OtherCall),
            (&[7, 0, 0, 0, 0, 0], ReplyError::Malformed),
            (&[7, 1, 1, 0, 2, 2], ReplyError::RpcVersion),
            (&[7, 1, 1, 1, 5], ReplyError::Credentials(5)),
            (&[7, 1, 0, 0, 0, 2, 3, 3], ReplyError::Unavailable),
            (&[7, 1, 0, 0, 0, 5], ReplyError::Server),
            (&[7, 1, 0, 0, 1 << 30, 0], ReplyError::Malformed),
            (&[7, 1, 0], ReplyError::Malformed),
        ] {
            assert_eq!(reply(&record(words), 7).unwrap_err(), expected, "{words:?}");
        }
    }

    #[test]
    fn results() {
        let of = |results: &[u32]| reply(accepted(results).leak(), 7).unwrap();
        assert_eq!(of(&[2049]).port(), Ok(Some(2049)));
        assert_eq!(of(&[0]).port(), Ok(None));
        assert_eq!(of(&[70_000]).port(), Err(ReplyError::Malformed));
        assert_eq!(of(&[13]).mounted(), Ok(Err(Status::ACCESS)));
        assert_eq!(of(&[0, 1, 0x6100_0000, 1, 1]).mounted(), Ok(Ok(Handle((*b"a").into()))));
        assert_eq!(of(&[0, 65]).mounted(), Err(ReplyError::Malformed), "no handle is so long");
        let looked_up = [&[0, 1, 0x6100_0000, 1][..], &ATTRIBUTES, &[0]].concat();
        let found = LookedUp { handle: Handle((*b"a").into()), attributes: Some(EXPECTED) };
        assert_eq!(of(&looked_up).looked_up(), Ok(Ok(found)));
        assert_eq!(of(&[70, 0]).looked_up(), Ok(Err(Status::STALE)));
        assert_eq!(of(&[&[0][..], &ATTRIBUTES].concat()).attributes(), Ok(Ok(EXPECTED)));
        assert_eq!(of(&[0, 0, 3, 0x2e2e_2f00]).target(), Ok(Ok(&b"../"[..])));
        let part = Part { attributes: None, bytes: b"ab" };
        assert_eq!(of(&[0, 0, 2, 1, 2, 0x6162_0000]).part(), Ok(Ok(part)));
        assert_eq!(of(&[0, 0, 3, 1, 2, 0x6162_0000]).part(), Err(ReplyError::Malformed));
        assert_eq!(of(&[0, 0, 2, 1, 1 << 30, 0]).part(), Err(ReplyError::Malformed));
    }
}
