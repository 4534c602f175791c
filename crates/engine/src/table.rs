//! Every command with its options, as data: read once from the parser, it feeds the help, `describe --json`, and through
//! that the reference page, the completions and the manual pages.
//!
//! Only two things are written here and not where an option is declared: which options `--help` shows, and the units of
//! the value types.

use std::any::TypeId;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, Command};
use schemars::JsonSchema;
use serde::Serialize;
use sojourn_measure::Nanos;

/// A subcommand of the engine.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Command")]
pub struct CommandRow {
    pub name: String,
    /// One sentence.
    pub summary: String,
    /// All that `--help-all` says above the options.
    pub description: String,
    /// The words after the command's name.
    pub usage: String,
    /// One example, as it is typed.
    pub example: String,
    /// The part below the options in `--help-all`: more examples, exit codes.
    pub details: String,
    /// Words without a name of their own.
    pub arguments: Vec<OptionRow>,
    pub options: Vec<OptionRow>,
}

/// An option, or an argument without a name.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "Option")]
pub struct OptionRow {
    /// Without dashes; of an argument, what the usage calls it.
    pub name: String,
    pub short: Option<char>,
    /// The name of its value in the help; null for a flag.
    pub value: Option<String>,
    /// The kind of the value.
    pub kind: Kind,
    /// The units that may follow the number, or must.
    pub unit: Option<&'static str>,
    /// The default, as it is typed or in words.
    pub default: Option<String>,
    /// The values there are, each with a line of help.
    pub choices: Vec<Choice>,
    /// The least and the greatest whole number that is accepted.
    pub range: Option<(i64, i64)>,
    /// It may be given several times.
    pub repeats: bool,
    pub required: bool,
    /// The heading under which the help has it.
    pub group: String,
    /// `--help` shows it, not only `--help-all`.
    pub essential: bool,
    /// One line of help.
    pub help: String,
}

/// A value that an option accepts.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Choice {
    pub name: String,
    pub help: Option<String>,
}

/// The kind of an option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "OptionKind")]
pub enum Kind {
    /// No value.
    Flag,
    Boolean,
    Choice,
    Integer,
    Number,
    Duration,
    /// Bytes.
    Size,
    /// Per second; `unit` says what.
    Rate,
    Path,
    Text,
}

/// The options that `--help` shows of each command with more than fit a screen.
const ESSENTIAL: [(&str, &[&str]); 7] = [
    (
        "serve",
        &[
            "config",
            "listen",
            "admin-listen",
            "tls-listen",
            "tls-certificate",
            "tls-key",
            "index",
            "listing",
            "cache-control",
            "architecture",
            "workers",
            "helpers",
            "connections-max",
            "drain-timeout",
            "access-log",
        ],
    ),
    (
        "proxy",
        &[
            "config",
            "listen",
            "admin-listen",
            "tls-listen",
            "tls-certificate",
            "tls-key",
            "upstream",
            "health-path",
            "forward",
            "cache-memory",
            "cache-dir",
            "cache-disk",
            "architecture",
            "connections-max",
            "access-log",
        ],
    ),
    (
        "stream",
        &[
            "listen",
            "rtp-port",
            "admin-listen",
            "users",
            "bandwidth",
            "look-ahead",
            "helpers",
            "body-cache",
            "access-log",
            "connections-max",
            "sessions-max",
            "session-timeout",
        ],
    ),
    (
        "load",
        &[
            "clients",
            "rate",
            "schedule",
            "think-time",
            "duration",
            "warm-up",
            "mix",
            "method",
            "header",
            "body",
            "connection",
            "core",
            "observe-pid",
            "observe-core",
            "format",
        ],
    ),
    (
        "load-streams",
        &[
            "clients",
            "media",
            "ramp",
            "duration",
            "transport",
            "hls",
            "variant",
            "random-start",
            "slow",
            "prebuffer",
            "tolerance",
            "core",
            "format",
        ],
    ),
    (
        "replay",
        &[
            "scale",
            "rate",
            "step",
            "settle",
            "think-scale",
            "duration",
            "target-p95",
            "stop-when-failing",
            "paths",
            "failed",
            "connection",
            "core",
            "observe-pid",
            "observe-core",
            "format",
        ],
    ),
    (
        "link",
        &[
            "rate",
            "delay",
            "loss",
            "queue",
            "up-rate",
            "up-delay",
            "lines",
            "line-delay",
            "network",
            "shaper",
            "core",
            "report",
        ],
    ),
];

