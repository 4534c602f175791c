//! `[classes.NAME]`: open with a rate or closed with users, and one route or several with probabilities.

use super::reader::{Reader, Value, suggestion};
use super::unit::{Dimension, positive, quantity};
use super::{ParsedStation, SystemFileError, capacity, demand, distribution, entries};
use crate::distribution::{Distribution, RandomVariable};
use crate::system::{Class, Route, Source, Visit};

/// The largest closed population.
const USERS_MAX: u32 = 1_000_000;
/// The longest route and the most routes of a class.
const VISITS_MAX: usize = 1_000;
/// Tolerance for the sum of probabilities, which the file may have rounded.
const PROBABILITY_SLACK: f64 = 1e-6;

pub(super) fn parse_all(
    root: &mut Reader<'_>,
    stations: &[ParsedStation],
    document: Option<&Distribution>,
) -> Result<Vec<Class>, SystemFileError> {
    let context = Context { stations, document };
    let classes: Vec<Class> = entries(root, "classes")?
        .into_iter()
        .map(|(name, table)| context.class(name, &table))
        .collect::<Result<_, _>>()?;
    capacity::check_circles(&classes, stations)?;
    Ok(classes)
}

struct Context<'s> {
    stations: &'s [ParsedStation],
    document: Option<&'s Distribution>,
}

