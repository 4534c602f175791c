//! CGI scripts (RFC 3875): one process per request, with a concurrency limit and a queue. At its timeout a script is
//! killed with its process group.
//!
//! A loop creates a socket pair, keeps one end as its connection, and sends the other with the request's head to the
//! spawner, a thread of the server's first process. If a script cannot be started, the spawner itself writes a CGI
//! response with the error.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, Shutdown, SocketFlags, SocketType, recvmsg, send, sendmsg, shutdown,
    socketpair,
};
use sojourn_cgi::{Client, Ends};
use sojourn_http::request::Version;
use sojourn_http::{Status, head};

use super::program::Starter;
use super::script_failures::{ScriptFailures, ScriptRun};
use super::script_process::{Job, ScriptProcess, ScriptSettings};
use crate::counters::{Counter, Served};

/// The longest request head, including what the proxy adds; longer ones do not fit into a message.
const REQUEST_BYTES_MAX: usize = 128 * 1024;

/// Bytes of the client's address, TLS flag, body flag, version of HTTP, the server's address, the client's port, the
/// number of the script's socket, and that of the script.
const PREFIX_BYTES: usize = 49;

/// The number of a socket that comes with the message instead, from another process.
const PASSED: RawFd = -1;

/// The versions by their byte.
const VERSIONS: [Version; 3] = [Version::Http10, Version::Http11, Version::Http2];

/// How long a script may continue after its client has left.
const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Scripts {
    jobs: OwnedFd,
    /// The process that has the spawner.
    process: u32,
    spawner: Option<JoinHandle<()>>,
    failures: Arc<ScriptFailures>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    running: AtomicU64,
    started: AtomicU64,
    refused: AtomicU64,
    timed_out: AtomicU64,
}

