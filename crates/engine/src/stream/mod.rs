//! `sojourn-engine stream`: options to a streaming server, signals to a stop, counters to JSON.

use std::ffi::OsString;
use std::io;
use std::net::TcpListener;
use std::process::ExitCode;

use anyhow::{Context, anyhow, ensure};
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
use sojourn_rtsp_server::{Counts, Published, Server, Site};
use sojourn_server::connection::Transport;
use sojourn_server::sandbox::Needs;
use sojourn_server::{Requests, Scoreboard, Stop, admin, metrics, reopen_on_signal};

use crate::json;
use crate::serve::binary_upgrade::{Handover, Inheritance, Offer, SUCCEED};
use crate::serve::launcher::Launcher;
use crate::serve::listener::{inherit_or_listen, listen};
use crate::serve::privileges::Identity;
use crate::serve::sandbox::place_of;
use crate::serve::site::{descriptors, usable_descriptors};
use crate::serve::{listener::notify_ready, pin};

mod options;

pub use options::Options;

/// Streams until a signal. `words` is the command line.
pub fn run(options: &Options, words: &[OsString]) -> anyhow::Result<ExitCode> {
    if let Some(core) = options.pin_core {
        // Before any thread starts, because threads inherit it.
        pin(core)?;
    }
    metrics::begin();
    ensure!(
        options.root.is_dir(),
        "cannot stream {}: it is not a directory\nhint: give the directory that holds the films",
        options.root.display()
    );
    let mut inheritance = Inheritance::receive()?;
    let scoreboard = Scoreboard::new();
    let log = options.log(&scoreboard)?;
    let mut listeners = Vec::new();
    for address in &options.listen {
        listeners.extend(inherit_or_listen(address, &mut inheritance)?);
    }
    let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
    let admin = options.admin_listen.as_deref();
    let admin = admin.map(|it| inheritance.admin(it).map_or_else(|| listen(it), Ok)).transpose()?;
    let transports = addresses.iter().map(|address| (*address, Transport::Plain)).collect();
    let offer = Offer { sockets_are_passed: false, transports, admin };
    let published = Published::default();
    let retire = Stop::new()?;
    let stop = Stop::on_signals(&[SIGTERM, SIGINT, SIGQUIT])?;
    reopen_on_signal(&scoreboard)?;
    let site = Site {
        root: &options.root,
        listeners,
        users: options.users()?,
        settings: options.settings(usable_descriptors(descriptors())),
        retire: &retire,
        scoreboard: &scoreboard,
        log: log.as_ref(),
        published: &published,
    };
    // Threads started now would keep root's privileges, so these are dropped first.
    if let Some(user) = &options.process.user {
        Identity::find(user)?.assume(log.as_ref(), [options.root.as_path()])?;
    }
    let handover = Handover { launcher: Launcher::start(words)?, offer };
    options.process.enter_sandbox(&options.needs())?;
    let server = Server::new(site, stop).map_err(|error| {
        anyhow!("cannot stream {}: {error}\nhint: {}", options.root.display(), hint(&error))
    })?;
    for (rtp, rtcp) in server.datagram_ports() {
        eprintln!("sending datagrams from UDP ports {rtp} and {rtcp}");
    }
    let counts = serve(server, &published, &handover, inheritance, &retire)?;
    if options.format == "json" {
        json::write_line(&mut io::stdout(), &counts)?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Options {
    /// The needs of the server once it has started.
    fn needs(&self) -> Needs {
        let append = place_of(self.access_log.as_deref()).into_iter().collect();
        Needs { read: vec![self.root.clone()], append, datagrams: true, ..Needs::default() }
    }
}

/// Serves until the stop, or until a successor serves and all sessions have ended; prints where.
fn serve(
    server: Server<'_>,
    published: &Published,
    handover: &Handover,
    inheritance: Inheritance,
    retire: &Stop,
) -> anyhow::Result<Counts> {
    std::thread::scope(|scope| {
        let requests = Requests::on_signals(SUCCEED)?;
        if let Some(admin) = &handover.offer.admin {
            eprintln!("metrics on http://{}/metrics", admin.local_addr()?);
            scope.spawn(move || admin::serve(published, admin, retire));
        }
        for (address, _) in &handover.offer.transports {
            eprintln!("listening on {address}");
        }
        scope.spawn(move || handover.serve_requests(requests, retire, || {}));
        notify_ready();
        inheritance.begin();
        let served = server.run();
        // Even after a failure, because the other threads wait for it.
        retire.request();
        served.context("the streaming server failed")
    })
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program has these UDP ports, perhaps the server being upgraded: leave out --rtp-port"
        }
        io::ErrorKind::PermissionDenied => {
            "the user who runs the server must be allowed to read the directory"
        }
        _ => "check the directory, and the limits on descriptors and threads",
    }
}
