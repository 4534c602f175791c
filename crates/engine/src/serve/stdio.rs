//! `serve --stdio` and `--stdio-tls`: serves the single connection on standard input, as under inetd.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::process::ExitCode;

use anyhow::anyhow;
use rustix::fs::fstat;
use rustix::io::ioctl_fionbio;
use rustix::net::sockopt::set_tcp_nodelay;
use rustix::net::{SendFlags, getpeername, send};
use sojourn_server::connection::Transport;
use sojourn_server::{
    Architecture, Arrival, PASSED_ON, Permit, Scoreboard, Stop, ignore, reopen_on_signal, serve_one,
};

use super::Options;
use super::binary_upgrade::SUCCEED;

/// The response of a server that cannot run.
const REFUSAL: &[u8] = b"HTTP/1.1 500 Internal Server Error\r\nServer: Sojourn\r\n\
    Content-Length: 0\r\nConnection: close\r\n\r\n";

/// Serves the connection until it ends, or until a signal.
pub fn run(options: &Options, architecture: &dyn Architecture) -> anyhow::Result<ExitCode> {
    let stop = Stop::on_signals(&[libc::SIGTERM, PASSED_ON])?;
    let (socket, peer) = connection()?;
    let (scoreboard, slot) = match options.counters {
        Some((fd, index)) => {
            // SAFETY: the server that executed this program passed on the descriptor.
            let memory = unsafe { OwnedFd::from_raw_fd(fd) };
            Scoreboard::inherited(memory, index)?
        }
        None => {
            let scoreboard = Scoreboard::new();
            let slot = scoreboard.slot();
            (scoreboard, slot)
        }
    };
    reopen_on_signal(&scoreboard)?;
    SUCCEED.iter().copied().for_each(ignore);
    let mut site = options.site(architecture, scoreboard)?;
    // The server that executed this program runs the application.
    let routes = options.open_routes(&mut site, architecture)?;
    let transport = if options.stdio_tls { Transport::Tls } else { Transport::Plain };
    if transport == Transport::Tls {
        site.tls = Some(options.tls.tls(options.tickets)?);
    }
    options.process.enter_sandbox(&options.needs(routes.proxy.as_deref())?)?;
    serve_one(&site, Arrival { socket, peer, transport, permit: Permit::ANY }, slot, stop)?;
    Ok(ExitCode::SUCCESS)
}

/// Answers 500 if there is a client that does not expect TLS. Returns true if standard error is not the connection,
/// which it is under most inetds.
pub fn refuse(is_tls: bool) -> bool {
    let socket = io::stdin();
    let same = |a: BorrowedFd<'_>, b: BorrowedFd<'_>| matches!((fstat(a), fstat(b)), (Ok(a), Ok(b)) if (a.st_dev, a.st_ino) == (b.st_dev, b.st_ino));
    let is_elsewhere = !same(socket.as_fd(), io::stderr().as_fd());
    if !is_tls {
        let _ = send(&socket, REFUSAL, SendFlags::NOSIGNAL | SendFlags::DONTWAIT);
    }
    is_elsewhere
}

fn connection() -> anyhow::Result<(OwnedFd, IpAddr)> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let peer = getpeername(&socket).map_err(|error| {
        anyhow!(
            "standard input is not a connection: {error}\n\
             hint: --stdio is for inetd (nowait), or a socket unit with Accept=yes; leave it out to listen on --listen"
        )
    })?;
    let peer = peer.and_then(|peer| SocketAddr::try_from(peer).ok());
    ioctl_fionbio(&socket, true)?;
    // The socket may be of another family, without such an option.
    let _ = set_tcp_nodelay(&socket, true);
    Ok((socket, peer.map_or(Ipv4Addr::UNSPECIFIED.into(), |peer| peer.ip().to_canonical())))
}
