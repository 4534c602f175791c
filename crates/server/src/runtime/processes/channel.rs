//! Passes connections to another process over a socket pair: a message with a descriptor in one direction, a byte back.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg, socketpair,
};

use crate::connection::Transport;
use crate::counters::scoreboard::Permit;
use crate::runtime::sockets::accept::Arrival;

/// An address, and a byte for the transport.
const ARRIVAL_BYTES: usize = 17;

/// A helper's message to the dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The connection has ended; send the next one.
    Ready,
    /// The helper was told to stop; send no more connections.
    Leaving,
}

#[derive(Debug)]
pub struct ToHelper(OwnedFd);

#[derive(Debug)]
pub struct ToDispatcher(OwnedFd);

/// Both ends of a new channel. Message boundaries are preserved, and each end notices when the other closes.
pub fn channel() -> io::Result<(ToHelper, ToDispatcher)> {
    let (dispatcher, helper) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
    Ok((ToHelper(dispatcher), ToDispatcher(helper)))
}

impl ToHelper {
    /// Passes on a connection. The caller's descriptor stays open.
    pub fn pass(&self, arrival: &Arrival) -> io::Result<()> {
        let mut bytes = [0; ARRIVAL_BYTES];
        bytes[..16].copy_from_slice(&to_v6(arrival.peer).octets());
        bytes[16] = arrival.transport as u8;
        let descriptors = [arrival.socket.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(&self.0, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// The helper's next message; does not wait. `None` if the helper has ended.
    pub fn read_message(&self) -> Option<Message> {
        let mut byte = [0];
        match recv(&self.0, &mut byte, RecvFlags::DONTWAIT) {
            Ok((1, _)) if byte[0] == Message::Ready as u8 => Some(Message::Ready),
            Ok((1, _)) => Some(Message::Leaving),
            _ => None,
        }
    }
}

impl ToDispatcher {
    /// Waits for a connection; `None` when there will be no more.
    pub fn receive(&self) -> Option<Arrival> {
        let mut bytes = [0; ARRIVAL_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        loop {
            match recvmsg(&self.0, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
            {
                Err(Errno::INTR) => {}
                Ok(message) if message.bytes > 0 => break,
                Ok(_) | Err(_) => return None,
            }
        }
        let socket = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        let [peer @ .., transport] = bytes;
        let peer = Ipv6Addr::from(peer).to_canonical();
        let transport = Transport::from_u8(transport)?;
        // The dispatcher keeps the permit.
        Some(Arrival { socket: socket?, peer, transport, permit: Permit::default() })
    }

    /// Sends a message. If the dispatcher has ended, that shows at the next receive.
    pub fn send(&self, message: Message) {
        let _ = send(&self.0, &[message as u8], SendFlags::NOSIGNAL);
    }
}

impl AsFd for ToHelper {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsFd for ToDispatcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn to_v6(address: IpAddr) -> Ipv6Addr {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Write};

    #[test]
    fn connections_go_and_words_come() {
        let (dispatcher, helper) = channel().unwrap();
        for peer in ["127.0.0.1", "2001:db8::7"].map(|peer| peer.parse().unwrap()) {
            let (reading, writing) = io::pipe().unwrap();
            let (transport, permit) = (Transport::Plain, Permit::default());
            let arrival = Arrival { socket: writing.into(), peer, transport, permit };
            dispatcher.pass(&arrival).unwrap();
            drop(arrival);
            let Arrival { socket, peer: received, transport, .. } = helper.receive().unwrap();
            assert_eq!((received, transport), (peer, Transport::Plain));
            File::from(socket).write_all(b"here").unwrap();
            let mut text = String::new();
            (&reading).read_to_string(&mut text).unwrap();
            assert_eq!(text, "here");
        }
        assert_eq!(dispatcher.read_message(), None);
        helper.send(Message::Ready);
        helper.send(Message::Leaving);
        assert_eq!(
            (dispatcher.read_message(), dispatcher.read_message()),
            (Some(Message::Ready), Some(Message::Leaving))
        );
        drop(dispatcher);
        assert!(helper.receive().is_none());
    }
}
