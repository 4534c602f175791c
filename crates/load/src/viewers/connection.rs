//! A viewer's connection, RTSP or HLS: its events, and its registration with epoll.

use std::mem;

use rustix::event::epoll::EventFlags;
use sojourn_measure::{Nanos, clock};

use crate::viewers::{Run, viewer::Protocol};

/// The connection was established or has failed.
const CONNECTED: EventFlags = EventFlags::OUT.union(EventFlags::ERR).union(EventFlags::HUP);
const READABLE: EventFlags = EventFlags::IN.union(EventFlags::ERR).union(EventFlags::HUP);

impl Run {
    /// Handles an event on a viewer's connection.
    pub(crate) fn on_connection(&mut self, key: usize, serial: u32, flags: EventFlags) {
        let now = clock::now();
        if self.is_connecting(key) {
            if flags.intersects(CONNECTED) {
                self.on_connected(key, flags, now);
            }
            return;
        }
        if flags.contains(EventFlags::OUT) {
            self.send_rest(key, now);
        }
        if flags.intersects(READABLE) && self.table.is_live(key, serial) {
            self.read(key, now);
        }
    }

    fn on_connected(&mut self, key: usize, flags: EventFlags, now: Nanos) {
        match &self.table.viewers[key].protocol {
            Protocol::Rtsp(_) => self.on_rtsp_connected(key, now),
            Protocol::Hls(_) => self.on_hls_connected(key, flags, now),
        }
    }

    fn send_rest(&mut self, key: usize, now: Nanos) {
        match &self.table.viewers[key].protocol {
            Protocol::Rtsp(_) => self.flush(key, now),
            Protocol::Hls(_) => self.send_rest_of_request(key, now),
        }
    }

    /// Reads available data, as much as one loop iteration or the read rate allows.
    pub(crate) fn read(&mut self, key: usize, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        if viewer.is_vanished() {
            return;
        }
        if let Some(rate) = viewer.read_rate()
            && mem::replace(&mut rate.waiting, false)
        {
            // If there is nothing to read yet, what arrives later is an event again.
            self.watch(key);
        }
        match &self.table.viewers[key].protocol {
            Protocol::Rtsp(_) => self.read_messages(key, now),
            Protocol::Hls(_) => self.read_response(key, now),
        }
    }

    /// Stops reading the connection of a slow viewer until its read rate allows more.
    pub(crate) fn read_later_if_slow(&mut self, key: usize) {
        let viewer = &mut self.table.viewers[key];
        let serial = viewer.serial;
        let Some(rate) = viewer.read_rate() else { return };
        if !mem::replace(&mut rate.waiting, true) {
            self.wakeups.slow_reads.set(rate.free_at(), key, serial);
        }
        self.watch(key);
    }

    /// Registers the connection for the events that matter now.
    pub(crate) fn watch(&mut self, key: usize) {
        let viewer = &mut self.table.viewers[key];
        let interest = viewer.interest();
        if let Some(socket) = viewer.socket() {
            self.wakeups.watch_for(socket, viewer.connection_source(key), interest);
        }
    }

    fn is_connecting(&self, key: usize) -> bool {
        let viewer = &self.table.viewers[key];
        match &viewer.protocol {
            Protocol::Rtsp(_) => viewer.is_connecting(),
            Protocol::Hls(session) => session.connecting_since().is_some(),
        }
    }
}
