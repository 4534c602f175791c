//! The data plane as one program. Each subcommand parses its options, calls a crate, prints one JSON
//! object; no logic lives here.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

mod confine;
mod link;
mod load;
mod machine;
mod memory;
mod probe;
mod proxy;
mod replay;
mod serve;
mod still;
mod stream;

/// Serves files, passes requests on, streams films, generates load, replays logs, and measures what they cost.
///
/// The Python face of Sojourn calls this program.
#[derive(Parser)]
#[command(name = "sojourn-engine", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(Box<serve::Options>),
    Link(Box<link::Options>),
    Confine(confine::Options),
    Load(Box<load::Options>),
    LoadStreams(Box<load::streams::Options>),
    Machine(machine::Options),
    Memory(memory::Options),
    Probe(probe::Options),
    Proxy(Box<proxy::Options>),
    Replay(Box<replay::Options>),
    Still(still::Options),
    Stream(Box<stream::Options>),
}

fn main() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    if load::streams::are_meant(&words) {
        words[1] = "load-streams".into();
    }
    match run(&words) {
        Ok(code) => code,
        Err(error) => {
            // Under inetd standard error may be the client's connection.
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
    let command = Arguments::command();
    match Arguments::parse_from(serve::config::expand(&command, words)?).command {
        Command::Serve(options) => serve::run(&options, &command, words),
        Command::Link(options) => link::run(&options),
        Command::Confine(options) => confine::run(&options),
        Command::Load(options) => load::run(&options),
        Command::LoadStreams(options) => load::streams::run(&options),
        Command::Machine(options) => machine::run(&options),
        Command::Memory(options) => memory::run(&options),
        Command::Probe(options) => probe::run(&options),
        Command::Proxy(options) => proxy::run(&options, &command, words),
        Command::Replay(options) => replay::run(&options),
        Command::Still(options) => still::run(&options),
        Command::Stream(options) => stream::run(&options, words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(words: &[&str]) -> clap::Error {
        Arguments::try_parse_from(words).err().expect("no command to run")
    }

    #[test]
    fn help_speaks_of_the_name_it_was_run_under() {
        for command in ["serve", "proxy", "stream", "link", "load", "replay"] {
            let help = refusal(&["/usr/bin/sojourn", command, "--help"]);
            assert_eq!(help.exit_code(), 0);
            let text = help.to_string();
            assert!(text.contains(&format!("Usage: sojourn {command} ")), "{text}");
            assert!(
                text.contains(&format!(" sojourn {command} ")) && !text.contains("sojourn-engine"),
                "{text}"
            );
        }
    }

    #[test]
    fn a_slip_cannot_run() {
        for slip in [&["sojourn", "serve"][..], &["sojourn", "load", "--nope"], &["sojourn", "sing"]] {
            assert_eq!(refusal(slip).exit_code(), 2, "{slip:?}");
        }
    }
}
