//! Reads system files: parses TOML into a [`System`], or returns an error that names the line and suggests a fix.
//!
//! Units are mandatory on every quantity; unknown keys and names are refused with the nearest known one.
//! `docs/models.md` documents the schema with an example.

mod capacity;
mod class;
mod demand;
mod distribution;
mod edit;
mod reader;
mod settings;
mod station;
mod unit;

use serde::Serialize;
use thiserror::Error;
use toml::Table;

use crate::system::{Demand, StationModel, System};
use reader::{Document, Reader};

pub use edit::{Edit, EditError, Step, edited};
pub use settings::{SettingError, with_settings};

/// The largest file read: a system has tens of lines.
pub const SYSTEM_FILE_BYTES_MAX: usize = 1 << 20;

/// The largest r and number of servers.
const LIMIT_MAX: u32 = 1_000_000;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {message}")]
pub struct SystemFileError {
    /// Counted from 1.
    pub line: usize,
    /// The problem and the suggested fix.
    pub message: String,
}

/// A station and the default demand of its visits.
struct ParsedStation {
    model: StationModel,
    demand: Option<Demand>,
}

/// Reads a system file.
///
/// # Errors
/// The first error found, with its line.
pub fn parse(text: &str) -> Result<System, SystemFileError> {
    if text.len() > SYSTEM_FILE_BYTES_MAX {
        let message =
            format!("a system file may have {SYSTEM_FILE_BYTES_MAX} bytes, this has {}", text.len());
        return Err(SystemFileError { line: 1, message });
    }
    let document = Document::new(text)?;
    let mut root = document.root();
    let name = root.text_or("name", "system")?;
    // Free text for people. Reading it marks the key as known.
    root.text_or("description", "")?;
    check_drawing(&root)?;
    let sizes = root.optional("document").map(|value| distribution::size(&value)).transpose()?;
    let stations = station::parse_all(&mut root)?;
    let classes = class::parse_all(&mut root, &stations, sizes.as_ref())?;
    root.finish()?;
    let stations = stations.into_iter().map(|station| station.model).collect();
    Ok(System { name, stations, classes })
}

/// What a file states, for an editor, and the first error in it.
#[derive(Debug, Serialize)]
pub struct Outline {
    /// As written; empty if the text is not TOML.
    pub content: Table,
    pub error: Option<Misplaced>,
}

/// An error with its place.
#[derive(Debug, Serialize)]
pub struct Misplaced {
    pub line: usize,
    pub message: String,
    /// The path of the value or table that the error is about; empty for the whole file.
    pub path: Vec<Step>,
}

/// The outline of a file, which may be incomplete or wrong.
pub fn outline(text: &str) -> Outline {
    let error = parse(text).err().map(|SystemFileError { line, message }| {
        let path = Document::new(text).map_or_else(|_| Vec::new(), |found| found.path_at(line, &message));
        Misplaced { line, message, path }
    });
    Outline { content: text.parse().unwrap_or_default(), error }
}

/// `[drawing]`: where an editor draws a station, `NAME = [x, y]`. The models ignore it.
fn check_drawing(root: &Reader<'_>) -> Result<(), SystemFileError> {
    let Some(value) = root.optional("drawing") else { return Ok(()) };
    for (_, place) in value.table()?.values() {
        let numbers = place.array()?.iter().map(reader::Value::number).collect::<Result<Vec<_>, _>>()?;
        if numbers.len() != 2 {
            return Err(place.error("a place in the drawing is `[x, y]`"));
        }
    }
    Ok(())
}

/// The entries of a mandatory table of tables, such as `[stations.*]`.
fn entries<'d>(
    root: &mut Reader<'d>,
    key: &'static str,
) -> Result<Vec<(String, Reader<'d>)>, SystemFileError> {
    let value = root.required(key)?;
    let entries = value.table()?.tables()?;
    if entries.is_empty() {
        return Err(value.error(format!("the system has no {key}: add a table such as [{key}.NAME]")));
    }
    Ok(entries)
}

#[cfg(test)]
mod tests;
