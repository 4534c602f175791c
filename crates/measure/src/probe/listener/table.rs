//! Listening sockets from /proc/PID/net/tcp, for kernels that do not allow socket diagnosis.
//!
//! The file also lists every connection of the namespace, including those that ended within the last minute, and the
//! kernel formats each line when it is read. So it is read in small pieces, and only up to the end of the listeners,
//! which come first.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

use super::Socket;
use crate::probe::namespace::Namespace;

const LISTEN: &str = "0A";

/// A row has 150 bytes, somewhat more for IPv6, so the kernel formats one or two at a time.
const PIECE_BYTES: usize = 256;

pub fn sockets(namespace: &Namespace, port: u16) -> io::Result<Vec<Socket>> {
    let open =
        |name| File::open(namespace.file(name)).map(|file| BufReader::with_capacity(PIECE_BYTES, file));
    let mut sockets = listening(open("tcp")?, port)?;
    // A machine without IPv6 does not have this file.
    if let Ok(six) = open("tcp6") {
        sockets.extend(listening(six, port)?);
    }
    Ok(sockets)
}

fn listening(rows: impl BufRead, port: u16) -> io::Result<Vec<Socket>> {
    let mut sockets = Vec::new();
    for row in rows.lines().skip(1) {
        let row = row?;
        let fields: Vec<&str> = row.split_ascii_whitespace().collect();
        if fields.get(3) != Some(&LISTEN) {
            break;
        }
        sockets.extend(socket(&fields, port));
    }
    Ok(sockets)
}

fn socket(fields: &[&str], port: u16) -> Option<Socket> {
    let (_, local_port) = fields.get(1)?.rsplit_once(':')?;
    let (_, queue) = fields.get(4)?.split_once(':')?;
    (u16::from_str_radix(local_port, 16).ok()? == port).then_some(())?;
    Some(Socket { queue: u64::from_str_radix(queue, 16).ok()?, inode: fields.get(9)?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Read};

    use super::*;

    fn row(number: usize, port: u16, state: &str, queue: u32) -> String {
        let row = format!(
            "{number:4}: 0100007F:{port:04X} 00000000:0000 {state} 00000000:{queue:08X} 00:0 0 0 0 {number}"
        );
        format!("{row:<149}\n")
    }

    /// A reader that panics: the part of the file after the listeners must not be read.
    struct Beyond;

    impl Read for Beyond {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            panic!("it was read beyond the listeners")
        }
    }

    #[test]
    fn connections_are_not_read() {
        let header = format!("{:<149}\n", "  sl  local_address rem_address   st tx_queue rx_queue");
        let rows =
            [row(1, 80, "0A", 3), row(2, 81, "0A", 7), row(3, 80, "0A", 16), row(4, 80, "06", 9)].concat();
        let text = BufReader::with_capacity(PIECE_BYTES, Cursor::new(header + &rows).chain(Beyond));
        let sockets = listening(text, 80).unwrap();
        assert_eq!(sockets, [Socket { queue: 3, inode: 1 }, Socket { queue: 16, inode: 3 }]);
    }
}
