//! Persistent application processes: started with a listening socket as standard input (as FastCGI specifies),
//! restarted when they end, and stopped with the server.

use std::any::Any;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::process::{
    Pid, PidfdFlags, Signal, getppid, kill_process_group, pidfd_open, set_parent_process_death_signal,
};

use crate::counters::{Counter, Served};
use crate::stderr;

/// The delay before a failed worker is restarted: the first, and the longest. It doubles with every failure.
const DELAY_MIN: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(30);

/// A worker that has run this long has started successfully.
const STEADY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub struct WorkerSettings {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The number of processes.
    pub count: usize,
    /// The socket on which they accept connections, passed as standard input.
    pub socket: OwnedFd,
    /// How long they may take to end after they were told to.
    pub grace: Duration,
    /// Dropped after they have ended, by a thread that is outside the sandbox.
    pub kept: Box<dyn Any + Send>,
}

#[derive(Debug, thiserror::Error)]
pub enum WorkersError {
    #[error("cannot start {0}: {1}")]
    Command(String, io::Error),
    #[error("cannot watch applications: {0}")]
    System(#[from] io::Error),
}

/// The running workers; dropping this stops them.
#[derive(Debug)]
pub struct Workers {
    stop: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    running: AtomicU64,
    starts: AtomicU64,
}

impl Workers {
    /// Starts all workers.
    ///
    /// # Errors
    /// If the command cannot be executed, or the system lacks resources.
    pub fn start(settings: WorkerSettings) -> Result<Workers, WorkersError> {
        let stop = Arc::new(eventfd(0, EventfdFlags::CLOEXEC).map_err(io::Error::from)?);
        let counts = Arc::<Counts>::default();
        let (report, reported) = mpsc::channel();
        let slots = (0..settings.count).map(|_| Slot::default()).collect();
        let watcher = Watcher {
            name: name_of(&settings),
            settings,
            stop: Arc::clone(&stop),
            counts: Arc::clone(&counts),
            slots,
        };
        // Each worker dies with the thread that started it, so this thread lives as long as they do.
        let thread = std::thread::Builder::new()
            .name("applications".to_owned())
            .spawn(move || watcher.run(&report))?;
        let workers = Workers { stop, thread: Some(thread), counts };
        match reported.recv() {
            Ok(Some(error)) => Err(error),
            Ok(None) | Err(_) => Ok(workers),
        }
    }

