//! Runs ip(8) and tc(8) of iproute2 in a namespace and interprets their errors. They know the messages of every
//! queueing discipline for every kernel; simple requests go to the kernel directly, in [`crate::netlink`].

use std::io;
use std::process::{Command, Stdio};

use thiserror::Error;

use crate::namespace::Namespace;

/// Phrases with which kernels and the programs report that a feature is missing.
const ABSENCES: [&str; 5] = [
    "Specified qdisc kind is unknown",
    "Unknown qdisc",
    "RTNETLINK answers: No such file or directory",
    "Unknown device type",
    "RTNETLINK answers: Operation not supported",
];

#[derive(Debug, Error)]
pub enum ShapingError {
    /// The kernel or program does not support it.
    #[error("the kernel's shaper does not support {0}")]
    Unsupported(&'static str),
    /// A program of iproute2 is missing.
    #[error("{0} is not installed (Debian's package is iproute2)")]
    NotInstalled(&'static str),
    #[error("this kernel has no {0}")]
    Absent(String),
    /// Any other error message.
    #[error("{words}: {said}")]
    Refused { words: String, said: String },
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Runs `program` and returns its output; `thing` names the subject in errors.
pub fn run(
    program: &'static str,
    words: &str,
    namespace: Option<&Namespace>,
    thing: &str,
) -> Result<String, ShapingError> {
    let mut command = Command::new(program);
    // Messages are interpreted here, so they must be in English.
    command.args(words.split(' ')).env("LC_ALL", "C").stdin(Stdio::null());
    if let Some(namespace) = namespace {
        namespace.runs(&mut command);
    }
    let output = command.output().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => ShapingError::NotInstalled(program),
        _ => error.into(),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(refusal(&format!("{program} {words}"), String::from_utf8_lossy(&output.stderr).trim(), thing))
}

fn refusal(words: &str, said: &str, thing: &str) -> ShapingError {
    if ABSENCES.iter().any(|absence| said.contains(absence)) {
        return ShapingError::Absent(thing.to_owned());
    }
    if said.contains("Operation not permitted") {
        return io::Error::from_raw_os_error(libc::EPERM).into();
    }
    ShapingError::Refused { words: words.to_owned(), said: said.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output_of(said: &str) -> String {
        refusal("tc qdisc add", said, "netem queueing discipline").to_string()
    }

    #[test]
    fn refusals_say_what_is_missing() {
        for absence in [
            "Error: Specified qdisc kind is unknown.",
            "Unknown qdisc \"netem\", hence option \"limit\" is unparsable",
            "RTNETLINK answers: No such file or directory",
        ] {
            assert_eq!(output_of(absence), "this kernel has no netem queueing discipline", "{absence}");
        }
        assert_eq!(output_of("Error: Exclusivity flag on."), "tc qdisc add: Error: Exclusivity flag on.");
    }

    #[test]
    fn what_takes_privileges_is_an_error_of_the_system() {
        let ShapingError::System(error) = refusal("ip", "RTNETLINK answers: Operation not permitted", "")
        else {
            panic!("it is told apart");
        };
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn programs_run_say_and_are_missed() {
        assert_eq!(run("echo", "a b", None, "").unwrap(), "a b\n");
        let missing = run("no-such-program", "a b", None, "").unwrap_err();
        assert!(matches!(missing, ShapingError::NotInstalled("no-such-program")), "{missing}");
        let failed = run("cat", "/no/such/file", None, "").unwrap_err().to_string();
        assert!(failed.starts_with("cat /no/such/file: "), "{failed}");
    }
}
