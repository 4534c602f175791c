//! The kind, unit and range of an option's value, derived from its parser.
//!
//! A parser does not reveal its range, so it is given a value that it must refuse, and the error is parsed.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Arg, Command};
use sojourn_measure::Nanos;

use super::{Choice, Kind};

/// The kind of an option's value and the units of a quantity; `value` is the value's name in the help.
pub fn kind(option: &Arg, value: &str, choices: &[Choice]) -> (Kind, Option<&'static str>) {
    const TIMES: &str = "ns, us, ms, s, m, h";
    if !option.get_action().takes_values() {
        return (Kind::Flag, None);
    }
    let id = option.get_value_parser().type_id();
    let is = |candidates: &[TypeId]| candidates.iter().any(|candidate| id == *candidate);
    let whole = [
        TypeId::of::<u8>(),
        TypeId::of::<u16>(),
        TypeId::of::<u32>(),
        TypeId::of::<u64>(),
        TypeId::of::<usize>(),
    ];
    match value {
        _ if id == TypeId::of::<bool>() => (Kind::Boolean, None),
        _ if !choices.is_empty() => (Kind::Choice, None),
        _ if is(&[TypeId::of::<Nanos>(), TypeId::of::<Duration>()]) => (Kind::Duration, Some(TIMES)),
        "SIZE" => (Kind::Size, Some("B, KiB, MiB, GiB")),
        "RATE" if is_bit_rate(option) => (Kind::Rate, Some("bit/s, kbit/s, Mbit/s, Gbit/s")),
        "RATE" if is(&whole) => (Kind::Rate, Some("B/s, KiB/s, MiB/s, GiB/s")),
        "RATE" => (Kind::Rate, Some("/s, /min, /h")),
        _ if is(&whole) => (Kind::Integer, None),
        _ if id == TypeId::of::<f64>() => (Kind::Number, None),
        _ if is(&[TypeId::of::<PathBuf>()]) => (Kind::Path, None),
        _ => (Kind::Text, None),
    }
}

/// Both kinds of rates are numbers; the parser's error message distinguishes them.
fn is_bit_rate(option: &Arg) -> bool {
    refusal(option, "?").is_some_and(|said| said.contains("bit/s"))
}

/// The bounds of a whole number, from the error for a value that no option accepts.
pub fn range(option: &Arg) -> Option<(i64, i64)> {
    let said = refusal(option, &i64::MIN.to_string())?;
    let (least, most) = said.rsplit_once(" is not in ")?.1.split_once("..")?;
    let most = most.trim_start_matches('=').parse().unwrap_or(i64::MAX);
    Some((least.parse().ok()?, most))
}

/// The parser's error for a value, if it refuses it.
fn refusal(option: &Arg, value: &str) -> Option<String> {
    let alone = Arg::new("value").long("value").value_parser(option.get_value_parser().clone());
    let words: [OsString; 2] = ["program".into(), format!("--value={value}").into()];
    let error = Command::new("program").arg(alone).try_get_matches_from(words).err()?;
    let because = std::error::Error::source(&error).map(ToString::to_string);
    if error.kind() == ErrorKind::ValueValidation { because } else { None }
}
