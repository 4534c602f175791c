//! Connections to an NFS server. Each has one call in progress, so there are as many as calls at a time; idle ones are
//! kept. All calls only read, so a call whose connection is lost is repeated on another.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use sojourn_nfs::{
    Call, Credential, Fragment, Handle, Outcome, Program, Reply, ReplyError, Status, fragment, reply,
};

use crate::origin::remote::client::{Timeouts, is_timeout, left, share};
use crate::origin::remote::store::StoreError;

/// The most bytes of one READ; a server may send fewer.
pub const READ_BYTES: u32 = 1 << 20;

/// The longest reply: a READ's, with its attributes.
const REPLY_BYTES_MAX: usize = READ_BYTES as usize + 4096;

/// How often a call is made if connections are lost or the server asks to retry, and the pause before the next
/// attempt, which doubles.
const ATTEMPTS_MAX: u32 = 3;
const PAUSE: Duration = Duration::from_millis(100);

/// How long an idle connection is kept: less than servers and the firewalls before them usually do.
const IDLE_MAX: Duration = Duration::from_secs(60);

/// The port of the port mapper.
const PORT_MAPPER: u16 = 111;

/// The ports that only root may connect from, as most servers want of clients that they trust. Lower ones are left to
/// services.
const RESERVED_PORTS: std::ops::RangeInclusive<u16> = 665..=1023;

/// Where an export is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    pub host: String,
    /// The path that the server exports, or one below it.
    pub path: String,
    /// The ports of both services; the port mapper is asked for those that are missing.
    pub nfs_port: Option<u16>,
    pub mount_port: Option<u16>,
    /// Whom the server takes us for; by default, the user who serves.
    pub uid: Option<u32>,
    pub gid: Option<u32>,
}

/// Makes calls to the server of an export.
#[derive(Debug)]
pub struct Caller {
    export: Export,
    timeouts: Timeouts,
    idle_max: usize,
    idle: Mutex<Vec<(Connection, Instant)>>,
    mounted: Mutex<Option<Mounted>>,
    next_id: AtomicU32,
}

/// The export as the server has opened it.
#[derive(Clone, Debug)]
struct Mounted {
    address: SocketAddr,
    root: Handle,
}

#[derive(Debug)]
struct Connection {
    socket: TcpStream,
    /// The last reply: its memory is used again.
    record: Vec<u8>,
}

/// Why a call has no result.
enum Failure {
    /// The connection is lost, or there is none; another may work.
    Lost(String),
    Final(StoreError),
}

