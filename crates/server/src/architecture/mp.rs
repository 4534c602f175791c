//! MP: N processes, each serving one connection at a time with caches of its own.
//!
//! All processes accept from the same socket. They share only counters, so nothing needs a lock, but each has to fill
//! its own caches. A worker that dies takes one connection with it and is replaced.

use std::cell::RefCell;
use std::io;

use sojourn_content::Budgets;

use super::{Architecture, CacheScope, Defaults, HEAD_TIMEOUT_OF_WORKERS};
use crate::counters::Served;
use crate::runtime::blocking::{SharedListeners, accept_and_serve, run_worker};
use crate::runtime::processes::{LogWriter, supervise, with_log_writer};
use crate::runtime::sockets::accept::Listener;
use crate::site::Site;
use crate::stop::Stop;

/// Flash-MP's number of processes, each with small caches of its own (USENIX ATC 1999, 6).
const PROCESSES: usize = 32;
const BODY_CACHE_BYTES: usize = 4 << 20;
const DOCUMENTS_MAX: usize = 200;

pub struct Mp;

impl Architecture for Mp {
    fn name(&self) -> &'static str {
        "mp"
    }

    fn summary(&self) -> &'static str {
        "N processes (32), each serving one connection at a time, with private caches (4MiB, 200 paths)"
    }

    fn defaults(&self) -> Defaults {
        let budgets =
            Budgets { body_bytes: BODY_CACHE_BYTES, documents_max: DOCUMENTS_MAX, ..Budgets::default() };
        Defaults { workers: Some(PROCESSES), budgets, head: HEAD_TIMEOUT_OF_WORKERS }
    }

    fn cache_scope(&self) -> Option<CacheScope> {
        Some(CacheScope::Worker)
    }

    fn serve(&self, site: &Site, listeners: Vec<Listener>, stop: &Stop) -> io::Result<Served> {
        with_log_writer(site, listeners, |listeners, log_writer| {
            let listeners = RefCell::new(Some(SharedListeners::new(listeners)?));
            let close = || drop(listeners.take());
            supervise(site, stop, log_writer, close, |slot, stop| {
                let listeners = listeners.borrow();
                let listeners = listeners.as_ref().expect("closed in the process of the log only");
                run_worker(site, slot, log_writer.map(LogWriter::log_of_worker), stop, |worker| {
                    accept_and_serve(worker, &listeners.acceptor()?, site, stop);
                    Ok(())
                })
            })
        })?;
        Ok(site.counters())
    }
}
