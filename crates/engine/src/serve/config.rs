//! The configuration file of `serve` and `proxy`: TOML whose keys are the long options.
//!
//! It is converted to command line arguments, so options are declared, parsed and refused in one place. The command
//! line takes precedence.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use serde::Deserialize;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Table, Value};

use crate::text_file;

/// The commands that take a file.
const COMMANDS: [&str; 2] = ["serve", "proxy"];

/// The positional argument DIR, whose key is `root`.
const ROOT: &str = "root";

/// Options whose values may be tables.
const HOST: &str = "host";
const ROUTE: &str = "route";

/// The hint for errors about values.
const KINDS: &str = "a value is a string, a number, true or false for a flag, or a list or a table where an option \
    may be repeated";

/// Options about the command line itself.
const NOT_IN_FILES: &[&str] =
    &["config", "stdio", "stdio-tls", "counters", "tickets", "log-pipe", "print-config", "help", "help-all"];

/// `words` with what their `--config FILE` adds; unchanged without one.
///
/// # Errors
/// `FILE:LINE: …` with a hint, if the file cannot be read or has keys or values that are not options'.
pub fn expand(command: &Command, words: &[OsString]) -> anyhow::Result<Vec<OsString>> {
    let mut expanded = words.to_vec();
    // Most command lines have none, and parsing twice would double the time of a start.
    if !words.iter().any(|word| word.as_encoded_bytes().starts_with(b"--config")) {
        return Ok(expanded);
    }
    let Some((subcommand, given)) = server_matches(command, words) else { return Ok(expanded) };
    let Some(path) = given.get_one::<PathBuf>("config") else { return Ok(expanded) };
    let text = text_file::read(path).map_err(|error| {
        anyhow!(
            "cannot read the configuration {}: {error}\nhint: check the path, and that it is a text file",
            path.display()
        )
    })?;
    let file = File { path, text: &text, command, subcommand };
    let table = DeTable::parse(&text).map_err(|error| file.no_toml(&error))?;
    let mut from_file = Vec::new();
    for (key, value) in table.get_ref() {
        from_file.extend(file.words(key, value)?.into_iter().map(|(at, word)| (key.get_ref(), at, word)));
    }
    expanded.extend(
        from_file
            .iter()
            .filter(|(key, ..)| !is_given(&given, &id(subcommand, key)))
            .map(|(.., word)| word.clone()),
    );
    // Whether the file or the command line is wrong matters only after an error: this runs for each connection under
    // inetd.
    if command.clone().try_get_matches_from(&expanded).is_err() {
        for (key, at, word) in &from_file {
            file.check(key, *at, word)?;
        }
    }
    Ok(expanded)
}

/// The command line as a configuration file; `None` if it names one, or cannot be written as text.
pub fn of_words(command: &Command, words: &[OsString]) -> Option<String> {
    let (subcommand, given) = server_matches(command, words)?;
    let mut text = String::new();
    for option in subcommand.get_arguments().filter(|option| is_given(&given, option.get_id().as_str())) {
        let name = option.get_long().unwrap_or(ROOT);
        if name == "config" {
            return None;
        }
        text.push_str(&format!("{name} = {}\n", value(&given, option)?));
    }
    Some(text)
}

/// The effective configuration of `words`, including a configuration file and defaults; `None` if it cannot be written
/// as text. `chosen` are the effective values of options without a fixed default.
pub fn effective(command: &Command, words: &[OsString], chosen: &[(&str, Value)]) -> Option<String> {
    let (subcommand, given) = server_matches(command, words)?;
    let mut text = String::new();
    for option in subcommand.get_arguments().filter(|option| !option.is_hide_set()) {
        let name = option.get_long().unwrap_or(ROOT);
        let is_known = given.value_source(option.get_id().as_str()).is_some();
        let value = match chosen.iter().find(|(chosen, _)| *chosen == name) {
            _ if NOT_IN_FILES.contains(&name) => continue,
            _ if is_known => value(&given, option)?,
            Some((_, value)) => value.clone(),
            None => continue,
        };
        // Numbers are easier to read and change without quotes.
        let number = value.as_str().and_then(|text| text.parse().ok()).map(Value::Integer);
        text.push_str(&format!("{name} = {}\n", number.unwrap_or(value)));
    }
    Some(text)
}

