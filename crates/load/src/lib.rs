//! Virtual clients: one thread, one epoll loop, any number of connections, honest latencies.
//!
//! A [`Plan`] says what is wanted as independent values: arrivals × requests × connections × schedule.
//! [`run`] does it and answers a [`Report`] that distrusts itself: it says how late the generator was, how
//! busy its core was, and whether it, not the server, was the limit.
//!
//! Reading order: `plan`, `run`, `rhythm`, `client`, `exchange`, `reception` (pure), `ledger`, `record`, `report`.

mod agenda;
mod catalogue;
mod cause;
mod check;
mod client;
mod connection;
mod connector;
pub mod duration;
mod exchange;
mod filelist;
mod intervals;
mod ledger;
mod mark;
mod observer;
mod outcome;
mod plan;
mod reception;
mod record;
pub mod report;
mod rhythm;
mod run;
mod schedule;
mod sources;
mod span;
mod target;
mod timeline;
mod timers;

pub use catalogue::{Catalogue, Version};
pub use cause::Cause;
pub use filelist::FilelistError;
pub use observer::TICK;
pub use outcome::Outcome;
pub use plan::{Arrivals, Connections, Limits, Observe, Pick, Plan, StopRule, Think, ThinkLaw, Waiting};
pub use report::Report;
pub use rhythm::Progress;
pub use run::{RunError, run};
pub use schedule::{Schedule, Step};
pub use target::{Target, TargetError};
pub use timeline::Timeline;
