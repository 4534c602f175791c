//! Binary upgrade: SIGUSR2 or SIGHUP starts the program again, with the current binary and configuration. Once the
//! successor serves, this server drains: it finishes the requests in progress and ends.
//!
//! The successor inherits the listening sockets themselves (SCM_RIGHTS), so no connection is lost. It takes those it is
//! configured for and opens what else it needs. If it cannot start, it reports why and ends, and this server goes on.

use std::ffi::{CStr, CString, OsStr, OsString, c_char};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::ptr;
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg, socketpair,
};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process, pidfd_open, waitpid};
use sojourn_server::connection::Transport;
use sojourn_server::{Listener, Requests, Stop, listening_sockets};

use super::listener::Listeners;

/// The signals for an upgrade: SIGUSR2 for a new binary as in nginx, SIGHUP for a new configuration.
pub const SUCCEED: &[libc::c_int] = &[libc::SIGUSR2, libc::SIGHUP];

/// The environment variable with the descriptor of the channel between predecessor and successor.
const VARIABLE: &str = "SOJOURN_PREDECESSOR";

/// How long a successor may take until it serves.
const READY_TIMEOUT: Duration = Duration::from_secs(60);

/// A successor that ends this soon after being ready counts as failed.
const SETTLING: Duration = Duration::from_millis(250);

/// The exit status of a successor that could not be executed, as in shells.
const CANNOT_EXECUTE: i32 = 127;

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

/// What this server passes to a successor.
pub struct Handover {
    /// The program's file, found at the start because it may be replaced later.
    pub program: CString,
    pub words: Vec<OsString>,
    /// True if a service manager passed the sockets.
    pub sockets_are_passed: bool,
    pub transports: Vec<(SocketAddr, Transport)>,
    pub admin: Option<TcpListener>,
}

/// The program's file as found now.
pub fn program() -> anyhow::Result<CString> {
    let program = std::env::current_exe().context("cannot find this program's file")?;
    Ok(CString::new(program.into_os_string().into_vec())?)
}

impl Handover {
    /// What to pass on, for a server started with `words`.
    ///
    /// # Errors
    /// If this program's file cannot be found.
    pub fn new(
        words: &[OsString],
        listening: &Listeners,
        admin: Option<TcpListener>,
    ) -> anyhow::Result<Handover> {
        Ok(Handover {
            program: program()?,
            words: words.to_vec(),
            sockets_are_passed: listening.are_passed,
            transports: transports(&listening.listeners)?,
            admin,
        })
    }

