//! Both methods on real sockets: among connections in every state, and in namespaces with and without permission.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use rustix::thread::{CapabilitySet, capabilities, gettid, set_capabilities};

use super::*;

const MANY: usize = 300;

fn here() -> Namespace {
    Namespace::of(None).value().unwrap().clone()
}

fn both_ways(namespace: &Namespace, port: u16) -> [Listener; 2] {
    let asked = Method::Diagnosis(Diagnosis::begin(namespace).unwrap());
    [asked, Method::Table(namespace.clone())].map(|method| Listener { method, port })
}

/// Ends a connection from the server's side, so that its port is in TIME_WAIT.
fn end(listener: &TcpListener, address: SocketAddr) {
    let mut client = TcpStream::connect(address).unwrap();
    drop(listener.accept().unwrap());
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
}

#[test]
fn a_connection_that_nobody_accepted_is_in_the_queue() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        // The machine may lack IPv6.
        let Ok(listener) = TcpListener::bind(address) else { continue };
        let address = listener.local_addr().unwrap();
        let mut sources = both_ways(&here(), address.port());
        let mut read = || sources.each_mut().map(|source| source.read().remove(0));
        let waiting = TcpStream::connect(address).unwrap();
        assert_eq!(read(), [Reading::Value(1.0), Reading::Value(1.0)]);
        let accepted = listener.accept().unwrap();
        assert_eq!(read(), [Reading::Value(0.0), Reading::Value(0.0)]);
        assert_eq!(listening_on(address.port()).unwrap(), [std::process::id()]);
        drop((waiting, accepted, listener));
        assert!(read().iter().all(|reading| reading.value().is_none()));
    }
}

#[test]
fn only_what_listens_is_told_among_connections_of_every_state() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (0..MANY).for_each(|_| end(&listener, address));
    let open: Vec<_> =
        (0..MANY).map(|_| (TcpStream::connect(address).unwrap(), listener.accept().unwrap())).collect();
    let waiting = [(); 3].map(|()| TcpStream::connect(address).unwrap());
    for mut source in both_ways(&here(), address.port()) {
        // Established and ended connections have the same port; any of them would count as a second socket.
        let sockets = source.sockets().unwrap();
        assert_eq!(sockets.iter().map(|socket| socket.queue).collect::<Vec<_>>(), [3]);
    }
    drop((open, waiting));
}

#[test]
fn a_listener_elsewhere_is_seen_whether_its_namespace_may_be_entered_or_not() {
    let (told, tell) = mpsc::channel();
    let (over, wait) = mpsc::channel::<()>();
    let elsewhere = thread::spawn(move || {
        // SAFETY: only this thread is moved, and nothing it owns depends on its namespace.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } < 0 {
            return told.send(None).unwrap();
        }
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        told.send(Some((gettid().as_raw_pid() as u32, listener.local_addr().unwrap().port()))).unwrap();
        // Lives until the test ends.
        let _ = wait.recv();
    });
    let Some((pid, port)) = tell.recv().unwrap() else {
        eprintln!("skipped: only root can make a network namespace");
        return;
    };
    let namespace = Namespace::of(Some(pid)).value().unwrap().clone();
    let mut entered = Listener::open(namespace.clone(), Some(port)).unwrap();
    assert!(matches!(entered.method, Method::Diagnosis(_)));
    assert_eq!(entered.read(), [Reading::Value(0.0)]);
    let kept_out = thread::spawn(move || {
        let mut sets = capabilities(None).unwrap();
        sets.effective.remove(CapabilitySet::SYS_ADMIN);
        set_capabilities(None, sets).unwrap();
        let mut kept_out = Listener::open(namespace, Some(port)).unwrap();
        assert!(matches!(kept_out.method, Method::Table(_)));
        assert_eq!(kept_out.read(), [Reading::Value(0.0)]);
    });
    kept_out.join().unwrap();
    drop(over);
    elsewhere.join().unwrap();
}
