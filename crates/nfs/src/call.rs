//! Calls: a head that says who calls what, and the arguments.

use crate::Handle;
use crate::xdr::Writer;

/// The longest name in a directory, as everywhere.
pub const NAME_BYTES_MAX: usize = 255;

const RPC_VERSION: u32 = 2;

/// The flavours of credentials (RFC 5531, 8.2 and appendix A).
const AUTH_NONE: u32 = 0;
const AUTH_SYS: u32 = 1;

/// The transport that the port mapper is asked about (RFC 1833, 3.1).
const TCP: u32 = 6;

/// The name of this machine in credentials; servers do not use it.
const MACHINE: &[u8] = b"sojourn";

/// A service of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    Mount,
    Nfs,
}

/// Whom the server takes the caller for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Credential {
    pub uid: u32,
    pub gid: u32,
}

#[derive(Clone, Copy, Debug)]
pub enum Call<'a> {
    /// Asks the port mapper where a service is: [`Reply::port`](crate::Reply::port).
    Port(Program),
    /// Asks for the handle of an export: [`Reply::mounted`](crate::Reply::mounted).
    Mount { path: &'a [u8] },
    /// [`Reply::looked_up`](crate::Reply::looked_up).
    LookUp { directory: &'a Handle, name: &'a [u8] },
    /// [`Reply::attributes`](crate::Reply::attributes).
    Attributes { of: &'a Handle },
    /// [`Reply::target`](crate::Reply::target).
    ReadLink { link: &'a Handle },
    /// [`Reply::part`](crate::Reply::part).
    Read { file: &'a Handle, offset: u64, count: u32 },
}

impl Program {
    fn number_and_version(self) -> [u32; 2] {
        match self {
            Program::Mount => [100_005, 3],
            Program::Nfs => [100_003, 3],
        }
    }
}

impl Call<'_> {
    /// The record to send. `id` tells its reply from others on the connection.
    pub fn record(&self, id: u32, credential: Credential) -> Vec<u8> {
        let ([program, version], procedure) = match self {
            Call::Port(_) => ([100_000, 2], 3),
            Call::Mount { .. } => (Program::Mount.number_and_version(), 1),
            Call::Attributes { .. } => (Program::Nfs.number_and_version(), 1),
            Call::LookUp { .. } => (Program::Nfs.number_and_version(), 3),
            Call::ReadLink { .. } => (Program::Nfs.number_and_version(), 5),
            Call::Read { .. } => (Program::Nfs.number_and_version(), 6),
        };
        let mut record = Writer::record();
        record.words(&[id, 0, RPC_VERSION, program, version, procedure]);
        if matches!(self, Call::Port(_)) {
            record.words(&[AUTH_NONE, 0]);
        } else {
            let length = 5 * 4 + MACHINE.len().next_multiple_of(4);
            record.words(&[AUTH_SYS, u32::try_from(length).expect("short")]);
            // A stamp, the machine, and no further groups.
            record.word(0);
            record.bytes(MACHINE);
            record.words(&[credential.uid, credential.gid, 0]);
        }
        record.words(&[AUTH_NONE, 0]);
        match self {
            Call::Port(of) => {
                record.words(&of.number_and_version());
                record.words(&[TCP, 0]);
            }
            Call::Mount { path } => record.bytes(path),
            Call::LookUp { directory, name } => {
                record.bytes(&directory.0);
                record.bytes(name);
            }
            Call::Attributes { of } => record.bytes(&of.0),
            Call::ReadLink { link } => record.bytes(&link.0),
            Call::Read { file, offset, count } => {
                record.bytes(&file.0);
                record.long(*offset);
                record.word(*count);
            }
        }
        record.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Fragment, fragment};

    fn words(record: &[u8]) -> Vec<u32> {
        record.chunks(4).map(|word| u32::from_be_bytes(word.try_into().expect("whole words"))).collect()
    }

    #[test]
    fn a_call_of_nfs() {
        let file = Handle((*b"abcde").into());
        let call = Call::Read { file: &file, offset: 1 << 32 | 2, count: 3 };
        let record = call.record(7, Credential { uid: 8, gid: 9 });
        let header = record[..4].try_into().unwrap();
        assert_eq!(fragment(header), Fragment { length: record.len() - 4, is_last: true });
        let text = |bytes: &[u8; 4]| u32::from_be_bytes(*bytes);
        #[rustfmt::skip]
        let expected = [
            7, 0, 2, 100_003, 3, 6,
            1, 28, 0, 7, text(b"sojo"), text(b"urn\0"), 8, 9, 0,
            0, 0,
            5, text(b"abcd"), text(b"e\0\0\0"), 1, 2, 3,
        ];
        assert_eq!(words(&record[4..]), expected);
    }

    #[test]
    fn a_call_of_the_port_mapper() {
        let record = Call::Port(Program::Mount).record(1, Credential { uid: 0, gid: 0 });
        assert_eq!(words(&record[4..]), [1, 0, 2, 100_000, 2, 3, 0, 0, 0, 0, 100_005, 3, 6, 0]);
    }
}