    /// Starts a successor for each of `requests` until one serves; then calls `succeed` and requests the stop. Returns
    /// at the stop.
    pub fn serve_requests(&self, requests: &Requests, stop: &Stop, succeed: impl Fn()) {
        while !stop.is_requested() {
            let mut waits = [PollFd::new(requests, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
            // Requests are checked whether or not the wait was interrupted.
            let _ = poll(&mut waits, None);
            if stop.is_requested() || !requests.take() {
                continue;
            }
            match self.bequeath() {
                Ok(successor) => {
                    say(&format!("process {} has taken over: finishing what was begun\n", successor.process));
                    succeed();
                    stop.request();
                }
                Err(error) => say(&format!("error: nobody takes over, this server goes on: {error:#}\n")),
            }
        }
    }

    /// Starts a successor; returns when it serves.
    fn bequeath(&self) -> anyhow::Result<Successor> {
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let successor = Successor::start(&self.program, &self.words, &theirs)?;
        drop(theirs);
        // If it has ended meanwhile, its exit status says more than the broken channel.
        let handed_over = self.hand_over(&ours);
        let outcome = successor.wait_until_ready(&ours).and(handed_over);
        if outcome.is_err() {
            successor.kill();
        }
        outcome.map(|()| successor)
    }

    fn hand_over(&self, channel: &OwnedFd) -> anyhow::Result<()> {
        let role = if self.sockets_are_passed { Role::Passed } else { Role::Opened };
        for socket in listening_sockets()? {
            let socket = TcpListener::from(socket);
            let address = socket.local_addr()?;
            let transport = self.transports.iter().find(|(other, _)| *other == address);
            let transport = transport.map_or(Transport::Plain, |(_, transport)| *transport);
            give(channel, role, transport, socket.as_fd())?;
        }
        if let Some(admin) = &self.admin {
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

/// A process that is about to take over.
struct Successor {
    process: Pid,
    /// Readable when it has ended. The closing of its channel is no sign: other children forked at the same moment may
    /// hold it open too.
    ended: OwnedFd,
}

impl Successor {
    /// Forks and executes `program`, which inherits `channel`.
    fn start(program: &CStr, words: &[OsString], channel: &OwnedFd) -> anyhow::Result<Successor> {
        let text = |text: &OsStr| CString::new(text.as_bytes());
        let words = words.iter().map(|word| text(word)).collect::<Result<Vec<_>, _>>()?;
        let variable = |(name, value): (OsString, OsString)| text(&[name, value].join(OsStr::new("=")));
        let mut variables = std::env::vars_os().map(variable).collect::<Result<Vec<_>, _>>()?;
        variables.push(CString::new(format!("{VARIABLE}={}", channel.as_raw_fd()))?);
        let (words, variables) = (pointers(&words), pointers(&variables));
        // SAFETY: the child makes only system calls that are allowed there, on memory prepared before.
        let process = match unsafe { libc::fork() } {
            -1 => return Err(io::Error::last_os_error()).context("cannot start a process"),
            // SAFETY: as above.
            0 => unsafe {
                libc::fcntl(channel.as_raw_fd(), libc::F_SETFD, 0);
                libc::execve(program.as_ptr(), words.as_ptr(), variables.as_ptr());
                libc::_exit(CANNOT_EXECUTE)
            },
            process => Pid::from_raw(process).expect("a child has a number"),
        };
        let ended = pidfd_open(process, PidfdFlags::empty())?;
        Ok(Successor { process, ended })
    }

    fn wait_until_ready(&self, channel: &OwnedFd) -> anyhow::Result<()> {
        let mut waits = [PollFd::new(channel, PollFlags::IN), PollFd::new(&self.ended, PollFlags::IN)];
        ensure!(
            poll_for(&mut waits, READY_TIMEOUT)? > 0,
            "the new process was not ready within {READY_TIMEOUT:?}"
        );
        let mut byte = [0];
        let is_ready = recv(channel, &mut byte, RecvFlags::DONTWAIT).is_ok() && byte == [READY];
        // A failing successor closes the channel a moment before it ends, and may have sent a message before that.
        poll_for(&mut waits[1..], SETTLING)?;
        self.check()?;
        ensure!(is_ready, "the new process does not say that it is ready");
        Ok(())
    }

    /// Fails if the successor has ended.
    fn check(&self) -> anyhow::Result<()> {
        match waitpid(Some(self.process), WaitOptions::NOHANG)? {
            None => Ok(()),
            Some((_, status)) if status.exit_status() == Some(CANNOT_EXECUTE) => {
                bail!("the program cannot be executed")
            }
            Some((_, status)) => bail!("the new process ended: {status:?}"),
        }
    }

    fn kill(&self) {
        let _ = kill_process(self.process, Signal::KILL);
        // It may have been reaped already.
        let _ = waitpid(Some(self.process), WaitOptions::empty());
    }
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

fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

/// Not with `eprintln`: another thread may fork meanwhile, and its child would find the lock held.
fn say(text: &str) {
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
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
        while let Some(socket) = take(&channel).context("the predecessor is gone")? {
            sockets.push(socket);
        }
        Ok(Inheritance { channel: Some(channel), sockets })
    }

    /// The sockets that a service manager passed to a predecessor.
    pub fn passed(&mut self) -> Vec<Listener> {
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
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, "it says what this version does not understand")),
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
        assert_eq!(all.passed().len(), 1);
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
