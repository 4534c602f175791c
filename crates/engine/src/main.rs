//! The data plane in one program. Each subcommand parses its options, calls a crate and prints one JSON object.

use std::ffi::OsString;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use sojourn_server::memory::Allocator;

mod confine;
mod describe;
mod help;
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
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(Box<serve::Options>),
    Link(Box<link::Options>),
    Confine(confine::Options),
    Describe(describe::Options),
    Load(Box<load::Options>),
    LoadStreams(Box<load::streams::Options>),
    Machine(machine::Options),
    Memory(memory::Options),
    Probe(probe::Options),
    Proxy(Box<proxy::Options>),
    Replay(Box<replay::Options>),
    Scenario(scenario::Options),
    VirtualTime(virtual_time::Options),
    Stream(Box<stream::Options>),
    Web99(web99::Options),
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
    let command = help::in_two_storeys(Arguments::command());
    let matches = match command.clone().try_get_matches_from(serve::config::expand(&command, words)?) {
        Ok(matches) => matches,
        Err(error) => match help_wanted(&error, words) {
            Some(text) => return Ok(write!(std::io::stdout(), "{text}").map(|()| ExitCode::SUCCESS)?),
            None => error.exit(),
        },
    };
    match Arguments::from_arg_matches(&matches)?.command {
        Command::Serve(options) => serve::run(&options, &command, words),
        Command::Link(options) => link::run(&options),
        Command::Confine(options) => confine::run(&options),
        Command::Describe(options) => describe::run(&options, &command),
        Command::Load(options) => load::run(&options),
        Command::LoadStreams(options) => load::streams::run(&options),
        Command::Machine(options) => machine::run(&options),
        Command::Memory(options) => memory::run(&options),
        Command::Probe(options) => probe::run(&options),
        Command::Proxy(options) => proxy::run(&options, &command, words),
        Command::Replay(options) => replay::run(&options),
        Command::Scenario(options) => scenario::run(&options),
        Command::VirtualTime(options) => virtual_time::run(&options),
        Command::Stream(options) => stream::run(&options, words),
        Command::Web99(options) => web99::run(&options),
    }
}

/// The help that was asked for; `None` for another error, and for the help of the whole program.
fn help_wanted(error: &clap::Error, words: &[OsString]) -> Option<String> {
    if error.kind() != ErrorKind::DisplayHelp {
        return None;
    }
    let engine = Arguments::command();
    let command = engine.find_subcommand(words.get(1)?)?;
    let program = Path::new(words.first()?).file_name()?.to_string_lossy();
    let everything = words.iter().any(|word| word == help::ALL);
    Some(help::of(&table::CommandRow::of(command), &program, everything))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(words: &[&str]) -> clap::Error {
        let command = help::in_two_storeys(Arguments::command());
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
