//! Every command with its options, as data: read once from the parser, it feeds the help, `describe --json`, and through
//! that the reference page, the completions and the manual pages.
//!
//! Only two things are not written where an option is declared: which options `--help` shows (`essential`), and the units
//! of the value types (`value`).

use clap::{Arg, ArgAction, Command};
use schemars::JsonSchema;
use serde::Serialize;

mod essential;
mod value;

use essential::is_essential;
use value::{kind, range};

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

/// Takes the default off the end of a help text: one that depends on the machine or on other options stands there.
fn default_in_words(help: &str) -> (String, Option<String>) {
    let Some((before, rest)) = help.split_once(" [default: ") else { return (help.to_owned(), None) };
    let Some((default, after)) = rest.split_once(']') else { return (help.to_owned(), None) };
    (format!("{before}{after}"), Some(default.to_owned()))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::essential::ESSENTIAL;
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
