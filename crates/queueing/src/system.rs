//! A web system as the solvers see it: stations, classes of jobs, and their routes.
//!
//! Every solver takes this one description and answers or refuses. The reader of system files builds it, so it is
//! consistent by construction: indices exist and probabilities sum to one.

use crate::distribution::{self, Distribution, RandomVariable, Segment};
use crate::random::Random;
use crate::speed::Speed;
use crate::station::Service;

#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct System {
    /// The `name` of the file.
    pub name: String,
    /// In the order of the system file.
    pub stations: Vec<StationModel>,
    /// In the order of the system file.
    pub classes: Vec<Class>,
}

#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StationModel {
    pub name: String,
    pub discipline: Discipline,
    /// c: equal servers (processors) shared by the jobs in service; 1 unless said.
    pub servers: u32,
    /// v(n) if it is not min(n, c); for PS and LPS only, and `servers` is then 1.
    pub speed: Option<Speed>,
    /// K, and the fate of arrivals that find K jobs present; `None` without a limit.
    pub capacity: Option<Capacity>,
    /// Line of the system file, counted from 1.
    pub line: usize,
}

/// The most jobs at a station, and the fate of arrivals that find it full.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Capacity {
    /// K: waiting and in service together; at least the places in service.
    pub jobs: u32,
    pub when_full: WhenFull,
}

/// The fate of a job that finds a station full.
#[derive(Debug, Clone, PartialEq)]
pub enum WhenFull {
    /// The job is refused and lost. A user of a closed class thinks, then sends a new request.
    Refuse,
    /// The job stays at the previous station and occupies its place there until there is room (blocking after service).
    Block,
    /// The job retries after a delay.
    Retry(Retry),
}

/// The retry delays of a refused job.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Retry {
    /// Seconds until the first retry.
    pub after: Distribution,
    /// Each further wait is longer by this factor, at least 1.
    pub backoff: f64,
    /// After this many retries the job is lost; `None` if it never gives up.
    pub retries_max: Option<u32>,
}

impl Retry {
    /// Seconds until the retry number `retry`, counted from 0; `None` when the job gives up.
    pub(crate) fn wait(&self, retry: u32, random: &mut Random) -> Option<f64> {
        let again = self.retries_max.is_none_or(|most| retry < most);
        again.then(|| self.after.sample(random) * self.backoff.powi(retry.min(BACKOFFS_MAX) as i32))
    }
}

/// The wait stops growing after this many retries: a factor of 2 has then made a second out of a nanosecond.
const BACKOFFS_MAX: u32 = 30;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// First in, first out.
    Fifo,
    /// Processor sharing.
    Ps,
    /// Processor sharing by at most r jobs, the others waiting in order.
    Lps { limit: u32 },
    /// A delay: no waiting and no sharing.
    Is,
}

impl StationModel {
    /// The discipline as limit and speed.
    pub fn service(&self) -> Service {
        let service = match self.discipline {
            Discipline::Fifo => Service::fifo(self.servers),
            Discipline::Ps => Service::ps(self.servers),
            Discipline::Lps { limit } => Service::lps(limit as usize, self.servers),
            Discipline::Is => Service::infinite(),
        };
        match &self.speed {
            Some(speed) => service.at_speed(speed.clone()),
            None => service,
        }
    }

    /// Names the station and its line in the system file, for messages.
    pub fn place(&self) -> String {
        format!("station {} (line {})", self.name, self.line)
    }

    /// Returns true if a job may be present without being in service.
    pub fn can_queue(&self) -> bool {
        let room = self.capacity.as_ref().map_or(usize::MAX, |capacity| capacity.jobs as usize);
        room > self.service().limit
    }

    /// Returns true if a full station may lose jobs.
    pub fn is_lossy(&self) -> bool {
        self.capacity.as_ref().is_some_and(|capacity| match &capacity.when_full {
            WhenFull::Refuse => true,
            WhenFull::Block => false,
            WhenFull::Retry(retry) => retry.retries_max.is_some(),
        })
    }

    /// Returns true if a job waits at the station before while this one is full.
    pub fn blocks(&self) -> bool {
        self.capacity.as_ref().is_some_and(|capacity| capacity.when_full == WhenFull::Block)
    }

    /// Returns true if jobs wait for one of a limited number of places in service.
    pub fn has_places(&self) -> bool {
        matches!(self.discipline, Discipline::Fifo | Discipline::Lps { .. })
    }

    /// Returns true if jobs neither wait nor share: there is a server for each.
    pub fn is_delay(&self) -> bool {
        self.discipline == Discipline::Is
    }
}

/// Jobs with the same arrivals, route and demands: open with a rate, or closed with users and think time.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Class {
    pub name: String,
    /// The source of a class's jobs.
    pub source: Source,
    /// Distribution of the document size in bytes; drawn once per job and used along its whole route.
    pub document: Option<Distribution>,
    /// Seconds added to every response: Δ of Eq. 2.1, and everything that is not modelled.
    pub latency: f64,
    /// The possible routes; one is chosen at random when a job starts.
    pub routes: Vec<Route>,
    /// Line of the system file, counted from 1.
    pub line: usize,
}

/// The source of a class's jobs.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Poisson arrivals; a job leaves after its route.
    Open { rate: f64 },
    /// A fixed number of users: each thinks, sends a request, waits for the response, and thinks again.
    Closed {
        users: u32,
        /// Seconds between a response and the next request.
        think_time: Distribution,
    },
}

