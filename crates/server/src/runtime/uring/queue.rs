//! The ring itself: operations in, completions out, shared with the kernel.
//!
//! Submitting costs nothing until the next wait, where one system call submits all operations and returns completions.
//! Every operation carries its purpose and token, and its completion returns them. A client has at most one operation
//! with a purpose in progress, so this identifies it.
//!
//! Nothing is lost if there are more operations or completions than fit: operations wait in a backlog here, completions
//! in the kernel (`IORING_FEAT_NODROP`).

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use io_uring::squeue::{Entry, Flags};
use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{IoUring, Submitter, cqueue, opcode};
use rustix::io::Errno;

use super::batching::{BATCH_SIZE, BATCH_WAIT_MAX};
use super::sanitizer::KernelMemory;
use crate::clients::TOKEN_BITS;

/// Operations submitted at once.
const OPERATIONS_MAX: u32 = 1024;

/// Completions that the ring holds before the kernel has to store them separately.
const COMPLETIONS_MAX: u32 = 8 * OPERATIONS_MAX;

/// The purpose of an operation, stored in the bits of the user data that a token leaves free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Purpose {
    /// Its outcome is ignored.
    Nothing,
    Accept,
    /// Poll the listener while accepting is not possible.
    ListenerReady,
    /// Poll for the request to stop.
    Stop,
    /// Poll for helpers' outcomes.
    Outcomes,
    /// Poll the waker queue of other threads.
    Waker,
    Receive,
    Send,
    /// Close a client's socket after the linked send.
    CloseAfterSend,
    /// Poll until a client's socket accepts more.
    Room,
    Read,
}

const PURPOSES: [Purpose; 11] = {
    use Purpose as P;
    [
        P::Nothing,
        P::Accept,
        P::ListenerReady,
        P::Stop,
        P::Outcomes,
        P::Waker,
        P::Receive,
        P::Send,
        P::CloseAfterSend,
        P::Room,
        P::Read,
    ]
};

