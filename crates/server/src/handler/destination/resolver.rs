//! DNS lookups by threads that wait for the system's resolver, with a short-lived cache.
//!
//! A loop gets a socket that ends when the outcome is available, so drivers, deadlines and draining need to know
//! nothing about lookups. The system does not report a time to live; a name is looked up again after [`KNOWN_TIME`].
//!
//! Names whose servers do not answer occupy a thread for longer than anybody waits. So a client has half of the threads,
//! and of the places in the queue, that others leave, and what nobody waits for any more is not looked up.

use std::collections::{HashMap, VecDeque};
use std::net::{IpAddr, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
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

/// A client: its address, or its network.
type Owner = (bool, u64);

/// The addresses of a name; empty if it does not exist or its lookup failed.
pub type Addresses = Arc<[IpAddr]>;

/// Looks up names for all loops.
#[derive(Debug, Default)]
pub struct Resolver {
    known: Arc<Mutex<Known>>,
    /// Starts with the first lookup, after the process has forked and dropped its privileges.
    queue: OnceLock<Arc<Queue>>,
}

/// A lookup in progress.
#[derive(Debug)]
pub struct Pending {
    /// Ends when the outcome is available.
    pub socket: OwnedFd,
    pub outcome: Arc<OnceLock<Addresses>>,
}

/// The queue of lookups is full, or has no place for this client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Busy;

#[derive(Debug)]
struct Job {
    host: Box<str>,
    owner: Owner,
    outcome: Arc<OnceLock<Addresses>>,
    _told: OwnedFd,
}

impl Job {
    /// Returns true if somebody waits for the outcome.
    fn is_wanted(&self) -> bool {
        Arc::strong_count(&self.outcome) > 1
    }
}

/// The lookups of all loops, for the threads.
#[derive(Debug, Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    has_changed: Condvar,
}

#[derive(Debug, Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    /// Whose lookups are in progress.
    running: Vec<Owner>,
    is_over: bool,
}

impl Resolver {
    pub fn cached(&self, host: &str) -> Option<Addresses> {
        lock(&self.known).find(host, Instant::now())
    }

    /// Starts to look up `host` for the client `owner`.
    ///
    /// # Errors
    /// If too many lookups wait, of all clients or of this one.
    pub fn begin(&self, host: &str, owner: Owner) -> Result<Pending, Busy> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let (socket, told) = pair.map_err(|_| Busy)?;
        let outcome = Arc::new(OnceLock::new());
        let job = Job { host: host.into(), owner, outcome: Arc::clone(&outcome), _told: told };
        self.queue.get_or_init(|| self.start()).push(job)?;
        Ok(Pending { socket, outcome })
    }

    fn start(&self) -> Arc<Queue> {
        let queue = Arc::<Queue>::default();
        for _ in 0..THREADS {
            let (queue, known) = (Arc::clone(&queue), Arc::clone(&self.known));
            // With fewer threads, or none, lookups take longer or time out.
            let _ =
                std::thread::Builder::new().name("resolver".to_owned()).spawn(move || work(&queue, &known));
        }
        queue
    }
}

/// Ends the threads.
impl Drop for Resolver {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.get() {
            lock(&queue.jobs).is_over = true;
            queue.has_changed.notify_all();
        }
    }
}

impl Queue {
    fn push(&self, job: Job) -> Result<(), Busy> {
        lock(&self.jobs).push(job)?;
        self.has_changed.notify_one();
        Ok(())
    }

