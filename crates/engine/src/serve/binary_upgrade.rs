//! Binary upgrade: SIGUSR2 or SIGHUP starts the program again, with the current binary and configuration. Once the
//! successor serves, this server drains: it finishes the requests in progress and ends.
//!
//! The successor inherits the listening sockets themselves (SCM_RIGHTS), so no connection is lost. It takes those it is
//! configured for and opens what else it needs. If it cannot start, it reports why and ends, and this server goes on.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg, socketpair,
};
use sojourn_server::connection::Transport;
use sojourn_server::{Listener, Requests, Stop, listening_sockets, stderr};

use super::launcher::{CANNOT_EXECUTE, Launched, Launcher, VARIABLE};

/// The signals for an upgrade: SIGUSR2 for a new binary as in nginx, SIGHUP for a new configuration.
pub const SUCCEED: &[libc::c_int] = &[libc::SIGUSR2, libc::SIGHUP];

/// How long a successor may take until it serves.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// A successor that ends this soon after being ready counts as failed.
const SETTLING: Duration = Duration::from_millis(250);

/// Sent by the predecessor after the last socket.
const END: u8 = b'.';

/// Sent by the successor when it serves.
const READY: u8 = b'+';

/// How an inherited socket is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Role {
    /// Opened by a predecessor.
    Opened = b'o',
    /// Passed by a service manager.
    Passed = b'p',
    Admin = b'a',
}

/// The sockets that a successor gets.
#[derive(Debug)]
pub struct Offer {
    /// True if a service manager passed the sockets.
    pub sockets_are_passed: bool,
    pub transports: Vec<(SocketAddr, Transport)>,
    pub admin: Option<TcpListener>,
}

impl Offer {
    /// The sockets of a server with these listeners, which `are_passed` if a service manager opened them.
    ///
    /// # Errors
    /// If a socket does not say where it listens.
    pub fn new(
        listeners: &[Listener],
        are_passed: bool,
        admin: Option<TcpListener>,
    ) -> anyhow::Result<Offer> {
        Ok(Offer { sockets_are_passed: are_passed, transports: transports(listeners)?, admin })
    }
}

/// The state of this server that a successor needs, and what starts one.
pub struct Handover {
    pub launcher: Launcher,
    pub offer: Offer,
}

