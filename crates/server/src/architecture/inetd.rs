//! inetd: fork and execute a program per connection, which reads its configuration anew.
//!
//! This is the least inetd that does the work: no table of services, no limit per minute. The program is the engine
//! itself (`serve --stdio`), as it would be under another inetd; what it costs to start is what is studied.

use std::io;

use super::{Architecture, CacheScope};
use crate::counters::Served;
use crate::runtime::processes::{Plan, Visit, dispatch};
use crate::runtime::sockets::listener::Listener;
use crate::site::Site;
use crate::stop::Stop;

/// The architecture of the Internet super-server.
pub struct Inetd;

impl Architecture for Inetd {
    fn name(&self) -> &'static str {
        "inetd"
    }

    fn summary(&self) -> &'static str {
        "fork and exec per connection, the configuration read anew each time"
    }

    fn cache_scope(&self) -> Option<CacheScope> {
        None
    }

    fn serve(&self, site: &Site, listeners: Vec<Listener>, stop: &Stop) -> io::Result<Served> {
        let program = site.program.as_ref().ok_or_else(|| {
            io::Error::new(io::ErrorKind::NotFound, "there is no program to execute for each connection")
        })?;
        let child = |visit: Visit| program.execute(&visit, site);
        dispatch(site, listeners, stop, &Plan { helpers: 0, child: Some(&child) })?;
        Ok(site.counters())
    }
}
