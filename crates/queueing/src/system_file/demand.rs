//! Service demands in a system file: a time, a distribution of times, or a function of the document size.

use super::SystemFileError;
use super::distribution;
use super::reader::{Reader, Value};
use super::unit::{Dimension, positive, quantity, signed_quantity};
use crate::distribution::Distribution;
use crate::system::{Demand, Piece};

/// `demand` of a station or a visit. `"21ms"` · `{ law = "…" }` · `{ fixed = "…", per_byte = "…" }` · a list of
/// the latter, each but the last with `below = "…"`.
pub(super) fn parse(value: &Value<'_>) -> Result<Demand, SystemFileError> {
    if value.is_text() || value.is_number() {
        return distribution::time(value).map(Demand::Independent);
    }
    if !value.is_table() {
        return pieces(value);
    }
    let table = value.table()?;
    if table.optional("law").is_some() {
        return distribution::time(value).map(Demand::Independent);
    }
    let piece = piece(&table, 0.0, f64::INFINITY)?;
    table.finish()?;
    Ok(Demand::BySize(vec![piece]))
}

/// `rate` of a line: the time to send a document at this bandwidth.
pub(super) fn of_rate(value: &Value<'_>) -> Result<Demand, SystemFileError> {
    let per_byte = 1.0 / positive(value, Dimension::Bandwidth)?;
    Ok(Demand::BySize(vec![Piece { below: f64::INFINITY, fixed: 0.0, per_byte }]))
}

/// Refuses a demand by size for a class that has no document distribution.
pub(super) fn check_document(
    demand: &Demand,
    document: Option<&Distribution>,
    station: &str,
    place: &Value<'_>,
) -> Result<(), SystemFileError> {
    let Demand::BySize(pieces) = demand else { return Ok(()) };
    let sized = pieces.len() > 1 || pieces.iter().any(|piece| piece.per_byte > 0.0);
    if sized && document.is_none() {
        let message = format!(
            "the demand at `{station}` depends on the document size, but there is no distribution of sizes; add [document]"
        );
        return Err(place.error(message));
    }
    Ok(())
}

fn pieces(value: &Value<'_>) -> Result<Demand, SystemFileError> {
    let values = value.array()?;
    let mut pieces: Vec<Piece> = Vec::with_capacity(values.len());
    for (index, value) in values.iter().enumerate() {
        let table = value.table()?;
        let last = index + 1 == values.len();
        let below = match table.optional("below") {
            Some(below) => positive(&below, Dimension::Size)?,
            None if last => f64::INFINITY,
            None => return Err(table.error("every piece but the last needs `below`")),
        };
        if last && below.is_finite() {
            return Err(table.error("the last piece must cover all larger documents: leave `below` out"));
        }
        if pieces.last().is_some_and(|previous| previous.below >= below) {
            return Err(table.error("`below` must rise from piece to piece"));
        }
        let from = pieces.last().map_or(0.0, |previous| previous.below);
        pieces.push(piece(&table, from, below)?);
        table.finish()?;
    }
    if pieces.is_empty() {
        return Err(value.error(format!("`{}` has no piece", value.key)));
    }
    Ok(Demand::BySize(pieces))
}

fn piece(table: &Reader<'_>, from: f64, below: f64) -> Result<Piece, SystemFileError> {
    let fixed = table.optional("fixed").map(|value| signed_quantity(&value, Dimension::Time)).transpose()?;
    let per_byte =
        table.optional("per_byte").map(|value| quantity(&value, Dimension::TimePerByte)).transpose()?;
    if fixed.is_none() && per_byte.is_none() {
        return Err(table.error("a demand needs `fixed`, `per_byte` or `law`"));
    }
    let piece = Piece { below, fixed: fixed.unwrap_or(0.0), per_byte: per_byte.unwrap_or(0.0) };
    // Where large documents need more per byte, the line of their piece is negative at size zero.
    if piece.fixed + piece.per_byte * from < 0.0 {
        return Err(table.error(format!("the demand would be negative for documents of {from} B")));
    }
    Ok(piece)
}
