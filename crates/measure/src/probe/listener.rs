//! The accept queue of a listening port, and the processes that listen there.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::{fs, io};

use super::Source;
use super::namespace::Namespace;
use crate::Reading;

/// Its counters.
pub const NAMES: &[&str] = &["accept_queue"];

/// The state LISTEN in /proc/net/tcp.
const LISTEN: &str = "0A";

/// A port whose listeners are looked at.
pub struct Listener {
    namespace: Namespace,
    port: u16,
}

impl Listener {
    /// The port in that namespace.
    pub fn open(namespace: Namespace, port: Option<u16>) -> Result<Listener, &'static str> {
        port.map(|port| Listener { namespace, port }).ok_or("no port was named")
    }
}

impl Source for Listener {
    fn names(&self) -> &'static [&'static str] {
        NAMES
    }

    fn read(&mut self) -> Vec<Reading<f64>> {
        let sockets = sockets(&self.namespace, self.port);
        vec![sockets.and_then(|sockets| match sockets.len() {
            0 => Err("nobody listens on the port any more"),
            _ => Ok(sockets.iter().map(|socket| socket.queue as f64).sum()),
        })]
    }
}

/// The processes that listen on a port, in our network namespace.
pub fn listening_on(port: u16) -> io::Result<Vec<u32>> {
    let namespace = Namespace::of(None);
    let inodes: BTreeSet<u64> = match namespace.map(|namespace| sockets(&namespace, port)) {
        Reading::Value(Reading::Value(sockets)) => sockets.iter().map(|socket| socket.inode).collect(),
        Reading::Value(Reading::Unavailable(why)) | Reading::Unavailable(why) => {
            return Err(io::Error::other(why));
        }
    };
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

struct Socket {
    queue: u64,
    inode: u64,
}

fn sockets(namespace: &Namespace, port: u16) -> Reading<Vec<Socket>> {
    let six = namespace.text("tcp6");
    namespace.text("tcp").map(|four| {
        let mut sockets = listening(&four, port);
        // A machine without IPv6 has no such file.
        sockets.extend(six.value().map(|six| listening(six, port)).unwrap_or_default());
        sockets
    })
}

/// The listening sockets come first in the list, so its length costs nothing: it ends at the first other one.
fn listening(text: &str, port: u16) -> Vec<Socket> {
    let rows = text.lines().skip(1).map(|line| line.split_ascii_whitespace().collect::<Vec<_>>());
    let listeners = rows.take_while(|row| row.get(3) == Some(&LISTEN));
    let socket = |row: Vec<&str>| {
        let (_, local_port) = row.get(1)?.rsplit_once(':')?;
        let (_, queue) = row.get(4)?.split_once(':')?;
        (u16::from_str_radix(local_port, 16).ok()? == port).then_some(())?;
        Some(Socket { queue: u64::from_str_radix(queue, 16).ok()?, inode: row.get(9)?.parse().ok()? })
    };
    listeners.filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_connection_that_nobody_accepted_is_in_the_queue() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let namespace = Namespace::of(None).value().unwrap().clone();
        let mut source = Listener::open(namespace, Some(address.port())).ok().unwrap();
        let waiting = TcpStream::connect(address).unwrap();
        assert_eq!(source.read(), [Reading::Value(1.0)]);
        let accepted = listener.accept().unwrap();
        assert_eq!(source.read(), [Reading::Value(0.0)]);
        assert_eq!(listening_on(address.port()).unwrap(), [std::process::id()]);
        drop((waiting, accepted, listener));
        assert!(matches!(source.read()[0], Reading::Unavailable(_)));
    }
}
