//! The parts of ptrace that are needed: stops, registers, memory.

use std::fs;
use std::io;
use std::mem;
use std::ptr;
use std::time::Duration;

use super::filter::Instruction;

/// A traced thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tracee(pub libc::pid_t);

pub enum Stop {
    /// Stopped at a system call of the filter.
    Call,
    /// Stopped at an event that needs no answer.
    Event,
    Signal(libc::c_int),
    /// Ended with this exit code.
    Ended(i32),
}

const OPTIONS: libc::c_int = libc::PTRACE_O_EXITKILL
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACESECCOMP;

/// Runs in the child before exec: makes it traceable and installs the filter.
pub fn prepare(filter: &[Instruction]) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: system calls whose arguments live until they return.
    unsafe {
        check(libc::personality(libc::ADDR_NO_RANDOMIZE as libc::c_ulong).into())?;
        // It will be ended by an abort, without a core dump.
        check(libc::setrlimit(libc::RLIMIT_CORE, &raw const none).into())?;
        check(libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0))?;
        check(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0).into())?;
        check(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program).into())
    }
}

/// An event of a traced thread.
pub enum WaitStatus {
    /// A thread has stopped or ended.
    Stopped(Tracee, Stop),
    NoneStopped,
    NoTracees,
}

/// Blocks SIGCHLD, which announces events, until [`wait_for_event`] takes it, in this thread and those that it starts
/// later.
///
/// # Errors
/// If the kernel refuses.
pub fn block_child_signal() -> io::Result<()> {
    let child_signal = child_signal();
    // SAFETY: the set lives until the call returns.
    match unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const child_signal, ptr::null_mut()) } {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// Makes [`wait_for_event`] return.
pub fn wake_up() {
    // SAFETY: a plain system call, to this process.
    unsafe { libc::kill(libc::getpid(), libc::SIGCHLD) };
}

/// Waits until there may be an event, or the limit has passed.
pub fn wait_for_event(limit: Option<Duration>) {
    let limit = limit.map(|limit| libc::timespec {
        tv_sec: limit.as_secs().cast_signed(),
        tv_nsec: i64::from(limit.subsec_nanos()),
    });
    let limit = limit.as_ref().map_or(ptr::null(), ptr::from_ref);
    let child_signal = child_signal();
    // SAFETY: the set and the limit live until the call returns.
    unsafe { libc::sigtimedwait(&raw const child_signal, ptr::null_mut(), limit) };
}

fn child_signal() -> libc::sigset_t {
    // SAFETY: a bit set, for which all values are valid, emptied first.
    unsafe {
        let mut set = mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        set
    }
}

/// The next thread that has stopped or ended; does not wait.
pub fn next_stop() -> WaitStatus {
    let mut status = 0;
    // SAFETY: the status lives until the call returns.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::WNOHANG) };
    match pid {
        0 => return WaitStatus::NoneStopped,
        -1 => return WaitStatus::NoTracees,
        _ => {}
    }
    let stop = if libc::WIFEXITED(status) {
        Stop::Ended(libc::WEXITSTATUS(status))
    } else if libc::WIFSIGNALED(status) {
        Stop::Ended(128 + libc::WTERMSIG(status))
    } else if status >> 16 == libc::PTRACE_EVENT_SECCOMP {
        Stop::Call
    } else if status >> 16 != 0 {
        Stop::Event
    } else {
        Stop::Signal(libc::WSTOPSIG(status))
    };
    WaitStatus::Stopped(Tracee(pid), stop)
}

impl Tracee {
    /// Asks the kernel to report its system calls and children; repeating this is harmless.
    pub fn follow(self) {
        // SAFETY: plain numbers; if the thread has ended, the next wait tells.
        unsafe { libc::ptrace(libc::PTRACE_SETOPTIONS, self.0, 0, OPTIONS) };
    }

    /// Resumes the thread, with a signal or none (0).
    pub fn resume(self, signal: libc::c_int) {
        // SAFETY: as above.
        unsafe { libc::ptrace(libc::PTRACE_CONT, self.0, 0, signal) };
    }

    /// Interrupts the system call in which it waits: it stops at a signal that cannot be blocked, which it will never
    /// receive.
    pub fn interrupt(self) {
        // SAFETY: a plain system call; if the thread has ended, the next wait tells.
        unsafe { libc::syscall(libc::SYS_tgkill, self.process(), self.0, libc::SIGSTOP) };
    }

    pub fn waits_in(self) -> Option<libc::c_long> {
        let said = fs::read_to_string(format!("/proc/{}/syscall", self.0)).ok()?;
        said.split_ascii_whitespace().next()?.parse().ok()
    }

    pub fn process(self) -> libc::pid_t {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0)).unwrap_or_default();
        let group = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
        group.and_then(|text| text.trim().parse().ok()).unwrap_or(self.0)
    }

    /// Writes to its memory; at an invalid address nothing happens, as the emulated call would fail, too.
    pub fn write(self, address: u64, bytes: &[u8]) {
        let from = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        let to =
            libc::iovec { iov_base: ptr::without_provenance_mut(address as usize), iov_len: bytes.len() };
        // SAFETY: only our bytes are read; the kernel checks the address in the other process.
        unsafe { libc::process_vm_writev(self.0, &raw const from, 1, &raw const to, 1, 0) };
    }

    pub fn read<const N: usize>(self, address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        let into = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: N };
        let from = libc::iovec { iov_base: ptr::without_provenance_mut(address as usize), iov_len: N };
        // SAFETY: only our bytes are written; the kernel checks the address in the other process.
        let count = unsafe { libc::process_vm_readv(self.0, &raw const into, 1, &raw const from, 1, 0) };
        (count == N as isize).then_some(bytes)
    }
}

