//! `sojourn-engine serve`: options to a site, signals to a stop, counters to JSON.

use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

use anyhow::{Context, anyhow};
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
use sojourn_measure::affinity::pin_to;
use sojourn_server::connection::Transport;
use sojourn_server::sandbox::Needs;
use sojourn_server::{
    Architecture, CLOSING_MAX, Listener, Requests, Scoreboard, Site, Stop, admin, architecture, memory,
    metrics, reopen_on_signal,
};
use toml::Value;

mod application_socket;
pub mod applications;
pub mod binary_upgrade;
pub mod config;
pub mod launcher;
pub mod listener;
pub mod options;
pub mod origin;
pub mod print;
pub mod privileges;
mod program;
pub mod sandbox;
pub mod site;
pub mod stdio;
mod tls;

use crate::json;
use binary_upgrade::{Handover, Inheritance, Offer, SUCCEED};
use launcher::Launcher;
pub use options::Options;
use privileges::Identity;

/// Serves until a signal. `words` is the command line, for `command`.
pub fn run(options: &Options, command: &clap::Command, words: &[OsString]) -> anyhow::Result<ExitCode> {
    if let Some(core) = options.organisation.pin_core {
        // Before any thread starts, because threads inherit it.
        pin(core)?;
    }
    let architecture =
        architecture::by_name(&options.organisation.architecture).context("no such architecture")?;
    if options.stdio || options.stdio_tls {
        return stdio::run(options, architecture);
    }
    metrics::begin();
    memory::prepare();
    architecture.available()?;
    let mut inheritance = Inheritance::receive()?;
    let mut site = options.site(architecture, Scoreboard::new())?;
    if options.print_config {
        let chosen = [
            ("body-cache", Value::from(site.budgets.body_bytes as i64)),
            ("residency", Value::from(site.residency.name())),
        ];
        print::print(architecture, &chosen, &site, command, &config::expand(command, words)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut program = program::per_connection(command, words)?;
    let listeners = options.listening.listeners(&options.tls, &mut inheritance)?;
    site.tls = options.tls.tls_of(&listeners.listeners, options.tickets)?;
    let admin = options.listening.admin_listener(&mut inheritance)?;
    let offer = Offer::new(&listeners.listeners, listeners.are_passed, admin)?;
    // All sockets of a port must belong to one user, so they are opened before the user changes.
    let listeners = architecture.listeners(listeners.listeners, site.workers)?;
    if let Some(user) = &options.process.user {
        Identity::find(user)?
            .assume(site.log.as_ref(), options.roots().filter(|root| origin::url_of(root).is_none()))?;
    }
    // After the privileges are dropped: what it starts, as scripts and the application, runs as the serving user.
    let handover = Handover { launcher: Launcher::start(words)?, offer };
    let routes = options.open_routes(&mut site, architecture)?;
    // The programs that inetd executes enter it themselves.
    if architecture.cache_scope().is_some() {
        let needs = options.needs(routes.proxy.as_deref())?;
        options.process.enter_sandbox(&Needs { io_uring: architecture.uses_io_uring(), ..needs })?;
    }
    options.watch_upstreams(&routes)?;
    if let Some(application) = &routes.application {
        program.arguments.push(application.socket_argument()?);
    }
    site.program = Some(program);
    serve(architecture, &site, listeners, &handover, inheritance, &options.format)
}

/// Serves `site` on `listeners` until a signal, and prints the counters if `format` says so.
pub fn serve(
    architecture: &dyn Architecture,
    site: &Site,
    listeners: Vec<Listener>,
    handover: &Handover,
    inheritance: Inheritance,
    format: &str,
) -> anyhow::Result<ExitCode> {
    let stop = Stop::on_signals(&[SIGTERM, SIGINT, SIGQUIT])?;
    reopen_on_signal(&site.scoreboard)?;
    let served = serve_until(stop, architecture, site, listeners, handover, inheritance)?;
    if format == "json" {
        json::write_line(&mut io::stdout(), &served)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves `site` on `listeners` until `stop`, and prints where.
fn serve_until(
    stop: &'static Stop,
    architecture: &dyn Architecture,
    site: &Site,
    listeners: Vec<Listener>,
    handover: &Handover,
    inheritance: Inheritance,
) -> anyhow::Result<sojourn_server::Served> {
    std::thread::scope(|scope| {
        let requests = Requests::on_signals(SUCCEED)?;
        if let Some(admin) = &handover.offer.admin {
            eprintln!("metrics on http://{}/metrics", admin.local_addr()?);
            scope.spawn(move || admin::serve(site, admin, stop));
        }
        for (address, transport) in &handover.offer.transports {
            let over = if *transport == Transport::Tls { " (TLS)" } else { "" };
            eprintln!("listening on {address}{over}");
        }
        scope.spawn(|| handover.serve_requests(requests, stop, || site.scoreboard.set_successor()));
        listener::notify_ready();
        inheritance.begin();
        let served = architecture.serve(site, listeners, stop);
        // Even after a failure, because the admin thread waits for it.
        stop.request();
        if let Some(log) = &site.log {
            // Lines that cannot be written are counted.
            log.close(CLOSING_MAX);
        }
        served.map(|_| site.counters()).with_context(|| format!("the {} server failed", architecture.name()))
    })
}

/// Pins this process to `core`.
pub fn pin(core: usize) -> anyhow::Result<()> {
    pin_to(core).map_err(|error| {
        anyhow!("cannot pin to core {core}: {error}\nhint: choose one of those, or leave --pin-core out")
    })
}
