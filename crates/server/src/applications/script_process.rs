//! One running script: finding its file, its process, and its end.

use std::ffi::{CString, OsStr};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::io::{Errno, read};
use rustix::net::{RecvFlags, Shutdown, recv, shutdown};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Signal, kill_process_group};
use sojourn_cgi::{Application, Client, Script};
use sojourn_http::request::{Parsed, Parser, Request};
use sojourn_http::{SitePath, Status};

use super::program::{Environment, Program, Started, Starter};
use super::script_failures::{ScriptFailure, ScriptFailures};
use crate::stderr;

/// Where scripts look for programs, unless a variable of the settings says it.
const PATH: (&[u8], &[u8]) = (b"PATH", b"/usr/local/bin:/usr/bin:/bin");

/// The most bytes that a script may write to standard error before the pipe is closed.
const ERROR_BYTES_MAX: usize = 256 * 1024;

const SHOWN_BYTES_MAX: usize = 8 * 1024;

/// Names of scripts that write their own HTTP responses (RFC 3875, 5), bypassing the server's checks; they are refused.
const NON_PARSED: &[u8] = b"nph-";

/// Where scripts are, and their limits.
#[derive(Clone, Debug)]
pub struct ScriptSettings {
    /// The directory that is mapped to `prefix`; no script outside is run, not even through links.
    pub directory: PathBuf,
    /// The part of the path that is removed: empty, or with a trailing slash.
    pub prefix: Vec<u8>,
    /// The script for a path that names a directory.
    pub index: Vec<u8>,
    /// The suffix that a script's name must have.
    pub suffix: Vec<u8>,
    /// Extra variables; they replace computed ones of the same name.
    pub variables: Vec<(Vec<u8>, Vec<u8>)>,
    /// The most scripts running at once.
    pub processes_max: usize,
    /// The most requests waiting for a script; more are answered 503.
    pub queue_max: usize,
    pub timeout: Duration,
}

/// A request that a script is to answer.
#[derive(Debug)]
pub(super) struct Job {
    /// The script's end of the socket pair.
    pub socket: OwnedFd,
    pub request: Vec<u8>,
    pub client: Client,
    /// True if the request's body will arrive on the socket.
    pub has_body: bool,
    /// The number of its [`ScriptRun`](super::ScriptRun).
    pub number: u64,
}

pub(super) struct ScriptProcess {
    name: String,
    program: Started,
    /// The script's end of the connection, kept to notice when the other end closes; `None` once it has.
    pub socket: Option<OwnedFd>,
    pub errors: Option<OwnedFd>,
    error_bytes: usize,
    pub ends_at: Instant,
    pub has_ended: bool,
    number: u64,
    failures: Arc<ScriptFailures>,
}

impl ScriptProcess {
    /// Starts the script for `job`.
    ///
    /// # Errors
    /// The status code for the client, and its socket.
    pub fn start(
        settings: &ScriptSettings,
        starter: &mut Starter,
        failures: &Arc<ScriptFailures>,
        job: Job,
    ) -> Result<ScriptProcess, (Status, OwnedFd)> {
        match start(settings, starter, &job) {
            Ok((name, program, errors)) => Ok(ScriptProcess {
                name,
                program,
                socket: Some(job.socket),
                errors: Some(errors),
                error_bytes: 0,
                ends_at: Instant::now() + settings.timeout,
                has_ended: false,
                number: job.number,
                failures: Arc::clone(failures),
            }),
            Err(status) => Err((status, job.socket)),
        }
    }

    pub fn pidfd(&self) -> &OwnedFd {
        &self.program.pidfd
    }

    pub fn kill(&mut self) {
        // The process ID cannot have been reused before the process is waited for.
        let _ = kill_process_group(self.program.process, Signal::KILL);
        self.end(ScriptFailure::TimedOut);
    }

    /// The process has ended.
    pub fn reap(&mut self) {
        self.end(ScriptFailure::Died);
    }

    /// The end of the process ends its response, even if other processes (its children, the server) still hold the socket.
    /// Unread input must not turn that into an error. It is a `failure` if a signal has ended it.
    fn end(&mut self, failure: ScriptFailure) {
        let has_failed = self.program.wait();
        self.has_ended = true;
        let Some(socket) = self.socket.take() else { return };
        // The loop asks for it when it sees the end of the socket.
        if has_failed {
            self.failures.record(self.number, failure);
        }
        let _ = shutdown(&socket, Shutdown::Both);
        let mut rest = [0; 16 * 1024];
        while recv(&socket, &mut rest, RecvFlags::DONTWAIT).is_ok_and(|(count, _)| count > 0) {}
    }

