//! The sandbox: once started, a server gives up what it does not need, which limits the damage of a compromise.
//!
//! It has three parts, each enforced by the kernel: the files it may open and the ports it may connect to (Landlock),
//! the system calls it may make (seccomp), and the privileges that it and its children can ever have (capabilities).
//! The calling thread enters; threads and processes that it starts afterwards are inside, too, and cannot leave.
//! Processes that start other programs must therefore be started earlier.

use std::fmt;
use std::path::PathBuf;

mod files;
mod privileges;
mod system_calls;

pub use files::RESOLVER;

/// What a server still needs once it has started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Files and directories that it reads, including everything below.
    pub read: Vec<PathBuf>,
    /// Directories below which it reads, writes, creates, renames and removes files.
    pub write: Vec<PathBuf>,
    /// Directories in which it creates and writes files, such as logs, without reading.
    pub append: Vec<PathBuf>,
    pub connections: Connections,
    /// Whether it sends datagrams over the Internet.
    pub datagrams: bool,
    /// Whether it uses io_uring.
    pub io_uring: bool,
}

impl Needs {
    /// Whether it makes sockets of the Internet families once it has started.
    fn internet_sockets(&self) -> bool {
        self.datagrams || self.connections != Connections::None
    }
}

/// The TCP connections that a server makes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Connections {
    #[default]
    None,
    /// Only to these ports.
    To(Vec<u16>),
    Any,
}

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

/// A missing part, with the reason.
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

/// Confines the calling thread and everything it starts from now on; returns the parts that are missing here.
pub fn enter(needs: &Needs) -> Vec<Missing> {
    let mut missing = Vec::new();
    let mut check = |part, outcome: Result<(), String>| {
        if let Err(reason) = outcome {
            missing.push(Missing { part, reason });
        }
    };
    check(Part::Privileges, privileges::drop_privileges());
    match files::restrict(needs) {
        Ok(ports) => check(Part::Ports, ports),
        Err(reason) => check(Part::Files, Err(reason)),
    }
    // Last, because the other parts need calls that are then forbidden.
    check(Part::SystemCalls, system_calls::restrict(needs.internet_sockets(), needs.io_uring));
    missing
}

/// Tests which parts this system offers, without entering.
pub fn offered() -> [(&'static str, Result<(), String>); 2] {
    [("Landlock", files::version().map(drop)), ("seccomp", system_calls::offered())]
}

#[cfg(test)]
mod tests;
