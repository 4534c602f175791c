//! Sends due samples as packets, in datagrams or interleaved.

use std::cmp::Reverse;
use std::time::Duration;

use sojourn_content::Urgency;
use sojourn_measure::clock;

use super::rtcp_reports::REPORT_PERIOD;
use super::{SLOT, STREAMS, Server, slot};
use crate::control_connection::Connection;
use crate::counters::{Counter, Counts};
use crate::send_schedule::Due;
use crate::stream::{Found, Stream};
use crate::udp_ports::Ports;
use sojourn_media::rtp::Header;
use sojourn_media::rtsp::LowerTransport;
use sojourn_media::sdp;

/// Datagrams are gathered up to this size; beyond that a system call gets no cheaper.
const BATCH_BYTES: usize = 1 << 20;

/// Sessions served before connections are read again.
const SESSIONS_PER_ITERATION: usize = 1024;

/// The buffer for a slow interleaved client: at least this much, or this duration of the film.
const WAITING_BYTES_MIN: usize = 256 * 1024;
const WAITING_SECONDS: u64 = 2;

/// How long a session waits after the helpers' queue was full.
const BUSY_RETRY: Duration = Duration::from_millis(20);

/// The delay of RTCP BYE after the last presentation time. Players drop what they still buffer when it arrives, some of
/// them half a second (ffmpeg, to reorder packets).
const GOODBYE_GRACE: Duration = Duration::from_millis(500);

/// How many bytes of one picture are sent as datagrams per slot: at least this, at least twice the session's average,
/// and enough to send all of it within [`BURST_SLOTS_MAX`]. Receivers have room for about 300 packets, and a picture of
/// more at once would be lost.
const BURST_BYTES_MIN: usize = 64 * 1024;
const BURST_SLOTS_MAX: usize = 20;

/// How often a session reads ahead, as a fraction of the distance.
const LOOKS: u32 = 4;

/// The most chunks read per session at a time.
const LOOK_CHUNKS_MAX: u64 = 64;

/// The result of sending a due unit.
enum Sent {
    Done,
    /// This many packets were sent; the rest follows in the next slots.
    Part(usize),
    Later,
    Busy,
}

