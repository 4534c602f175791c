//! The null responder: what no server on this kernel can beat.
//!
//! It answers every read with the same prepared response. It parses nothing, looks nothing up, keeps no time and no
//! log, so that what a server needs beyond it is the server's own work. It takes for granted that a read holds one
//! whole request and that a client waits for its answer, as the load generator does. `epoll` and `ring` are the two
//! ways to wait.

mod epoll;
mod folder;
mod gateway;
mod response;
mod ring;
mod script;

use std::{
    io,
    net::{SocketAddr, TcpListener},
    os::fd::{AsRawFd, OwnedFd},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context;
use clap::{Parser, ValueEnum};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use folder::{Folder, Sending};
use response::Response;

/// Connections that may wait to be accepted, as for the servers beside it.
const BACKLOG: i32 = 4096;
/// How long the kernel may keep a connection back that has sent nothing.
const DEFER_ACCEPT_SECONDS: libc::c_int = 30;

/// Answers every read with one file, or with that of a folder that is asked for. Prints `listening on ADDRESS` to stderr when ready.
#[derive(Parser)]
struct Options {
    /// The file that is the body of every response; or a folder, whose files are at `/FOLDER/FILE`
    file: PathBuf,
    /// Address and port; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// How it waits and answers
    #[arg(long, default_value = "epoll")]
    variant: Variant,
    /// Whether a connection stays open after its response
    #[arg(long, default_value = "keep-alive")]
    connection: Connection,
    /// Where the application of the gateway is
    #[arg(long, value_name = "ADDRESS")]
    application: Option<SocketAddr>,
    /// What the response says to caches; without it, nothing
    #[arg(long, value_name = "VALUE")]
    cache_control: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Variant {
    /// epoll, head and body in one write
    Epoll,
    /// epoll, the head with MSG_MORE and the body with sendfile(2)
    Sendfile,
    /// epoll; an application that speaks FastCGI
    Fastcgi,
    /// epoll; a gateway to an application that speaks FastCGI and has the same file
    Gateway,
    /// epoll; a script is started for each request, and what it writes is the response
    Spawn,
    /// io_uring: multishot accept; receive and send, and close where connections are closed, are one chain
    Ring,
}

/// What becomes of a connection after its response.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Connection {
    KeepAlive,
    Close,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> anyhow::Result<()> {
    let keep = options.connection;
    let cannot_read = || format!("cannot read {}", options.file.display());
    let listener =
        listener(options.listen, keep).with_context(|| format!("cannot listen on {}", options.listen))?;
    if options.file.is_dir() {
        let sending = match options.variant {
            Variant::Epoll => Sending::Write,
            Variant::Sendfile => Sending::BySize,
            _ => anyhow::bail!("a folder needs the variant epoll or sendfile"),
        };
        let folder = Folder::of(&options.file, keep, sending).with_context(cannot_read)?;
        eprintln!("listening on {}", listener.local_addr()?);
        return Ok(epoll::serve(&listener, keep, &folder)?);
    }
    let cache_control = options.cache_control.as_ref();
    let fields = cache_control.map_or_else(String::new, |value| format!("Cache-Control: {value}\r\n"));
    let response = Response::of(&options.file, keep, &fields).with_context(cannot_read)?;
    eprintln!("listening on {}", listener.local_addr()?);
    match options.variant {
        Variant::Epoll => epoll::serve_one(&listener, keep, |to, sent| response.write(to, sent))?,
        Variant::Fastcgi => {
            let response = response.into_records();
            epoll::serve_one(&listener, keep, |to, sent| response.write(to, sent))?;
        }
        Variant::Gateway => {
            let application = options.application.context("the gateway needs --application")?;
            anyhow::ensure!(keep == Connection::KeepAlive, "the gateway keeps connections");
            let records =
                Response::of(&options.file, keep, &fields).with_context(cannot_read)?.into_records();
            gateway::serve(&listener, application, &response, &records)?;
        }
        Variant::Spawn => {
            let script = options.file.canonicalize()?;
            epoll::serve_one(&listener, keep, |to, sent| script::answer(&script, to, sent))?;
        }
        Variant::Sendfile => epoll::serve_one(&listener, keep, |to, sent| response.send_file(to, sent))?,
        Variant::Ring => ring::serve(&listener, keep, &response)?,
    }
    Ok(())
}

fn listener(address: SocketAddr, connection: Connection) -> io::Result<TcpListener> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    // Accepted connections inherit it.
    sockopt::set_tcp_nodelay(&socket, true)?;
    if connection == Connection::Close {
        defer_accept(&socket)?;
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// A connection is accepted once its request is there, which saves waiting for each of the two.
fn defer_accept(socket: &OwnedFd) -> io::Result<()> {
    let seconds = DEFER_ACCEPT_SECONDS;
    // SAFETY: the option's value is an int that outlives the call, and its length is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of_val(&seconds) as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
