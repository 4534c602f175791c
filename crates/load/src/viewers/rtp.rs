//! Receives RTP packets and reports, by UDP and interleaved, and sends receiver reports.

use std::{net::SocketAddr, os::fd::AsFd};

use rustix::net::{SendFlags, sendto};
use sojourn_measure::{Nanos, clock};
use sojourn_media::{
    rtp::{Header, rtcp},
    rtsp::write::interleaved_head,
};

use crate::{
    playout::track::Packet,
    viewers::{
        run::Run,
        viewer::{OUTPUT_BYTES_MAX, Viewer},
    },
};

/// Batches taken from one socket before others are looked at.
const BATCHES_MAX: usize = 4;
/// A packet that was truncated by its sender or is not RTP.
const NO_PACKET: &str = "a packet is no RTP";

impl Run {
    /// Takes what has come on a track's port for packets.
    pub(crate) fn receive_media(&mut self, key: usize, track: usize) {
        let Some(mut batch) = self.batch.take() else { return };
        for _ in 0..BATCHES_MAX {
            let now = clock::now();
            let viewer = &self.viewers[key];
            let (server, is_over) = (viewer.server, viewer.ending.is_some());
            let Some(pair) = viewer.tracks.get(track).and_then(|way| way.udp.as_ref()) else { break };
            let Ok(more) = batch.receive(pair.media.as_fd()) else { break };
            for datagram in batch.datagrams() {
                if let Some(overflowed) = datagram.overflowed {
                    self.note_overflow(key, track, overflowed);
                }
                let arrival = self.arrival(datagram.arrived);
                let way = &self.viewers[key].tracks[track];
                let is_ours =
                    datagram.from.is_some_and(|from| way.may_come_from(server, from, |ports| ports.0));
                if is_over {
                    continue;
                } else if !is_ours {
                    self.count_foreign(key);
                } else if datagram.is_cut {
                    self.count_malformed(key);
                } else {
                    self.take_media(key, track, datagram.bytes, arrival, now);
                }
            }
            if !more {
                break;
            }
        }
        self.batch = Some(batch);
    }

    /// Takes what has come on a track's port for reports.
    pub(crate) fn receive_reports(&mut self, key: usize, track: usize) {
        let Some(mut batch) = self.batch.take() else { return };
        let viewer = &self.viewers[key];
        let (server, pair) = (viewer.server, viewer.tracks.get(track).and_then(|way| way.udp.as_ref()));
        if pair.is_some_and(|pair| batch.receive(pair.reports.as_fd()).is_ok()) {
            for datagram in batch.datagrams() {
                let arrival = self.arrival(datagram.arrived);
                let way = &self.viewers[key].tracks[track];
                if datagram.from.is_some_and(|from| way.may_come_from(server, from, |ports| ports.1)) {
                    self.take_report(key, track, datagram.bytes, arrival);
                }
            }
        }
        self.batch = Some(batch);
    }

    /// Takes a packet that came between replies.
    pub(crate) fn take_interleaved(
        &mut self,
        key: usize,
        channel: u8,
        payload: &[u8],
        arrival: Nanos,
        now: Nanos,
    ) {
        let viewer = &self.viewers[key];
        if viewer.ending.is_some() {
            return;
        }
        let media = viewer.tracks.iter().position(|way| way.channels.0 == channel);
        let reports = viewer.tracks.iter().position(|way| way.channels.1 == channel);
        match (media, reports) {
            (Some(track), _) => self.take_media(key, track, payload, arrival, now),
            (None, Some(track)) => self.take_report(key, track, payload, arrival),
            (None, None) => self.count_foreign(key),
        }
    }

