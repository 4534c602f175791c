//! RTCP: sends sender reports, and receives receiver reports.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sojourn_server::Clients;

use super::{Server, Stream};
use crate::counters::Counter;
use sojourn_media::rtp::NtpTime;
use sojourn_media::rtp::rtcp::{
    self, Packet, Reception, SenderReport, append_description, append_goodbye, append_sender_report,
};

/// The interval of sender reports per session (RFC 3550, 6.2: at least five seconds for few receivers).
pub const REPORT_PERIOD: Duration = Duration::from_secs(5);

/// The longest report datagram that is read.
const REPORT_BYTES_MAX: usize = 2048;

/// Datagrams read in one loop iteration.
const REPORTS_PER_ITERATION: usize = 256;

/// The CNAME of the server's sources; a random one (RFC 7022) would convey nothing more.
const NAME: &str = "sojourn";

impl Server<'_> {
    /// Sends a report for each track of session `token`; at the end with BYE.
    pub(super) fn report(&mut self, token: u64, is_over: bool) {
        let time_of_day =
            NtpTime::from_unix(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
        for position in 0..self.streams.at(token).session.tracks.len() {
            let stream = self.streams.at(token);
            let datagram = stream.sender_report(position, time_of_day, self.now, is_over);
            match (stream.receivers(position), stream.session.tracks[position].transport.channels) {
                (Some([_, to]), _) => {
                    let ports = stream.ports;
                    if is_over {
                        // Send the last packets before BYE.
                        self.flush_ports(ports);
                    }
                    if self.ports[ports].send_report(&datagram, to) {
                        self.counts.add(Counter::SentBytes, datagram.len() as u64);
                    }
                }
                (None, Some((_, channel))) => {
                    if let Some(connection) = self.connections.find(stream.connection) {
                        connection.push_packet(channel, &[&datagram]);
                        self.unsent.push(stream.connection);
                    }
                }
                (None, None) => {}
            }
        }
    }

    pub(super) fn receive_reports(&mut self, ports: usize) {
        let mut room = [0; REPORT_BYTES_MAX];
        for _ in 0..REPORTS_PER_ITERATION {
            let Some((datagram, from)) = self.ports[ports].receive_report(&mut room) else { return };
            // Reports from unknown senders are ignored.
            match reporter(&mut self.streams, &self.sources, datagram, from)
                .or_else(|| self.receivers.get(&(from.ip(), from.port())).copied())
            {
                Some(token) => self.handle_report(token, datagram),
                None => self.counts.count(Counter::ReportsIgnored),
            }
        }
    }

    /// Handles reports from the client of session `token`.
    pub(super) fn handle_report(&mut self, token: u64, datagram: &[u8]) {
        let Some(stream) = self.streams.find(token) else { return };
        for packet in rtcp::packets(datagram) {
            let receptions = match packet {
                Ok(Packet::Receiver { receptions, .. } | Packet::Sender(_, receptions)) => receptions,
                Ok(_) => continue,
                Err(_) => return self.counts.count(Counter::ReportsIgnored),
            };
            stream.session.keep_alive(self.now);
            self.counts.count(Counter::ReceiverReports);
            let lost = stream.note(receptions);
            self.counts.add(Counter::PacketsReportedLost, lost);
        }
    }
}

/// The session that a report is about, if it comes from that session's receiver. Another session of the same address
/// may have claimed the same ports since, by mistake or to divert the reports.
fn reporter(
    streams: &mut Clients<Stream>,
    sources: &HashMap<u32, u64>,
    datagram: &[u8],
    from: SocketAddr,
) -> Option<u64> {
    for packet in rtcp::packets(datagram) {
        let (Packet::Receiver { receptions, .. } | Packet::Sender(_, receptions)) = packet.ok()? else {
            continue;
        };
        for reception in receptions {
            let Some(token) = sources.get(&reception.source).copied() else { continue };
            if streams.find(token).is_some_and(|stream| stream.is_receiver(from)) {
                return Some(token);
            }
        }
    }
    None
}

impl Stream {
    fn is_receiver(&self, from: SocketAddr) -> bool {
        let mut receivers = (0..self.session.tracks.len()).filter_map(|position| self.receivers(position));
        receivers.any(|[_, rtcp]| (rtcp.ip(), rtcp.port()) == (from.ip(), from.port()))
    }

    fn sender_report(&self, position: usize, ntp: NtpTime, now: Duration, is_over: bool) -> Vec<u8> {
        let (track, sender) = (&self.session.tracks[position], &self.senders[position]);
        let clock_rate = self.film.track(track.number).map_or(0, |it| it.codec().clock_rate());
        let report = SenderReport {
            source: track.source,
            ntp,
            timestamp: self.session.timestamp(track, clock_rate, now),
            packets: sender.packets,
            octets: sender.octets,
        };
        let mut datagram = Vec::with_capacity(64);
        append_sender_report(&mut datagram, &report, &[]);
        append_description(&mut datagram, track.source, NAME);
        if is_over {
            append_goodbye(&mut datagram, track.source);
        }
        datagram
    }

    /// Keeps the last report of each track; returns the number of newly lost packets.
    fn note(&mut self, receptions: Vec<Reception>) -> u64 {
        let mut lost = 0;
        for reception in receptions {
            let track = self.session.tracks.iter().position(|track| track.source == reception.source);
            let Some(sender) = track.map(|position| &mut self.senders[position]) else { continue };
            let before = sender.reception.map_or(0, |last| last.lost);
            lost += u64::try_from(reception.lost - before).unwrap_or(0);
            sender.reception = Some(reception);
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};

    use super::*;
    use crate::counters::Published;
    use crate::server::Site;
    use crate::settings::Settings;
    use crate::stream::Sender;
    use crate::stream::tests::example_stream;
    use sojourn_media::rtsp::{Track, Transport};
    use sojourn_server::{Scoreboard, Stop};

    /// A socket that would block is imitated: on loopback none does.
    #[test]
    fn a_session_that_ends_while_the_socket_is_blocked_does_not_leave_it_so() {
        let folder = tempfile::tempdir().unwrap();
        let (scoreboard, published) = (Scoreboard::new(), Published::default());
        let (stop, retire) = (Stop::new().unwrap(), Stop::new().unwrap());
        let site = Site {
            root: folder.path(),
            listeners: vec![TcpListener::bind("127.0.0.1:0").unwrap()],
            users: None,
            settings: Settings::default(),
            retire: &retire,
            scoreboard: &scoreboard,
            log: None,
            published: &published,
        };
        let mut server = Server::new(site, &stop).unwrap();
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        receiver.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let to = receiver.local_addr().unwrap();
        let mut stream = example_stream(folder.path());
        stream.peer = to.ip();
        let transport = Transport::udp((to.port(), to.port()));
        let track = Track { number: 0, transport, source: 1, sequence: 0, timestamp_base: 0 };
        stream.session.set_up(track).unwrap();
        stream.senders.push(Sender::default());
        let token = server.streams.vacant();
        server.streams.insert(stream);
        // An earlier flush could not send this, and waits until it can be.
        server.ports[0].datagrams.push(to, &[b"picture"]);
        server.watch_datagrams(0, true);
        server.report(token, true);
        assert!(!server.is_blocked());
        assert_eq!(server.counts.value(Counter::SendCalls), 1);
        let mut room = [0; 1500];
        let length = receiver.recv(&mut room).unwrap();
        assert_eq!(&room[..length], b"picture", "it comes before the BYE");
        // Even without anything left to send, nothing waits for ever.
        server.watch_datagrams(0, true);
        server.flush();
        assert!(!server.is_blocked());
    }
}