impl Scripts {
    /// Starts the spawner, which ends when all of these are dropped.
    ///
    /// # Errors
    /// If the directory does not exist, or no thread can be started.
    pub fn start(settings: ScriptSettings) -> io::Result<Scripts> {
        let directory = settings.directory.canonicalize()?;
        if !directory.is_dir() {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        let (jobs, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let (failures, counts) = (Arc::new(ScriptFailures::new()?), Arc::<Counts>::default());
        let spawner = Spawner {
            jobs: theirs,
            settings: ScriptSettings { directory, ..settings },
            starter: Starter::new()?,
            failures: Arc::clone(&failures),
            queue: VecDeque::new(),
            running: Vec::new(),
            counts: Arc::clone(&counts),
            received: vec![0; PREFIX_BYTES + REQUEST_BYTES_MAX],
        };
        let thread = std::thread::Builder::new().name("scripts".to_owned());
        let spawner = Some(thread.spawn(move || spawner.run())?);
        Ok(Scripts { jobs, process: std::process::id(), spawner, failures, counts })
    }

    /// Starts a script for the request with the HTTP head `request`; the returned socket is connected to its input and
    /// output.
    ///
    /// # Errors
    /// If the spawner is overloaded, or the system lacks resources.
    pub fn ask(&self, request: &[u8], client: Client, has_body: bool) -> io::Result<(OwnedFd, ScriptRun)> {
        let run = self.failures.begin();
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        // The script's end is blocking, as programs expect of standard output.
        ioctl_fionbio(&ours, true)?;
        // In the same process its number is enough. The kernel would look for cycles of sockets that are under way in sockets.
        let is_here = std::process::id() == self.process;
        let socket = if is_here { theirs.as_raw_fd() } else { PASSED };
        let prefix = prefix_of(client, has_body, socket, run.number);
        let descriptors = [theirs.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !is_here {
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
        }
        let parts = [IoSlice::new(&prefix), IoSlice::new(request)];
        sendmsg(&self.jobs, &parts, &mut control, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
        if is_here {
            // The spawner has it now.
            let _ = theirs.into_raw_fd();
        }
        Ok((ours, run))
    }

    /// Adds its counters to the table.
    pub fn report(&self, served: &mut Served) {
        let Counts { running, started, refused, timed_out } = &*self.counts;
        for (counter, count) in [
            (Counter::ScriptsRunning, running),
            (Counter::ScriptsStarted, started),
            (Counter::LimitScripts, refused),
            (Counter::LimitScriptTime, timed_out),
        ] {
            served.add(counter, count.load(Ordering::Relaxed));
        }
    }
}

/// Kills running scripts: nobody reads their responses any more.
impl Drop for Scripts {
    fn drop(&mut self) {
        // Other processes may hold the same socket.
        let _ = shutdown(&self.jobs, Shutdown::Both);
        if let Some(spawner) = self.spawner.take() {
            let _ = spawner.join();
        }
    }
}

struct Spawner {
    jobs: OwnedFd,
    settings: ScriptSettings,
    starter: Starter,
    queue: VecDeque<Job>,
    running: Vec<ScriptProcess>,
    failures: Arc<ScriptFailures>,
    counts: Arc<Counts>,
    /// Room for the longest job.
    received: Vec<u8>,
}

impl Spawner {
    fn run(mut self) {
        loop {
            let wait = self.running.iter().map(|script| script.ends_at).min();
            let wait = wait.map(|end| end.saturating_duration_since(Instant::now()));
            let Some((has_job, events)) = self.wait(wait) else { return };
            if has_job && !self.receive() {
                // The server has ended: nobody waits for these.
                self.running.iter_mut().for_each(ScriptProcess::kill);
                return;
            }
            self.watch(&events);
            self.start_waiting();
            self.counts.running.store(self.running.len() as u64, Ordering::Relaxed);
        }
    }

    /// Waits for a job or events of scripts: for each, whether it has ended, its client has left, or it has written to
    /// standard error.
    fn wait(&self, timeout: Option<Duration>) -> Option<(bool, Vec<[bool; 3]>)> {
        let mut fds = vec![PollFd::new(&self.jobs, PollFlags::IN)];
        let mut places = Vec::with_capacity(self.running.len());
        for script in &self.running {
            let mut place = |fd| {
                fds.push(fd);
                fds.len() - 1
            };
            let ended = place(PollFd::new(script.pidfd(), PollFlags::IN));
            let socket = script.socket.as_ref().map(|socket| place(PollFd::new(socket, PollFlags::empty())));
            let errors = script.errors.as_ref().map(|errors| place(PollFd::new(errors, PollFlags::IN)));
            places.push([Some(ended), socket, errors]);
        }
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
        let is_set = |place: Option<usize>| place.is_some_and(|place| !fds[place].revents().is_empty());
        Some((is_set(Some(0)), places.into_iter().map(|place| place.map(is_set)).collect()))
    }

    /// Accepts a job; returns false once there will be no more.
    fn receive(&mut self) -> bool {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
        let count = match recvmsg(&self.jobs, &mut [IoSliceMut::new(&mut self.received)], &mut control, flags)
        {
            Ok(message) => message.bytes,
            Err(Errno::AGAIN | Errno::INTR) => return true,
            Err(_) => 0,
        };
        let passed = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
            _ => None,
        });
        let Some((prefix, request)) = self.received[..count].split_at_checked(PREFIX_BYTES) else {
            return count > 0;
        };
        let (client, has_body, socket, number) = of_prefix(prefix.try_into().expect("split there"));
        let socket = match socket {
            PASSED => passed,
            // SAFETY: whoever sent it, in this process, has given it up.
            socket => Some(unsafe { OwnedFd::from_raw_fd(socket) }),
        };
        let Some(socket) = socket else { return true };
        let job = Job { socket, request: request.to_vec(), client, has_body, number };
        let is_full = self.running.len() >= self.settings.processes_max;
        if is_full && self.queue.len() >= self.settings.queue_max {
            self.queue.retain(|job| !is_alone(&job.socket));
        }
        if is_full && self.queue.len() >= self.settings.queue_max {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            refuse(&job.socket, Status::ServiceUnavailable);
        } else {
            self.queue.push_back(job);
        }
        true
    }

    /// Handles events and deadlines.
    fn watch(&mut self, events: &[[bool; 3]]) {
        let now = Instant::now();
        for (script, [has_ended, is_alone, has_errors]) in self.running.iter_mut().zip(events) {
            if *has_errors {
                script.read_errors();
            }
            if *is_alone {
                // The response is complete, or nobody wants it.
                script.socket = None;
                script.ends_at = script.ends_at.min(now + GRACE);
            }
            if *has_ended {
                script.reap();
            } else if now >= script.ends_at {
                if script.socket.is_some() {
                    self.counts.timed_out.fetch_add(1, Ordering::Relaxed);
                }
                script.kill();
            }
        }
        self.running.retain(|script| !script.has_ended);
    }

    fn start_waiting(&mut self) {
        while self.running.len() < self.settings.processes_max {
            let Some(job) = self.queue.pop_front() else { return };
            if is_alone(&job.socket) {
                continue;
            }
            match ScriptProcess::start(&self.settings, &mut self.starter, &self.failures, job) {
                Ok(script) => {
                    self.counts.started.fetch_add(1, Ordering::Relaxed);
                    self.running.push(script);
                }
                Err((status, socket)) => refuse(&socket, status),
            }
        }
    }
}

fn prefix_of(client: Client, has_body: bool, socket: RawFd, number: u64) -> [u8; PREFIX_BYTES] {
    let octets = |address| match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    };
    let version = VERSIONS.iter().position(|version| *version == client.version);
    let mut prefix = [0; PREFIX_BYTES];
    prefix[..16].copy_from_slice(&octets(client.address));
    prefix[16..19].copy_from_slice(&[
        client.is_secure.into(),
        has_body.into(),
        version.expect("all are listed") as u8,
    ]);
    // What is unknown is sent as zeros, which no accepted connection has.
    prefix[19..35].copy_from_slice(&client.ends.server.map_or([0; 16], octets));
    prefix[35..37].copy_from_slice(&client.ends.client_port.unwrap_or(0).to_be_bytes());
    prefix[37..41].copy_from_slice(&socket.to_ne_bytes());
    prefix[41..].copy_from_slice(&number.to_ne_bytes());
    prefix
}

fn of_prefix(prefix: &[u8; PREFIX_BYTES]) -> (Client, bool, RawFd, u64) {
    let address = |at| {
        let octets: [u8; 16] = prefix[at..at + 16].try_into().expect("as long as an address");
        Ipv6Addr::from(octets).to_canonical()
    };
    let ends = Ends {
        client_port: Some(u16::from_be_bytes([prefix[35], prefix[36]])).filter(|port| *port != 0),
        server: Some(address(19)).filter(|server| !server.is_unspecified()),
    };
    let version = VERSIONS[usize::from(prefix[18])];
    let socket = RawFd::from_ne_bytes([prefix[37], prefix[38], prefix[39], prefix[40]]);
    let number = u64::from_ne_bytes(prefix[41..].try_into().expect("as long as a number"));
    let client = Client { address: address(0), ends, is_secure: prefix[16] == 1, version };
    (client, prefix[17] == 1, socket, number)
}

/// Returns true if the other end is closed.
fn is_alone(socket: &OwnedFd) -> bool {
    let mut fds = [PollFd::new(socket, PollFlags::empty())];
    poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|count| count > 0)
}

/// Answers in place of a script.
fn refuse(socket: &OwnedFd, status: Status) {
    let page = head::error_page(status);
    let line = status.line().trim_ascii_end();
    let text = line.split_once(' ').map_or(line, |(_, text)| text);
    let answer = format!("Status: {text}\r\nContent-Type: text/html\r\n\r\n{page}");
    // The socket is new, so its buffer has room.
    let _ = send(socket, answer.as_bytes(), SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spawner_is_told_all_about_the_client() {
        let server = "2001:db8::7".parse().unwrap();
        for (address, ends) in [
            ("192.0.2.1", Ends { client_port: Some(40_001), server: Some([198, 51, 100, 7].into()) }),
            ("2001:db8::1", Ends { client_port: None, server: Some(server) }),
            ("::1", Ends::default()),
        ] {
            for version in VERSIONS {
                for is_secure in [false, true] {
                    let client = Client { address: address.parse().unwrap(), ends, is_secure, version };
                    let prefix = prefix_of(client, !is_secure, 7, u64::MAX);
                    assert_eq!(of_prefix(&prefix), (client, !is_secure, 7, u64::MAX));
                }
            }
        }
    }
}