    /// Adds its counters to the table.
    pub fn report(&self, served: &mut Served) {
        served.add(Counter::ApplicationWorkers, self.counts.running.load(Ordering::Relaxed));
        served.add(Counter::ApplicationStarts, self.counts.starts.load(Ordering::Relaxed));
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let _ = rustix::io::write(&*self.stop, &1u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn name_of(settings: &WorkerSettings) -> String {
    settings.command.first().map(|program| program.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Starts and watches the workers.
struct Watcher {
    name: String,
    settings: WorkerSettings,
    stop: Arc<OwnedFd>,
    counts: Arc<Counts>,
    slots: Vec<Slot>,
}

/// One worker and its restart state.
#[derive(Debug, Default)]
struct Slot {
    running: Option<Running>,
    /// When it may be restarted.
    starts_at: Option<Instant>,
    delay: Duration,
}

#[derive(Debug)]
struct Running {
    child: Child,
    pidfd: OwnedFd,
    since: Instant,
}

impl Watcher {
    fn run(mut self, report: &Sender<Option<WorkersError>>) {
        for index in 0..self.slots.len() {
            match self.start() {
                Ok(running) => self.slots[index].running = Some(running),
                Err(error) => {
                    let _ = report.send(Some(WorkersError::Command(self.name.clone(), error)));
                    return self.end();
                }
            }
        }
        let _ = report.send(None);
        while self.wait() {
            for index in 0..self.slots.len() {
                self.look_at(index);
            }
            self.count();
        }
        self.end();
    }

    /// Waits for an event; returns false when the workers must stop.
    fn wait(&self) -> bool {
        self.count();
        let now = Instant::now();
        let mut fds = vec![PollFd::new(&self.stop, PollFlags::IN)];
        let running = self.slots.iter().filter_map(|slot| slot.running.as_ref());
        fds.extend(running.map(|running| PollFd::new(&running.pidfd, PollFlags::IN)));
        let next = self.slots.iter().filter_map(|slot| slot.starts_at).min();
        let timeout = next.map(|next| next.saturating_duration_since(now));
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => fds[0].revents().is_empty(),
            Err(_) => false,
        }
    }

    fn count(&self) {
        let running = self.slots.iter().filter(|slot| slot.running.is_some()).count();
        self.counts.running.store(running as u64, Ordering::Relaxed);
    }

    /// Restarts a worker if it has ended; the sooner it ended, the longer the delay.
    fn look_at(&mut self, index: usize) {
        let now = Instant::now();
        let slot = &mut self.slots[index];
        if let Some(running) = &mut slot.running
            && let Ok(Some(status)) = running.child.try_wait()
        {
            let was_steady = now.saturating_duration_since(running.since) >= STEADY;
            slot.delay = if was_steady { DELAY_MIN } else { (2 * slot.delay).clamp(DELAY_MIN, DELAY_MAX) };
            stderr::write(&format!(
                "application {} ({}) has ended: {status}; it restarts in {:.1} s\n",
                self.name.escape_debug(),
                running.child.id(),
                slot.delay.as_secs_f64()
            ));
            (slot.running, slot.starts_at) = (None, Some(now + slot.delay));
        }
        if slot.starts_at.is_some_and(|at| now >= at) {
            match self.start() {
                Ok(running) => {
                    (self.slots[index].running, self.slots[index].starts_at) = (Some(running), None)
                }
                Err(error) => {
                    let slot = &mut self.slots[index];
                    slot.delay = (2 * slot.delay).clamp(DELAY_MIN, DELAY_MAX);
                    slot.starts_at = Some(now + slot.delay);
                    let name = self.name.escape_debug();
                    stderr::write(&format!("application {name}: cannot be started: {error}\n"));
                }
            }
        }
    }

    fn start(&self) -> io::Result<Running> {
        let mut words = self.settings.command.iter();
        let program = words.next().ok_or(ErrorKind::InvalidInput)?;
        let mut command = Command::new(program);
        command.args(words).process_group(0).stdin(Stdio::from(self.settings.socket.try_clone()?));
        // Standard output belongs to the server's own data.
        command.stdout(Stdio::from(io::stderr().as_fd().try_clone_to_owned()?));
        let parent = rustix::process::getpid();
        // SAFETY: both are plain system calls, allowed between fork and exec.
        unsafe {
            command.pre_exec(move || {
                set_parent_process_death_signal(Some(Signal::TERM))?;
                // The parent may have died before.
                if getppid() == Some(parent) { Ok(()) } else { Err(ErrorKind::NotFound.into()) }
            });
        }
        let child = command.spawn()?;
        self.counts.starts.fetch_add(1, Ordering::Relaxed);
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::empty())?;
        Ok(Running { child, pidfd, since: Instant::now() })
    }

    /// Tells all workers to end, and kills those that do not in time.
    fn end(mut self) {
        let mut running: Vec<Running> =
            self.slots.iter_mut().filter_map(|slot| slot.running.take()).collect();
        for worker in &running {
            let _ = kill_process_group(Pid::from_child(&worker.child), Signal::TERM);
        }
        let deadline = Instant::now() + self.settings.grace;
        while !running.is_empty() {
            let mut fds: Vec<_> =
                running.iter().map(|worker| PollFd::new(&worker.pidfd, PollFlags::IN)).collect();
            let left = deadline.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).ok();
            let outcome = poll(&mut fds, timeout.as_ref());
            if left.is_zero() || matches!(outcome, Ok(0)) {
                for worker in &mut running {
                    let _ = kill_process_group(Pid::from_child(&worker.child), Signal::KILL);
                    let _ = worker.child.wait();
                }
                return;
            }
            running.retain_mut(|worker| matches!(worker.child.try_wait(), Ok(None)));
        }
    }
}