impl Purpose {
    /// The user data of an operation with this purpose for the client with `token`.
    fn of(self, token: u64) -> u64 {
        debug_assert!(token >> TOKEN_BITS == 0, "a token with room for the purpose");
        (self as u64) << TOKEN_BITS | token
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Completion {
    pub purpose: Purpose,
    pub token: u64,
    /// The result of the operation, as of its system call.
    pub result: Result<u32, Errno>,
    flags: u32,
}

impl Completion {
    fn of(entry: &cqueue::Entry) -> Completion {
        let (data, result) = (entry.user_data(), entry.result());
        Completion {
            purpose: PURPOSES[(data >> TOKEN_BITS) as usize],
            token: data & ((1 << TOKEN_BITS) - 1),
            result: u32::try_from(result).map_err(|_| Errno::from_raw_os_error(-result)),
            flags: entry.flags(),
        }
    }

    /// Returns true if a multishot operation will complete again.
    pub fn has_more(&self) -> bool {
        cqueue::more(self.flags)
    }

    /// The buffer that the kernel chose.
    pub fn buffer(&self) -> Option<u16> {
        cqueue::buffer_select(self.flags)
    }

    /// Returns true if the socket has more data.
    pub fn leaves_data(&self) -> bool {
        cqueue::sock_nonempty(self.flags)
    }
}

pub struct Queue {
    ring: IoUring,
    /// Operations that did not fit, in order. The second of a pair is linked to the first.
    backlog: VecDeque<(Entry, Option<Entry>)>,
    memory: KernelMemory,
}

impl Queue {
    /// A new ring, for the calling thread only.
    pub fn new() -> io::Result<Queue> {
        let mut builder = IoUring::builder();
        builder.setup_cqsize(COMPLETIONS_MAX).setup_submit_all().setup_coop_taskrun();
        // Completion work then runs when the loop waits, not in arbitrary interrupts.
        let deferring = builder.clone().setup_single_issuer().setup_defer_taskrun().build(OPERATIONS_MAX);
        let ring = match deferring {
            // Linux 6.0 does not support it.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => builder.build(OPERATIONS_MAX)?,
            outcome => outcome?,
        };
        if !ring.params().is_feature_nodrop() || !ring.params().is_feature_skip_cqe_on_success() {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        Ok(Queue { ring, backlog: VecDeque::new(), memory: KernelMemory::default() })
    }

    /// For registering resources of operations.
    pub fn submitter(&self) -> Submitter<'_> {
        self.ring.submitter()
    }

    /// Submits `operation` with the next wait.
    ///
    /// # Safety
    ///
    /// The memory it points to must stay valid until its completion.
    pub unsafe fn push(&mut self, operation: Entry, purpose: Purpose, token: u64) {
        self.memory.note(&operation, purpose.of(token));
        // SAFETY: guaranteed by the caller.
        unsafe { self.push_chain(operation.user_data(purpose.of(token)), None) }
    }

    /// Submits `first` and, linked to its success, `second`. There is one completion: that of `second` if both
    /// succeeded, otherwise that of `first`, and `second` is not performed.
    ///
    /// # Safety
    ///
    /// The memory they point to must stay valid until that completion.
    pub unsafe fn push_pair(&mut self, first: (Entry, Purpose), second: (Entry, Purpose), token: u64) {
        self.memory.note(&first.0, first.1.of(token));
        // If the first operation fails, the linked one is skipped without a completion.
        let flags = Flags::IO_LINK | Flags::SKIP_SUCCESS;
        let head = first.0.flags(flags).user_data(first.1.of(token));
        // SAFETY: guaranteed by the caller.
        unsafe { self.push_chain(head, Some(second.0.user_data(second.1.of(token)))) }
    }

    /// Cancels the operation with this purpose and token. It still completes.
    pub fn cancel(&mut self, purpose: Purpose, token: u64) {
        let operation = opcode::AsyncCancel::new(purpose.of(token)).build();
        // SAFETY: it points to no memory.
        unsafe { self.push(operation.flags(Flags::SKIP_SUCCESS), Purpose::Nothing, 0) }
    }

    /// Submits everything, waits for a completion up to `timeout`, and appends completions to `into`. With batching it
    /// waits briefly for more than one.
    pub fn wait(
        &mut self,
        timeout: Option<Duration>,
        expects_company: bool,
        into: &mut Vec<Completion>,
    ) -> io::Result<()> {
        self.hand_over_backlog();
        let outcome = match timeout {
            None => self.ring.submit_and_wait(1),
            Some(timeout) => {
                let timespec = Timespec::from(timeout);
                let limits = SubmitArgs::new().timespec(&timespec);
                if expects_company && self.ring.params().is_feature_min_timeout() {
                    let limits = limits.min_wait_usec(BATCH_WAIT_MAX.as_micros() as u32);
                    self.ring.submitter().submit_with_args(BATCH_SIZE, &limits)
                } else {
                    self.ring.submitter().submit_with_args(1, &limits)
                }
            }
        };
        let before = into.len();
        into.extend(self.ring.completion().map(|entry| Completion::of(&entry)));
        for completion in &into[before..] {
            let purpose = match completion.purpose {
                Purpose::CloseAfterSend => Purpose::Send,
                purpose @ (Purpose::Receive | Purpose::Send | Purpose::Read) => purpose,
                _ => continue,
            };
            self.memory.check(purpose, purpose.of(completion.token));
        }
        outcome.map(drop).or_else(|error| if is_passing(&error) { Ok(()) } else { Err(error) })
    }

    /// Submits everything without waiting.
    pub fn flush(&mut self) -> io::Result<()> {
        self.hand_over_backlog();
        self.ring.submit().map(drop)
    }

    /// # Safety
    ///
    /// As for [`push_pair`](Self::push_pair).
    unsafe fn push_chain(&mut self, first: Entry, second: Option<Entry>) {
        // SAFETY: guaranteed by the caller.
        let fits = self.backlog.is_empty() && unsafe { self.try_push(&first, second.as_ref()) };
        if !fits {
            self.backlog.push_back((first, second));
            self.hand_over_backlog();
        }
    }

    /// # Safety
    ///
    /// As for [`push_pair`](Self::push_pair).
    unsafe fn try_push(&mut self, first: &Entry, second: Option<&Entry>) -> bool {
        let mut submission = self.ring.submission();
        match second {
            // SAFETY: guaranteed by the caller.
            None => unsafe { submission.push(first).is_ok() },
            // SAFETY: guaranteed by the caller. All or nothing, because a link does not extend to the next submission.
            Some(second) => unsafe { submission.push_multiple(&[first.clone(), second.clone()]).is_ok() },
        }
    }

    fn hand_over_backlog(&mut self) {
        while let Some((first, second)) = self.backlog.pop_front() {
            // SAFETY: guaranteed when it was pushed.
            let mut fits = unsafe { self.try_push(&first, second.as_ref()) };
            if !fits && self.ring.submit().is_ok() {
                // SAFETY: guaranteed when it was pushed.
                fits = unsafe { self.try_push(&first, second.as_ref()) };
            }
            if !fits {
                // The kernel is short of memory; retried with the next wait.
                return self.backlog.push_front((first, second));
            }
        }
    }
}

/// Returns true if a wait that failed with this error must only be repeated.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

/// The administrator's setting.
const DISABLED: &str = "/proc/sys/kernel/io_uring_disabled";

/// io_uring cannot be used here.
#[derive(Debug, thiserror::Error)]
#[error("io_uring is not available: {error}\nhint: {}; try --architecture amped", hint(error))]
pub struct Unavailable {
    error: io::Error,
}

impl Unavailable {
    /// Explains the kernel's error.
    pub fn new(error: io::Error) -> Unavailable {
        Unavailable { error }
    }
}

fn hint(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EPERM | libc::EACCES) => forbidden(),
        Some(libc::ENOSYS | libc::EINVAL | libc::EOPNOTSUPP) => "it needs Linux 5.19 or later".into(),
        Some(libc::ENOMEM) => "raise the limit on locked memory (ulimit -l)".into(),
        Some(libc::EMFILE | libc::ENFILE) => "raise the limit on open files (ulimit -n)".into(),
        _ => "this system does not allow it".into(),
    }
}

fn forbidden() -> String {
    match std::fs::read_to_string(DISABLED).unwrap_or_default().trim() {
        setting @ ("1" | "2") => format!("the kernel forbids it (kernel.io_uring_disabled = {setting})"),
        _ => "a sandbox or container forbids it".into(),
    }
}
