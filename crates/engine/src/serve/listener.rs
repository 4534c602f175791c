//! The listening sockets: opened here, or passed by a service manager, which is notified when the server is ready.

use std::ffi::OsStr;
use std::io::ErrorKind;
use std::net::TcpListener;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixDatagram};

use anyhow::{anyhow, bail, ensure};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::sockopt::{set_tcp_congestion, socket_acceptconn, socket_type};
use rustix::net::{SocketType, listen as set_backlog};

use sojourn_server::connection::Transport;
use sojourn_server::{BACKLOG, LISTENERS_MAX, Listener, defer_accept, enter_admin};

use super::binary_upgrade::Inheritance;
use super::options::listen::{ListenOptions, TlsOptions};

const DEFAULT_ADDRESS: &str = "127.0.0.1:8080";

/// The name of sockets for TLS from a service manager (FileDescriptorName= in systemd's unit).
const TLS_SOCKET_NAME: &str = "https";

/// The first descriptor that a service manager passes (sd_listen_fds(3)).
const PASSED_FD: RawFd = 3;

pub struct Listeners {
    pub listeners: Vec<Listener>,
    /// True if a service manager opened them.
    pub are_passed: bool,
}

impl ListenOptions {
    /// Sockets from a service manager; otherwise a predecessor's, or new ones.
    pub fn listeners(&self, tls: &TlsOptions, inheritance: &mut Inheritance) -> anyhow::Result<Listeners> {
        let mut passed = activated_sockets()?;
        passed.extend(inheritance.take_activated());
        let are_passed = !passed.is_empty();
        let listeners = if are_passed { passed } else { self.own_listeners(tls, inheritance)? };
        listeners.iter().try_for_each(|listener| self.adjust(&listener.socket))?;
        Ok(Listeners { listeners, are_passed })
    }

    fn own_listeners(
        &self,
        tls: &TlsOptions,
        inheritance: &mut Inheritance,
    ) -> anyhow::Result<Vec<Listener>> {
        let (plain, tls) = (&self.listen, &tls.tls_listen);
        check_count(plain.len() + tls.len())?;
        let is_default = plain.is_empty() && tls.is_empty();
        let plain = plain.iter().map(String::as_str).chain(is_default.then_some(DEFAULT_ADDRESS));
        let plain = plain.map(|address| (address, Transport::Plain));
        let tls = tls.iter().map(|address| (address.as_str(), Transport::Tls));
        let mut listeners = Vec::new();
        for (address, transport) in plain.chain(tls) {
            let sockets = inherit_or_listen(address, inheritance)?;
            listeners.extend(sockets.into_iter().map(|socket| Listener { socket, transport }));
        }
        Ok(listeners)
    }

    /// The admin listener's socket, if configured.
    pub fn admin_listener(&self, inheritance: &mut Inheritance) -> anyhow::Result<Option<TcpListener>> {
        let Some(address) = &self.admin_listen else { return Ok(None) };
        let admin = inheritance.admin(address).map_or_else(|| listen(address), Ok)?;
        // Processes that serve must not keep it open.
        enter_admin(admin.as_fd());
        Ok(Some(admin))
    }

    fn adjust(&self, listener: &TcpListener) -> anyhow::Result<()> {
        if let Some(name) = &self.congestion_control {
            // Accepted connections inherit it.
            set_tcp_congestion(listener, name).map_err(|error| {
                anyhow!("cannot use congestion control {name}: {error}\nhint: try cubic or reno, which every kernel has")
            })?;
        }
        if let Some(backlog) = self.backlog {
            set_backlog(listener, backlog)?;
        }
        if let Some(timeout) = self.defer_accept {
            defer_accept(listener, timeout).map_err(|error| {
                anyhow!("cannot defer accepting: {error}\nhint: leave out --defer-accept on this system")
            })?;
        }
        Ok(())
    }
}

/// The predecessor's sockets on `address`, possibly several, or a new one.
pub fn inherit_or_listen(address: &str, inheritance: &mut Inheritance) -> anyhow::Result<Vec<TcpListener>> {
    let inherited = inheritance.at(address);
    if inherited.is_empty() { Ok(vec![listen(address)?]) } else { Ok(inherited) }
}

pub fn listen(address: &str) -> anyhow::Result<TcpListener> {
    let listener = TcpListener::bind(address).map_err(|error| {
        let hint = match error.kind() {
            ErrorKind::AddrInUse => {
                "another program listens there: stop it, or use port 0 to get a free port"
            }
            ErrorKind::PermissionDenied => "ports below 1024 need a privilege: choose a higher port",
            ErrorKind::AddrNotAvailable => {
                "no interface of this machine has that address; 127.0.0.1 always works"
            }
            _ => "write an address such as 127.0.0.1:8080 or [::1]:8080",
        };
        anyhow!("cannot listen on {address}: {error}\nhint: {hint}")
    })?;
    set_backlog(&listener, BACKLOG)?;
    Ok(listener)
}

/// The listening sockets passed by a service manager, if there is one.
fn activated_sockets() -> anyhow::Result<Vec<Listener>> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u32>().ok());
    // Meant for this process, not for one that started it.
    if number("LISTEN_PID") != Some(std::process::id()) {
        return Ok(Vec::new());
    }
    let count = number("LISTEN_FDS").unwrap_or(0);
    check_count(count as usize)?;
    let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
    let names = names.split(':').chain(std::iter::repeat(""));
    (PASSED_FD..PASSED_FD + count as RawFd).zip(names).map(passed_listener).collect()
}

fn check_count(count: usize) -> anyhow::Result<()> {
    ensure!(
        count <= LISTENERS_MAX,
        "{count} listening sockets are too many\nhint: the maximum is {LISTENERS_MAX}; an address such as [::]:8080 covers all addresses of a machine"
    );
    Ok(())
}

fn passed_listener((number, name): (RawFd, &str)) -> anyhow::Result<Listener> {
    // SAFETY: by sd_listen_fds(3) the descriptor is open and not used by anything else in this process.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    if !listens(socket.as_fd()) {
        bail!(
            "the socket passed by the service manager does not listen for TCP connections\nhint: use ListenStream= in the socket unit; with Accept=yes, or under inetd, serve --stdio"
        );
    }
    fcntl_setfd(&socket, FdFlags::CLOEXEC)?;
    let transport = if name == TLS_SOCKET_NAME { Transport::Tls } else { Transport::Plain };
    Ok(Listener { socket: socket.into(), transport })
}

fn listens(socket: BorrowedFd<'_>) -> bool {
    socket_type(socket) == Ok(SocketType::STREAM) && socket_acceptconn(socket) == Ok(true)
}

/// Notifies the service manager that this process is the service and serves (sd_notify(3)).
pub fn notify_ready() {
    let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return };
    let path = path.as_bytes();
    let address = match path.strip_prefix(b"@") {
        Some(name) => UnixAddress::from_abstract_name(name),
        None => UnixAddress::from_pathname(OsStr::from_bytes(path)),
    };
    let text = format!("READY=1\nMAINPID={}\n", std::process::id());
    // A failure only concerns the service manager, which has a timeout.
    let _ = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(text.as_bytes(), &address));
}
