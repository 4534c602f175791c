//! A web system as the solvers see it: stations, classes of jobs, and the routes they take.
//!
//! Every solver takes this one description and answers or refuses. It comes from a system file
//! ([`crate::system_file`]) and is consistent by construction: indices exist, probabilities sum to one.

use crate::distribution::{Distribution, Law};
use crate::speed::Speed;
use crate::station::Service;

/// Stations and classes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct System {
    /// What the file calls itself.
    pub name: String,
    /// In the order of the file.
    pub stations: Vec<StationModel>,
    /// In the order of the file.
    pub classes: Vec<Class>,
}

/// A place where jobs are served.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StationModel {
    /// Its name in routes and results.
    pub name: String,
    /// How it serves.
    pub discipline: Discipline,
    /// c: equal servers (processors) shared by the jobs in service; 1 unless said.
    pub servers: u32,
    /// v(n) where it is not min(n, c): PS and LPS only, and then `servers` is 1.
    pub speed: Option<Speed>,
    /// Where the system file defines it, from 1.
    pub line: usize,
}

/// The order of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discipline {
    /// First in, first out.
    Fifo,
    /// Processor sharing.
    Ps,
    /// Processor sharing by at most r jobs, the others waiting in order.
    Lps {
        /// r.
        limit: u32,
    },
    /// A delay: no waiting and no sharing.
    Is,
}

impl StationModel {
    /// As the simulator serves it.
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

    /// What messages call it.
    pub fn place(&self) -> String {
        format!("station {} (line {})", self.name, self.line)
    }

    /// Whether jobs can be in each other's way here.
    pub fn is_limited(&self) -> bool {
        self.discipline != Discipline::Is
    }
}

/// Jobs of one kind.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Class {
    /// Its name in results.
    pub name: String,
    /// Where its jobs come from.
    pub source: Source,
    /// The law of the document size in bytes, drawn once per job and shared along its route.
    pub document: Option<Distribution>,
    /// Seconds added to every response: Δ of Eq. 2.1, and all that is not modelled.
    pub latency: f64,
    /// What a job may do; one is chosen at random when it starts.
    pub routes: Vec<Route>,
    /// Where the system file defines it, from 1.
    pub line: usize,
}

/// Where jobs come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// Poisson arrivals that leave after their route.
    Open {
        /// Jobs per second.
        rate: f64,
    },
    /// Users who think, ask, wait for the answer, and think again.
    Closed {
        /// How many.
        users: u32,
        /// Seconds between an answer and the next question.
        think_time: Distribution,
    },
}

/// A sequence of visits.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Route {
    /// Its name in results, such as `hit` or `miss`.
    pub name: String,
    /// Of being chosen; those of a class sum to one.
    pub probability: f64,
    /// In order; at least one.
    pub visits: Vec<Visit>,
}

/// One stop of a route.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Visit {
    /// Index of the station.
    pub station: usize,
    /// What the job asks of it.
    pub demand: Demand,
    /// The station visited before at which the job keeps its place until this visit ends: a helper that is
    /// held while the document is sent.
    pub holds: Option<usize>,
}

/// The service demand of a visit, in seconds on an idle server.
#[derive(Debug, Clone, PartialEq)]
pub enum Demand {
    /// g(x) of the document size x, in pieces.
    BySize(Vec<Piece>),
    /// Independent of the document.
    Law(Distribution),
}

/// fixed + per_byte · x for documents smaller than `below` and not smaller than the previous piece's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Piece {
    /// Upper end in bytes, exclusive; infinite for the last piece.
    pub below: f64,
    /// Seconds.
    pub fixed: f64,
    /// Seconds per byte.
    pub per_byte: f64,
}

/// Integration steps per piece of a demand for its moments.
const STEPS: usize = 4_000;

impl Demand {
    /// Seconds for a document of `size` bytes; `None` for a demand that does not depend on it.
    #[inline]
    pub fn of_size(&self, size: f64) -> Option<f64> {
        let Self::BySize(pieces) = self else { return None };
        let piece = pieces.iter().find(|piece| size < piece.below).or(pieces.last())?;
        Some(piece.fixed + piece.per_byte * size)
    }

    /// `E[S]` and `E[S²]` for documents of this law; exact for one piece, by quadrature for several.
    pub fn moments(&self, document: Option<&Distribution>) -> (f64, f64) {
        match (self, document) {
            (Self::Law(law), _) => (law.mean(), law.second_moment()),
            (Self::BySize(pieces), Some(document)) => moments_by_size(pieces, document),
            (Self::BySize(pieces), None) => {
                let fixed = pieces.first().map_or(0.0, |piece| piece.fixed);
                (fixed, fixed * fixed)
            }
        }
    }

    /// `E[S]`.
    pub fn mean(&self, document: Option<&Distribution>) -> f64 {
        self.moments(document).0
    }
}

/// With x from the law, `E[g]` and `E[g²]` piece by piece from the partial moments of the law, each
/// ∫ xᵏ dF = [xᵏF] − ∫ k xᵏ⁻¹ F; the last piece takes what the exact moments leave.
fn moments_by_size(pieces: &[Piece], document: &Distribution) -> (f64, f64) {
    let mut left = [1.0, document.mean(), document.second_moment()];
    let (mut first, mut second, mut low) = (0.0, 0.0, 0.0);
    for (index, piece) in pieces.iter().enumerate() {
        let last = index + 1 == pieces.len();
        let part = if last { left } else { partial_moments(document, low, piece.below) };
        let (a, b) = (piece.per_byte, piece.fixed);
        first += a * part[1] + b * part[0];
        second += a * a * part[2] + 2.0 * a * b * part[1] + b * b * part[0];
        left.iter_mut().zip(part).for_each(|(rest, taken)| *rest = (*rest - taken).max(0.0));
        low = piece.below;
    }
    (first, second)
}

/// `E[Xᵏ; low < X ≤ high]` for k = 0, 1, 2, by the trapezoid rule on the distribution function.
fn partial_moments(document: &Distribution, low: f64, high: f64) -> [f64; 3] {
    let width = (high - low) / STEPS as f64;
    let (at_low, at_high) = (if low > 0.0 { document.cdf(low) } else { 0.0 }, document.cdf(high));
    let (mut area, mut area_x) = ((at_low + at_high) / 2.0, (low * at_low + high * at_high) / 2.0);
    for step in 1..STEPS {
        let x = low + step as f64 * width;
        let below = document.cdf(x);
        area += below;
        area_x += x * below;
    }
    [
        at_high - at_low,
        high * at_high - low * at_low - area * width,
        high * high * at_high - low * low * at_low - 2.0 * area_x * width,
    ]
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
    /// Whether some job keeps a place at one station while it is served at another.
    pub fn has_simultaneous_possession(&self) -> bool {
        self.classes.iter().flat_map(Class::visits).any(|(_, visit)| visit.holds.is_some())
    }

    /// The work per second that open classes alone bring to each station.
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
