//! The accept queue of a listening socket, shortened while connections wait in it for too long.
//!
//! Connections that nobody has accepted yet wait in the kernel, first come, first served. If they come faster than the
//! server answers, the queue fills, and each waits until all those before it are answered. If its client gives up sooner,
//! the answer is in vain, and the next one, too: a server with a long queue can be busy without helping anybody. Refusing
//! a connection costs the server as much as a small answer, so the kernel refuses: what does not fit into the queue is
//! dropped, and the client's kernel tries again a second later (listen(2)).
//!
//! This is for event loops: where a worker serves one connection at a time, others wait for it as a matter of course.
//!
//! How long a new connection will wait follows from the queue alone, however many loops accept from it: those that waited when the
//! connection accepted now came have all been accepted since, which gives the rate, and by Little's law the time that the
//! present queue takes. As in CoDel (RFC 8289), only what lasts counts, so that a burst passes at full length.
//!
//! A short queue is soon empty, above all if the server runs now and then only (a CPU quota), and that is no sign that the overload
//! is over. So it stays short until nobody has been dropped or waited for long for a while.

use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rustix::net::listen;
use rustix::time::{ClockId, clock_gettime};

use super::options::{QueueLength, last_data_age, queue_length};

/// The time between two looks at the queue.
const PERIOD: Duration = Duration::from_millis(100);

/// How long connections must have waited too long before the queue is shortened.
const INTERVAL: Duration = Duration::from_millis(300);

/// How long a short queue must neither be full nor make anybody wait long before it is as long as usual again: longer than it takes
/// until the kernels of clients that were dropped try again.
const CALM: Duration = Duration::from_millis(1200);

/// A shorter wait tells no rate: the kernel counts time in steps of some milliseconds.
const WAIT_MIN: Duration = Duration::from_millis(20);

/// Between looks that are further apart the length is not known.
const GAP_MAX: Duration = Duration::from_secs(1);

/// How many looks are kept: twice as long as the kernel's longest queue should last.
const LOOKS_MAX: usize = 64;

/// However slow the server is, so many may wait.
const LIMIT_MIN: u32 = 16;

#[derive(Debug)]
pub struct AcceptQueue {
    /// Nanoseconds since boot: the next look is due.
    next_look: AtomicU64,
    is_short: AtomicBool,
    /// How often the queue was shortened, until somebody counts it.
    shortened: AtomicU64,
    control: Mutex<Control>,
}

impl AcceptQueue {
    /// The queue of a listener with this backlog. With a `wait_max` of zero it is left alone.
    pub fn new(backlog: u32, wait_max: Duration) -> AcceptQueue {
        let next_look = if wait_max.is_zero() { u64::MAX } else { 0 };
        AcceptQueue {
            next_look: AtomicU64::new(next_look),
            is_short: AtomicBool::new(false),
            shortened: AtomicU64::new(0),
            control: Mutex::new(Control::new(backlog, wait_max)),
        }
    }

    /// A queue whose length is not known, and which is left alone.
    pub fn unknown() -> AcceptQueue {
        AcceptQueue::new(0, Duration::ZERO)
    }

    /// Looks at the queue of `listener` if that is due, and adapts its limit. `accepted` was accepted just now.
    pub fn look(&self, listener: BorrowedFd<'_>, accepted: impl AsFd) {
        let now = now();
        if now.as_nanos() as u64 >= self.next_look.load(Ordering::Relaxed) {
            self.observe(listener, now, || last_data_age(accepted).unwrap_or_default());
        }
    }

    /// Looks at the queue after nobody was found in it: it may be long again.
    pub fn look_empty(&self, listener: BorrowedFd<'_>) {
        if self.is_short() {
            self.observe(listener, now(), Duration::default);
        }
    }

    /// Returns true while fewer may wait than the backlog says.
    pub fn is_short(&self) -> bool {
        self.is_short.load(Ordering::Relaxed)
    }

    /// How often the queue has been shortened since the last call.
    pub fn take_shortened(&self) -> u64 {
        if self.shortened.load(Ordering::Relaxed) == 0 {
            0
        } else {
            self.shortened.swap(0, Ordering::Relaxed)
        }
    }