impl CommandRow {
    /// The rows of all commands, in the order of the help.
    pub fn all(engine: &Command) -> Vec<CommandRow> {
        engine.get_subcommands().filter(|command| !command.is_hide_set()).map(CommandRow::of).collect()
    }

    pub fn of(command: &Command) -> CommandRow {
        let text =
            |text: Option<&clap::builder::StyledStr>| text.map(ToString::to_string).unwrap_or_default();
        let summary = text(command.get_about());
        let description = command.get_long_about().map_or_else(|| summary.clone(), ToString::to_string);
        let example = text(command.get_after_help());
        let rows = |positional: bool| {
            let shown = command.get_arguments().filter(|option| !option.is_hide_set() && !is_help(option));
            shown
                .filter(|option| option.is_positional() == positional)
                .map(|option| OptionRow::of(command, option))
                .collect()
        };
        CommandRow {
            name: command.get_name().to_owned(),
            usage: usage(command),
            details: command.get_after_long_help().map_or_else(|| example.clone(), ToString::to_string),
            arguments: rows(true),
            options: rows(false),
            summary,
            description,
            example,
        }
    }
}

fn is_help(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong)
}

/// `[OPTIONS] <URL>`, by the parser.
fn usage(command: &Command) -> String {
    let text = command.clone().bin_name("").render_usage().to_string();
    let text = text.trim_start_matches("Usage:").trim();
    // A usage in the program's own words names the command.
    let own = text.lines().next().unwrap_or_default().split_once("[OPTIONS]");
    own.map_or_else(|| text.to_owned(), |(_, rest)| format!("[OPTIONS]{rest}"))
}

impl OptionRow {
    fn of(command: &Command, option: &Arg) -> OptionRow {
        let takes_value = option.get_action().takes_values();
        let value = takes_value.then(|| {
            let names = option.get_value_names().unwrap_or_default();
            names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
        });
        let possible = option.get_possible_values().into_iter().filter(|_| takes_value);
        let choices: Vec<Choice> = possible
            .filter(|value| !value.is_hide_set())
            .map(|value| Choice {
                name: value.get_name().to_owned(),
                help: value.get_help().map(ToString::to_string),
            })
            .collect();
        let (kind, unit) = kind(option, value.as_deref().unwrap_or_default(), &choices);
        let said = option.get_help().map(ToString::to_string).unwrap_or_default();
        let (help, said_default) = default_in_words(&said);
        let given = option.get_default_values().iter().filter_map(|value| value.to_str());
        let given = given.collect::<Vec<_>>().join(",");
        let name = option.get_long().map_or_else(|| value.clone().unwrap_or_default(), ToOwned::to_owned);
        OptionRow {
            short: option.get_short(),
            range: if matches!(kind, Kind::Integer) { range(option) } else { None },
            default: if takes_value && !given.is_empty() { Some(given) } else { said_default },
            repeats: matches!(option.get_action(), ArgAction::Append),
            required: option.is_required_set(),
            group: option.get_help_heading().unwrap_or(GENERAL).to_owned(),
            essential: is_essential(command.get_name(), &name),
            help,
            name,
            value,
            kind,
            unit,
            choices,
        }
    }
}

/// The heading of options that have none.
const GENERAL: &str = "General";

