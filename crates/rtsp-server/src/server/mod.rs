//! The streaming server's event loop.

mod accept;
mod methods;
mod pacing;
mod requests;
mod rtcp_reports;
mod setup;
mod timeouts;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use sojourn_measure::{Nanos, clock, process::thread_core_wait};
use sojourn_media::rtsp::SessionId;
use sojourn_server::connection::Transport;
use sojourn_server::{
    ACCEPT_WAIT_MAX, Acceptor, AccessLog, Clients, Clock, Limits, Listener, Scoreboard, Stop,
    listening_is_complete,
};

use crate::admission::{Admission, EvictionOrder};
use crate::authentication::{Authenticator, Users};
use crate::control_connection::{self, Connection};
use crate::counters::{Counter, Counts, Published};
use crate::film_cache::{FilmCache, Outcome};
use crate::settings::Settings;
use crate::stream::Stream;
use crate::udp_ports::Ports;
use accept::SHED;

/// Everything due within a slot is sent together.
pub const SLOT: Duration = Duration::from_millis(5);

/// The period of the check for timeouts.
const SWEEP_PERIOD: Duration = Duration::from_secs(1);

/// Between two publications of the counters.
const PUBLISH_PERIOD: Duration = Duration::from_millis(250);

/// Between two judgements of the disk.
const DISK_PERIOD: Duration = Duration::from_millis(250);

/// Events taken from one wait.
const EVENTS_MAX: usize = 512;

const STOP: u64 = u64::MAX;
const HELPERS: u64 = u64::MAX - 1;
const RETIRE: u64 = u64::MAX - 2;

/// Tokens other than connections start here, by kind; the number follows.
const LISTENERS: u64 = 1 << 60;
const REPORTS: u64 = 2 << 60;
const DATAGRAMS: u64 = 3 << 60;
/// Tokens of sessions.
const STREAMS: u64 = 4 << 60;
const KIND: u64 = 7 << 60;

/// The server's films, users and configuration.
pub struct Site<'a> {
    pub root: &'a Path,
    pub listeners: Vec<TcpListener>,
    pub settings: Settings,
    /// `None` without authentication.
    pub users: Option<Users>,
    /// Requested when an upgraded process serves: this one accepts no new connections and ends with its last session.
    pub retire: &'a Stop,
    /// Counts connections, and announces that log files must be reopened.
    pub scoreboard: &'a Scoreboard,
    pub log: Option<&'a AccessLog>,
    /// Where counters are published.
    pub published: &'a Published,
}

/// A server that is ready to run.
pub struct Server<'a> {
    site: Site<'a>,
    stop: &'a Stop,
    limits: Limits,
    epoll: OwnedFd,
    acceptors: Vec<Acceptor>,
    /// Set when descriptors have run out: accepting pauses until the next sweep.
    accepting_is_paused: bool,
    is_draining: bool,
    /// The sockets of datagrams, for each listener.
    ports: Vec<Ports>,
    film_cache: FilmCache,
    authenticator: Option<Authenticator>,
    connections: Clients<Connection>,
    streams: Clients<Stream>,
    sessions: HashMap<SessionId, u64>,
    /// The session that receives reports from an address and port.
    receivers: HashMap<(IpAddr, u16), u64>,
    /// The session with this SSRC.
    sources: HashMap<u32, u64>,
    /// When each playing session must send next; the serial identifies outdated entries.
    due: BinaryHeap<Reverse<(Duration, u64, u32)>>,
    /// Connections without a session.
    sessionless: EvictionOrder,
    /// Sessions that have never played.
    unplayed: EvictionOrder,
    /// When each session that may never have played started, oldest first.
    setups: VecDeque<(Duration, u64)>,
    admission: Admission,
    /// Connections that may have input, in the order of service.
    ready: VecDeque<u64>,
    clock: Clock,
    now: Duration,
    swept: Duration,
    /// When the disk was last judged.
    judged: Duration,
    shown: Duration,
    counts: Counts,
    /// How long this thread had waited for a core when it started.
    waited_before: Option<Nanos>,
    /// A buffer for units that span several chunks.
    room: Vec<u8>,
    /// Connections with new output in this loop iteration.
    unsent: Vec<u64>,
}

