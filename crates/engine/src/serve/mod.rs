//! `sojourn-engine serve`: options to a site, signals to a stop, counters to JSON.

use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use signal_hook::consts::{SIGINT, SIGTERM};
use sojourn_measure::affinity::pin_to;
use sojourn_server::{Architecture, Board, Listener, Site, Stop, admin, architecture, reopen_on_signal};

pub mod config;
mod listener;
mod options;
mod program;
mod site;
pub mod stdio;

use listener::listen;
pub use options::Options;

/// Serves as asked for until a signal. `words` are the command line that was given, to `command`.
pub fn run(options: &Options, command: &clap::Command, words: &[OsString]) -> anyhow::Result<ExitCode> {
    if let Some(core) = options.organisation.pin_core {
        // Before any thread starts: they inherit it.
        pin(core)?;
    }
    let architecture =
        architecture::by_name(&options.organisation.architecture).context("no such architecture")?;
    if options.stdio {
        return stdio::run(options, architecture);
    }
    architecture.available()?;
    let mut site = options.site(architecture, Board::new())?;
    site.program = Some(program::per_connection(command, words)?);
    let listeners = options.listeners()?;
    let admin = options.listening.admin_listen.as_deref().map(listen).transpose()?;
    let stop = Stop::on_signals(&[SIGTERM, SIGINT])?;
    reopen_on_signal(&site.board)?;
    let served = serve(architecture, &site, listeners, admin, stop)?;
    if options.format == "json" {
        serde_json::to_writer(io::stdout(), &served)?;
        io::Write::write_all(&mut io::stdout(), b"\n")?;
    }
    Ok(ExitCode::SUCCESS)
}

fn serve(
    architecture: &dyn Architecture,
    site: &Site,
    listeners: Vec<Listener>,
    admin: Option<TcpListener>,
    stop: &Stop,
) -> anyhow::Result<sojourn_server::Served> {
    std::thread::scope(|scope| {
        if let Some(admin) = &admin {
            eprintln!("metrics on http://{}/metrics", admin.local_addr()?);
            scope.spawn(move || admin::serve(site, admin, stop));
        }
        for listener in &listeners {
            eprintln!("listening on {}", listener.socket.local_addr()?);
        }
        let served = architecture.serve(site, listeners, stop);
        // Also when it failed: the admin thread waits for it.
        stop.request();
        if let Some(log) = &site.log {
            // What cannot be written is counted too.
            log.write_out();
        }
        served.map(|_| site.counters()).with_context(|| format!("the {} server failed", architecture.name()))
    })
}

fn pin(core: usize) -> anyhow::Result<()> {
    pin_to(core).map_err(|error| {
        anyhow!("cannot pin to core {core}: {error}\nhint: choose one of those, or leave --pin-core out")
    })
}
