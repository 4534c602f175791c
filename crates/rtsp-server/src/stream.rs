//! A session being served: its state machine, film, schedule, and packet counters.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use sojourn_content::{Document, Urgency};

use crate::film::Film;
use crate::film_cache::{Bytes, Chunk, FilmCache, OpenFilm};
use crate::send_schedule::{Due, Schedule};
use sojourn_media::packetiser::Unit;
use sojourn_media::rtp::rtcp::Reception;
use sojourn_media::rtsp::{LowerTransport, Playing, Session};

#[derive(Debug)]
pub struct Stream {
    pub session: Session,
    pub film: Arc<Film>,
    pub document: Arc<Document>,
    /// The film's URL as in SETUP.
    pub url: String,
    /// The client's address; only it may control the session.
    pub client: IpAddr,
    /// The same address as used for datagrams.
    pub peer: IpAddr,
    /// The user, with authentication.
    pub user: Option<String>,
    pub agent: String,
    pub connection: u64,
    pub is_orphan: bool,
    /// The index of the sockets for its datagrams.
    pub ports: usize,
    /// `None` unless playing.
    pub schedule: Option<Schedule>,
    /// True while a helper reads the next data.
    pub is_waiting: bool,
    pub began: Duration,
    /// A chunk that a helper failed to read.
    unreadable: Option<Chunk>,
    /// Distinguishes its wake-ups from those for an earlier PLAY.
    pub serial: u32,
    /// One per track, in the order of the session's tracks.
    pub senders: Vec<Sender>,
    /// When sender reports are next due.
    pub report_due: Duration,
    /// The last chunk of the file that was read ahead, and when to read ahead again.
    pub looked: (u64, Duration),
    /// Totals for the access log.
    pub totals: Totals,
    held: Vec<(Chunk, Arc<[u8]>)>,
}

/// The sending state of a track.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    /// Packets and payload bytes as counted in sender reports.
    pub packets: u32,
    pub octets: u32,
    /// The RTP timestamp at the start of playing.
    pub anchor: u32,
    /// True while samples are dropped up to the next keyframe.
    pub is_skipping: bool,
    /// The chunk of the file at which the next sample probably begins.
    pub chunk: u64,
    /// The receiver's last report.
    pub reception: Option<Reception>,
}

/// The totals of a session.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub packets: u64,
    /// Bytes sent, including RTP headers.
    pub bytes: u64,
    /// Samples dropped because the client was too slow.
    pub dropped: u64,
    /// The largest delay of a sample after its due time.
    pub lateness_max: Duration,
}

/// The bytes of a unit.
pub enum Found {
    /// Contiguous in this chunk, at this offset.
    Within(Arc<[u8]>, usize),
    /// Gathered in the given buffer.
    Gathered,
    Later,
    /// Too many wait: ask again later.
    Busy,
    Never,
}

impl Stream {
    /// A stream of `open` for `session`, controlled by `connection`.
    pub fn new(session: Session, open: OpenFilm, url: String, connection: u64) -> Stream {
        Stream {
            session,
            film: open.film,
            document: open.document,
            url,
            client: IpAddr::from([0, 0, 0, 0]),
            peer: IpAddr::from([0, 0, 0, 0]),
            user: None,
            agent: String::new(),
            connection,
            is_orphan: false,
            ports: 0,
            schedule: None,
            is_waiting: false,
            began: Duration::ZERO,
            unreadable: None,
            serial: 0,
            senders: Vec::new(),
            report_due: Duration::ZERO,
            looked: (0, Duration::ZERO),
            totals: Totals::default(),
            held: Vec::new(),
        }
    }

    /// The mean bit rate, which is reserved once the session has played.
    pub fn bits_per_second(&self) -> u64 {
        self.session.tracks.iter().map(|track| self.film.bits_per_second(track.number)).sum()
    }

    /// Returns true if packets go through the connection.
    pub fn is_interleaved(&self) -> bool {
        self.session.tracks.iter().any(|track| track.transport.lower == LowerTransport::Tcp)
    }

    /// The RTP and RTCP addresses of the receiver of track `position`.
    pub fn receivers(&self, position: usize) -> Option<[SocketAddr; 2]> {
        let transport = &self.session.tracks[position].transport;
        let (rtp, rtcp) = transport.client_ports.filter(|_| transport.lower == LowerTransport::Udp)?;
        Some([SocketAddr::new(self.peer, rtp), SocketAddr::new(self.peer, rtcp)])
    }

    /// The index in the session of the film's track `number`.
    pub fn position(&self, number: usize) -> Option<usize> {
        self.session.tracks.iter().position(|track| track.number == number)
    }

    /// Starts playing; returns when the first sample is due.
    pub fn start(&mut self, playing: Playing) -> Option<Duration> {
        self.halt();
        (self.began, self.unreadable) = (playing.began, None);
        for (track, sender) in self.session.tracks.iter().zip(&mut self.senders) {
            let clock_rate = self.film.track(track.number).map_or(0, |it| it.codec().clock_rate());
            sender.anchor = self.session.timestamp(track, clock_rate, self.began);
            sender.is_skipping = false;
        }
        self.report_due = self.began;
        // Seeking does not cause additional read-ahead.
        self.looked.0 = 0;
        let tracks = self.session.tracks.iter().map(|track| track.number);
        let schedule = Schedule::new(&self.film, tracks, playing);
        let due = schedule.next_due();
        self.schedule = Some(schedule);
        due
    }

