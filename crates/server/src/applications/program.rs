//! Starts programs as a shell's `vfork` and `exec` would, with nothing between them that a script does not need.
//!
//! `std::process` and `posix_spawn` behind it do the same, but map a new stack for each process, ask for the disposition
//! of each signal, and leave SIGCHLD to wake another thread of the server meanwhile: a twelfth of what a short script costs.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

use libc::sigset_t;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::retry_on_intr;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::signals::block_all_signals;

/// The stack of a child until it executes its program: room for a few system calls.
const STACK_BYTES: usize = 32 * 1024;

/// The exit status of a child that could not execute its program, as a shell has it.
const NOT_EXECUTED: c_int = 127;

/// Starts programs, one after the other.
pub struct Starter {
    stack: Box<[u128]>,
    /// The input of programs that have none.
    nothing: OwnedFd,
}

/// A program to start.
pub struct Program<'a> {
    pub file: &'a CStr,
    pub environment: &'a Environment,
    /// Its working directory.
    pub directory: &'a CStr,
    /// Its standard input; without, it reads nothing.
    pub input: Option<BorrowedFd<'a>>,
    pub output: BorrowedFd<'a>,
    pub errors: BorrowedFd<'a>,
}

/// A program that was started; nobody else waits for it.
pub struct Started {
    pub process: Pid,
    pub pidfd: OwnedFd,
}

/// Names and values, as `execve` takes them.
#[derive(Default)]
pub struct Environment {
    /// Each ends in a zero.
    text: Vec<u8>,
    starts: Vec<usize>,
}

impl Environment {
    /// Adds a variable whose value is put together from `parts`.
    ///
    /// # Errors
    /// If there is a zero in it, which would end it.
    pub fn add(&mut self, name: &[u8], parts: &[&[u8]]) -> io::Result<()> {
        let start = self.text.len();
        self.text.extend_from_slice(name);
        self.text.push(b'=');
        parts.iter().for_each(|part| self.text.extend_from_slice(part));
        if self.text[start..].contains(&0) {
            let name = name.escape_ascii();
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("a zero in the variable {name}"),
            ));
        }
        self.text.push(0);
        self.starts.push(start);
        Ok(())
    }

    /// Pointers to all, then null; they are valid until the next change.
    fn pointers(&self) -> Vec<*const c_char> {
        let pointers = self.starts.iter().map(|start| self.text[*start..].as_ptr().cast());
        pointers.chain([ptr::null()]).collect()
    }
}

/// What a child needs until it executes its program; it shares the memory of its parent, which waits.
struct Child<'a> {
    file: &'a CStr,
    environment: &'a [*const c_char],
    directory: &'a CStr,
    /// Its standard input, output and error.
    streams: [c_int; 3],
    /// The signals that the program has blocked.
    blocked: sigset_t,
    /// Why it could not execute it.
    errno: c_int,
}

impl Starter {
    /// # Errors
    /// If no file can be opened.
    pub fn new() -> io::Result<Starter> {
        let nothing = open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Starter { stack: vec![0; STACK_BYTES / size_of::<u128>()].into_boxed_slice(), nothing })
    }

    /// Starts a program in a process group of its own, so that everything it starts can be killed with it.
    ///
    /// # Errors
    /// If there can be no further process, or it cannot execute the program.
    pub fn start(&mut self, program: &Program<'_>) -> io::Result<Started> {
        let pointers = program.environment.pointers();
        let blocked = block_all_signals();
        let streams = [program.input.unwrap_or(self.nothing.as_fd()), program.output, program.errors];
        let mut child = Child {
            file: program.file,
            environment: &pointers,
            directory: program.directory,
            // None of them is the server's own, so none has to move out of the way of another.
            streams: streams.map(|stream| stream.as_raw_fd()),
            blocked: *blocked.before(),
            errno: 0,
        };
        let mut pidfd: c_int = -1;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        // SAFETY: the child has a stack of its own, which grows down from its aligned end; this thread stands still, and so do
        // `child`, the stack and what they refer to, until the child has executed its program or has ended; it makes
        // only calls that are allowed after a fork. Of the arguments that may follow, the kernel takes one, for the pidfd.
        let process = unsafe {
            let end = self.stack.as_mut_ptr_range().end;
            libc::clone(execute, end.cast(), flags, (&raw mut child).cast(), &raw mut pidfd)
        };
        if process < 0 {
            return Err(io::Error::last_os_error());
        }
        drop(blocked);
        let process = Pid::from_raw(process).expect("a child has a number");
        // SAFETY: the kernel made it for us.
        let pidfd = unsafe { OwnedFd::from_raw_fd(pidfd) };
        let started = Started { process, pidfd };
        match child.errno {
            0 => Ok(started),
            errno => {
                started.wait();
                Err(io::Error::from_raw_os_error(errno))
            }
        }
    }
}

impl Started {
    /// Waits for its end, after which its number may be another process's; returns true if a signal has ended it.
    pub fn wait(&self) -> bool {
        let status = retry_on_intr(|| waitid(WaitId::PidFd(self.pidfd.as_fd()), WaitIdOptions::EXITED));
        status.ok().flatten().is_some_and(|status| status.killed() || status.dumped())
    }
}