    /// Logs what it has written to standard error.
    pub fn read_errors(&mut self) {
        let mut bytes = [0; SHOWN_BYTES_MAX];
        let read = self.errors.as_ref().map(|errors| read(errors, &mut bytes));
        let Some(Ok(count @ 1..)) = read else {
            if read != Some(Err(Errno::INTR)) {
                self.errors = None;
            }
            return;
        };
        let room = SHOWN_BYTES_MAX.saturating_sub(self.error_bytes);
        self.error_bytes += count;
        let shown = bytes[..count.min(room)].split(|byte| *byte == b'\n');
        for line in shown.filter(|line| !line.trim_ascii().is_empty()) {
            let (name, line) = (self.name.escape_debug(), line.trim_ascii_end().escape_ascii());
            stderr::write(&format!("script {name}: {line}\n"));
        }
        if self.error_bytes > ERROR_BYTES_MAX {
            self.errors = None;
        }
    }
}

/// Starts the script for `job`; returns its name, its process, and what it writes to standard error.
fn start(
    settings: &ScriptSettings,
    starter: &mut Starter,
    job: &Job,
) -> Result<(String, Started, OwnedFd), Status> {
    let Ok(Parsed::Complete(request)) = Parser::default().parse(&job.request) else {
        return Err(Status::FieldsTooLarge);
    };
    let path = SitePath::decode(request.target).map_err(|_| Status::BadRequest)?;
    let script = find(settings, &path)?;
    let name = String::from_utf8_lossy(&script.name).into_owned();
    let (errors, theirs) = pipe_with(PipeFlags::CLOEXEC).map_err(|_| Status::ServiceUnavailable)?;
    let output = job.socket.as_fd();
    let input = job.has_body.then_some(output);
    let started = environment(settings, job, &request, &script).and_then(|environment| {
        let file = CString::new(script.file.as_os_str().as_bytes())?;
        let directory = script.file.parent().unwrap_or(Path::new("/")).as_os_str();
        let directory = CString::new(directory.as_bytes())?;
        starter.start(&Program {
            file: &file,
            environment: &environment,
            directory: &directory,
            input,
            output,
            errors: theirs.as_fd(),
        })
    });
    match started {
        Ok(program) => Ok((name, program, errors)),
        Err(error) => {
            stderr::write(&format!("script {}: {error}\n", name.escape_debug()));
            Err(match error.kind() {
                ErrorKind::PermissionDenied => Status::Forbidden,
                ErrorKind::WouldBlock | ErrorKind::OutOfMemory => Status::ServiceUnavailable,
                _ => Status::InternalServerError,
            })
        }
    }
}

/// The variables of a script; nothing of the server's own environment is passed on.
fn environment(
    settings: &ScriptSettings,
    job: &Job,
    request: &Request<'_>,
    script: &Found,
) -> io::Result<Environment> {
    let application = Application {
        root: settings.directory.as_os_str().as_bytes().to_vec(),
        variables: settings.variables.clone(),
        ..Application::default()
    };
    let known = Script {
        file: [script.file.as_os_str().as_bytes(), b""],
        name: &script.name,
        path_info: &script.path_info,
    };
    let mut environment = Environment::default();
    let mut outcome = Ok(());
    let mut add = |name: &[u8], value: &[&[u8]]| {
        if outcome.is_ok() {
            outcome = environment.add(name, value);
        }
    };
    if !settings.variables.iter().any(|(name, _)| name == PATH.0) {
        add(PATH.0, &[PATH.1]);
    }
    application.variables_for(&known, request, job.client, |_| false, &mut add);
    outcome.map(|()| environment)
}

/// A script in the directory.
struct Found {
    file: PathBuf,
    name: Vec<u8>,
    path_info: Vec<u8>,
}