    fn observe(&self, listener: BorrowedFd<'_>, now: Duration, wait: impl FnOnce() -> Duration) {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        self.next_look.store((now + PERIOD).as_nanos() as u64, Ordering::Relaxed);
        // Another kernel may not tell; then the queue keeps its length.
        let Ok(QueueLength { waiting, limit }) = queue_length(listener) else { return };
        control.adopt(now, limit);
        let before = control.limit;
        let limit = control.look(now, waiting, wait());
        // Small corrections are not worth a system call.
        let is_small = limit < control.backlog && limit.abs_diff(before) < before / 10;
        if limit == before || is_small || listen(listener, limit as i32).is_err() {
            control.limit = before;
        }
        let is_short = control.limit < control.backlog;
        if !self.is_short.swap(is_short, Ordering::Relaxed) && is_short {
            self.shortened.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn now() -> Duration {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

/// The limit of a queue, from what is seen of it.
#[derive(Debug)]
struct Control {
    wait_max: Duration,
    /// How many may wait at most.
    backlog: u32,
    /// How many may wait now.
    limit: u32,
    /// When the queue was looked at and how many waited, the latest last.
    looks: VecDeque<(Duration, u32)>,
    /// Since when new connections have had to wait too long.
    exceeded_since: Option<Duration>,
    /// When the queue was last full, or a connection in it waited for long.
    pressed: Duration,
}

impl Control {
    fn new(backlog: u32, wait_max: Duration) -> Control {
        Control {
            wait_max,
            backlog,
            limit: backlog,
            looks: VecDeque::new(),
            exceeded_since: None,
            pressed: Duration::ZERO,
        }
    }

    /// Takes over the limit that another loop may have set.
    fn adopt(&mut self, now: Duration, limit: u32) {
        let limit = limit.min(self.backlog);
        if limit < self.limit {
            self.pressed = now;
        }
        self.limit = limit;
    }

    /// The new limit, if so many are `waiting` now and the one that has just been accepted had waited for `wait`.
    fn look(&mut self, now: Duration, waiting: u32, wait: Duration) -> u32 {
        self.looks.push_back((now, waiting));
        if self.looks.len() > LOOKS_MAX {
            self.looks.pop_front();
        }
        // Connections accepted per second. None if it cannot be told.
        let known = wait >= WAIT_MIN;
        let before = if known { self.waiting_at(now.saturating_sub(wait)) } else { 0.0 };
        let rate = (before > 0.0).then(|| before / wait.as_secs_f64());
        let expected = rate.map_or(0.0, |rate| f64::from(waiting) / rate);
        let longest = expected.max(wait.as_secs_f64());
        let wait_max = self.wait_max.as_secs_f64();
        let fitting = rate.map(|rate| (rate * wait_max) as u32);
        let fitting = fitting.map(|limit| limit.clamp(LIMIT_MIN.min(self.backlog), self.backlog));
        if longest > wait_max {
            self.pressed = now;
            let since = *self.exceeded_since.get_or_insert(now);
            if let Some(limit) = fitting.filter(|_| now - since >= INTERVAL) {
                self.limit = limit;
            }
            return self.limit;
        }
        self.exceeded_since = None;
        let is_full = waiting.saturating_add(waiting / 8) >= self.limit;
        if is_full || longest >= wait_max / 2.0 {
            self.pressed = now;
        }
        if is_full && !known {
            // They are accepted as fast as they come.
            self.limit = self.limit.saturating_mul(2).min(self.backlog);
        } else if is_full {
            self.limit = self.limit.max(fitting.unwrap_or(0));
        } else if now.saturating_sub(self.pressed) >= CALM {
            self.limit = self.backlog;
        }
        self.limit
    }

    /// How many waited at `time`, between two looks in proportion.
    fn waiting_at(&self, time: Duration) -> f64 {
        let later = self.looks.partition_point(|(when, _)| *when <= time);
        let Some((start, waited)) = later.checked_sub(1).map(|index| self.looks[index]) else { return 0.0 };
        let waited = f64::from(waited);
        match self.looks.get(later) {
            Some((end, then)) if *end - start <= GAP_MAX => {
                let share = (time - start).as_secs_f64() / (*end - start).as_secs_f64();
                waited + share * (f64::from(*then) - waited)
            }
            _ => waited,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::ACCEPT_WAIT_MAX;

    /// A server that accepts `capacity` connections/s in the order of a queue with a limit that `Control` chooses.
    struct Simulated {
        control: Control,
        /// When each came.
        queue: VecDeque<Duration>,
        now: Duration,
        /// Parts of a connection to come and to be accepted.
        coming: f64,
        accepting: f64,
        next_look: Duration,
        /// The longest wait of a connection accepted since this was last read.
        longest: Duration,
        accepted: u32,
        dropped: u32,
    }

    impl Simulated {
        const STEP: Duration = Duration::from_millis(1);

        fn new(backlog: u32) -> Simulated {
            Simulated {
                control: Control::new(backlog, ACCEPT_WAIT_MAX),
                queue: VecDeque::new(),
                now: Duration::from_secs(1000),
                coming: 0.0,
                accepting: 0.0,
                next_look: Duration::ZERO,
                longest: Duration::ZERO,
                accepted: 0,
                dropped: 0,
            }
        }

        fn run(&mut self, time: Duration, arrivals: f64, capacity: f64) {
            let end = self.now + time;
            while self.now < end {
                self.now += Self::STEP;
                self.coming += arrivals * Self::STEP.as_secs_f64();
                while self.coming >= 1.0 {
                    self.coming -= 1.0;
                    self.arrive();
                }
                self.accepting += capacity * Self::STEP.as_secs_f64();
                while self.accepting >= 1.0 {
                    let Some(came) = self.queue.pop_front() else {
                        self.accepting = 0.0;
                        if self.control.limit < self.control.backlog {
                            self.control.look(self.now, 0, Duration::ZERO);
                        }
                        break;
                    };
                    self.accepting -= 1.0;
                    self.accepted += 1;
                    let wait = self.now - came;
                    self.longest = self.longest.max(wait);
                    if self.now >= self.next_look {
                        self.next_look = self.now + PERIOD;
                        self.control.look(self.now, self.queue.len() as u32, wait);
                    }
                }
            }
        }

        fn arrive(&mut self) {
            if self.queue.len() < self.control.limit as usize {
                self.queue.push_back(self.now);
            } else {
                self.dropped += 1;
            }
        }

        fn take_longest(&mut self) -> Duration {
            std::mem::take(&mut self.longest)
        }
    }

    fn milliseconds(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn under_lasting_overload_nobody_waits_much_longer_than_allowed() {
        for (capacity, factor) in [(100.0, 5.0), (1000.0, 1.5), (1000.0, 5.0), (1000.0, 50.0), (5000.0, 5.0)]
        {
            let mut server = Simulated::new(4096);
            // In the beginning the kernel's whole queue may fill up.
            server.run(milliseconds(6000), factor * capacity, capacity);
            server.take_longest();
            server.accepted = 0;
            server.run(milliseconds(60_000), factor * capacity, capacity);
            let (longest, share) = (server.take_longest(), f64::from(server.accepted) / (60.0 * capacity));
            assert!(longest <= milliseconds(400), "{capacity}/s, {factor} times: {longest:?}");
            assert!(share > 0.99, "{capacity}/s, {factor} times: {share}");
        }
    }

    /// Clients come in waves, and the server runs for a few milliseconds of each 100, as with a CPU quota.
    #[test]
    fn an_overload_that_pauses_is_one_overload() {
        for (capacity, factor) in [(300.0, 5.0), (1000.0, 3.0), (1000.0, 5.0), (3000.0, 5.0)] {
            let mut server = Simulated::new(4096);
            let mut run = |seconds: u32| {
                for tenth in 0..10 * seconds {
                    let arrivals = if tenth % 20 < 14 { factor * capacity } else { 0.0 };
                    server.run(milliseconds(96), arrivals, 0.0);
                    server.run(milliseconds(4), arrivals, 25.0 * capacity);
                }
                server.take_longest()
            };
            run(6);
            let longest = run(60);
            assert!(longest <= milliseconds(600), "{capacity}/s, {factor} times: {longest:?}");
        }
    }

    #[test]
    fn a_capacity_that_changes_is_followed() {
        let mut server = Simulated::new(4096);
        for capacity in [1000.0, 4000.0, 500.0] {
            server.run(milliseconds(5000), 8000.0, capacity);
            server.take_longest();
            server.run(milliseconds(5000), 8000.0, capacity);
            let longest = server.take_longest();
            assert!(milliseconds(50) <= longest && longest <= milliseconds(450), "{capacity}/s: {longest:?}");
        }
    }

    #[test]
    fn a_burst_fits_and_afterwards_the_queue_is_long_again() {
        let mut server = Simulated::new(4096);
        (0..4000).for_each(|_| server.arrive());
        server.run(milliseconds(2000), 100.0, 10_000.0);
        assert_eq!((server.dropped, server.control.limit), (0, 4096));
        server.run(milliseconds(3000), 5000.0, 1000.0);
        assert!(server.control.limit < 500 && server.dropped > 0, "{}", server.control.limit);
        server.run(milliseconds(1000), 100.0, 1000.0);
        assert!(server.control.limit < 500, "{}", server.control.limit);
        server.run(milliseconds(2000), 100.0, 1000.0);
        assert_eq!(server.control.limit, 4096);
    }

    #[test]
    fn a_server_that_was_stopped_for_a_while_is_not_overloaded() {
        let mut server = Simulated::new(4096);
        for _ in 0..20 {
            server.run(milliseconds(900), 1000.0, 0.0);
            server.run(milliseconds(1000), 1000.0, 10_000.0);
        }
        assert_eq!((server.dropped, server.control.limit), (0, 4096));
    }

    #[test]
    fn the_kernel_is_told() {
        use std::net::{TcpListener, TcpStream};

        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listen(&listener, 1000).unwrap();
        let queue = AcceptQueue::new(1000, milliseconds(1));
        let limit = || queue_length(listener.as_fd()).unwrap().limit;
        let connect = || TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let accept = || queue.look(listener.as_fd(), &listener.accept().unwrap().0);
        let _first = connect();
        accept();
        // Not within the same tick of the kernel's clock: when they came, somebody waited.
        std::thread::sleep(PERIOD / 4);
        let _many: Vec<_> = (0..50).map(|_| connect()).collect();
        let start = std::time::Instant::now();
        while queue.take_shortened() == 0 {
            assert!(start.elapsed() < Duration::from_secs(2));
            std::thread::sleep(PERIOD / 2);
            accept();
        }
        assert!(queue.is_short() && limit() == LIMIT_MIN, "{}", limit());
        listener.set_nonblocking(true).unwrap();
        while listener.accept().is_ok() {}
        queue.look_empty(listener.as_fd());
        assert!(queue.is_short(), "an empty queue is not enough");
        std::thread::sleep(CALM + PERIOD);
        queue.look_empty(listener.as_fd());
        assert!(!queue.is_short() && limit() == 1000 && queue.take_shortened() == 0);
    }
}
