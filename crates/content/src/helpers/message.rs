//! Messages between server and helper processes: of fixed size, over a socket that preserves message boundaries
//! (`SOCK_SEQPACKET`). A request carries at most one file descriptor.
//!
//! Nothing here allocates: a helper is forked from a process with several threads, and the allocator's locks may have
//! been held at that moment.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::origin::PATH_BYTES_MAX;

const NUMBERS: usize = 4;
const WORD: usize = size_of::<u64>();

pub const REQUEST_BYTES: usize = NUMBERS * WORD + PATH_BYTES_MAX;

/// Bytes of a reply: an error number or zero, and the number of bytes read.
pub const REPLY_BYTES: usize = 2 * WORD;

#[derive(Debug, PartialEq, Eq)]
pub enum Request<'a> {
    /// Look up this path below the root of this host, as opening it would, and read the files that are small.
    LookUp { host: u16, path: &'a [u8], body_bytes_max: u64 },
    /// Read this range of the file that is attached.
    Read { offset: u64, length: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reply {
    pub error: Option<Errno>,
    /// The number of bytes now in memory.
    pub length: u64,
}

const LOOK_UP: u64 = 1;
const READ: u64 = 2;

impl Request<'_> {
    /// Encodes the request; `None` if the path is too long.
    pub fn encode(&self, bytes: &mut [u8; REQUEST_BYTES]) -> Option<()> {
        let numbers = match *self {
            Request::LookUp { host, path, body_bytes_max } => {
                bytes[NUMBERS * WORD..].get_mut(..path.len())?.copy_from_slice(path);
                [LOOK_UP, path.len() as u64, body_bytes_max, u64::from(host)]
            }
            Request::Read { offset, length } => [READ, offset, length, 0],
        };
        for (place, number) in bytes.chunks_exact_mut(WORD).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        Some(())
    }

    /// Decodes a request; `None` if it is invalid.
    pub fn decode(bytes: &[u8; REQUEST_BYTES]) -> Option<Request<'_>> {
        let [kind, first, second, third] = [0, 1, 2, 3].map(|index| number(bytes, index));
        match kind {
            LOOK_UP => {
                let path = bytes[NUMBERS * WORD..].get(..usize::try_from(first).ok()?)?;
                Some(Request::LookUp { host: u16::try_from(third).ok()?, path, body_bytes_max: second })
            }
            READ => Some(Request::Read { offset: first, length: second }),
            _ => None,
        }
    }
}

impl Reply {
    pub fn encode(&self) -> [u8; REPLY_BYTES] {
        let error = self.error.map_or(0, |error| error.raw_os_error() as u64);
        let mut bytes = [0; REPLY_BYTES];
        bytes[..WORD].copy_from_slice(&error.to_ne_bytes());
        bytes[WORD..].copy_from_slice(&self.length.to_ne_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; REPLY_BYTES]) -> Reply {
        let error = number(bytes, 0) as i32;
        Reply { error: (error != 0).then(|| Errno::from_raw_os_error(error)), length: number(bytes, 1) }
    }
}

fn number(bytes: &[u8], index: usize) -> u64 {
    let mut word = [0; WORD];
    word.copy_from_slice(&bytes[index * WORD..][..WORD]);
    u64::from_ne_bytes(word)
}

/// Sends `bytes`, and `file` with them. It never waits, because each side sends only when the other has nothing unread.
pub fn send(socket: BorrowedFd<'_>, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let files = file.map(|file| [file]);
    if let Some(files) = &files {
        let has_room = ancillary.push(SendAncillaryMessage::ScmRights(files));
        debug_assert!(has_room, "there is space for one descriptor");
    }
    loop {
        match sendmsg(
            socket,
            &[IoSlice::new(bytes)],
            &mut ancillary,
            SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
        ) {
            Err(Errno::INTR) => {}
            outcome => return outcome.map(drop),
        }
    }
}

/// Receives a message into `bytes`, with the attached file. `Err(CONNRESET)` if the other side has ended or sent an
/// invalid message.
pub fn receive(socket: BorrowedFd<'_>, bytes: &mut [u8], flags: RecvFlags) -> Result<Option<OwnedFd>, Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | RecvFlags::CMSG_CLOEXEC;
    let wanted = bytes.len();
    let received = loop {
        match recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut ancillary, flags) {
            Err(Errno::INTR) => {}
            outcome => break outcome?,
        }
    };
    if received.bytes != wanted {
        return Err(Errno::CONNRESET);
    }
    let files = ancillary.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_arrive_as_they_were() {
        let path = b"dir/file.txt";
        for request in [
            Request::LookUp { host: 3, path, body_bytes_max: 7 },
            Request::Read { offset: 1 << 40, length: 9 },
        ] {
            let mut bytes = [0; REQUEST_BYTES];
            assert_eq!(request.encode(&mut bytes), Some(()));
            assert_eq!(Request::decode(&bytes), Some(request));
        }
        let request = Request::LookUp { host: 0, path: &[b'a'; PATH_BYTES_MAX + 1], body_bytes_max: 0 };
        assert_eq!(request.encode(&mut [0; REQUEST_BYTES]), None);
        assert_eq!(Request::decode(&[0; REQUEST_BYTES]), None);
    }

    #[test]
    fn replies_arrive_as_they_were() {
        for reply in [Reply { error: None, length: 1 << 33 }, Reply { error: Some(Errno::NOENT), length: 0 }]
        {
            assert_eq!(Reply::decode(&reply.encode()), reply);
        }
    }
}
