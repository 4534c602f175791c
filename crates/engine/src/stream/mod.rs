//! `sojourn-engine stream`: options to a streaming server, signals to a stop, counters to JSON.

use std::io;
use std::net::TcpListener;
use std::process::ExitCode;

use anyhow::{Context, anyhow, ensure};
use signal_hook::consts::{SIGINT, SIGQUIT, SIGTERM};
use sojourn_server::{Board, Stop, admin, metrics, reopen_on_signal};
use sojourn_streaming::server::{Counts, Published, Server, Site};

use crate::serve::listener::listen;
use crate::serve::privileges::Identity;
use crate::serve::site::{descriptors, usable_descriptors};
use crate::serve::{notify, pin};

mod options;

pub use options::Options;

/// Streams until a signal.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if let Some(core) = options.pin_core {
        // Before any thread starts: they inherit it.
        pin(core)?;
    }
    metrics::begin();
    ensure!(
        options.root.is_dir(),
        "cannot stream {}: it is no directory\nhint: give the directory that holds the films",
        options.root.display()
    );
    let board = Board::new();
    let log = options.log(&board)?;
    let listeners = options.listen.iter().map(|address| listen(address)).collect::<Result<Vec<_>, _>>()?;
    let addresses = listeners.iter().map(TcpListener::local_addr).collect::<Result<Vec<_>, _>>()?;
    let admin = options.admin_listen.as_deref().map(listen).transpose()?;
    let published = Published::default();
    let stop = Stop::on_signals(&[SIGTERM, SIGINT, SIGQUIT])?;
    reopen_on_signal(&board)?;
    let site = Site {
        root: &options.root,
        listeners,
        users: options.users()?,
        settings: options.settings(usable_descriptors(descriptors())),
        board: &board,
        log: log.as_ref(),
        published: &published,
    };
    // Threads that it starts would keep root's privileges: they are given up first.
    if let Some(user) = &options.process.user {
        Identity::find(user)?.assume(options.access_log.as_deref(), [options.root.as_path()])?;
    }
    let server = Server::new(site, stop).map_err(|error| {
        anyhow!("cannot stream {}: {error}\nhint: {}", options.root.display(), hint(&error))
    })?;
    for (rtp, rtcp) in server.datagram_ports() {
        eprintln!("datagrams leave by UDP ports {rtp} and {rtcp}");
    }
    let counts = serve(server, &published, admin.as_ref(), stop, &addresses)?;
    if options.format == "json" {
        serde_json::to_writer(io::stdout(), &counts)?;
        io::Write::write_all(&mut io::stdout(), b"\n")?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Serves until `stop`, and says where.
fn serve(
    server: Server<'_>,
    published: &Published,
    admin: Option<&TcpListener>,
    stop: &Stop,
    addresses: &[std::net::SocketAddr],
) -> anyhow::Result<Counts> {
    std::thread::scope(|scope| {
        if let Some(admin) = admin {
            eprintln!("metrics on http://{}/metrics", admin.local_addr()?);
            scope.spawn(move || admin::serve(published, admin, stop));
        }
        for address in addresses {
            eprintln!("listening on {address}");
        }
        notify::ready();
        let served = server.run();
        // Also when it failed: the admin thread waits for it.
        stop.request();
        served.context("the streaming server failed")
    })
}

fn hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program has these UDP ports: choose others by --rtp-port, or leave it out"
        }
        io::ErrorKind::PermissionDenied => {
            "the user who runs the server must be allowed to read the directory"
        }
        _ => "check the directory, and the limits on descriptors and threads",
    }
}
