//! Opens connections without blocking.

use std::{
    net::{IpAddr, SocketAddr},
    os::fd::{AsFd, AsRawFd, OwnedFd},
};

use rustix::{
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, bind, connect, ipproto, socket_with, sockopt},
};

use crate::runtime::{read_rate::ReadRate, source_addresses::Sources, timestamps};

/// Descriptors kept free for the observer's files.
const DESCRIPTORS_RESERVED: u64 = 64;

/// Socket options of connections.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectOptions<'a> {
    /// Source addresses; if empty, the kernel chooses.
    pub sources: &'a [IpAddr],
    /// The limit on how fast connections are read, which makes receive buffers small.
    pub read_bytes_per_second: Option<f64>,
    /// True to enable kernel timestamps.
    pub timestamps: bool,
}

/// Opens connections to one server.
#[derive(Debug)]
pub struct Connector {
    server: SocketAddr,
    open: u64,
    open_max: u64,
    /// True if a connection is used for several sends. A single request without TLS is not delayed by Nagle's
    /// algorithm, so TCP_NODELAY's system call is saved.
    sends_often: bool,
    /// The receive buffer size, if the default would buffer more than a slow line delivers.
    receive_buffer: Option<u64>,
    timestamps: bool,
    sources: Sources,
}

impl Connector {
    /// Connects to this server, within the descriptor limit.
    pub fn new(
        server: SocketAddr,
        sends_often: bool,
        descriptors: u64,
        options: &ConnectOptions<'_>,
    ) -> Connector {
        let open_max = descriptors.saturating_sub(DESCRIPTORS_RESERVED).max(1);
        let sources = Sources::new(server, options.sources);
        let receive_buffer = options.read_bytes_per_second.map(ReadRate::buffer_bytes);
        let timestamps = options.timestamps;
        Connector { server, open: 0, open_max, sends_often, receive_buffer, timestamps, sources }
    }

    /// Starts to connect; returns the socket and the index of its source address.
    pub fn open(&mut self) -> rustix::io::Result<(OwnedFd, usize)> {
        if self.open >= self.open_max {
            return Err(Errno::MFILE);
        }
        loop {
            let source = self.sources.pick();
            match self.open_from(source) {
                Ok(socket) => {
                    self.open += 1;
                    self.sources.opened(source);
                    return Ok((socket, source));
                }
                Err(Errno::ADDRNOTAVAIL) if self.sources.exhausted() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Records that a connection from this source was closed, and by whom first.
    pub fn closed(&mut self, source: usize, by_server: bool) {
        self.open -= 1;
        self.sources.closed(source, by_server);
    }

    fn open_from(&self, source: usize) -> rustix::io::Result<OwnedFd> {
        let family = if self.server.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
        if self.sends_often {
            sockopt::set_tcp_nodelay(&socket, true)?;
        }
        if let Some(bytes) = self.receive_buffer {
            sockopt::set_socket_recv_buffer_size(&socket, bytes as usize)?;
        }
        if self.timestamps {
            // If the kernel lacks timestamps, the report says that there were none.
            let _ = timestamps::enable(socket.as_fd());
        }
        if let Some(address) = self.sources.address(source) {
            bind_without_port(&socket, address)?;
        }
        match connect(&socket, &self.server) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error),
        }
    }
}

/// Binds to an address and lets `connect` choose the port, which may also be in use towards other servers.
fn bind_without_port(socket: &OwnedFd, address: SocketAddr) -> rustix::io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option's value is an int that lives during the call, and its size is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_IP,
            libc::IP_BIND_ADDRESS_NO_PORT,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    if result != 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    bind(socket, &address)
}

/// Returns and clears a socket's pending error.
pub fn socket_error(socket: impl AsFd) -> Option<Errno> {
    match sockopt::socket_error(socket) {
        Ok(Ok(())) => None,
        Ok(Err(error)) | Err(error) => Some(error),
    }
}
