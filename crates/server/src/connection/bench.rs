//! A context for tests that drive a connection by hand.

use std::path::Path;
use std::sync::Arc;

use sojourn_cgi::Ends;
use sojourn_content::{Budgets, Caches, Directory, Rules};
use sojourn_http::http2::HeadCache;

use super::{Context, Handler, Pool, SendPath, Shared};
use crate::clock::Clock;
use crate::counters::Served;
use crate::handler::static_files::StaticFiles;
use crate::limits::Limits;

pub struct Bench {
    pub origin: Directory,
    pub handler: Box<dyn Handler>,
    pub pool: Pool,
    pub heads: HeadCache,
    pub served: Served,
    pub clock: Clock,
    pub send_path: SendPath,
    pub limits: Limits,
    pub is_draining: bool,
}

impl Bench {
    /// Serves the directory `root`.
    pub fn new(root: &Path) -> Bench {
        Bench {
            origin: Directory::new(root, Rules::default()).unwrap(),
            handler: Box::new(StaticFiles::new(Caches::new(&Budgets::default()), Arc::default())),
            pool: Pool::default(),
            heads: HeadCache::default(),
            served: Served::default(),
            clock: Clock::new(),
            send_path: SendPath::default(),
            limits: Limits::default(),
            is_draining: false,
        }
    }

    /// The context to pass to a connection.
    pub fn context(&mut self) -> Context<'_> {
        Context {
            handler: &mut *self.handler,
            shared: Shared {
                pool: &mut self.pool,
                heads: &mut self.heads,
                served: &mut self.served,
                clock: &self.clock,
                send_path: &self.send_path,
                log: None,
                limits: &self.limits,
                is_draining: self.is_draining,
                stops_receiving: false,
                token: 0,
                ends: Ends::default(),
            },
        }
    }
}
