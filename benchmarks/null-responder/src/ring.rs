//! One io_uring: accepting is one operation for all connections. A connection that closes is one chain of receive, send and
//! close, which the kernel runs without coming back in between; one that stays is a chain of receive and send per request.
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

use crate::{Connection, response::Response};

/// The most connections at once.
const CONNECTIONS_MAX: u32 = 16_384;
const SUBMISSIONS_MAX: u32 = 4_096;
const COMPLETIONS_MAX: u32 = 4 * CONNECTIONS_MAX;
const REQUEST_BYTES_MAX: usize = 4096;

const ACCEPTED: u64 = 0;
const PART_OF_CHAIN: u64 = 1;
/// A response of the connection in the slot that is added to this has been sent, or its chain has failed.
const ANSWERED: u64 = 2;

/// Serves until the process is killed.
pub fn serve(listener: &TcpListener, keep: Connection, response: &Response) -> anyhow::Result<()> {
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
    let mut answered: Vec<u32> = Vec::new();
    let mut failed: Vec<u32> = Vec::new();
    let mut accept_again = false;
    loop {
        ring.submit_and_wait(1)?;
        for entry in ring.completion() {
            match (entry.user_data(), entry.result()) {
                // A chain that closes says nothing when it goes well; a client that went away is no concern of ours.
                (PART_OF_CHAIN, _) => {}
                (ACCEPTED, result) => {
                    match result {
                        slot @ 0.. => answered.push(slot as u32),
                        error if passes(Errno::from_raw_os_error(-error)) => {}
                        error => bail!("cannot accept: {}", std::io::Error::from_raw_os_error(-error)),
                    }
                    accept_again |= !cqueue::more(entry.flags());
                }
                (slot, sent) if sent as usize == response.bytes().len() => {
                    answered.push((slot - ANSWERED) as u32);
                }
                (slot, _) => failed.push((slot - ANSWERED) as u32),
            }
        }
        for slot in answered.drain(..) {
            match keep {
                Connection::Close => submit(&mut ring, &closing_chain(slot, request, response))?,
                Connection::KeepAlive => submit(&mut ring, &chain(slot, request, response))?,
            }
        }
        for slot in failed.drain(..) {
            submit(&mut ring, &[close(slot)])?;
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

/// The life of a connection that closes. Hard links: it is closed even when receiving or sending failed.
fn closing_chain(slot: u32, request: &mut [u8], response: &Response) -> [squeue::Entry; 3] {
    let quiet_link = squeue::Flags::IO_HARDLINK | squeue::Flags::SKIP_SUCCESS;
    let [receive, send] = receive_and_send(slot, request, response).map(|entry| entry.flags(quiet_link));
    [receive, send, close(slot)]
}

/// A request and its response, whose end is told. A client that has gone away makes one of the next two fail.
fn chain(slot: u32, request: &mut [u8], response: &Response) -> [squeue::Entry; 2] {
    let [receive, send] = receive_and_send(slot, request, response);
    [
        receive.flags(squeue::Flags::IO_LINK | squeue::Flags::SKIP_SUCCESS),
        send.user_data(ANSWERED + u64::from(slot)),
    ]
}

fn receive_and_send(slot: u32, request: &mut [u8], response: &Response) -> [squeue::Entry; 2] {
    let bytes = response.bytes();
    [
        opcode::Recv::new(Fixed(slot), request.as_mut_ptr(), request.len() as u32).build(),
        // MSG_WAITALL: all of it before the chain goes on.
        opcode::Send::new(Fixed(slot), bytes.as_ptr(), bytes.len() as u32)
            .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL)
            .build(),
    ]
    .map(|entry| entry.user_data(PART_OF_CHAIN))
}

fn close(slot: u32) -> squeue::Entry {
    opcode::Close::new(Fixed(slot)).build().flags(squeue::Flags::SKIP_SUCCESS).user_data(PART_OF_CHAIN)
}

/// Queues operations, all or none at a time: a chain that a full queue cut in two would be two chains.
fn submit(ring: &mut IoUring, operations: &[squeue::Entry]) -> anyhow::Result<()> {
    // SAFETY: what operations point to, the request buffer and the response, lives until the process ends.
    while unsafe { ring.submission().push_multiple(operations) }.is_err() {
        ring.submit()?;
    }
    Ok(())
}
