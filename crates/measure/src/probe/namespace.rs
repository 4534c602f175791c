//! The network namespace of the watched processes: TCP counters and interface bytes.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::{io, thread};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::Source;
use crate::tcp::TcpCounters;
use crate::{Reading, proc_file};

pub const NAMES: &[&str] = &[
    "listen_overflows",
    "listen_drops",
    "retransmitted_segments",
    "network_received_bytes",
    "network_sent_bytes",
];

const OURS: &str = "/proc/thread-self";

#[derive(Clone, Debug)]
pub struct Namespace {
    process: PathBuf,
}

impl Namespace {
    /// The namespace of a process, or the calling thread's.
    pub fn of(pid: Option<u32>) -> Reading<Namespace> {
        let process = pid.map_or(OURS.into(), |pid| format!("/proc/{pid}"));
        let namespace = Namespace { process: PathBuf::from(process) };
        namespace.text("dev").map(|_| namespace)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.process.join("net").join(name)
    }

    fn text(&self, name: &str) -> Reading<String> {
        proc_file::read(&self.file(name).to_string_lossy()).into()
    }

    /// Runs `work` inside the namespace. Entering a foreign namespace needs CAP_SYS_ADMIN.
    pub fn inside<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        let (ours, theirs) = (fs::metadata(format!("{OURS}/ns/net"))?, self.process.join("ns/net"));
        let seen = fs::metadata(&theirs)?;
        if (seen.dev(), seen.ino()) == (ours.dev(), ours.ino()) {
            return work();
        }
        let namespace = File::open(theirs)?;
        // The thread cannot be used for anything else afterwards, so it ends.
        thread::scope(|scope| {
            let done = scope.spawn(|| {
                move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
                work()
            });
            done.join().expect("work in a namespace does not panic")
        })
    }
}

impl Source for Namespace {
    fn names(&self) -> &'static [&'static str] {
        NAMES
    }

    fn read(&mut self) -> Vec<Reading<f64>> {
        let tcp = self.text("netstat").zip(self.text("snmp"));
        let tcp = tcp.and_then(|(extensions, base)| TcpCounters::parse(&extensions, &base));
        let bytes = self.text("dev").and_then(|text| interface_bytes(&text).ok_or("no interface is listed"));
        vec![
            tcp.clone().map(|tcp| tcp.listen_overflows as f64),
            tcp.clone().map(|tcp| tcp.listen_drops as f64),
            tcp.map(|tcp| tcp.retransmitted_segments as f64),
            bytes.clone().map(|(received, _)| received as f64),
            bytes.map(|(_, sent)| sent as f64),
        ]
    }
}

/// Bytes received and sent, summed over interfaces. Each line is a name, a colon, and eight figures per direction,
/// bytes first.
fn interface_bytes(text: &str) -> Option<(u64, u64)> {
    let mut rows = text.lines().filter_map(|line| line.split_once(':')).peekable();
    rows.peek()?;
    let mut sums = (0, 0);
    for (_, figures) in rows {
        let figures: Vec<u64> = figures.split_ascii_whitespace().flat_map(str::parse).collect();
        sums = (sums.0 + figures.first()?, sums.1 + figures.get(8)?);
    }
    Some(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adds_the_interfaces_up() {
        let text = "Inter-| Receive\n face |bytes\n  lo: 10 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0\neth0:5 1 0 0 0 0 0 0 7 1 0 0 0 0 0 0\n";
        assert_eq!(interface_bytes(text), Some((15, 27)));
        assert_eq!(interface_bytes("nothing"), None);
    }

    #[test]
    fn a_process_that_does_not_exist_has_none() {
        assert!(matches!(Namespace::of(Some(u32::MAX)), Reading::Unavailable(_)));
        assert!(Namespace::of(None).value().is_some());
    }
}
