//! Opens and closes viewers' sockets: connections and pairs of UDP ports, within the descriptor limit.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    os::fd::OwnedFd,
};

use rustix::io::Errno;

use crate::{
    runtime::{
        connector::{ConnectOptions, Connector},
        udp::{Batch, Ports, UdpPair},
    },
    viewers::viewer::{OpenedBy, Viewer},
};

/// Descriptors kept free.
const DESCRIPTORS_RESERVED: u64 = 64;
/// Bytes per read of a connection.
const BUFFER_BYTES: usize = 64 * 1024;

pub(crate) struct Sockets {
    connectors: Vec<Connector>,
    /// By server, and whether its viewers read slowly.
    connector_of: BTreeMap<(SocketAddr, bool), usize>,
    slow_bytes_per_second: f64,
    ports: Ports,
    receive_buffer_bytes: Option<usize>,
    pub(crate) descriptors: u64,
    descriptors_left: u64,
    /// Buffers for one receive call on a UDP socket.
    pub(crate) batch: Batch,
    /// The buffer for one receive call on a connection.
    pub(crate) buffer: Box<[u8]>,
}

impl Sockets {
    pub(crate) fn new(
        descriptors: u64,
        slow_bytes_per_second: f64,
        receive_buffer_bytes: Option<usize>,
    ) -> Sockets {
        Sockets {
            connectors: Vec::new(),
            connector_of: BTreeMap::new(),
            slow_bytes_per_second,
            ports: Ports::new(),
            receive_buffer_bytes,
            descriptors,
            descriptors_left: descriptors.saturating_sub(DESCRIPTORS_RESERVED),
            batch: Batch::new(),
            buffer: vec![0; BUFFER_BYTES].into(),
        }
    }

    /// Begins to connect to a server.
    pub(crate) fn connect(
        &mut self,
        server: SocketAddr,
        is_slow: bool,
    ) -> rustix::io::Result<(OwnedFd, OpenedBy)> {
        if self.descriptors_left == 0 {
            return Err(Errno::MFILE);
        }
        let connector = self.connector(server, is_slow);
        let (socket, source) = self.connectors[connector].open()?;
        self.descriptors_left -= 1;
        Ok((socket, OpenedBy { connector, source }))
    }

    /// Reconnects with the connector of a connection that the server has closed.
    pub(crate) fn connect_again(&mut self, before: OpenedBy) -> rustix::io::Result<(OwnedFd, OpenedBy)> {
        let connector = &mut self.connectors[before.connector];
        let (socket, source) = connector.open()?;
        connector.closed(before.source, true);
        Ok((socket, OpenedBy { source, ..before }))
    }

    /// Opens a track's pair of ports at a local address.
    pub(crate) fn open_pair(&mut self, local: IpAddr) -> rustix::io::Result<UdpPair> {
        if self.descriptors_left < 2 {
            return Err(Errno::MFILE);
        }
        let pair = self.ports.open(local, self.receive_buffer_bytes)?;
        self.descriptors_left -= 2;
        Ok(pair)
    }

    /// Records that a connection was closed, and by whom first.
    pub(crate) fn disconnected(&mut self, opened_by: OpenedBy, by_server: bool) {
        self.connectors[opened_by.connector].closed(opened_by.source, by_server);
        self.descriptors_left += 1;
    }

    /// Records that all sockets of a viewer are closed, and who closed its connection first.
    pub(crate) fn close(&mut self, viewer: &Viewer, by_server: bool) {
        self.disconnected(viewer.opened_by, by_server);
        let pairs = viewer.tracks().iter().filter(|track| track.udp.is_some()).count();
        self.descriptors_left += 2 * pairs as u64;
    }

    fn connector(&mut self, server: SocketAddr, is_slow: bool) -> usize {
        let Sockets { connectors, slow_bytes_per_second, descriptors, .. } = self;
        *self.connector_of.entry((server, is_slow)).or_insert_with(|| {
            let options = ConnectOptions {
                read_bytes_per_second: is_slow.then_some(*slow_bytes_per_second),
                timestamps: true,
                ..ConnectOptions::default()
            };
            connectors.push(Connector::new(server, true, *descriptors, &options));
            connectors.len() - 1
        })
    }
}