/// Until when an answer must have begun and ended, and what is exceeded otherwise.
#[derive(Clone, Copy)]
struct Limits {
    head: (Instant, &'static str),
    whole: (Instant, &'static str),
}

impl Caller {
    /// Up to `idle_max` connections are kept.
    pub fn new(export: Export, timeouts: Timeouts, idle_max: usize) -> Caller {
        Caller {
            export,
            timeouts,
            idle_max,
            idle: Mutex::default(),
            mounted: Mutex::default(),
            next_id: AtomicU32::default(),
        }
    }

    /// When a request that begins now must have ended.
    pub fn deadline(&self) -> Instant {
        Instant::now() + self.timeouts.part
    }

    /// The handle of the export. It is asked for once: it is valid as long as the server has the directory.
    pub fn root(&self, deadline: Instant) -> Result<Handle, StoreError> {
        self.persist(deadline, || Ok(Some(self.mounted(deadline)?.root)))
    }

    /// Forgets where the export is: the server has another by now, or its services are on other ports.
    pub fn forget_root(&self) {
        *lock(&self.mounted) = None;
    }

    /// Makes a call of NFS, whose reply `results` reads.
    pub fn call<T>(
        &self,
        call: Call<'_>,
        deadline: Instant,
        mut results: impl FnMut(Reply<'_>) -> Outcome<T>,
    ) -> Result<Result<T, Status>, StoreError> {
        self.persist(deadline, || {
            let outcome = self.attempt(call, deadline, &mut results)?;
            Ok(Some(outcome).filter(|outcome| !matches!(outcome, Err(Status::JUKEBOX))))
        })
    }

    /// Repeats `attempt` if a connection is lost, or if the server asks to retry later: then it returns nothing.
    fn persist<T>(
        &self,
        deadline: Instant,
        mut attempt: impl FnMut() -> Result<Option<T>, Failure>,
    ) -> Result<T, StoreError> {
        let mut pause = PAUSE;
        for number in 1.. {
            let why = match attempt() {
                Ok(Some(found)) => return Ok(found),
                Ok(None) => Status::JUKEBOX.to_string(),
                Err(Failure::Lost(why)) => why,
                Err(Failure::Final(error)) => return Err(error),
            };
            if number == ATTEMPTS_MAX || left(deadline) <= pause {
                return Err(StoreError::Failed(why));
            }
            sleep(pause);
            pause *= 2;
        }
        unreachable!("it returns after the last attempt")
    }

    fn attempt<T>(
        &self,
        call: Call<'_>,
        deadline: Instant,
        results: &mut impl FnMut(Reply<'_>) -> Outcome<T>,
    ) -> Result<Result<T, Status>, Failure> {
        loop {
            let kept = self.take_idle();
            let is_kept = kept.is_some();
            let mut connection = match kept {
                Some(connection) => connection,
                None => {
                    let address = self.mounted(deadline)?.address;
                    // Its port may be another after the server has been started anew.
                    self.connect(address, self.connecting(deadline)).inspect_err(|_| self.forget_root())?
                }
            };
            let limits = Limits {
                head: (deadline.min(Instant::now() + self.timeouts.head), "origin-head-timeout"),
                whole: (deadline, "origin-part-timeout"),
            };
            match self.exchange(&mut connection, call, limits) {
                // The server may have closed it at any time.
                Err(Failure::Lost(_)) if is_kept => {}
                Err(failure) => {
                    // A server that hangs does so on the others, too.
                    lock(&self.idle).clear();
                    return Err(failure);
                }
                Ok(reply) => {
                    let outcome = results(reply).map_err(Failure::of_reply)?;
                    self.keep(connection);
                    return Ok(outcome);
                }
            }
        }
    }

    fn exchange<'c>(
        &self,
        connection: &'c mut Connection,
        call: Call<'_>,
        limits: Limits,
    ) -> Result<Reply<'c>, Failure> {
        let Export { uid, gid, .. } = &self.export;
        let credential = Credential {
            uid: uid.unwrap_or_else(|| rustix::process::geteuid().as_raw()),
            gid: gid.unwrap_or_else(|| rustix::process::getegid().as_raw()),
        };
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        connection.exchange(&call.record(id, credential), limits)?;
        reply(&connection.record, id).map_err(Failure::of_reply)
    }

    fn mounted(&self, deadline: Instant) -> Result<Mounted, Failure> {
        if let Some(mounted) = &*lock(&self.mounted) {
            return Ok(mounted.clone());
        }
        // Nobody waits for a lock: several may mount at a time.
        let mounted = self.mount(self.connecting(deadline))?;
        *lock(&self.mounted) = Some(mounted.clone());
        Ok(mounted)
    }

    fn mount(&self, limits: Limits) -> Result<Mounted, Failure> {
        let Export { host, path, nfs_port, mount_port, .. } = &self.export;
        let addresses: Vec<SocketAddr> = (&**host, 0)
            .to_socket_addrs()
            .map_err(|error| Failure::Lost(format!("{host}: {error}")))?
            .collect();
        let mut last = Failure::Lost(format!("{host} has no address"));
        let (deadline, limit) = limits.whole;
        for (index, address) in addresses.iter().enumerate() {
            let until = Instant::now() + share(deadline, addresses.len() - index);
            let limits = Limits { head: (until, limit), whole: (until, limit) };
            let mounted = || -> Result<Mounted, Failure> {
                let port = |known: Option<u16>, program| match known {
                    Some(port) => Ok(port),
                    None => self.ask_port(address.ip(), program, limits),
                };
                let service = SocketAddr::new(address.ip(), port(*mount_port, Program::Mount)?);
                let mut connection = self.connect(service, limits)?;
                let reply = self.exchange(&mut connection, Call::Mount { path: path.as_bytes() }, limits)?;
                let root = reply.mounted().map_err(Failure::of_reply)?.map_err(|status| {
                    Failure::Final(StoreError::Failed(format!("the server does not export {path}: {status}")))
                })?;
                let address = SocketAddr::new(address.ip(), port(*nfs_port, Program::Nfs)?);
                Ok(Mounted { address, root })
            };
            match mounted() {
                // Another address may answer.
                Err(failure @ (Failure::Lost(_) | Failure::Final(StoreError::Timeout(_)))) => last = failure,
                outcome => return outcome,
            }
        }
        Err(last)
    }

    fn ask_port(&self, address: IpAddr, program: Program, limits: Limits) -> Result<u16, Failure> {
        let mut connection = self.connect(SocketAddr::new(address, PORT_MAPPER), limits)?;
        let reply = self.exchange(&mut connection, Call::Port(program), limits)?;
        // After a start, services register one after the other.
        let absent = || Failure::Lost(format!("{address} has no service {program:?} of version 3"));
        reply.port().map_err(Failure::of_reply)?.ok_or_else(absent)
    }

    /// The limits of whatever precedes the first call on a connection.
    fn connecting(&self, deadline: Instant) -> Limits {
        let whole = (deadline.min(Instant::now() + self.timeouts.connect), "origin-connect-timeout");
        Limits { head: whole, whole }
    }

    fn connect(&self, address: SocketAddr, limits: Limits) -> Result<Connection, Failure> {
        let (until, limit) = limits.whole;
        let connected = if rustix::process::geteuid().is_root() {
            connect_from_reserved_port(address, until)
        } else {
            TcpStream::connect_timeout(&address, left(until))
        };
        let socket = connected.and_then(|socket| socket.set_nodelay(true).map(|()| socket));
        match socket {
            Ok(socket) => Ok(Connection { socket, record: Vec::new() }),
            Err(error) if is_timeout(&error) => Err(Failure::Final(StoreError::Timeout(limit))),
            Err(error) => Err(Failure::Lost(format!("cannot connect to {address}: {error}"))),
        }
    }

    fn take_idle(&self) -> Option<Connection> {
        let mut idle = lock(&self.idle);
        let (connection, since) = idle.pop()?;
        if since.elapsed() < IDLE_MAX {
            return Some(connection);
        }
        // The others are older.
        idle.clear();
        None
    }

    fn keep(&self, connection: Connection) {
        let mut idle = lock(&self.idle);
        if idle.len() < self.idle_max {
            idle.push((connection, Instant::now()));
        }
    }
}

/// Ignores poisoning: each operation under these locks is one push, pop or assignment.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Failure {
    fn of_reply(error: ReplyError) -> Failure {
        Failure::Final(StoreError::Failed(error.to_string()))
    }
}

impl Connection {
    /// Sends `call` and receives the record of its reply.
    fn exchange(&mut self, call: &[u8], limits: Limits) -> Result<(), Failure> {
        self.send(call, limits.head)?;
        self.record.clear();
        let mut limit = limits.head;
        loop {
            let mut header = [0; 4];
            receive(&self.socket, &mut header, limit)?;
            limit = limits.whole;
            let Fragment { length, is_last } = fragment(header);
            let before = self.record.len();
            if length > REPLY_BYTES_MAX - before {
                return Err(Failure::Final(StoreError::Failed("the reply is too long".to_owned())));
            }
            self.record.resize(before + length, 0);
            receive(&self.socket, &mut self.record[before..], limit)?;
            if is_last {
                return Ok(());
            }
        }
    }

