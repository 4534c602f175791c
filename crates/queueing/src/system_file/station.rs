//! `[stations.NAME]`: a discipline, its servers or its speed v(n), and the demand of a visit.

use super::reader::{Reader, Value};
use super::unit::{Dimension, positive};
use super::{LIMIT_MAX, ParsedStation, SystemFileError, capacity, demand, entries};
use crate::speed::Speed;
use crate::system::{Discipline, StationModel};

const DISCIPLINES: &[&str] = &["fifo", "ps", "lps", "is"];

pub(super) fn parse_all(root: &mut Reader<'_>) -> Result<Vec<ParsedStation>, SystemFileError> {
    entries(root, "stations")?.into_iter().map(|(name, table)| parse(name, &table)).collect()
}

fn parse(name: String, table: &Reader<'_>) -> Result<ParsedStation, SystemFileError> {
    let discipline = discipline(table)?;
    let servers = match table.optional("servers") {
        Some(value) if discipline == Discipline::Is => {
            return Err(value.error("an `is` station has no servers to count: remove `servers`"));
        }
        Some(value) => value.count(1, LIMIT_MAX)?,
        None => 1,
    };
    if let Discipline::Lps { limit } = discipline
        && limit < servers
    {
        return Err(
            table.error(format!("r = {limit} would leave some of the {servers} servers idle forever"))
        );
    }
    let speed = table.optional("speed").map(|value| speed(&value, discipline)).transpose()?;
    if let Some(value) = table.optional("servers").filter(|_| speed.is_some()) {
        return Err(value.error("`speed` already defines the speed with several jobs: remove `servers`"));
    }
    let demand = match (table.optional("demand"), table.optional("rate")) {
        (Some(_), Some(rate)) => return Err(rate.error("give either `demand` or `rate`, not both")),
        (Some(value), None) => Some(demand::parse(&value)?),
        (None, Some(rate)) => Some(demand::of_rate(&rate)?),
        (None, None) => None,
    };
    let in_service = match discipline {
        Discipline::Fifo => Some(servers),
        Discipline::Lps { limit } => Some(limit),
        Discipline::Ps | Discipline::Is => None,
    };
    let capacity = capacity::parse(table, in_service)?;
    table.finish()?;
    let model = StationModel { name, discipline, servers, speed, capacity, line: table.line() };
    Ok(ParsedStation { model, demand })
}

fn discipline(table: &Reader<'_>) -> Result<Discipline, SystemFileError> {
    let choice = DISCIPLINES[table.required("discipline")?.choice(DISCIPLINES)?];
    let limit = table.optional("r");
    match (choice, limit) {
        ("lps", Some(value)) => Ok(Discipline::Lps { limit: value.count(1, LIMIT_MAX)? }),
        ("lps", None) => Err(table.error("an `lps` station needs `r`, the most jobs in service at once")),
        (_, Some(value)) => Err(value.error(format!("`r` belongs to `lps` stations, not to `{choice}`"))),
        ("fifo", None) => Ok(Discipline::Fifo),
        ("ps", None) => Ok(Discipline::Ps),
        (_, None) => Ok(Discipline::Is),
    }
}

/// v(n): `{ alpha = 0.02, beta = 0.0005 }` · `[1, 1.9, 2.6]` relative to one job · `["40/s", "76/s"]` as measured.
fn speed(value: &Value<'_>, discipline: Discipline) -> Result<Speed, SystemFileError> {
    if !matches!(discipline, Discipline::Ps | Discipline::Lps { .. }) {
        return Err(value.error("`speed` belongs to `ps` and `lps` stations, where jobs share it"));
    }
    let built = if value.is_table() {
        let table = value.table()?;
        let curve = Speed::usl(table.required("alpha")?.number()?, table.required("beta")?.number()?);
        table.finish()?;
        curve
    } else {
        Speed::table(speeds(&value.array()?)?)
    };
    built.map_err(|error| value.error(format!("`speed`: {error}")))
}

/// Numbers relative to the first, or throughputs that are divided by the first; not a mixture.
fn speeds(values: &[Value<'_>]) -> Result<Vec<f64>, SystemFileError> {
    let Some(first) = values.first() else { return Ok(Vec::new()) };
    if let Some(other) = values.iter().find(|value| value.is_text() != first.is_text()) {
        return Err(
            other.error("`speed` mixes numbers and rates: give numbers relative to v(1) = 1, or rates only")
        );
    }
    if !first.is_text() {
        return values.iter().map(Value::number).collect();
    }
    let rates: Vec<f64> =
        values.iter().map(|value| positive(value, Dimension::Rate)).collect::<Result<_, _>>()?;
    Ok(rates.iter().map(|rate| rate / rates[0]).collect())
}
