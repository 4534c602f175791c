//! Connections by FastCGI: a thread for each, which answers one request after another.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use rustix::net::{AddressFamily, getsockname};
use sojourn_cgi::responder::{RequestReader, answer};

use crate::{Application, Response};

/// Connections at once: each has a thread.
const CONNECTIONS_MAX: usize = 1024;
/// The longest form.
const BODY_BYTES_MAX: usize = 64 * 1024;
const CHUNK_BYTES: usize = 16 * 1024;
/// How long it waits when the system has no descriptor for another connection.
const PAUSE: Duration = Duration::from_millis(10);

/// Serves on a listening socket, of the internet or of the file system, until the process ends.
///
/// # Errors
/// If it is none.
pub fn serve(listener: OwnedFd, application: Application) -> io::Result<()> {
    let application = Arc::new(application);
    let is_local = getsockname(&listener)?.address_family() == AddressFamily::UNIX;
    if is_local {
        let listener = UnixListener::from(listener);
        accept(&application, || listener.accept().map(|(stream, _)| File::from(OwnedFd::from(stream))))
    } else {
        let listener = TcpListener::from(listener);
        accept(&application, || {
            let (stream, _) = listener.accept()?;
            stream.set_nodelay(true)?;
            Ok(File::from(OwnedFd::from(stream)))
        })
    }
}

/// `next` gives connections; reading and writing is the same for sockets of either family.
fn accept(application: &Arc<Application>, next: impl Fn() -> io::Result<File>) -> io::Result<()> {
    let open = Arc::new(AtomicUsize::new(0));
    loop {
        let stream = match next() {
            Ok(stream) => stream,
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::NotConnected) => {
                return Err(error);
            }
            Err(_) => {
                thread::sleep(PAUSE);
                continue;
            }
        };
        if open.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS_MAX {
            // Closed at once: the server asks another, or answers 503.
            open.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let (application, open) = (Arc::clone(application), Arc::clone(&open));
        thread::spawn(move || {
            // A connection that breaks off is the server's affair.
            let _ = converse(stream, &application);
            open.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

fn converse(mut stream: File, application: &Application) -> io::Result<()> {
    let mut reader = RequestReader::new(BODY_BYTES_MAX);
    let (mut chunk, mut records) = (vec![0; CHUNK_BYTES], Vec::new());
    loop {
        let count = stream.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        let mut piece = &chunk[..count];
        while let Some(request) = reader.read(piece).map_err(|error| {
            eprintln!("web99: {error}");
            io::Error::from(ErrorKind::InvalidData)
        })? {
            let Response { head, body } = application.answer(&request.variables, &request.body);
            records.clear();
            answer(request.id, &[head.as_bytes(), &body], &mut records);
            stream.write_all(&records)?;
            if !request.keeps_connection {
                return Ok(());
            }
            // There may be one more in what has come.
            piece = &[];
        }
    }
}
