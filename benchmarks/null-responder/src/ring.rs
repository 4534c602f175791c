//! One io_uring for connections of one request: accepting is one operation for all, and each connection is one chain
//! of receive, send and close, which the kernel runs without coming back in between.
//!
//! Connections are direct descriptors, so that no file table is touched; all receive into one buffer, since nobody reads
//! it.

use std::{net::TcpListener, os::fd::AsRawFd};

use anyhow::{Context, bail};
use io_uring::{
    IoUring, cqueue, opcode, squeue,
    types::{Fd, Fixed},
};
use rustix::io::Errno;

use crate::response::Response;

/// The most connections at once.
const CONNECTIONS_MAX: u32 = 16_384;
const SUBMISSIONS_MAX: u32 = 4_096;
const COMPLETIONS_MAX: u32 = 4 * CONNECTIONS_MAX;
const REQUEST_BYTES_MAX: usize = 4096;

const ACCEPTED: u64 = 0;
const PART_OF_CHAIN: u64 = 1;

/// Serves until the process is killed.
pub fn serve(listener: &TcpListener, response: &Response) -> anyhow::Result<()> {
    let mut ring: IoUring = IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .setup_coop_taskrun()
        .setup_cqsize(COMPLETIONS_MAX)
        .build(SUBMISSIONS_MAX)
        .context(
            "io_uring is not available\nhint: it is one of several variants; see kernel.io_uring_disabled",
        )?;
    ring.submitter().register_files_sparse(CONNECTIONS_MAX)?;
    // Written by the kernel for as long as the ring exists, so it outlives the ring.
    let request: &'static mut [u8] = Box::leak(vec![0; REQUEST_BYTES_MAX].into_boxed_slice());
    // io_uring waits on its own; a non-blocking descriptor would tell it not to.
    listener.set_nonblocking(false)?;
    submit(&mut ring, &[accept(listener)])?;
    let mut accepted: Vec<u32> = Vec::new();
    let mut accept_again = false;
    loop {
        ring.submit_and_wait(1)?;
        for entry in ring.completion() {
            // A chain says nothing when it goes well; a client that went away is no concern of ours.
            if entry.user_data() != ACCEPTED {
                continue;
            }
            match entry.result() {
                slot @ 0.. => accepted.push(slot as u32),
                error if passes(Errno::from_raw_os_error(-error)) => {}
                error => bail!("cannot accept: {}", std::io::Error::from_raw_os_error(-error)),
            }
            accept_again |= !cqueue::more(entry.flags());
        }
        for slot in accepted.drain(..) {
            submit(&mut ring, &chain(slot, request, response))?;
        }
        if std::mem::take(&mut accept_again) {
            submit(&mut ring, &[accept(listener)])?;
        }
    }
}

/// Whether accepting may go better the next time: a client is gone, or all slots are taken.
fn passes(error: Errno) -> bool {
    matches!(error, Errno::CONNABORTED | Errno::NFILE | Errno::MFILE | Errno::AGAIN | Errno::INTR)
}

fn accept(listener: &TcpListener) -> squeue::Entry {
    let listener = Fd(listener.as_raw_fd());
    opcode::AcceptMulti::new(listener).allocate_file_index(true).build().user_data(ACCEPTED)
}

/// The life of a connection. Hard links: it is closed even when receiving or sending failed.
fn chain(slot: u32, request: &mut [u8], response: &Response) -> [squeue::Entry; 3] {
    let quiet_link = squeue::Flags::IO_HARDLINK | squeue::Flags::SKIP_SUCCESS;
    let bytes = response.bytes();
    [
        opcode::Recv::new(Fixed(slot), request.as_mut_ptr(), request.len() as u32).build().flags(quiet_link),
        // MSG_WAITALL: all of it, before the connection is closed.
        opcode::Send::new(Fixed(slot), bytes.as_ptr(), bytes.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build()
            .flags(quiet_link),
        opcode::Close::new(Fixed(slot)).build().flags(squeue::Flags::SKIP_SUCCESS),
    ]
    .map(|entry| entry.user_data(PART_OF_CHAIN))
}

/// Queues operations, all or none at a time: a chain that a full queue cut in two would be two chains.
fn submit(ring: &mut IoUring, operations: &[squeue::Entry]) -> anyhow::Result<()> {
    // SAFETY: what operations point to, the request buffer and the response, lives until the process ends.
    while unsafe { ring.submission().push_multiple(operations) }.is_err() {
        ring.submit()?;
    }
    Ok(())
}