impl Handover {
    /// Starts a successor for each of `requests` until one serves; then calls `on_success` and requests the stop. Returns
    /// at the stop.
    pub fn serve_requests(&self, requests: &Requests, stop: &Stop, on_success: impl Fn()) {
        while !stop.is_requested() {
            let mut waits = [PollFd::new(requests, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            // Requests are checked whether or not the wait was interrupted.
            let _ = poll(&mut waits, None);
            if stop.is_requested() || !requests.take() {
                continue;
            }
            match self.start_successor() {
                Ok(process) => {
                    stderr::write(&format!("process {process} has taken over: draining connections\n"));
                    on_success();
                    stop.request();
                }
                Err(error) => stderr::write(&format!(
                    "error: the binary upgrade failed, this server keeps serving: {error:#}\n"
                )),
            }
        }
    }

    /// Starts a successor; returns its number when it serves.
    fn start_successor(&self) -> anyhow::Result<i32> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut successor = self.launcher.launch(theirs.as_fd())?;
        drop(theirs);
        // If it has ended meanwhile, its exit status says more than the broken channel.
        let handed_over = self.pass_sockets(&ours);
        let outcome = wait_until_ready(&mut successor, &ours).and(handed_over);
        if outcome.is_err() {
            successor.kill();
        }
        outcome.map(|()| successor.process)
    }

    fn pass_sockets(&self, channel: &OwnedFd) -> anyhow::Result<()> {
        let role = if self.offer.sockets_are_passed { Role::Passed } else { Role::Opened };
        for socket in listening_sockets()? {
            let socket = TcpListener::from(socket);
            let address = socket.local_addr()?;
            let transport = self.offer.transports.iter().find(|(other, _)| *other == address);
            let transport = transport.map_or(Transport::Plain, |(_, transport)| *transport);
            give(channel, role, transport, socket.as_fd())?;
        }
        if let Some(admin) = &self.offer.admin {
            give(channel, Role::Admin, Transport::Plain, admin.as_fd())?;
        }
        send(channel, &[END], SendFlags::NOSIGNAL)?;
        Ok(())
    }
}

fn give(channel: &OwnedFd, role: Role, transport: Transport, socket: BorrowedFd<'_>) -> io::Result<()> {
    let descriptors = [socket];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&descriptors));
    let bytes = [role as u8, transport as u8];
    sendmsg(channel, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

fn wait_until_ready(successor: &mut Launched<'_>, channel: &OwnedFd) -> anyhow::Result<()> {
    let ended = successor.ended();
    let mut waits = [PollFd::new(channel, PollFlags::IN), PollFd::from_borrowed_fd(ended, PollFlags::IN)];
    ensure!(
        poll_for(&mut waits, READY_TIMEOUT)? > 0,
        "the new process was not ready within {READY_TIMEOUT:?}"
    );
    let mut byte = [0];
    let is_ready = recv(channel, &mut byte, RecvFlags::DONTWAIT).is_ok() && byte == [READY];
    // A successor about to end closes the channel a moment before, and may have sent a message in between.
    let has_ended = poll_for(&mut waits[1..], SETTLING)? > 0;
    if has_ended {
        let status = successor.status()?;
        ensure!(status.code() != Some(CANNOT_EXECUTE), "the program cannot be executed");
        bail!("the new process ended: {status}");
    }
    ensure!(is_ready, "the new process did not report that it is ready");
    Ok(())
}

fn poll_for(waits: &mut [PollFd<'_>], timeout: Duration) -> io::Result<usize> {
    let timeout = Timespec::try_from(timeout).ok();
    loop {
        match poll(waits, timeout.as_ref()) {
            Err(rustix::io::Errno::INTR) => {}
            outcome => return Ok(outcome?),
        }
    }
}

/// The sockets inherited from a predecessor.
#[derive(Debug, Default)]
pub struct Inheritance {
    channel: Option<OwnedFd>,
    sockets: Vec<(Role, Listener)>,
}

impl Inheritance {
    /// Receives the sockets from the predecessor that started this process.
    pub fn receive() -> anyhow::Result<Inheritance> {
        let Some(channel) = std::env::var(VARIABLE).ok().and_then(|text| text.parse::<RawFd>().ok()) else {
            return Ok(Inheritance::default());
        };
        // SAFETY: there is no other thread yet. Processes started later have another predecessor or none.
        unsafe { std::env::remove_var(VARIABLE) };
        // SAFETY: the process that set the variable passes the descriptor to this one.
        let channel = unsafe { OwnedFd::from_raw_fd(channel) };
        fcntl_setfd(&channel, FdFlags::CLOEXEC)
            .map_err(|error| anyhow!("there is no predecessor: {error}\nhint: unset {VARIABLE}"))?;
        let mut sockets = Vec::new();
        while let Some(socket) = take(&channel).context("the predecessor has ended")? {
            sockets.push(socket);
        }
        Ok(Inheritance { channel: Some(channel), sockets })
    }

    /// The sockets that a service manager passed to a predecessor.
    pub fn take_activated(&mut self) -> Vec<Listener> {
        self.take_where(|role, _| role == Role::Passed)
    }

    /// The predecessor's sockets on `address`, where port 0 matches any.
    pub fn at(&mut self, address: &str) -> Vec<TcpListener> {
        self.sockets_of(Role::Opened, address)
    }

    /// The predecessor's admin socket, if it listens on `address`.
    pub fn admin(&mut self, address: &str) -> Option<TcpListener> {
        self.sockets_of(Role::Admin, address).pop()
    }

    fn sockets_of(&mut self, wanted: Role, address: &str) -> Vec<TcpListener> {
        let addresses: Vec<SocketAddr> = address.to_socket_addrs().map_or(Vec::new(), Iterator::collect);
        let mut port = None;
        let found = self.take_where(|role, local| {
            let matches = |address: &SocketAddr| {
                address.ip() == local.ip()
                    && (address.port() == local.port()
                        || (address.port() == 0 && *port.get_or_insert(local.port()) == local.port()))
            };
            role == wanted && addresses.iter().any(matches)
        });
        found.into_iter().map(|listener| listener.socket).collect()
    }

    fn take_where(&mut self, mut is_wanted: impl FnMut(Role, SocketAddr) -> bool) -> Vec<Listener> {
        let is_wanted = |(role, listener): &mut (Role, Listener)| {
            listener.socket.local_addr().is_ok_and(|address| is_wanted(*role, address))
        };
        self.sockets.extract_if(.., is_wanted).map(|(_, listener)| listener).collect()
    }

    /// Tells the predecessor that this process serves.
    pub fn begin(self) {
        if let Some(channel) = self.channel {
            // If the predecessor has ended meanwhile, this process continues to serve.
            let _ = send(&channel, &[READY], SendFlags::NOSIGNAL);
        }
    }
}

/// The next socket; `None` after the last.
fn take(channel: &OwnedFd) -> io::Result<Option<(Role, Listener)>> {
    let mut bytes = [0; 2];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let message =
        recvmsg(channel, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let socket = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    });
    let role = [Role::Opened, Role::Passed, Role::Admin].into_iter().find(|role| *role as u8 == bytes[0]);
    match (message.bytes, role, Transport::from_u8(bytes[1]), socket) {
        (1, ..) if bytes[0] == END => Ok(None),
        (2, Some(role), Some(transport), Some(socket)) => {
            Ok(Some((role, Listener { socket: socket.into(), transport })))
        }
        _ => Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "it sent a message that this version does not understand",
        )),
    }
}