/// The registers at a system call.
pub struct Registers(libc::user_regs_struct);

impl Registers {
    pub fn of(tracee: Tracee) -> Option<Registers> {
        // SAFETY: a structure of numbers, for which all values are valid, filled in by the kernel.
        unsafe {
            let mut registers: libc::user_regs_struct = mem::zeroed();
            let got = libc::ptrace(libc::PTRACE_GETREGS, tracee.0, 0, &raw mut registers);
            (got == 0).then_some(Registers(registers))
        }
    }

    pub fn call(&self) -> libc::c_long {
        self.0.orig_rax.cast_signed()
    }

    pub fn set_call(&mut self, call: libc::c_long) {
        self.0.orig_rax = call.cast_unsigned();
    }

    /// Returns true if a signal interrupted the call and the kernel would restart it.
    pub fn was_interrupted(&self) -> bool {
        /// The kernel's internal results of restartable calls: ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND,
        /// ERESTART_RESTARTBLOCK.
        const AGAIN: [i64; 4] = [-512, -513, -514, -516];
        let result = self.0.rax.cast_signed();
        self.0.orig_rax != u64::MAX && (AGAIN.contains(&result) || result == -i64::from(libc::EINTR))
    }

    pub fn arguments(&self) -> [u64; 5] {
        [self.0.rdi, self.0.rsi, self.0.rdx, self.0.r10, self.0.r8]
    }

    pub fn set_argument(&mut self, place: usize, value: u64) {
        let registers = &mut self.0;
        *[
            &mut registers.rdi,
            &mut registers.rsi,
            &mut registers.rdx,
            &mut registers.r10,
            &mut registers.r8,
        ][place] = value;
    }

    /// Skips the call and sets its result.
    pub fn skip(&mut self, result: u64) {
        self.0.orig_rax = u64::MAX;
        self.0.rax = result;
    }

    pub fn restore(&self, tracee: Tracee) {
        // SAFETY: the kernel only reads the structure.
        unsafe { libc::ptrace(libc::PTRACE_SETREGS, tracee.0, 0, &raw const self.0) };
    }
}

fn check(result: libc::c_long) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
