//! Listening sockets by socket diagnosis (sock_diag(7)). For one state and one port the kernel searches only its table
//! of listeners, however many connections there are.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, netlink, recv, socket_with};

use super::Socket;
use crate::probe::namespace::Namespace;

/// The request type in linux/sock_diag.h; replies have the same.
const SOCK_DIAG_BY_FAMILY: u16 = 20;

/// The state LISTEN as a bit set, `1 << TCP_LISTEN`.
const LISTENING: u32 = 1 << 10;

/// The size of `struct nlmsghdr`.
const HEADER_BYTES: usize = 16;

/// The size of `struct inet_diag_sockid` without its first field, the local port.
const REST_OF_ID_BYTES: usize = 46;

/// Offset of the queue length in `struct inet_diag_msg`: for a listening socket, the accept queue.
const QUEUE_AT: usize = 56;

/// Offset of the inode in `struct inet_diag_msg`.
const INODE_AT: usize = 68;

/// The kernel returns at most this much at a time.
const ANSWER_BYTES_MAX: usize = 32 << 10;

/// A netlink socket that queries a network namespace.
pub struct Diagnosis {
    socket: OwnedFd,
    question: u32,
}

impl Diagnosis {
    /// Opens the socket inside `namespace`; it stays in the namespace where it was opened.
    pub fn begin(namespace: &Namespace) -> io::Result<Diagnosis> {
        let socket = namespace.inside(|| {
            let protocol = Some(netlink::SOCK_DIAG);
            Ok(socket_with(AddressFamily::NETLINK, SocketType::DGRAM, SocketFlags::CLOEXEC, protocol)?)
        })?;
        Ok(Diagnosis { socket, question: 0 })
    }

    pub fn sockets(&mut self, port: u16) -> io::Result<Vec<Socket>> {
        let mut sockets = self.query(libc::AF_INET, port)?;
        match self.query(libc::AF_INET6, port) {
            Ok(six) => sockets.extend(six),
            // A kernel without IPv6 does not have this family.
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => {}
            Err(error) => return Err(error),
        }
        Ok(sockets)
    }

    fn query(&mut self, family: libc::c_int, port: u16) -> io::Result<Vec<Socket>> {
        self.question = self.question.wrapping_add(1);
        rustix::io::write(&self.socket, &question(self.question, family, port))?;
        let (mut sockets, mut answer) = (Vec::new(), vec![0; ANSWER_BYTES_MAX]);
        loop {
            let (_, count) = recv(&self.socket, &mut answer[..], RecvFlags::empty())?;
            if read(&answer[..count.min(ANSWER_BYTES_MAX)], self.question, &mut sockets)? {
                return Ok(sockets);
            }
        }
    }
}

/// A header and a `struct inet_diag_req_v2`.
fn question(number: u32, family: libc::c_int, port: u16) -> Vec<u8> {
    let mut message = vec![0; 4];
    message.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
    message.extend_from_slice(&((libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16).to_ne_bytes());
    message.extend_from_slice(&number.to_ne_bytes());
    message.extend_from_slice(&[0; 4]); // the sender: the kernel knows
    message.extend_from_slice(&[family as u8, libc::IPPROTO_TCP as u8, 0, 0]);
    message.extend_from_slice(&LISTENING.to_ne_bytes());
    message.extend_from_slice(&port.to_be_bytes());
    message.extend_from_slice(&[0; REST_OF_ID_BYTES]);
    let bytes = message.len() as u32;
    message[..4].copy_from_slice(&bytes.to_ne_bytes());
    message
}

/// Appends the sockets of a reply; returns true if it was the last one.
fn read(mut answer: &[u8], question: u32, sockets: &mut Vec<Socket>) -> io::Result<bool> {
    let cut = || io::Error::new(io::ErrorKind::InvalidData, "the kernel's socket diagnosis is cut off");
    while !answer.is_empty() {
        let bytes = number(answer, 0).ok_or_else(cut)? as usize;
        let message = answer.get(..bytes).ok_or_else(cut)?;
        let kind = message.get(4..6).map(|kind| u16::from_ne_bytes([kind[0], kind[1]])).ok_or_else(cut)?;
        let body = message.get(HEADER_BYTES..).ok_or_else(cut)?;
        // Messages left over from a failed request are discarded.
        if number(message, 8) == Some(question) {
            match libc::c_int::from(kind) {
                libc::NLMSG_DONE => return Ok(true),
                libc::NLMSG_ERROR => {
                    let code = number(body, 0).ok_or_else(cut)?.cast_signed();
                    return Err(io::Error::from_raw_os_error(-code));
                }
                _ => {
                    let queue = number(body, QUEUE_AT).ok_or_else(cut)?.into();
                    let inode = number(body, INODE_AT).ok_or_else(cut)?.into();
                    sockets.push(Socket { queue, inode });
                }
            }
        }
        // Messages are aligned to four bytes.
        answer = answer.get(bytes.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, number: u32, body: &[u8]) -> Vec<u8> {
        let mut message = ((HEADER_BYTES + body.len()) as u32).to_ne_bytes().to_vec();
        message.extend_from_slice(&kind.to_ne_bytes());
        message.extend_from_slice(&[0; 2]);
        message.extend_from_slice(&number.to_ne_bytes());
        message.extend_from_slice(&[0; 4]);
        message.extend_from_slice(body);
        message
    }

    fn socket(queue: u32, inode: u32) -> Vec<u8> {
        let mut body = vec![0; INODE_AT + 4];
        body[QUEUE_AT..QUEUE_AT + 4].copy_from_slice(&queue.to_ne_bytes());
        body[INODE_AT..].copy_from_slice(&inode.to_ne_bytes());
        body
    }

    #[test]
    fn an_answer_may_come_in_pieces_and_after_one_to_an_older_question() {
        let older = message(SOCK_DIAG_BY_FAMILY, 6, &socket(9, 9));
        let first = [older, message(SOCK_DIAG_BY_FAMILY, 7, &socket(3, 40))].concat();
        let last =
            [message(SOCK_DIAG_BY_FAMILY, 7, &socket(4, 41)), message(libc::NLMSG_DONE as u16, 7, &[0; 4])];
        let mut sockets = Vec::new();
        assert!(!read(&first, 7, &mut sockets).unwrap());
        assert!(read(&last.concat(), 7, &mut sockets).unwrap());
        assert_eq!(sockets, [Socket { queue: 3, inode: 40 }, Socket { queue: 4, inode: 41 }]);
    }

    #[test]
    fn a_refusal_is_the_kernels_error_and_what_is_cut_off_is_one() {
        let refused = message(libc::NLMSG_ERROR as u16, 1, &(-libc::EPERM).to_ne_bytes());
        assert_eq!(read(&refused, 1, &mut Vec::new()).unwrap_err().raw_os_error(), Some(libc::EPERM));
        let answer = message(SOCK_DIAG_BY_FAMILY, 1, &socket(1, 1));
        for bytes in 1..answer.len() {
            assert!(read(&answer[..bytes], 1, &mut Vec::new()).is_err(), "{bytes} bytes");
        }
        let short = message(SOCK_DIAG_BY_FAMILY, 1, &[0; INODE_AT]);
        assert!(read(&short, 1, &mut Vec::new()).is_err());
        let no_length = message(SOCK_DIAG_BY_FAMILY, 1, &[]).into_iter().map(|_| 0).collect::<Vec<u8>>();
        assert!(read(&no_length, 1, &mut Vec::new()).is_err());
    }
}