impl<'a> Server<'a> {
    /// A server of `site` until `stop`.
    ///
    /// # Errors
    /// If sockets, the directory or threads are not available.
    pub fn new(mut site: Site<'a>, stop: &'a Stop) -> io::Result<Server<'a>> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let watch = |fd: BorrowedFd<'_>, token| {
            epoll::add(&epoll, fd, epoll::EventData::new_u64(token), epoll::EventFlags::IN)
        };
        let (mut acceptors, mut ports) = (Vec::new(), Vec::new());
        for (socket, number) in std::mem::take(&mut site.listeners).into_iter().zip(0..) {
            let address = socket.local_addr()?.ip();
            // Listeners at the same address, or with a fixed port, share a pair.
            let pair = Ports::bind(address, site.settings.rtp_port)?;
            watch(pair.rtcp(), REPORTS + number)?;
            ports.push(pair);
            let listener = Listener { socket, transport: Transport::Plain };
            let acceptor = Acceptor::new(listener, ACCEPT_WAIT_MAX)?.with_shed_response(SHED);
            watch(acceptor.fd(), LISTENERS + number)?;
            acceptors.push(acceptor);
        }
        watch(stop.fd(), STOP)?;
        watch(site.retire.fd(), RETIRE)?;
        let film_cache = FilmCache::open(site.root, &site.settings)?;
        watch(film_cache.completion_fd(), HELPERS)?;
        let authenticator = site.users.take().map(Authenticator::new).transpose();
        let authenticator =
            authenticator.map_err(|_| io::Error::other("the system has no source of random numbers"))?;
        let limits = Limits {
            connections_max: site.settings.connections_max,
            connections_per_address: site.settings.connections_per_address,
            ..Limits::default()
        };
        let admission = Admission::new(&site.settings);
        let now = clock::now().into();
        Ok(Server {
            site,
            stop,
            limits,
            epoll,
            acceptors,
            accepting_is_paused: false,
            is_draining: false,
            ports,
            film_cache,
            authenticator,
            connections: Clients::default(),
            streams: Clients::default(),
            sessions: HashMap::new(),
            receivers: HashMap::new(),
            sources: HashMap::new(),
            due: BinaryHeap::new(),
            sessionless: EvictionOrder::default(),
            unplayed: EvictionOrder::default(),
            setups: VecDeque::new(),
            admission,
            ready: VecDeque::new(),
            clock: Clock::new(),
            now,
            swept: now,
            judged: now,
            shown: now,
            counts: Counts::default(),
            waited_before: None,
            room: Vec::new(),
            unsent: Vec::new(),
        })
    }

    /// The RTP and RTCP ports of each listener.
    pub fn datagram_ports(&self) -> Vec<(u16, u16)> {
        self.ports.iter().map(Ports::numbers).collect()
    }

    /// Serves until the stop, then ends all sessions with a BYE. After an upgrade, serves the remaining sessions to
    /// their end.
    ///
    /// # Errors
    /// If it cannot wait for events.
    pub fn run(mut self) -> io::Result<Counts> {
        let mut events: Vec<epoll::Event> = Vec::with_capacity(EVENTS_MAX);
        listening_is_complete();
        self.waited_before = thread_core_wait().ok();
        while !self.stop.is_requested() && !self.has_retired() {
            events.clear();
            let wait = self.timeout();
            let wait = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), Some(&wait)) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            self.now = clock::now().into();
            let (cpu, sent) = (clock::thread_cpu(), self.counts.lateness.count());
            for event in &events {
                self.handle(event.data.u64(), event.flags);
            }
            self.serve_ready();
            self.end_unplayed();
            self.make_room();
            self.pace();
            self.flush();
            if self.counts.lateness.count() > sent {
                self.counts.iteration_cpu.record(clock::thread_cpu() - cpu);
            }
            if self.now.saturating_sub(self.swept) >= SWEEP_PERIOD {
                self.sweep();
            }
            if self.now.saturating_sub(self.judged) >= DISK_PERIOD {
                self.judge_disk();
            }
            self.publish();
        }
        self.end_all();
        self.shown = Duration::ZERO;
        self.publish();
        Ok(self.counts)
    }

    /// The time until something is due or a timeout must be checked.
    fn timeout(&self) -> Duration {
        if !self.ready.is_empty() {
            return Duration::ZERO;
        }
        let now: Duration = clock::now().into();
        let due = match self.due.peek() {
            // Nothing can be sent until the socket accepts more.
            Some(_) if self.is_blocked() => SWEEP_PERIOD,
            Some(Reverse((due, ..))) => slot(*due).saturating_sub(now),
            None => SWEEP_PERIOD,
        };
        // One iteration may not end all expired sessions.
        let setup = self.setups.front().map(|(began, _)| *began + self.site.settings.setup_timeout);
        let setup = setup.map_or(SWEEP_PERIOD, |end| end.saturating_sub(now).max(SLOT));
        due.min(setup).min(DISK_PERIOD).min(PUBLISH_PERIOD)
    }

    fn handle(&mut self, token: u64, flags: epoll::EventFlags) {
        use epoll::EventFlags as F;
        match token {
            STOP => {}
            RETIRE => self.stop_accepting(),
            HELPERS => self.collect(),
            _ if token & KIND == LISTENERS => self.accept((token - LISTENERS) as usize),
            _ if token & KIND == REPORTS => self.receive_reports((token - REPORTS) as usize),
            // The flush that follows continues.
            _ if token & KIND == DATAGRAMS => {}
            token => {
                if let Some(connection) = self.connections.find(token) {
                    let is_readable = flags.intersects(F::IN | F::RDHUP | F::HUP | F::ERR);
                    connection.wake(is_readable, flags.intersects(F::OUT | F::HUP | F::ERR));
                    self.make_ready(token);
                }
            }
        }
    }

    /// Delivers the helpers' outcomes.
    fn collect(&mut self) {
        for (token, outcome) in self.film_cache.collect(self.now, &mut self.counts) {
            match outcome {
                Outcome::Film(film) => {
                    if let Some(connection) = self.connections.find(token) {
                        connection.film = control_connection::Waiting::Over(film);
                        self.make_ready(token);
                    }
                }
                Outcome::Chunk(chunk, bytes) => {
                    let token = token & !STREAMS;
                    if let Some(stream) = self.streams.find(token) {
                        stream.take(chunk, bytes.ok());
                        if std::mem::take(&mut stream.is_waiting) {
                            self.due.push(Reverse((self.now, token, stream.serial)));
                        }
                    }
                }
            }
        }
    }

    /// While data comes from the disk later than allowed, no other session begins to play.
    fn judge_disk(&mut self) {
        self.judged = self.now;
        let is_behind = self.film_cache.read_delay(self.now) > self.site.settings.read_delay_max;
        self.admission.set_disk_behind(is_behind);
    }

    fn publish(&mut self) {
        if self.now.saturating_sub(self.shown) < PUBLISH_PERIOD && !self.shown.is_zero() {
            return;
        }
        self.shown = self.now;
        let playing = self.streams.iter().filter(|stream| stream.schedule.is_some()).count() as u64;
        let counts = &mut self.counts;
        counts.set(Counter::SessionsPlaying, playing);
        counts.set(Counter::SessionsReady, self.streams.len() as u64 - playing);
        counts.set(Counter::SessionsUnplayed, self.unplayed.len() as u64);
        counts.set(Counter::ConnectionsWithoutSession, self.sessionless.len() as u64);
        counts.set(Counter::ConnectionsOpen, self.connections.len() as u64);
        counts.set(Counter::BandwidthReserved, self.admission.reserved());
        counts.set(Counter::FilmsOpen, self.film_cache.film_count() as u64);
        counts.set(Counter::LogLinesDropped, self.site.log.map_or(0, AccessLog::dropped));
        let waited = self.waited_before.zip(thread_core_wait().ok());
        counts.core_wait = waited.map(|(before, now)| now - before);
        self.site.published.publish(counts);
    }
}

/// The start of the slot that contains `time`.
fn slot(time: Duration) -> Duration {
    let slot = SLOT.as_nanos() as u64;
    let time = time.as_nanos() as u64;
    Duration::from_nanos(time - time % slot)
}