/// The given or default value of `option`.
fn value(given: &ArgMatches, option: &Arg) -> Option<Value> {
    let id = option.get_id().as_str();
    if !option.get_action().takes_values() {
        return Some(Value::from(given.get_flag(id)));
    }
    let mut values = given.get_raw(id)?.map(|value| value.to_str());
    if repeats(option) {
        return Some(Value::from(values.collect::<Option<Vec<_>>>()?));
    }
    Some(Value::from(values.next()??))
}

/// A configuration file being read.
struct File<'a> {
    path: &'a Path,
    text: &'a str,
    command: &'a Command,
    /// The command that takes the file.
    subcommand: &'a Command,
}

impl File<'_> {
    /// The arguments for `key = value`, each with its place in the file: none for a flag that is not set, several for a
    /// list.
    fn words(
        &self,
        key: &Spanned<impl AsRef<str>>,
        value: &Spanned<DeValue<'_>>,
    ) -> anyhow::Result<Vec<(usize, OsString)>> {
        let name = key.get_ref().as_ref();
        let at_key = key.span().start;
        if NOT_IN_FILES.contains(&name) {
            let what = format!("`{name}` belongs on the command line");
            return Err(self.refuse(at_key, &what, "leave it out here"));
        }
        let option = self.subcommand.get_arguments().find(|option| option.get_long() == Some(name));
        if let (DeValue::Array(values), true) = (value.get_ref(), option.is_some_and(repeats)) {
            let each = values.iter().map(|value| self.words_at(value.span().start, name, value));
            return Ok(each.collect::<anyhow::Result<Vec<_>>>()?.concat());
        }
        self.words_at(at_key, name, value)
    }

    /// The same for one value at this place.
    fn words_at(
        &self,
        at: usize,
        name: &str,
        value: &Spanned<DeValue<'_>>,
    ) -> anyhow::Result<Vec<(usize, OsString)>> {
        let value = Value::deserialize(ValueDeserializer::from(value.clone()))
            .map_err(|error| self.refuse(at, error.message(), "see https://toml.io"))?;
        if let (ROOT, Value::String(root), true) = (name, &value, self.has_root()) {
            return Ok(vec![(at, root.into())]);
        }
        let words = words(self.subcommand, name, &value).map_err(|kind| {
            let what = format!("`{name}` has a value of the wrong kind: {kind}");
            self.refuse(at, &what, KINDS)
        })?;
        Ok(words.into_iter().map(|word| (at, OsString::from(word))).collect())
    }

    fn has_root(&self) -> bool {
        self.subcommand.get_positionals().next().is_some()
    }

    /// Fails if the command line would not accept `word` for `name`.
    fn check(&self, name: &str, at: usize, word: &OsString) -> anyhow::Result<()> {
        let command = self.subcommand.get_name();
        let mut words: Vec<OsString> = vec!["sojourn".into(), command.into()];
        if self.has_root() {
            // A positional argument: any word will do.
            words.push("DIR".into());
        }
        if !(self.has_root() && name == ROOT) {
            words.push(word.clone());
        }
        let Err(error) = self.command.clone().try_get_matches_from(words) else { return Ok(()) };
        if error.kind() == ErrorKind::MissingRequiredArgument {
            // Valid by itself; missing options are reported for the whole command.
            return Ok(());
        }
        if error.kind() == ErrorKind::UnknownArgument {
            let hint = match error.get(ContextKind::SuggestedArg) {
                Some(ContextValue::String(near)) => {
                    format!("did you mean `{}`?", near.trim_start_matches('-'))
                }
                _ => format!("keys are the long options of `sojourn {command} --help`, without dashes"),
            };
            return Err(self.refuse(at, &format!("there is no option `{name}`"), &hint));
        }
        Err(self.refuse(
            at,
            &first_line(&error),
            &format!("values are as on the command line: see `sojourn {command} --help`"),
        ))
    }

    fn no_toml(&self, error: &toml::de::Error) -> anyhow::Error {
        let at = error.span().map_or(0, |span| span.start);
        self.refuse(
            at,
            error.message().trim(),
            "a line is `key = \"value\"`, as in `listen = \"127.0.0.1:8080\"`",
        )
    }

    fn refuse(&self, at: usize, what: &str, hint: &str) -> anyhow::Error {
        let line = self.text[..at.min(self.text.len())].matches('\n').count() + 1;
        anyhow!("{}:{line}: {what}\nhint: {hint}", self.path.display())
    }
}

