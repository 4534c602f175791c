//! The data plane as one program. Each subcommand parses its options, calls a crate, prints one JSON
//! object; no logic lives here.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod load;
mod replay;
mod serve;

/// Serves, loads and replays; the Python face of Sojourn calls this program.
#[derive(Parser)]
#[command(name = "sojourn-engine", version, about)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Serve(serve::Options),
    Load(load::Options),
    Replay(replay::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Serve(options) => serve::run(options),
        Command::Load(options) => load::run(options),
        Command::Replay(options) => replay::run(options),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}