/// The transport at each address; several sockets may share an address.
fn transports(listeners: &[Listener]) -> anyhow::Result<Vec<(SocketAddr, Transport)>> {
    let mut transports = Vec::new();
    for listener in listeners {
        let pair = (listener.socket.local_addr()?, listener.transport);
        if !transports.contains(&pair) {
            transports.push(pair);
        }
    }
    Ok(transports)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inheritance(sockets: Vec<(Role, &str)>) -> Inheritance {
        let listen = |(role, address)| {
            (role, Listener { socket: TcpListener::bind(address).unwrap(), transport: Transport::Plain })
        };
        Inheritance { channel: None, sockets: sockets.into_iter().map(listen).collect() }
    }

    #[test]
    fn sockets_go_where_they_are_asked_for() {
        let mut all = inheritance(vec![
            (Role::Opened, "127.0.0.1:0"),
            (Role::Opened, "127.0.0.1:0"),
            (Role::Admin, "127.0.0.1:0"),
            (Role::Passed, "127.0.0.1:0"),
        ]);
        let second = all.sockets[1].1.socket.local_addr().unwrap();
        assert_eq!(all.at("127.0.0.2:0").len(), 0);
        assert_eq!(all.at(&second.to_string()).len(), 1);
        // Any port: all sockets on the first address with this role.
        assert_eq!(all.at("127.0.0.1:0").len(), 1);
        assert_eq!(all.at("127.0.0.1:0").len(), 0);
        assert!(all.admin("127.0.0.1:0").is_some() && all.admin("127.0.0.1:0").is_none());
        assert_eq!(all.take_activated().len(), 1);
    }

    #[test]
    fn what_is_given_is_taken() {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        give(&ours, Role::Passed, Transport::Plain, socket.as_fd()).unwrap();
        send(&ours, &[END], SendFlags::NOSIGNAL).unwrap();
        let (role, listener) = take(&theirs).unwrap().unwrap();
        assert_eq!(
            (role, listener.socket.local_addr().unwrap()),
            (Role::Passed, socket.local_addr().unwrap())
        );
        assert!(take(&theirs).unwrap().is_none());
        drop(ours);
        assert!(take(&theirs).is_err());
    }
}
