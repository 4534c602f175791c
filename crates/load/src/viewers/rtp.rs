//! Receives RTP packets and RTCP reports, by UDP and interleaved, and sends receiver reports.

use std::{net::SocketAddr, os::fd::AsFd};

use rustix::net::{SendFlags, sendto};
use sojourn_measure::{Nanos, clock};
use sojourn_media::{
    rtp::{Header, rtcp},
    rtsp::{Interleaved, write::interleaved_head},
};

use crate::{
    playout::track::Packet,
    viewers::{
        Run,
        measurements::Measurements,
        rtsp_session::{OUTPUT_BYTES_MAX, RtspSession, TrackReceiver},
        viewer::Viewer,
    },
};

/// Batches per socket before others are read.
const BATCHES_MAX: usize = 4;
/// A packet that is truncated or not RTP.
const NO_PACKET: &str = "a packet is not RTP";

impl Run {
    /// Receives packets on a track's RTP port.
    pub(crate) fn receive_media(&mut self, key: usize, track: usize) {
        let Run { table, sockets, wakeups, measurements, .. } = self;
        let viewer = &mut table.viewers[key];
        for _ in 0..BATCHES_MAX {
            let now = clock::now();
            let Some(pair) = viewer.tracks().get(track).and_then(|track| track.udp.as_ref()) else { return };
            let Ok(more) = sockets.batch.receive(pair.media.as_fd()) else { return };
            for datagram in sockets.batch.datagrams() {
                if let Some(overflowed) = datagram.overflowed {
                    measurements.overflow(viewer, track, overflowed);
                }
                let arrival = wakeups.arrivals.arrival(datagram.arrived);
                let is_own = datagram.from.is_some_and(|from| {
                    viewer.tracks()[track].may_come_from(viewer.server, from, |ports| ports.0)
                });
                if viewer.ending.is_some() {
                    continue;
                } else if !is_own {
                    measurements.foreign(viewer);
                } else if datagram.is_cut {
                    measurements.malformed(viewer, NO_PACKET);
                } else {
                    take_media(viewer, measurements, track, datagram.bytes, (arrival, now));
                }
            }
            if !more {
                return;
            }
        }
    }

    /// Receives reports on a track's RTCP port.
    pub(crate) fn receive_reports(&mut self, key: usize, track: usize) {
        let Run { table, sockets, wakeups, measurements, .. } = self;
        let viewer = &mut table.viewers[key];
        let Some(pair) = viewer.tracks().get(track).and_then(|track| track.udp.as_ref()) else { return };
        if sockets.batch.receive(pair.reports.as_fd()).is_err() {
            return;
        }
        for datagram in sockets.batch.datagrams() {
            let arrival = wakeups.arrivals.arrival(datagram.arrived);
            let way = &viewer.tracks()[track];
            if datagram.from.is_some_and(|from| way.may_come_from(viewer.server, from, |ports| ports.1)) {
                take_report(viewer, measurements, track, datagram.bytes, arrival);
            }
        }
    }

    /// Handles an interleaved packet.
    pub(crate) fn take_interleaved(
        &mut self,
        key: usize,
        packet: &Interleaved<'_>,
        arrival: Nanos,
        now: Nanos,
    ) {
        let (viewer, measurements) = (&mut self.table.viewers[key], &mut self.measurements);
        if viewer.ending.is_some() {
            return;
        }
        let media = viewer.tracks().iter().position(|way| way.channels.0 == packet.channel);
        let reports = viewer.tracks().iter().position(|way| way.channels.1 == packet.channel);
        match (media, reports) {
            (Some(track), _) => take_media(viewer, measurements, track, packet.payload, (arrival, now)),
            (None, Some(track)) => take_report(viewer, measurements, track, packet.payload, arrival),
            (None, None) => measurements.foreign(viewer),
        }
    }

    /// Sends a receiver report for every track.
    pub(crate) fn send_reports(&mut self, key: usize, now: Nanos) {
        let viewer = &mut self.table.viewers[key];
        let (serial, server) = (viewer.serial, viewer.server);
        let name = format!("viewer-{serial}@sojourn");
        let Some(RtspSession { tracks, output, .. }) = viewer.rtsp_mut() else { return };
        for (number, track) in tracks.iter_mut().enumerate() {
            let Some(report) = reception(track, now) else { continue };
            let mut datagram = Vec::new();
            let own = serial ^ ((number as u32) << 24);
            rtcp::append_receiver_report(&mut datagram, own, &[report]);
            rtcp::append_description(&mut datagram, own, &name);
            match (&track.udp, track.server_ports) {
                (Some(pair), Some((_, port))) => {
                    let to = SocketAddr::new(server, port);
                    // A lost report is one that the network could have lost.
                    let _ = sendto(&pair.reports, &datagram, SendFlags::NOSIGNAL, &to);
                }
                (None, _) if output.len() < OUTPUT_BYTES_MAX => {
                    output.extend(interleaved_head(track.channels.1, datagram.len() as u16));
                    output.extend(datagram);
                }
                _ => {}
            }
        }
        if !output.is_empty() {
            self.flush(key, now);
        }
    }
}

fn reception(track: &mut TrackReceiver, now: Nanos) -> Option<rtcp::Reception> {
    let report = track.playout.receiver_report()?;
    let (last_report, came) = track.sender_report.unwrap_or((0, now));
    Some(rtcp::Reception {
        last_report,
        since_last_report: ((now - came).seconds() * 65_536.0) as u32,
        ..report
    })
}

/// Handles a media packet that arrived at `arrival` and was read `now`.
fn take_media(
    viewer: &mut Viewer,
    measurements: &mut Measurements,
    track: usize,
    bytes: &[u8],
    (arrival, now): (Nanos, Nanos),
) {
    let way = &mut viewer.tracks_mut()[track];
    let header = match Header::parse(bytes) {
        Ok((header, _)) if header.payload_type == way.payload_type => header,
        _ => return measurements.malformed(viewer, NO_PACKET),
    };
    let packet = Packet { ssrc: header.source, sequence: header.sequence, timestamp: header.timestamp };
    let is_void = measurements.receive_lag(now - arrival);
    let found = way.playout.take(&packet, arrival, is_void);
    measurements.arrival(viewer, &found, bytes.len());
    if found.order.is_some() {
        if viewer.last_packet.is_none() {
            let requested = viewer.rtsp().map_or(arrival, |session| session.play_requested);
            measurements.times.first_packet.record(arrival - requested);
        }
        viewer.last_packet = Some(viewer.last_packet.unwrap_or(arrival).max(arrival));
    }
}

fn take_report(
    viewer: &mut Viewer,
    measurements: &mut Measurements,
    track: usize,
    bytes: &[u8],
    arrival: Nanos,
) {
    for packet in rtcp::packets(bytes) {
        let way = &mut viewer.tracks_mut()[track];
        match packet {
            Ok(rtcp::Packet::Sender(report, _)) => way.sender_report = Some((report.ntp.middle(), arrival)),
            Ok(rtcp::Packet::Goodbye { .. }) => way.is_over = true,
            Ok(_) => {}
            Err(_) => return measurements.malformed(viewer, NO_PACKET),
        }
    }
}
