//! The accept queue of a listening port, and the processes that listen there.
//!
//! Socket diagnosis ([`diagnosis`]) returns only listeners. If that is not permitted (a container, a foreign
//! namespace), [`table`] reads /proc up to the end of its listeners.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{fs, io};

use super::Source;
use super::namespace::Namespace;
use crate::Reading;

mod diagnosis;
mod table;

use diagnosis::Diagnosis;

pub const NAMES: &[&str] = &["accept_queue"];

/// The listeners of a port.
pub struct Listener {
    method: Method,
    port: u16,
}

/// The method that works here.
enum Method {
    Diagnosis(Diagnosis),
    Table(Namespace),
}

#[derive(Debug, PartialEq)]
struct Socket {
    queue: u64,
    inode: u64,
}

impl Listener {
    pub fn open(namespace: Namespace, port: Option<u16>) -> Result<Listener, &'static str> {
        let port = port.ok_or("no port was named")?;
        // Only the first query shows whether it is permitted.
        let asked = Diagnosis::begin(&namespace).and_then(|mut asked| asked.sockets(port).map(|_| asked));
        let method = asked.map_or(Method::Table(namespace), Method::Diagnosis);
        Ok(Listener { method, port })
    }

    fn sockets(&mut self) -> io::Result<Vec<Socket>> {
        match &mut self.method {
            Method::Diagnosis(diagnosis) => diagnosis.sockets(self.port),
            Method::Table(namespace) => table::sockets(namespace, self.port),
        }
    }
}

impl Source for Listener {
    fn names(&self) -> &'static [&'static str] {
        NAMES
    }

    fn read(&mut self) -> Vec<Reading<f64>> {
        let sockets: Reading<_> = self.sockets().into();
        vec![sockets.and_then(|sockets| match sockets.len() {
            0 => Err("no process listens on the port any more"),
            _ => Ok(sockets.iter().map(|socket| socket.queue as f64).sum()),
        })]
    }
}

/// The processes that listen on a port in the calling thread's network namespace.
pub fn listening_on(port: u16) -> io::Result<Vec<u32>> {
    let listener = Namespace::of(None).and_then(|namespace| Listener::open(namespace, Some(port)));
    let sockets = match listener {
        Reading::Value(mut listener) => listener.sockets()?,
        Reading::Unavailable(why) => return Err(io::Error::other(why)),
    };
    let inodes: BTreeSet<u64> = sockets.iter().map(|socket| socket.inode).collect();
    let mut pids = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(descriptors) = fs::read_dir(entry.path().join("fd")) else { continue };
        let socket =
            |link: PathBuf| link.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse::<u64>().ok();
        let mut links = descriptors.flatten().filter_map(|each| fs::read_link(each.path()).ok());
        if links.any(|link| socket(link).is_some_and(|inode| inodes.contains(&inode))) {
            pids.push(pid);
        }
    }
    pids.sort_unstable();
    Ok(pids)
}

#[cfg(test)]
mod tests;