impl Server<'_> {
    /// Sends the samples due in this slot.
    pub(super) fn pace(&mut self) {
        let horizon = slot(self.now) + SLOT;
        for _ in 0..SESSIONS_PER_ITERATION {
            // If a socket is blocked, more would only accumulate.
            if self.is_blocked() {
                return;
            }
            let Some(Reverse((due, token, serial))) = self.due.peek().copied() else { return };
            if due >= horizon {
                return;
            }
            self.due.pop();
            self.send_due(token, serial, horizon);
        }
    }

    /// Returns true if a socket is blocked.
    pub(super) fn is_blocked(&self) -> bool {
        self.ports.iter().any(|ports| ports.is_blocked)
    }

    /// Sends what session `token` must send before `horizon`.
    fn send_due(&mut self, token: u64, serial: u32, horizon: Duration) {
        let Some(stream) = self.streams.find(token).filter(|stream| stream.serial == serial) else { return };
        let Some(mut schedule) = stream.schedule.take() else { return };
        let film = stream.film.clone();
        let mut wake = None;
        while let Some(due) = schedule.peek() {
            if due.at >= horizon {
                wake = Some(due.at);
                break;
            }
            match self.send(token, &schedule, &due) {
                Sent::Done => schedule.advance(&film),
                Sent::Part(packets) => {
                    schedule.send_part(packets);
                    wake = Some(self.now + SLOT);
                    break;
                }
                Sent::Later => {
                    self.counts.count(Counter::WaitsForDisk);
                    self.streams.at(token).is_waiting = true;
                    break;
                }
                Sent::Busy => {
                    wake = Some(self.now + BUSY_RETRY);
                    break;
                }
            }
        }
        let all_is_sent = schedule.next_due().is_none();
        let goodbye = schedule.end(&film) + GOODBYE_GRACE;
        let is_over = all_is_sent && goodbye < horizon;
        if all_is_sent && !is_over {
            wake = Some(goodbye);
        }
        let stream = self.streams.at(token);
        stream.schedule = Some(schedule);
        if let Some(wake) = wake {
            self.due.push(Reverse((wake, token, serial)));
        }
        if self.now >= stream.report_due {
            stream.report_due = self.now + REPORT_PERIOD;
            self.report(token, false);
        }
        if is_over {
            self.report(token, true);
            let stream = self.streams.at(token);
            stream.halt();
            stream.session.finish();
        } else if !all_is_sent {
            self.look_ahead(token);
        }
    }

    /// Sends one unit, or finds that it cannot be sent.
    fn send(&mut self, token: u64, schedule: &crate::send_schedule::Schedule, due: &Due) -> Sent {
        let stream = self.streams.at(token);
        let Some(position) = stream.position(due.track) else { return Sent::Done };
        let connection = match stream.session.tracks[position].transport.lower {
            LowerTransport::Udp => None,
            LowerTransport::Tcp => Some(stream.connection),
        };
        if let Some(connection) = connection {
            let Some(connection) = self.connections.find(connection) else { return Sent::Done };
            if stream.drops(position, due, connection.waiting_bytes()) {
                let samples = due.unit.samples.len() as u64;
                stream.totals.dropped += samples;
                self.counts.add(Counter::FramesDropped, samples);
                return Sent::Done;
            }
        }
        let found = stream.find(due, &mut self.film_cache, token | STREAMS, &mut self.room);
        let within;
        let bytes = match found {
            Found::Within(chunk, start) => {
                within = chunk;
                within.get(start..start + due.unit.size as usize).unwrap_or_default()
            }
            Found::Gathered => self.room.as_slice(),
            Found::Later => return Sent::Later,
            Found::Busy => return Sent::Busy,
            Found::Never => {
                self.counts.add(Counter::FramesUnreadable, due.unit.samples.len() as u64);
                return Sent::Done;
            }
        };
        let sink = match connection {
            None => PacketSink::Datagrams(&mut self.ports[stream.ports]),
            Some(token) => {
                self.unsent.push(token);
                PacketSink::Connection(self.connections.at(token))
            }
        };
        if due.sent_packets == 0 {
            let lateness = Duration::from(clock::now()).saturating_sub(due.at);
            stream.totals.lateness_max = stream.totals.lateness_max.max(lateness);
            self.counts.lateness.record(lateness.into());
        }
        let part = stream.send(position, schedule, due, bytes, sink, &mut self.counts);
        if part.is_none() {
            stream.drop_used(position, &due.unit);
        }
        if self.ports[stream.ports].datagrams.bytes() > BATCH_BYTES {
            let ports = stream.ports;
            self.flush_ports(ports);
        }
        part.map_or(Sent::Done, Sent::Part)
    }

    /// Sends the datagrams of this loop iteration.
    pub(super) fn flush(&mut self) {
        for number in 0..self.ports.len() {
            self.flush_ports(number);
        }
        let mut unsent = std::mem::take(&mut self.unsent);
        unsent.sort_unstable();
        unsent.dedup();
        for token in unsent.drain(..) {
            let Some(connection) = self.connections.find(token) else { continue };
            match connection.write(self.now) {
                Ok(sent) => self.counts.add(Counter::SentBytes, sent as u64),
                Err(_) => self.close(token),
            }
        }
        self.unsent = unsent;
    }

    /// Sends the datagrams of these ports, and notes whether their socket would block.
    pub(super) fn flush_ports(&mut self, number: usize) {
        let ports = &mut self.ports[number];
        if ports.datagrams.is_empty() && !ports.is_blocked {
            return;
        }
        let was_blocked = ports.is_blocked;
        let sending = ports.flush();
        self.counts.add(Counter::SendCalls, sending.calls);
        self.counts.add(Counter::SendErrors, sending.refused);
        if was_blocked != sending.is_blocked {
            self.watch_datagrams(number, sending.is_blocked);
        }
    }

    /// Reads ahead from disk what this session needs soon.
    fn look_ahead(&mut self, token: u64) {
        let look_ahead = self.site.settings.look_ahead;
        let stream = self.streams.at(token);
        let (looked, again) = stream.looked;
        let Some(playing) = stream.session.playing().filter(|_| !look_ahead.is_zero() && self.now >= again)
        else {
            return;
        };
        let position = playing.position(self.now);
        let chunk_bytes = stream.document.chunk_bytes();
        let chunk = |time| {
            let tracks = stream.session.tracks.iter().filter_map(|track| stream.film.track(track.number));
            let samples = tracks.filter_map(move |track| track.sample(track.sample_at(time)));
            samples.map(|sample| (sample.offset / chunk_bytes, sample.end() / chunk_bytes))
        };
        let first = chunk(position).map(|(start, _)| start).min().unwrap_or(0).max(looked);
        let end = chunk(position + look_ahead).map(|(_, end)| end + 1).max().unwrap_or(0);
        let end = end.min(first + LOOK_CHUNKS_MAX);
        stream.looked = (looked.max(end), self.now + look_ahead / LOOKS);
        let reads = self.film_cache.look_ahead(&stream.document, first..end, Urgency::Ahead);
        self.counts.add(Counter::LookAheadReads, reads);
    }
}