    fn take_media(&mut self, key: usize, track: usize, bytes: &[u8], arrival: Nanos, now: Nanos) {
        let way = &mut self.viewers[key].tracks[track];
        let Ok((header, _)) = Header::parse(bytes) else { return self.count_malformed(key) };
        if header.payload_type != way.payload_type {
            return self.count_malformed(key);
        }
        let packet = Packet { ssrc: header.source, sequence: header.sequence, timestamp: header.timestamp };
        let lag = now - arrival;
        self.times.receive_lag.record(lag);
        let found = way.playout.take(&packet, arrival, lag > self.plan.limits.receive_lag);
        let viewer = &mut self.viewers[key];
        if let Some(behind) = found.behind.filter(|_| viewer.is_judged()) {
            self.times.behind.record(behind);
            self.recent.record(behind);
        }
        viewer.counts.take(&found, bytes.len());
        self.counts.take(&found, bytes.len());
        if found.place.is_some() {
            if viewer.last_packet.is_none() {
                self.times.first_packet.record(arrival - viewer.play_asked);
            }
            viewer.last_packet = Some(viewer.last_packet.unwrap_or(arrival).max(arrival));
        }
    }

    fn take_report(&mut self, key: usize, track: usize, bytes: &[u8], arrival: Nanos) {
        let way = &mut self.viewers[key].tracks[track];
        for packet in rtcp::packets(bytes) {
            match packet {
                Ok(rtcp::Packet::Sender(report, _)) => {
                    way.sender_report = Some((report.ntp.middle(), arrival))
                }
                Ok(rtcp::Packet::Goodbye { .. }) => way.is_over = true,
                Ok(_) => {}
                Err(_) => return self.count_malformed(key),
            }
        }
    }

    fn count_foreign(&mut self, key: usize) {
        self.viewers[key].counts.foreign += 1;
        self.counts.foreign += 1;
    }

    fn count_malformed(&mut self, key: usize) {
        self.viewers[key].counts.malformed += 1;
        self.counts.malformed += 1;
        self.complain(NO_PACKET.to_owned());
    }

    /// The kernel says how many it has thrown away at a socket since that was opened.
    fn note_overflow(&mut self, key: usize, track: usize, overflowed: u32) {
        let viewer = &mut self.viewers[key];
        let Some(pair) = &mut viewer.tracks[track].udp else { return };
        let more = u64::from(overflowed.wrapping_sub(pair.overflowed));
        pair.overflowed = overflowed;
        viewer.counts.overflowed += more;
        self.counts.overflowed += more;
    }

    /// Sends a receiver report for every track.
    pub(crate) fn report(&mut self, key: usize, now: Nanos) {
        let viewer = &mut self.viewers[key];
        let name = format!("viewer-{}@sojourn", viewer.serial);
        let mut is_queued = false;
        for track in 0..viewer.tracks.len() {
            let Some(report) = reception(viewer, track, now) else { continue };
            let mut datagram = Vec::new();
            let own = viewer.serial ^ ((track as u32) << 24);
            rtcp::append_receiver_report(&mut datagram, own, &[report]);
            rtcp::append_description(&mut datagram, own, &name);
            let way = &viewer.tracks[track];
            match (&way.udp, way.server_ports) {
                (Some(pair), Some((_, port))) => {
                    let to = SocketAddr::new(viewer.server, port);
                    // A report that is lost is one that a network could have lost.
                    let _ = sendto(&pair.reports, &datagram, SendFlags::NOSIGNAL, &to);
                }
                (None, _) if viewer.output.len() < OUTPUT_BYTES_MAX => {
                    viewer.output.extend(interleaved_head(way.channels.1, datagram.len() as u16));
                    viewer.output.extend(datagram);
                    is_queued = true;
                }
                _ => {}
            }
        }
        if is_queued {
            self.flush(key, now);
        }
    }
}

fn reception(viewer: &mut Viewer, track: usize, now: Nanos) -> Option<rtcp::Reception> {
    let way = &mut viewer.tracks[track];
    let report = way.playout.receiver_report()?;
    let (last_report, came) = way.sender_report.unwrap_or((0, now));
    Some(rtcp::Reception {
        last_report,
        since_last_report: ((now - came).seconds() * 65_536.0) as u32,
        ..report
    })
}
