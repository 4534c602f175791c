//! DNS lookups by threads that wait for the system's resolver, with a short-lived cache.
//!
//! A loop gets a socket that ends when the outcome is available, so drivers, deadlines and draining need to know
//! nothing about lookups. The system does not report a time to live; a name is looked up again after [`KNOWN_TIME`].

use std::collections::HashMap;
use std::net::{IpAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

/// How many names are looked up at a time, each in a thread of its own.
const THREADS: usize = 8;

/// How many names may wait for a thread.
const WAITING_MAX: usize = 256;

/// How many outcomes are cached.
const KNOWN_MAX: usize = 1024;

const KNOWN_TIME: Duration = Duration::from_secs(30);

/// How long failures are cached; they may be temporary.
const UNKNOWN_TIME: Duration = Duration::from_secs(2);

/// How many addresses of a name are considered.
const ADDRESSES_MAX: usize = 16;

/// The addresses of a name; empty if it does not exist or its lookup failed.
pub type Addresses = Arc<[IpAddr]>;

/// Looks up names for all loops.
#[derive(Debug, Default)]
pub struct Resolver {
    known: Arc<Mutex<Known>>,
    /// Starts with the first lookup, after the process has forked and dropped its privileges.
    queue: OnceLock<SyncSender<Job>>,
}

/// A lookup in progress.
#[derive(Debug)]
pub struct Pending {
    /// Ends when the outcome is available.
    pub socket: OwnedFd,
    pub outcome: Arc<OnceLock<Addresses>>,
}

/// The queue of lookups is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

#[derive(Debug)]
struct Job {
    host: Box<str>,
    outcome: Arc<OnceLock<Addresses>>,
    _told: OwnedFd,
}

impl Resolver {
    pub fn cached(&self, host: &str) -> Option<Addresses> {
        lock(&self.known).find(host, Instant::now())
    }

    pub fn begin(&self, host: &str) -> Result<Pending, Busy> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let (socket, told) = pair.map_err(|_| Busy)?;
        let outcome = Arc::new(OnceLock::new());
        let job = Job { host: host.into(), outcome: Arc::clone(&outcome), _told: told };
        let queue = self.queue.get_or_init(|| self.start());
        match queue.try_send(job) {
            Ok(()) => Ok(Pending { socket, outcome }),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => Err(Busy),
        }
    }

    fn start(&self) -> SyncSender<Job> {
        let (queue, jobs) = sync_channel(WAITING_MAX);
        let jobs = Arc::new(Mutex::new(jobs));
        for _ in 0..THREADS {
            let (jobs, known) = (Arc::clone(&jobs), Arc::clone(&self.known));
            // With fewer threads, or none, lookups take longer or time out.
            let _ =
                std::thread::Builder::new().name("resolver".to_owned()).spawn(move || work(&jobs, &known));
        }
        queue
    }
}

/// Looks up names until the resolver is dropped.
fn work(jobs: &Mutex<Receiver<Job>>, known: &Mutex<Known>) {
    loop {
        let job = lock(jobs).recv();
        let Ok(job) = job else { return };
        // The port is not used.
        let found = (&*job.host, 0).to_socket_addrs();
        let mut addresses: Vec<IpAddr> = Vec::new();
        for address in found.into_iter().flatten().map(|address| address.ip()) {
            if !addresses.contains(&address) && addresses.len() < ADDRESSES_MAX {
                addresses.push(address);
            }
        }
        let addresses = Addresses::from(addresses);
        lock(known).insert(job.host.clone(), Arc::clone(&addresses), Instant::now());
        let _ = job.outcome.set(addresses);
    }
}

#[derive(Debug, Default)]
struct Known(HashMap<Box<str>, (Addresses, Instant)>);

impl Known {
    fn find(&self, host: &str, now: Instant) -> Option<Addresses> {
        let (addresses, until) = self.0.get(host)?;
        (now < *until).then(|| Arc::clone(addresses))
    }

    fn insert(&mut self, host: Box<str>, addresses: Addresses, now: Instant) {
        if self.0.len() >= KNOWN_MAX {
            self.0.retain(|_, (_, until)| now < *until);
        }
        if self.0.len() >= KNOWN_MAX
            && let Some(any) = self.0.keys().next().cloned()
        {
            self.0.remove(&any);
        }
        let time = if addresses.is_empty() { UNKNOWN_TIME } else { KNOWN_TIME };
        self.0.insert(host, (addresses, now + time));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_known_for_a_while() {
        let (mut known, begun) = (Known::default(), Instant::now());
        let one = Addresses::from([IpAddr::from([192, 0, 2, 1])]);
        known.insert("a".into(), Arc::clone(&one), begun);
        known.insert("b".into(), Addresses::from([]), begun);
        assert_eq!(known.find("a", begun), Some(one));
        assert_eq!(known.find("b", begun).map(|none| none.len()), Some(0));
        assert_eq!(known.find("b", begun + UNKNOWN_TIME), None);
        assert!(known.find("a", begun + UNKNOWN_TIME).is_some());
        assert_eq!(known.find("a", begun + KNOWN_TIME), None);
        for number in 0..2 * KNOWN_MAX {
            known.insert(number.to_string().into(), Addresses::from([]), begun);
        }
        assert_eq!(known.0.len(), KNOWN_MAX);
    }

    #[test]
    fn the_socket_ends_when_the_outcome_is_there() {
        let resolver = Resolver::default();
        let Pending { socket, outcome } = resolver.begin("127.0.0.1").unwrap();
        rustix::io::ioctl_fionbio(&socket, false).unwrap();
        assert_eq!(rustix::io::read(&socket, &mut [0; 1]), Ok(0));
        let addresses = outcome.get().cloned().unwrap();
        assert_eq!(*addresses, [IpAddr::from([127, 0, 0, 1])]);
        assert_eq!(resolver.cached("127.0.0.1"), Some(addresses));
    }
}
