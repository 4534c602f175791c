//! `[stations.NAME]`: a discipline, its servers, and the demand of a visit.

use super::reader::Reader;
use super::{SystemFileError, demand, entries};
use crate::system::{Demand, Discipline, StationModel};

/// Largest r and number of servers: more is no limit.
const LIMIT_MAX: u32 = 1_000_000;

const DISCIPLINES: &[&str] = &["fifo", "ps", "lps", "is"];

/// A station and the demand of visits that bring none of their own.
pub(super) struct ParsedStation {
    pub(super) model: StationModel,
    pub(super) demand: Option<Demand>,
}

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
            table.error(format!("r = {limit} would leave some of the {servers} servers idle for ever"))
        );
    }
    let demand = match (table.optional("demand"), table.optional("rate")) {
        (Some(_), Some(rate)) => return Err(rate.error("give either `demand` or `rate`, not both")),
        (Some(value), None) => Some(demand::parse(&value)?),
        (None, Some(rate)) => Some(demand::of_rate(&rate)?),
        (None, None) => None,
    };
    table.finish()?;
    Ok(ParsedStation { model: StationModel { name, discipline, servers }, demand })
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
