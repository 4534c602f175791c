//! N-copy: an AMPED loop per core, each with a listening socket of its own on the same port.
//!
//! The kernel distributes connections over the sockets by a hash of their addresses (`SO_REUSEPORT`): evenly in number,
//! without regard to load. The copies are threads with separate caches and helpers; they share only the connection
//! limit.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::num::NonZero;
use std::thread::{available_parallelism, scope};

use rustix::net::sockopt::{set_socket_reuseaddr, set_socket_reuseport, set_tcp_congestion, tcp_congestion};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with};
use sojourn_content::Budgets;

use super::{Architecture, Defaults};
use crate::counters::Served;
use crate::runtime::disk::HelperDisk;
use crate::runtime::epoll::Loop;
use crate::runtime::sockets::accept::Listener;
use crate::runtime::sockets::options::{defer_accept, deferral, queue_length};
use crate::site::Site;
use crate::stop::Stop;

/// One AMPED loop per core.
pub struct Ncopy;

impl Architecture for Ncopy {
    fn name(&self) -> &'static str {
        "ncopy"
    }

    fn summary(&self) -> &'static str {
        "N amped loops (one per core), each with its own socket on the same port"
    }

    fn defaults(&self) -> Defaults {
        let workers = available_parallelism().map_or(1, NonZero::get);
        Defaults { workers: Some(workers), ..Defaults::default() }
    }

    fn listeners(&self, listeners: Vec<Listener>, workers: usize) -> io::Result<Vec<Listener>> {
        Ok(distribute(listeners, workers)?.into_iter().flatten().collect())
    }

    fn serve(&self, site: &Site, listeners: Vec<Listener>, stop: &Stop) -> io::Result<Served> {
        let site = &share(site);
        let shares = distribute(listeners, site.workers)?;
        // All copies are created before any thread: helper processes should start first, and once the first loop runs,
        // no other may fail for lack of descriptors.
        let copy = |listeners| Loop::new(site, listeners, stop, HelperDisk::new(site)?);
        let mut copies = shares.into_iter().map(copy).collect::<io::Result<Vec<_>>>()?;
        let own = copies.pop().expect("at least one");
        // If one fails, stop all; otherwise the others would go on and hide the failure.
        let serve = &|copy: Loop<'_, HelperDisk>| copy.run().inspect_err(|_| stop.request());
        scope(|scope| {
            let threads: Vec<_> = copies.into_iter().map(|copy| scope.spawn(move || serve(copy))).collect();
            let own = serve(own);
            threads
                .into_iter()
                .map(|thread| thread.join().expect("a loop does not panic"))
                .fold(own, Result::and)
        })?;
        Ok(site.counters())
    }
}

/// The site for one copy: the limit of open documents is divided, because descriptors belong to the process.
fn share(site: &Site) -> Site {
    let documents_max = (site.budgets.documents_max / site.workers).max(1);
    Site { budgets: Budgets { documents_max, ..site.budgets }, ..site.clone() }
}

/// A listening socket for each copy on every address of `listeners`. A predecessor may have passed several for one
/// address; all are served, because the kernel sends connections to each.
fn distribute(listeners: Vec<Listener>, copies: usize) -> io::Result<Vec<Vec<Listener>>> {
    let mut addresses: Vec<(SocketAddr, Vec<Listener>)> = Vec::new();
    for listener in listeners {
        set_socket_reuseport(&listener.socket, true)?;
        let address = listener.socket.local_addr()?;
        match addresses.iter_mut().find(|(known, _)| *known == address) {
            Some((_, sockets)) => sockets.push(listener),
            None => addresses.push((address, vec![listener])),
        }
    }
    let mut shares: Vec<Vec<Listener>> = (0..copies).map(|_| Vec::new()).collect();
    for (_, mut sockets) in addresses {
        while sockets.len() < copies {
            let Listener { socket, transport } = &sockets[0];
            // The predecessor's socket may belong to another user, or its port to root: then copies share it.
            let socket = another_listener(socket).or_else(|_| socket.try_clone())?;
            sockets.push(Listener { socket, transport: *transport });
        }
        for (number, socket) in sockets.into_iter().enumerate() {
            shares[number % copies].push(socket);
        }
    }
    Ok(shares)
}

fn another_listener(first: &TcpListener) -> io::Result<TcpListener> {
    let address = first.local_addr()?;
    let family = match address {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_reuseaddr(&socket, true)?;
    set_socket_reuseport(&socket, true)?;
    set_tcp_congestion(&socket, &tcp_congestion(first)?)?;
    bind(&socket, &address)?;
    listen(&socket, queue_length(first)?.limit as i32)?;
    if let Some(timeout) = deferral(first) {
        defer_accept(&socket, timeout)?;
    }
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Transport;

    #[test]
    fn copies_share_a_port() {
        let first = TcpListener::bind("127.0.0.1:0").unwrap();
        listen(&first, 7).unwrap();
        let address = first.local_addr().unwrap();
        let first = Listener { socket: first, transport: Transport::Plain };
        let shares = distribute(vec![first], 3).unwrap();
        assert!(shares.len() == 3 && shares.iter().all(|share| share.len() == 1));
        assert!(shares.iter().all(|share| share[0].socket.local_addr().unwrap() == address));
        assert!(shares.iter().all(|share| queue_length(&share[0].socket).unwrap().limit == 7));
        // A successor with fewer copies serves them all.
        let left = shares.into_iter().flatten().collect();
        let shares = distribute(left, 2).unwrap();
        assert_eq!(shares.iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    }
}
