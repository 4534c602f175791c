//! The data plane in one program. Each subcommand parses its options, calls a crate and prints one JSON object.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, CommandFactory, FromArgMatches, Parser};

use sojourn_server::memory::Allocator;

mod confine;
mod describe;
mod help;
mod json;
mod link;
mod load;
mod machine;
mod memory;
mod probe;
mod proxy;
mod replay;
mod scenario;
mod serve;
mod stream;
mod table;
mod text_file;
mod virtual_time;
mod web99;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

/// Serve files, proxy requests, stream films, generate load, replay logs, and measure what they cost.
///
/// `sojourn`, the command that people type, runs this program.
#[derive(Parser)]
#[command(name = "sojourn-engine", version, about, disable_help_subcommand = true)]
#[command(subcommand_required = true, arg_required_else_help = true)]
struct Arguments {}

/// A subcommand.
struct Row {
    name: &'static str,
    /// Adds its options, and what its help says.
    options: fn(clap::Command) -> clap::Command,
    /// Runs it as parsed; with the parser and the words of the command line.
    run: fn(&ArgMatches, &clap::Command, &[OsString]) -> anyhow::Result<ExitCode>,
}

const fn row<T: Args>(
    name: &'static str,
    run: fn(&ArgMatches, &clap::Command, &[OsString]) -> anyhow::Result<ExitCode>,
) -> Row {
    Row { name, options: T::augment_args, run }
}

const COMMANDS: &[Row] = &[
    row::<serve::Options>("serve", |given, command, words| serve::run(&parsed(given)?, command, words)),
    row::<link::Options>("link", |given, _, _| link::run(&parsed(given)?)),
    row::<confine::Options>("confine", |given, _, _| confine::run(&parsed(given)?)),
    row::<describe::Options>("describe", |given, _, _| {
        describe::run(&parsed(given)?, &help::in_two_storeys(all_commands()))
    }),
    row::<load::Options>("load", |given, _, _| load::run(&parsed(given)?)),
    row::<load::streams::Options>("load-streams", |given, _, _| load::streams::run(&parsed(given)?)),
    row::<machine::Options>("machine", |given, _, _| machine::run(&parsed(given)?)),
    row::<memory::Options>("memory", |given, _, _| memory::run(&parsed(given)?)),
    row::<probe::Options>("probe", |given, _, _| probe::run(&parsed(given)?)),
    row::<proxy::Options>("proxy", |given, command, words| proxy::run(&parsed(given)?, command, words)),
    row::<replay::Options>("replay", |given, _, _| replay::run(&parsed(given)?)),
    row::<scenario::Options>("scenario", |given, _, _| scenario::run(&parsed(given)?)),
    row::<virtual_time::Options>("virtual-time", |given, _, _| virtual_time::run(&parsed(given)?)),
    row::<stream::Options>("stream", |given, _, words| stream::run(&parsed(given)?, words)),
    row::<web99::Options>("web99", |given, _, _| web99::run(&parsed(given)?)),
];

fn parsed<T: FromArgMatches>(given: &ArgMatches) -> Result<T, clap::Error> {
    T::from_arg_matches(given)
}

/// The parser of all commands.
fn all_commands() -> clap::Command {
    parser(COMMANDS)
}

fn parser(rows: &[Row]) -> clap::Command {
    rows.iter().fold(Arguments::command(), |parser, row| {
        parser.subcommand((row.options)(clap::Command::new(row.name)))
    })
}

/// The row of the command in the arguments, if it is one.
fn asked_for(words: &[OsString]) -> Option<&'static Row> {
    COMMANDS.iter().find(|row| words.get(1).is_some_and(|word| word == row.name))
}

fn main() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if load::streams::is_streaming(&words) {
        words[1] = "load-streams".into();
    }
    match run(&words) {
        Ok(code) => code,
        Err(error) => {
            // Under inetd, standard error may be the client's connection.
            let has = |name: &str| words.iter().any(|word| word == name);
            let is_tls = has("--stdio-tls");
            if !(has("--stdio") || is_tls) || serve::stdio::refuse(is_tls) {
                eprintln!("error: {error:#}");
            }
            ExitCode::from(2)
        }
    }
}

fn run(words: &[OsString]) -> anyhow::Result<ExitCode> {
    // The options of all commands would take most of the time and of the memory of a start.
    let asked = asked_for(words);
    let command = help::in_two_storeys(parser(asked.map_or(COMMANDS, std::slice::from_ref)));
    let matches = match command.clone().try_get_matches_from(serve::config::expand(&command, words)?) {
        Ok(matches) => matches,
        Err(error) => match help_wanted(&error, words) {
            Some(text) => return Ok(write!(std::io::stdout(), "{text}").map(|()| ExitCode::SUCCESS)?),
            None => error.exit(),
        },
    };
    let (Some(row), Some((_, given))) = (asked, matches.subcommand()) else {
        unreachable!("the parser requires a command, and knows no other")
    };
    (row.run)(given, &command, words)
}

/// The help that was asked for; `None` for another error, and for the help of the whole program.
fn help_wanted(error: &clap::Error, words: &[OsString]) -> Option<String> {
    if error.kind() != ErrorKind::DisplayHelp {
        return None;
    }
    let row = asked_for(words)?;
    let command = (row.options)(clap::Command::new(row.name));
    let program = Path::new(words.first()?).file_name()?.to_string_lossy();
    let everything = words.iter().any(|word| word == help::ALL);
    Some(help::of(&table::CommandRow::of(&command), &program, everything))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(words: &[&str]) -> clap::Error {
        let command = help::in_two_storeys(all_commands());
        command.try_get_matches_from(words).expect_err("no command to run")
    }

    #[test]
    fn help_names_the_program_it_was_run_as() {
        for command in ["serve", "proxy", "stream", "link", "load", "replay"] {
            for help in ["--help", "--help-all"] {
                let words = ["/usr/bin/sojourn", command, help];
                let text = help_wanted(&refusal(&words), &words.map(OsString::from)).expect("its help");
                assert!(text.contains(&format!("Usage: sojourn {command} ")), "{text}");
                assert!(
                    text.contains(&format!(" sojourn {command} ")) && !text.contains("sojourn-engine"),
                    "{text}"
                );
            }
        }
    }

    #[test]
    fn a_usage_error_is_no_help() {
        for slip in [&["sojourn", "serve"][..], &["sojourn", "load", "--nope"], &["sojourn", "sing"]] {
            assert_eq!(refusal(slip).exit_code(), 2, "{slip:?}");
        }
    }
}