/// The child: becomes the program.
extern "C" fn execute(child: *mut c_void) -> c_int {
    // SAFETY: the parent waits, and nobody else refers to it.
    let child = unsafe { &mut *child.cast::<Child<'_>>() };
    let arguments = [child.file.as_ptr(), ptr::null()];
    // SAFETY: system calls with valid arguments. A signal that comes before the program is executed is handled as if the
    // server had got it: its handlers only use what both share.
    unsafe {
        let is_ready = child.streams.iter().zip(0..).all(|(stream, number)| libc::dup2(*stream, number) >= 0)
            && libc::setpgid(0, 0) == 0
            && libc::chdir(child.directory.as_ptr()) == 0;
        if is_ready {
            // Rust's programs ignore it, others expect to end when nobody reads them.
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const child.blocked, ptr::null_mut());
            libc::execve(child.file.as_ptr(), arguments.as_ptr(), child.environment.as_ptr());
        }
        child.errno = *libc::__errno_location();
        libc::_exit(NOT_EXECUTED)
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::fs;
    use std::io::{ErrorKind, Read, pipe};
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::PermissionsExt;
    use std::path::{Path, PathBuf};
    use std::thread;

    use super::*;

    /// Starts `file` with the variables and without input; returns what it writes to standard output and standard error.
    fn output_of(file: &Path, variables: &[(&[u8], &[&[u8]])]) -> io::Result<(String, String)> {
        let directory = CString::new(file.parent().unwrap().as_os_str().as_bytes())?;
        let file = CString::new(file.as_os_str().as_bytes())?;
        let mut environment = Environment::default();
        for (name, parts) in variables {
            environment.add(name, parts)?;
        }
        let ((mut output, to_output), (mut errors, to_errors)) = (pipe()?, pipe()?);
        let program = Program {
            file: &file,
            environment: &environment,
            directory: &directory,
            input: None,
            output: to_output.as_fd(),
            errors: to_errors.as_fd(),
        };
        let mut starter = Starter::new()?;
        let started = loop {
            match starter.start(&program) {
                // A child of another test still has the file open that was just written.
                Err(error) if error.kind() == ErrorKind::ExecutableFileBusy => thread::yield_now(),
                started => break started,
            }
        };
        drop((to_output, to_errors));
        let mut texts = (String::new(), String::new());
        output.read_to_string(&mut texts.0)?;
        errors.read_to_string(&mut texts.1)?;
        started?.wait();
        Ok(texts)
    }

    fn script(directory: &Path, text: &str) -> PathBuf {
        let file = directory.join("script");
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        file
    }

    #[test]
    fn what_a_program_gets() {
        let directory = tempfile::tempdir().unwrap();
        let text = "#!/bin/sh\n/usr/bin/env\necho at `pwd`\n/bin/cat\n\
                    /bin/grep -qE '^SigBlk.*0000$' /proc/self/status && echo blocks nothing\n\
                    /bin/grep -qE '^SigIgn.*[02468ace]...$' /proc/self/status && echo ends with its reader\n\
                    [ `/usr/bin/cut -d' ' -f5 /proc/$$/stat` = $$ ] && echo leads its group\necho wrong >&2\n";
        let file = script(directory.path(), text);
        let (output, errors) = output_of(&file, &[(b"A", &[b"x ", b"y"]), (b"B", &[b""])]).unwrap();
        // What a shell adds.
        let is_own =
            |line: &&str| !["PWD=", "OLDPWD=", "SHLVL=", "_="].iter().any(|name| line.starts_with(name));
        let lines: Vec<&str> = output.lines().filter(is_own).collect();
        let at = format!("at {}", directory.path().canonicalize().unwrap().display());
        let expected = ["A=x y", "B=", &at, "blocks nothing", "ends with its reader", "leads its group"];
        assert_eq!(lines, expected);
        assert_eq!(errors, "wrong\n");
    }

    #[test]
    fn a_program_that_cannot_be_executed() {
        let directory = tempfile::tempdir().unwrap();
        let kind = |file: &Path| output_of(file, &[]).unwrap_err().kind();
        assert_eq!(kind(&directory.path().join("none")), ErrorKind::NotFound);
        let file = directory.path().join("script");
        fs::write(&file, "#!/bin/sh\n").unwrap();
        assert_eq!(kind(&file), ErrorKind::PermissionDenied);
        assert_eq!(kind(&script(directory.path(), "#!/there/is/none\n")), ErrorKind::NotFound);
        assert_eq!(
            kind(&script(directory.path(), "no program\n")),
            io::Error::from_raw_os_error(libc::ENOEXEC).kind()
        );
    }

    #[test]
    fn a_zero_cannot_end_a_variable() {
        let mut environment = Environment::default();
        for (name, value) in [(&b"A\0B"[..], &b"1"[..]), (b"A", b"1\0B=2")] {
            assert_eq!(environment.add(name, &[value]).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        environment.add(b"C", &[b"3"]).unwrap();
        assert_eq!(environment.pointers().len(), 2);
    }
}