    /// Waits for the next lookup; `None` once the resolver is dropped.
    fn take(&self) -> Option<Job> {
        let mut jobs = lock(&self.jobs);
        while !jobs.is_over {
            if let Some(job) = jobs.take() {
                return Some(job);
            }
            jobs = self.has_changed.wait(jobs).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    /// A lookup for `owner` is no longer in progress.
    fn finish(&self, owner: Owner) {
        lock(&self.jobs).finish(owner);
        // What may be looked up now may be more than this thread takes.
        self.has_changed.notify_all();
    }
}

impl Jobs {
    fn push(&mut self, job: Job) -> Result<(), Busy> {
        if !self.may_wait(job.owner) {
            self.waiting.retain(Job::is_wanted);
        }
        if !self.may_wait(job.owner) {
            return Err(Busy);
        }
        self.waiting.push_back(job);
        Ok(())
    }

    fn may_wait(&self, owner: Owner) -> bool {
        has_room(self.waiting.iter().map(|job| job.owner), owner, WAITING_MAX)
    }

    /// Takes the next lookup that somebody waits for and whose client has a thread left.
    fn take(&mut self) -> Option<Job> {
        self.waiting.retain(Job::is_wanted);
        let may_run = |job: &Job| has_room(self.running.iter().copied(), job.owner, THREADS);
        let at = self.waiting.iter().position(may_run)?;
        let job = self.waiting.remove(at)?;
        self.running.push(job.owner);
        Some(job)
    }

    fn finish(&mut self, owner: Owner) {
        if let Some(at) = self.running.iter().position(|other| *other == owner) {
            self.running.swap_remove(at);
        }
    }
}

/// Returns true if `owner` may have one more of `max` places; those taken are the others' and its own.
fn has_room(taken: impl Iterator<Item = Owner>, owner: Owner, max: usize) -> bool {
    let (mut used, mut total) = (0, 0);
    for other in taken {
        total += 1;
        used += usize::from(other == owner);
    }
    used < max.saturating_sub(total)
}

/// Looks up names until the resolver is dropped.
fn work(queue: &Queue, known: &Mutex<Known>) {
    while let Some(job) = queue.take() {
        // Another thread may have looked it up meanwhile.
        let cached = lock(known).find(&job.host, Instant::now());
        let addresses = cached.unwrap_or_else(|| {
            let found = look_up(&job.host);
            lock(known).insert(job.host.clone(), Arc::clone(&found), Instant::now());
            found
        });
        queue.finish(job.owner);
        let _ = job.outcome.set(addresses);
    }
}

fn look_up(host: &str) -> Addresses {
    // The port is not used.
    let found = (host, 0).to_socket_addrs();
    let mut addresses: Vec<IpAddr> = Vec::new();
    for address in found.into_iter().flatten().map(|address| address.ip()) {
        if !addresses.contains(&address) && addresses.len() < ADDRESSES_MAX {
            addresses.push(address);
        }
    }
    addresses.into()
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

    const SOMEBODY: Owner = (false, 1);
    const ANOTHER: Owner = (false, 2);

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
        let Pending { socket, outcome } = resolver.begin("127.0.0.1", SOMEBODY).unwrap();
        rustix::io::ioctl_fionbio(&socket, false).unwrap();
        assert_eq!(rustix::io::read(&socket, &mut [0; 1]), Ok(0));
        let addresses = outcome.get().cloned().unwrap();
        assert_eq!(*addresses, [IpAddr::from([127, 0, 0, 1])]);
        assert_eq!(resolver.cached("127.0.0.1"), Some(addresses));
    }

    #[test]
    fn what_is_known_by_its_turn_is_not_looked_up() {
        let resolver = Resolver::default();
        let one = Addresses::from([IpAddr::from([192, 0, 2, 1])]);
        lock(&resolver.known).insert("a.invalid".into(), Arc::clone(&one), Instant::now());
        let Pending { socket, outcome } = resolver.begin("a.invalid", SOMEBODY).unwrap();
        rustix::io::ioctl_fionbio(&socket, false).unwrap();
        assert_eq!(rustix::io::read(&socket, &mut [0; 1]), Ok(0));
        assert_eq!(outcome.get(), Some(&one));
    }

    #[test]
    fn nobody_has_all_threads_and_places_and_who_has_left_has_none() {
        let mut jobs = Jobs::default();
        let mut outcomes = Vec::new();
        let mut ask = |jobs: &mut Jobs, owner| {
            let pair = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None);
            let outcome = Arc::new(OnceLock::new());
            outcomes.push(Arc::clone(&outcome));
            jobs.push(Job { host: "a".into(), owner, outcome, _told: pair.unwrap().1 }).is_ok()
        };
        let places = (0..).take_while(|_| ask(&mut jobs, SOMEBODY)).count();
        assert_eq!(places, WAITING_MAX / 2);
        assert!(ask(&mut jobs, ANOTHER));
        let owners: Vec<Owner> = std::iter::from_fn(|| jobs.take()).map(|job| job.owner).collect();
        assert_eq!(owners, [[SOMEBODY; THREADS / 2].as_slice(), &[ANOTHER]].concat());
        jobs.finish(SOMEBODY);
        assert_eq!(jobs.take().map(|job| job.owner), Some(SOMEBODY));
        outcomes.clear();
        jobs.finish(SOMEBODY);
        assert!(jobs.take().is_none() && jobs.waiting.is_empty());
    }
}