fn is_essential(command: &str, option: &str) -> bool {
    let row = ESSENTIAL.iter().find(|(name, _)| *name == command);
    row.is_none_or(|(_, shown)| shown.contains(&option))
}

/// Takes the default off the end of a help text: one that depends on the machine or on other options stands there.
fn default_in_words(help: &str) -> (String, Option<String>) {
    let Some((before, rest)) = help.split_once(" [default: ") else { return (help.to_owned(), None) };
    let Some((default, after)) = rest.split_once(']') else { return (help.to_owned(), None) };
    (format!("{before}{after}"), Some(default.to_owned()))
}

fn kind(option: &Arg, value: &str, choices: &[Choice]) -> (Kind, Option<&'static str>) {
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

/// Rates of both kinds are numbers: the parser's own message tells them apart.
fn is_bit_rate(option: &Arg) -> bool {
    refusal(option, "?").is_some_and(|said| said.contains("bit/s"))
}

/// The bounds of a whole number, from the refusal of one that no option accepts.
fn range(option: &Arg) -> Option<(i64, i64)> {
    let said = refusal(option, &i64::MIN.to_string())?;
    let (least, most) = said.rsplit_once(" is not in ")?.1.split_once("..")?;
    let most = most.trim_start_matches('=').parse().unwrap_or(i64::MAX);
    Some((least.parse().ok()?, most))
}

/// The parser's error about a value, if it refuses it.
fn refusal(option: &Arg, value: &str) -> Option<String> {
    let alone = Arg::new("value").long("value").value_parser(option.get_value_parser().clone());
    let words: [OsString; 2] = ["program".into(), format!("--value={value}").into()];
    let error = Command::new("program").arg(alone).try_get_matches_from(words).err()?;
    let because = std::error::Error::source(&error).map(ToString::to_string);
    if error.kind() == ErrorKind::ValueValidation { because } else { None }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::Arguments;

    fn row<'a>(rows: &'a [CommandRow], command: &str, option: &str) -> &'a OptionRow {
        let command = rows.iter().find(|row| row.name == command).expect("a command");
        command.options.iter().find(|row| row.name == option).expect("an option")
    }

    #[test]
    fn every_option_that_help_shows_is_one() {
        let rows = CommandRow::all(&Arguments::command());
        for (command, options) in ESSENTIAL {
            options.iter().for_each(|option| assert!(row(&rows, command, option).essential));
        }
    }

    #[test]
    fn help_shows_fifteen_options_or_fewer() {
        for command in CommandRow::all(&Arguments::command()) {
            let shown = command.options.iter().filter(|option| option.essential).count();
            assert!(shown <= 15, "{}: {shown}", command.name);
        }
    }

    #[test]
    fn an_option_has_its_type_unit_default_and_range() {
        let rows = CommandRow::all(&Arguments::command());
        let workers = row(&rows, "serve", "workers");
        assert_eq!((workers.kind, workers.range), (Kind::Integer, Some((1, 1024))));
        assert!(workers.default.is_some() && !workers.help.contains('['), "{workers:?}");
        let idle = row(&rows, "serve", "idle-timeout");
        assert_eq!((idle.kind, idle.default.as_deref()), (Kind::Duration, Some("60s")));
        assert_eq!(row(&rows, "link", "rate").unit, Some("bit/s, kbit/s, Mbit/s, Gbit/s"));
        assert_eq!(row(&rows, "load", "rate").unit, Some("/s, /min, /h"));
        assert!(row(&rows, "load", "header").repeats);
        assert_eq!(row(&rows, "load", "http").choices.len(), 2);
    }

    #[test]
    fn every_option_and_command_has_a_line_of_help() {
        for command in CommandRow::all(&Arguments::command()) {
            assert!(!command.summary.is_empty(), "{}", command.name);
            for option in command.options.iter().chain(&command.arguments) {
                assert!(!option.help.is_empty(), "{} --{}", command.name, option.name);
            }
        }
    }
}
