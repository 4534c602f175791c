//! The sandbox: once a server has started it gives up what it does not need, so that a fault in it reaches little.
//!
//! Three parts, each by the kernel's own means: the files that it may open and the ports that it may connect to
//! (Landlock), the system calls that it may make (seccomp), and the privileges that it and its children can ever have
//! (capabilities). It is the calling thread that enters; threads and processes that it starts from then on are inside,
//! too, and none of them can leave. So whatever starts other programs is started before.

use std::fmt;
use std::path::PathBuf;

mod files;
mod privileges;
mod system_calls;

pub use files::RESOLVER;

/// What a server still needs once it has started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Files and directories to read, with all that is below them.
    pub read: Vec<PathBuf>,
    /// Directories below which files are read, written, made, renamed and removed.
    pub write: Vec<PathBuf>,
    /// Directories in which files, as logs, are made and written, and not read.
    pub append: Vec<PathBuf>,
    pub connections: Connections,
}

/// The TCP connections that a server makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Connections {
    #[default]
    None,
    /// To these ports.
    To(Vec<u16>),
    Any,
}

/// A part of the sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Files,
    Ports,
    SystemCalls,
    Privileges,
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Part::Files => "files (Landlock)",
            Part::Ports => "ports to connect to (Landlock)",
            Part::SystemCalls => "system calls (seccomp)",
            Part::Privileges => "privileges (capabilities)",
        }
    }
}

/// A part that is missing, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    pub part: Part,
    reason: String,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.part.name(), self.reason)
    }
}

/// The calling thread enters the sandbox, with whatever it starts from now on; returns the parts that are missing here.
pub fn enter(needs: &Needs) -> Vec<Missing> {
    let mut missing = Vec::new();
    let mut check = |part, outcome: Result<(), String>| {
        if let Err(reason) = outcome {
            missing.push(Missing { part, reason });
        }
    };
    check(Part::Privileges, privileges::give_up());
    match files::restrict(needs) {
        Ok(ports) => check(Part::Ports, ports),
        Err(reason) => check(Part::Files, Err(reason)),
    }
    // Last: the others need calls that are then forbidden.
    check(Part::SystemCalls, system_calls::restrict());
    missing
}

/// Which parts this system offers, without entering.
pub fn offered() -> [(&'static str, Result<(), String>); 2] {
    [("Landlock", files::version().map(drop)), ("seccomp", system_calls::offered())]
}

#[cfg(test)]
mod tests;