    fn send(&self, mut bytes: &[u8], limit: (Instant, &'static str)) -> Result<(), Failure> {
        while !bytes.is_empty() {
            let wait = wait(limit)?;
            let sent = self.socket.set_write_timeout(Some(wait)).and_then(|()| (&self.socket).write(bytes));
            bytes = &bytes[progress(sent, limit)?..];
        }
        Ok(())
    }
}

fn receive(
    mut socket: &TcpStream,
    mut into: &mut [u8],
    limit: (Instant, &'static str),
) -> Result<(), Failure> {
    while !into.is_empty() {
        let wait = wait(limit)?;
        let received = socket.set_read_timeout(Some(wait)).and_then(|()| socket.read(into));
        into = &mut into[progress(received, limit)?..];
    }
    Ok(())
}

/// How long an operation may wait: a server that sends a byte at a time does not change when it must have ended.
fn wait((until, limit): (Instant, &'static str)) -> Result<Duration, Failure> {
    if Instant::now() < until { Ok(left(until)) } else { Err(Failure::Final(StoreError::Timeout(limit))) }
}

fn progress(outcome: io::Result<usize>, (_, limit): (Instant, &'static str)) -> Result<usize, Failure> {
    match outcome {
        Ok(0) => Err(Failure::Lost("the server closed the connection".to_owned())),
        Ok(count) => Ok(count),
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(0),
        Err(error) if is_timeout(&error) => Err(Failure::Final(StoreError::Timeout(limit))),
        Err(error) => Err(Failure::Lost(format!("the connection failed: {error}"))),
    }
}

/// Connects from a port that only root may use, or from any if none is free or the sandbox forbids it.
fn connect_from_reserved_port(address: SocketAddr, until: Instant) -> io::Result<TcpStream> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let (family, any): (_, IpAddr) = match address {
        SocketAddr::V4(_) => (AddressFamily::INET, Ipv4Addr::UNSPECIFIED.into()),
        SocketAddr::V6(_) => (AddressFamily::INET6, Ipv6Addr::UNSPECIFIED.into()),
    };
    let count = RESERVED_PORTS.len() as u32;
    let first = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id());
    for number in 0..count {
        let port = RESERVED_PORTS.start() + (first.wrapping_add(number) % count) as u16;
        let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        match rustix::net::bind(&socket, &SocketAddr::new(any, port)) {
            Ok(()) => {}
            Err(Errno::ADDRINUSE) => continue,
            Err(_) => break,
        }
        // On Linux it limits connecting, too.
        set_socket_timeout(&socket, Timeout::Send, Some(left(until)))?;
        match rustix::net::connect(&socket, &address) {
            Ok(()) => return Ok(socket.into()),
            // A connection from there is still closing.
            Err(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL) => {}
            Err(Errno::INPROGRESS) => return Err(io::ErrorKind::TimedOut.into()),
            Err(error) => return Err(error.into()),
        }
    }
    TcpStream::connect_timeout(&address, left(until))
}