/// The command in the arguments, even if others are invalid.
fn matches(command: &Command, words: &[OsString]) -> Option<(String, ArgMatches)> {
    let mut matches = command.clone().ignore_errors(true).try_get_matches_from(words).ok()?;
    matches.remove_subcommand()
}

/// The same if it is a command with a configuration file.
fn server_matches<'a>(command: &'a Command, words: &[OsString]) -> Option<(&'a Command, ArgMatches)> {
    let (name, given) = matches(command, words).filter(|(name, _)| COMMANDS.contains(&&name[..]))?;
    Some((command.find_subcommand(&name)?, given))
}

/// The id of the option called `name` in `command`.
fn id(command: &Command, name: &str) -> String {
    let option = command.get_arguments().find(|option| option.get_long() == Some(name));
    option.map_or(name, |option| option.get_id().as_str()).to_owned()
}

fn is_given(given: &ArgMatches, id: &str) -> bool {
    given.try_contains_id(id).is_ok() && given.value_source(id) == Some(ValueSource::CommandLine)
}

/// The arguments for `name = value` of `command`; an error names the kind of value that is wrong.
fn words(command: &Command, name: &str, value: &Value) -> Result<Vec<String>, &'static str> {
    let option = command.get_arguments().find(|option| option.get_long() == Some(name));
    let may_repeat = option.is_some_and(repeats);
    let is_flag = option.is_some_and(|option| !option.get_action().takes_values());
    let has_value = |value: &dyn Display| Ok(vec![format!("--{name}={value}")]);
    match value {
        Value::String(text) => has_value(text),
        Value::Integer(number) => has_value(number),
        Value::Float(number) => has_value(number),
        Value::Boolean(is_set) if is_flag => Ok(is_set.then(|| format!("--{name}")).into_iter().collect()),
        // An option that may be given without a value.
        Value::Boolean(is_set)
            if option.is_some_and(|option| option.get_num_args().is_some_and(|it| it.min_values() == 0)) =>
        {
            has_value(is_set)
        }
        Value::Array(values) if may_repeat => {
            let words = values.iter().map(|value| words(command, name, value));
            Ok(words.collect::<Result<Vec<_>, _>>()?.concat())
        }
        // A host or route is a whole table; for other options each row is a pair.
        Value::Table(_) if may_repeat && [HOST, ROUTE].contains(&name) => has_value(value),
        Value::Table(rows) if may_repeat => {
            let pair = |(key, value): (&String, &Value)| match value {
                Value::String(text) => Ok(format!("--{name}={key}={text}")),
                other => Err(other.type_str()),
            };
            rows.iter().map(pair).collect()
        }
        other => Err(other.type_str()),
    }
}

/// The arguments for the inline table `text` of `command`.
///
/// # Errors
/// In one line, what is not an option of it.
pub fn words_of_table(text: &str, command: &Command) -> Result<Vec<String>, String> {
    let line = |error: toml::de::Error| error.message().lines().collect::<Vec<_>>().join(" ");
    let mut table: Table = toml::from_str(&format!("{HOST} = {text}")).map_err(line)?;
    let Some(Value::Table(rows)) = table.remove(HOST) else { return Err("a host is a table".to_owned()) };
    let words = rows.iter().map(|(name, value)| {
        words(command, name, value).map_err(|kind| format!("`{name}` has a value of the wrong kind: {kind}"))
    });
    Ok(words.collect::<Result<Vec<_>, _>>()?.concat())
}

/// The error message without suggestions.
pub fn first_line(error: &clap::Error) -> String {
    let said = error.to_string();
    let mut lines = said.lines().map(str::trim);
    let first = lines.next().unwrap_or_default().trim_start_matches("error: ");
    // The missing options are on the following lines.
    match first.strip_suffix(':') {
        Some(start) => {
            format!("{start}: {}", lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" "))
        }
        None => first.to_owned(),
    }
}

fn repeats(option: &Arg) -> bool {
    matches!(option.get_action(), ArgAction::Append)
}