impl Context<'_> {
    fn class(&self, name: String, table: &Reader<'_>) -> Result<Class, SystemFileError> {
        let own = table.optional("document").map(|value| distribution::size(&value)).transpose()?;
        let document = own.or_else(|| self.document.cloned());
        let source = source(table)?;
        let latency = table.optional("latency").map_or(Ok(0.0), |value| quantity(&value, Dimension::Time))?;
        let routes = match (table.optional("route"), table.optional("routes")) {
            (Some(_), Some(routes)) => return Err(routes.error("give either `route` or `routes`, not both")),
            (None, None) => {
                return Err(table.error(format!("class `{name}` needs `route`, a list of stations")));
            }
            (Some(route), None) => vec![Route {
                name: "all".to_owned(),
                probability: 1.0,
                visits: self.visits(&route, document.as_ref())?,
            }],
            (None, Some(routes)) => self.routes(&routes, document.as_ref())?,
        };
        table.finish()?;
        let class = Class { name, source, document, latency, routes, line: table.line() };
        refuse_instant(&class, self.stations.len(), table)?;
        capacity::check_class(&class, self.stations, table)?;
        Ok(class)
    }

    fn routes(
        &self,
        value: &Value<'_>,
        document: Option<&Distribution>,
    ) -> Result<Vec<Route>, SystemFileError> {
        let mut routes: Vec<Route> = Vec::new();
        for value in value.array()? {
            let table = value.table()?;
            let name = table.required("name")?.text()?.to_owned();
            if routes.iter().any(|route| route.name == name) {
                return Err(table.error(format!("there is already a route named `{name}`")));
            }
            let probability = table.required("probability")?;
            let number = probability.number()?;
            if !(0.0..=1.0).contains(&number) {
                return Err(probability.error(format!("`probability` must be from 0 to 1, not {number}")));
            }
            let visits = self.visits(&table.required("visits")?, document)?;
            table.finish()?;
            routes.push(Route { name, probability: number, visits });
        }
        let sum: f64 = routes.iter().map(|route| route.probability).sum();
        if (sum - 1.0).abs() > PROBABILITY_SLACK {
            return Err(value.error(format!("the probabilities of the routes sum to {sum}, not to 1")));
        }
        Ok(routes)
    }

    fn visits(
        &self,
        value: &Value<'_>,
        document: Option<&Distribution>,
    ) -> Result<Vec<Visit>, SystemFileError> {
        let values = value.array()?;
        if values.is_empty() || values.len() > VISITS_MAX {
            return Err(
                value.error(format!("a route has from 1 to {VISITS_MAX} visits, not {}", values.len()))
            );
        }
        let mut visits: Vec<Visit> = Vec::with_capacity(values.len());
        for value in &values {
            let visit = self.visit(value, document, visits.last())?;
            capacity::check_visit(&visit, visits.last(), self.stations, value)?;
            visits.push(visit);
        }
        Ok(visits)
    }

    /// `"web"` or `{ station = "web", demand = …, holds = …, priority = true }`.
    fn visit(
        &self,
        value: &Value<'_>,
        document: Option<&Distribution>,
        previous: Option<&Visit>,
    ) -> Result<Visit, SystemFileError> {
        if value.is_text() {
            return self.visit_of(value, None, document);
        }
        let table = value.table()?;
        let own = table.optional("demand");
        let mut visit = self.visit_of(&table.required("station")?, own.as_ref(), document)?;
        if let Some(holds) = table.optional("holds") {
            visit.holds = self.held(&holds, previous)?;
        }
        if let Some(priority) = table.optional("priority") {
            visit.priority = self.priority(&priority, visit.station)?;
        }
        table.finish()?;
        Ok(visit)
    }

    /// `"web"` or `["web", "core"]`.
    fn held(&self, holds: &Value<'_>, previous: Option<&Visit>) -> Result<Vec<usize>, SystemFileError> {
        if holds.is_text() {
            return Ok(vec![self.held_at(holds, previous)?]);
        }
        let mut stations: Vec<usize> = Vec::new();
        for value in &holds.array()? {
            let station = self.held_at(value, previous)?;
            if stations.contains(&station) {
                let name = &self.stations[station].model.name;
                return Err(value.error(format!("`{name}` is held only once")));
            }
            stations.push(station);
        }
        Ok(stations)
    }

    /// A job can hold a place only at a station with limited places, and only at one that it has just left or holds.
    fn held_at(&self, holds: &Value<'_>, previous: Option<&Visit>) -> Result<usize, SystemFileError> {
        let station = self.station(holds)?;
        let model = &self.stations[station].model;
        if !model.has_places() {
            return Err(holds.error(format!("`{}` has no limited places to hold (fifo or lps)", model.name)));
        }
        if !previous.is_some_and(|previous| previous.station == station || previous.holds.contains(&station))
        {
            return Err(
                holds.error(format!("the visit before is not at `{}`, nor does it hold it", model.name))
            );
        }
        Ok(station)
    }

    /// Only where jobs wait is there a line to be ahead in.
    fn priority(&self, value: &Value<'_>, station: usize) -> Result<bool, SystemFileError> {
        let model = &self.stations[station].model;
        if !model.has_places() {
            return Err(value.error(format!("no job waits at `{}` (fifo or lps)", model.name)));
        }
        value.boolean()
    }

    fn station(&self, name: &Value<'_>) -> Result<usize, SystemFileError> {
        let text = name.text()?;
        self.stations.iter().position(|station| station.model.name == text).ok_or_else(|| {
            let names: Vec<&str> = self.stations.iter().map(|station| station.model.name.as_str()).collect();
            name.error(format!("unknown station `{text}`; {}", suggestion(text, &names)))
        })
    }

    fn visit_of(
        &self,
        name: &Value<'_>,
        own: Option<&Value<'_>>,
        document: Option<&Distribution>,
    ) -> Result<Visit, SystemFileError> {
        let text = name.text()?;
        let station = self.station(name)?;
        let demand = match own {
            Some(value) => demand::parse(value)?,
            None => self.stations[station].demand.clone().ok_or_else(|| {
                name.error(format!("neither station `{text}` nor this visit has a `demand` (or `rate`)"))
            })?,
        };
        demand::check_document(&demand, document, text, own.unwrap_or(name))?;
        Ok(Visit { station, demand, holds: Vec::new(), priority: false })
    }
}

fn source(table: &Reader<'_>) -> Result<Source, SystemFileError> {
    match (table.optional("rate"), table.optional("users")) {
        (Some(rate), None) => Ok(Source::Open { rate: positive(&rate, Dimension::Rate)? }),
        (None, Some(users)) => {
            let users = users.count(1, USERS_MAX)?;
            Ok(Source::Closed { users, think_time: distribution::time(&table.required("think_time")?)? })
        }
        (Some(_), Some(users)) => {
            Err(users.error("a class is open (`rate`) or closed (`users` and `think_time`), not both"))
        }
        (None, None) => Err(table.error("a class needs `rate` (open) or `users` and `think_time` (closed)")),
    }
}

/// A closed class whose round trip takes no time would send infinitely many requests.
fn refuse_instant(class: &Class, stations: usize, table: &Reader<'_>) -> Result<(), SystemFileError> {
    let Source::Closed { think_time, .. } = &class.source else { return Ok(()) };
    let round_trip = think_time.mean() + class.latency + class.demands(stations).iter().sum::<f64>();
    if round_trip > 0.0 { Ok(()) } else { Err(table.error("a closed class needs some demand or think time")) }
}