    pub fn halt(&mut self) {
        self.schedule = None;
        self.is_waiting = false;
        self.serial = self.serial.wrapping_add(1);
    }

    /// The bytes of the `due` unit; gathered in `room` if they span several chunks.
    pub fn find(&mut self, due: &Due, film_cache: &mut FilmCache, token: u64, room: &mut Vec<u8>) -> Found {
        let unit = &due.unit;
        let (start, end) = (unit.first.offset, unit.first.offset + u64::from(unit.size));
        let chunk_bytes = self.document.chunk_bytes();
        let chunks = start / chunk_bytes..=end.saturating_sub(1).max(start) / chunk_bytes;
        for number in chunks.clone() {
            match self.hold(number, film_cache, token, due.at) {
                Bytes::Here(_) => {}
                Bytes::Later => {
                    // Also read the rest of it meanwhile.
                    film_cache.look_ahead(&self.document, number + 1..*chunks.end() + 1, Urgency::Due);
                    return Found::Later;
                }
                Bytes::Busy => return Found::Busy,
                Bytes::Never => return Found::Never,
            }
        }
        let chunk = |number| self.held(number);
        let first_offset = (start % chunk_bytes) as usize;
        if chunks.start() == chunks.end() {
            return chunk(*chunks.start()).map_or(Found::Never, |it| Found::Within(it, first_offset));
        }
        room.clear();
        for number in chunks {
            let Some(chunk) = chunk(number) else { return Found::Never };
            let from = if room.is_empty() { first_offset } else { 0 };
            let to = chunk.len().min(from + unit.size as usize - room.len());
            room.extend_from_slice(chunk.get(from..to).unwrap_or_default());
        }
        if room.len() == unit.size as usize { Found::Gathered } else { Found::Never }
    }

    /// Receives a chunk that a helper has read or failed to read.
    pub fn take(&mut self, chunk: Chunk, bytes: Option<Arc<[u8]>>) {
        match bytes {
            Some(bytes) => self.held.push((chunk, bytes)),
            None => self.unreadable = Some(chunk),
        }
    }

    /// Drops the chunks that are behind the tracks' units, of which that of track `position` has been sent.
    pub fn drop_used(&mut self, position: usize, unit: &Unit) {
        let end = unit.first.offset + u64::from(unit.size);
        self.senders[position].chunk = end / self.document.chunk_bytes();
        let senders = &self.senders;
        self.held.retain(|(chunk, _)| senders.iter().any(|sender| sender.chunk == chunk.number));
    }

    fn hold(&mut self, number: u64, film_cache: &mut FilmCache, token: u64, due: Duration) -> Bytes {
        if let Some(chunk) = self.held(number) {
            return Bytes::Here(chunk);
        }
        let wanted = Chunk { document: self.document.id, number };
        // A failing disk would fail again; do not ask for the rest of the session.
        if self.unreadable == Some(wanted) {
            return Bytes::Never;
        }
        let bytes = film_cache.chunk(&self.document, number, token, due);
        if let Bytes::Here(chunk) = &bytes {
            self.held.push((wanted, Arc::clone(chunk)));
        }
        bytes
    }

    fn held(&self, number: u64) -> Option<Arc<[u8]>> {
        let wanted = Chunk { document: self.document.id, number };
        self.held.iter().rev().find(|(chunk, _)| *chunk == wanted).map(|(_, bytes)| Arc::clone(bytes))
    }
}

#[cfg(test)]
pub mod tests {
    use std::path::Path;

    use super::*;
    use sojourn_content::{Directory, Found as Opened, HostId, Origin, Resource, Rules};
    use sojourn_http::SitePath;
    use sojourn_media::mp4::example;
    use sojourn_media::rtsp::SessionId;

    /// A stream of the example film, which it writes to `folder`; no track is set up.
    pub fn example_stream(folder: &Path) -> Stream {
        std::fs::write(folder.join("film.mp4"), example::film()).unwrap();
        let directory = Directory::new(folder, Rules::default()).unwrap();
        let resource = Resource { host: HostId::default(), path: SitePath::decode(b"/film.mp4").unwrap() };
        let Opened::Document(document) = directory.open(&resource).unwrap() else { panic!("a document") };
        let film = Arc::new(Film::new(example::read(&example::film()).unwrap()));
        let open = OpenFilm { film, document };
        let session = Session::new(SessionId(1), Duration::ZERO);
        Stream::new(session, open, "rtsp://host/film.mp4".to_owned(), 1)
    }

    #[test]
    fn only_the_chunks_at_which_tracks_are_about_to_send_are_held() {
        let folder = tempfile::tempdir().unwrap();
        let mut stream = example_stream(folder.path());
        let unit = stream.film.unit(0, 0).unwrap();
        stream.senders = vec![Sender::default(), Sender { chunk: 5, ..Sender::default() }];
        let chunk_bytes = stream.document.chunk_bytes();
        let (id, bytes) = (stream.document.id, Arc::<[u8]>::from(vec![0; 10]));
        for number in [0, 2, 3, 4, 5, 7] {
            stream.take(Chunk { document: id, number }, Some(Arc::clone(&bytes)));
        }
        let mut sent = unit;
        sent.first.offset = 3 * chunk_bytes;
        sent.size = chunk_bytes as u32;
        stream.drop_used(0, &sent);
        assert_eq!(stream.held.iter().map(|(chunk, _)| chunk.number).collect::<Vec<_>>(), [4, 5]);
    }
}