/// A sequence of visits to stations.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Route {
    /// Its name in results, such as `hit` or `miss`.
    pub name: String,
    /// The routes' probabilities of a class sum to one.
    pub probability: f64,
    /// In order; never empty.
    pub visits: Vec<Visit>,
}

/// One visit of a route to a station.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Visit {
    /// Index into [`System::stations`].
    pub station: usize,
    pub demand: Demand,
    /// Earlier stations at which the job holds its place until this visit ends, as a helper process is held while the
    /// document is sent.
    pub holds: Vec<usize>,
    /// The job waits only for those in service and for others with priority (head of the line, not preemptive).
    pub priority: bool,
}

/// The service demand of a visit, in seconds on an idle server.
#[derive(Debug, Clone, PartialEq)]
pub enum Demand {
    /// g(x) of the document size x, in pieces.
    BySize(Vec<Piece>),
    Independent(Distribution),
}

/// fixed + per_byte · x for documents smaller than `below` and not smaller than the previous piece's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    /// Upper end in bytes, exclusive; infinite for the last piece.
    pub below: f64,
    pub fixed: f64,
    pub per_byte: f64,
}

impl Demand {
    /// Seconds for a document of `size` bytes; `None` for a demand that does not depend on it.
    #[inline]
    pub fn of_size(&self, size: f64) -> Option<f64> {
        let Self::BySize(pieces) = self else { return None };
        let piece = pieces.iter().find(|piece| size < piece.below).or(pieces.last())?;
        Some(piece.fixed + piece.per_byte * size)
    }

    /// `E[S]` and `E[S²]` over this distribution of document sizes; `E[S²]` of several pieces by quadrature, unless the
    /// sizes are single values.
    pub fn moments(&self, document: Option<&Distribution>) -> (f64, f64) {
        match (self, document) {
            (Self::Independent(distribution), _) => (distribution.mean(), distribution.second_moment()),
            (Self::BySize(pieces), Some(document)) if pieces.len() == 1 => {
                let (a, b, mean) = (pieces[0].per_byte, pieces[0].fixed, document.mean());
                (a * mean + b, a * a * document.second_moment() + 2.0 * a * b * mean + b * b)
            }
            (Self::BySize(pieces), document) => {
                let distribution = distribution::of_size(document, &segments(pieces));
                (distribution.mean(), distribution.second_moment())
            }
        }
    }

    /// The distribution over these document sizes.
    pub(crate) fn distribution(&self, document: Option<&Distribution>) -> Distribution {
        match self {
            Self::Independent(distribution) => distribution.clone(),
            Self::BySize(pieces) => distribution::of_size(document, &segments(pieces)),
        }
    }

    pub fn mean(&self, document: Option<&Distribution>) -> f64 {
        self.moments(document).0
    }
}

pub(crate) fn segments(pieces: &[Piece]) -> Vec<Segment> {
    let segment = |piece: &Piece| Segment { below: piece.below, factor: piece.per_byte, offset: piece.fixed };
    pieces.iter().map(segment).collect()
}

impl Class {
    /// Every visit with its probability, over all routes.
    pub fn visits(&self) -> impl Iterator<Item = (f64, &Visit)> {
        self.routes.iter().flat_map(|route| route.visits.iter().map(|visit| (route.probability, visit)))
    }

    /// Mean demand of one job at each of `stations` stations, in seconds.
    pub fn demands(&self, stations: usize) -> Vec<f64> {
        let mut demands = vec![0.0; stations];
        for (probability, visit) in self.visits() {
            demands[visit.station] += probability * visit.demand.mean(self.document.as_ref());
        }
        demands
    }
}

impl System {
    /// Returns true if a job holds a place at one station while it is served at another.
    pub fn has_simultaneous_possession(&self) -> bool {
        self.classes.iter().flat_map(Class::visits).any(|(_, visit)| !visit.holds.is_empty())
    }

    /// Returns true if some jobs wait ahead of others.
    pub fn has_priorities(&self) -> bool {
        self.classes.iter().flat_map(Class::visits).any(|(_, visit)| visit.priority)
    }

    /// Returns true if any station may lose jobs.
    pub fn is_lossy(&self) -> bool {
        self.stations.iter().any(StationModel::is_lossy)
    }

    /// As [`System::open_work`], but leaves out stations behind a station that refuses jobs: at least this much work
    /// arrives.
    pub fn open_work_certain(&self) -> Vec<f64> {
        let mut work = vec![0.0; self.stations.len()];
        for class in &self.classes {
            let Source::Open { rate } = class.source else { continue };
            for route in &class.routes {
                let certain = route.visits.iter().position(|visit| self.stations[visit.station].is_lossy());
                let visits = &route.visits[..certain.unwrap_or(route.visits.len())];
                for visit in visits {
                    work[visit.station] +=
                        rate * route.probability * visit.demand.mean(class.document.as_ref());
                }
            }
        }
        work
    }

    /// Work per second that the open classes offer to each station, refused jobs included.
    pub fn open_work(&self) -> Vec<f64> {
        let mut work = vec![0.0; self.stations.len()];
        for class in &self.classes {
            let Source::Open { rate } = class.source else { continue };
            for (station, demand) in class.demands(self.stations.len()).iter().enumerate() {
                work[station] += rate * demand;
            }
        }
        work
    }
}