/// Where a session's packets go.
enum PacketSink<'w> {
    Datagrams(&'w mut Ports),
    Connection(&'w mut Connection),
}

impl Stream {
    /// Returns true if a due sample is dropped because this many bytes wait in the connection: whole samples, and
    /// pictures up to the next keyframe.
    fn drops(&mut self, position: usize, due: &Due, waiting_bytes: usize) -> bool {
        let bytes_per_second = self.bits_per_second() / 8;
        let most =
            usize::try_from(WAITING_SECONDS * bytes_per_second).unwrap_or(usize::MAX).max(WAITING_BYTES_MIN);
        let is_video = self.film.track(due.track).is_some_and(|track| track.codec().is_video());
        let sender = &mut self.senders[position];
        if waiting_bytes > most {
            sender.is_skipping = true;
        } else if sender.is_skipping && waiting_bytes <= most / 2 {
            sender.is_skipping = is_video && !due.unit.first.is_sync;
        }
        sender.is_skipping
    }

    /// How many bytes of a unit of this size are sent as datagrams in one slot.
    fn burst_bytes(&self, unit_bytes: usize) -> usize {
        let slot_bytes = u128::from(self.bits_per_second() / 8) * SLOT.as_nanos() / 1_000_000_000;
        let twice = usize::try_from(2 * slot_bytes).unwrap_or(usize::MAX);
        BURST_BYTES_MIN.max(twice).max(unit_bytes / BURST_SLOTS_MAX)
    }

    /// Sends as much of the `due` unit `bytes` as this slot allows; returns the number of packets sent so far if some
    /// are left.
    fn send(
        &mut self,
        position: usize,
        schedule: &crate::send_schedule::Schedule,
        due: &Due,
        bytes: &[u8],
        mut sink: PacketSink<'_>,
        counts: &mut Counts,
    ) -> Option<usize> {
        let burst_bytes = self.burst_bytes(bytes.len()) as u64;
        let track = self.film.track(due.track)?;
        let Ok(packets) = self.film.packetiser(due.track).packets(track, &due.unit, bytes) else {
            counts.add(Counter::FramesUnreadable, due.unit.samples.len() as u64);
            return None;
        };
        let receiver = self.receivers(position).map(|[rtp, _]| rtp);
        let known = &mut self.session.tracks[position];
        let sender = &mut self.senders[position];
        let mut sent_bytes = 0;
        for (number, packet) in packets.enumerate().skip(due.sent_packets) {
            if sent_bytes >= burst_bytes && receiver.is_some() {
                return Some(number);
            }
            let header = Header {
                marker: packet.marker,
                payload_type: sdp::payload_type(due.track),
                sequence: known.sequence,
                timestamp: schedule.timestamp(track, packet.timestamp, sender.anchor),
                source: known.source,
            };
            known.sequence = known.sequence.wrapping_add(1);
            let parts = [&header.bytes()[..], packet.head(), packet.body];
            let length = parts.iter().map(|part| part.len()).sum::<usize>() as u64;
            match (&mut sink, receiver, known.transport.channels) {
                (PacketSink::Datagrams(ports), Some(to), _) => {
                    ports.datagrams.push(to, &parts);
                    counts.add(Counter::SentBytes, length);
                }
                (PacketSink::Connection(connection), _, Some((channel, _))) => {
                    connection.push_packet(channel, &parts)
                }
                _ => return None,
            }
            sent_bytes += length;
            let payload = packet.payload_bytes();
            sender.packets = sender.packets.wrapping_add(1);
            sender.octets = sender.octets.wrapping_add(payload as u32);
            self.totals.packets += 1;
            self.totals.bytes += length;
            counts.count(Counter::Packets);
            counts.add(Counter::PayloadBytes, payload as u64);
        }
        counts.add(Counter::FramesSent, due.unit.samples.len() as u64);
        None
    }
}