/// Finds the script of a path: the first segment that is a file. The rest is PATH_INFO.
fn find(settings: &ScriptSettings, path: &SitePath<'_>) -> Result<Found, Status> {
    let rest = path.as_bytes().strip_prefix(&settings.prefix[..]).ok_or(Status::NotFound)?;
    if path.is_hidden() {
        return Err(Status::NotFound);
    }
    let mut file = settings.directory.clone();
    let mut name = [b"/", &settings.prefix[..]].concat();
    let mut end = 0;
    for segment in rest.split_inclusive(|byte| *byte == b'/') {
        end += segment.len();
        let bare = segment.strip_suffix(b"/").unwrap_or(segment);
        file.push(OsStr::from_bytes(bare));
        name.extend_from_slice(bare);
        let found = file.metadata().map_err(|error| match error.kind() {
            ErrorKind::PermissionDenied => Status::Forbidden,
            _ => Status::NotFound,
        })?;
        if found.is_file() {
            let slash = usize::from(segment.len() > bare.len());
            return check(settings, file, name, rest[end - slash..].to_vec());
        }
        name.push(b'/');
    }
    if !rest.is_empty() && !rest.ends_with(b"/") {
        return Err(Status::NotFound);
    }
    file.push(OsStr::from_bytes(&settings.index));
    name.extend_from_slice(&settings.index);
    if file.is_file() { check(settings, file, name, Vec::new()) } else { Err(Status::NotFound) }
}

fn check(
    settings: &ScriptSettings,
    file: PathBuf,
    name: Vec<u8>,
    path_info: Vec<u8>,
) -> Result<Found, Status> {
    let base = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    if base.starts_with(NON_PARSED) {
        return Err(Status::NotImplemented);
    }
    // Resolves links: a file outside of the directory is not a script.
    let file = file.canonicalize().map_err(|_| Status::NotFound)?;
    if !base.ends_with(&settings.suffix) || !file.starts_with(&settings.directory) {
        return Err(Status::NotFound);
    }
    Ok(Found { file, name, path_info })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::Duration;

    use super::*;

    #[test]
    fn which_script_answers() {
        let root = tempfile::tempdir().unwrap();
        let outside = tempfile::NamedTempFile::new().unwrap();
        let directory = root.path().canonicalize().unwrap();
        fs::create_dir(directory.join("d")).unwrap();
        for name in ["a.cgi", "d/index.cgi", "nph-x.cgi", "plain.txt", ".hidden.cgi"] {
            fs::write(directory.join(name), "").unwrap();
        }
        symlink(outside.path(), directory.join("out.cgi")).unwrap();
        let settings = ScriptSettings {
            directory: directory.clone(),
            prefix: b"cgi-bin/".to_vec(),
            index: b"index.cgi".to_vec(),
            suffix: b".cgi".to_vec(),
            variables: Vec::new(),
            processes_max: 1,
            queue_max: 1,
            timeout: Duration::from_secs(1),
        };
        let found = |target: &str| {
            let path = SitePath::decode(target.as_bytes()).unwrap();
            find(&settings, &path).map(|script| {
                let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
                (
                    script.file.into_os_string().into_string().unwrap(),
                    text(script.name),
                    text(script.path_info),
                )
            })
        };
        let expected = |file: &str, name: &str, info: &str| {
            Ok((directory.join(file).to_str().unwrap().to_owned(), name.to_owned(), info.to_owned()))
        };
        assert_eq!(found("/cgi-bin/a.cgi"), expected("a.cgi", "/cgi-bin/a.cgi", ""));
        assert_eq!(found("/cgi-bin/a.cgi/x/y?z"), expected("a.cgi", "/cgi-bin/a.cgi", "/x/y"));
        assert_eq!(found("/cgi-bin/a.cgi/"), expected("a.cgi", "/cgi-bin/a.cgi", "/"));
        assert_eq!(found("/cgi-bin/d/"), expected("d/index.cgi", "/cgi-bin/d/index.cgi", ""));
        for (target, status) in [
            ("/cgi-bin/", Status::NotFound),
            ("/cgi-bin/d", Status::NotFound),
            ("/cgi-bin/none.cgi", Status::NotFound),
            ("/cgi-bin/.hidden.cgi", Status::NotFound),
            ("/cgi-bin/out.cgi", Status::NotFound),
            ("/cgi-bin/plain.txt/a.cgi", Status::NotFound),
            ("/cgi-bin/nph-x.cgi", Status::NotImplemented),
            ("/other/a.cgi", Status::NotFound),
        ] {
            assert_eq!(found(target), Err(status), "{target}");
        }
    }
}
