//! Virtual clients: one thread, one epoll loop, any number of connections, honest latencies.
//!
//! A [`Plan`] says what is wanted as independent values: arrivals × requests × think times × connections × schedule × stop rule.
//! [`run`] does it and answers a [`Report`] that distrusts itself: it says how late the generator was, how
//! busy its core was, and whether it, not the server, was the limit.
//!
//! Reading order for HTTP: `plan`, `run`, `event_loop`, `rhythm`, `client`, `connection`, `reception` (pure), `ledger`, `record`, `report`.
//! [`streaming`] has its own: viewers of films, over RTSP.

mod agenda;
mod catalogue;
mod cause;
mod check;
mod client;
mod connection;
mod connector;
pub mod duration;
mod event_loop;
mod filelist;
mod form;
mod intake;
mod intervals;
mod law;
mod ledger;
mod mark;
mod observer;
mod outcome;
mod picker;
mod plan;
mod rates;
mod reader;
mod readiness;
pub mod reception;
mod record;
mod replayed;
pub mod report;
mod rhythm;
mod run;
mod schedule;
mod secured;
mod session_file;
mod sources;
mod span;
mod spans;
mod stamped;
pub mod streaming;
mod suspect;
mod target;
mod timeline;
mod timers;
mod tls;
mod turns;
mod walk;
pub mod webstone;

pub use catalogue::Catalogue;
pub use cause::Cause;
pub use filelist::FilelistError;
pub use form::{Form, FormError, Version};
pub use law::{Count, Law, Shape};
pub use observer::TICK;
pub use outcome::Outcome;
pub use plan::{
    Arrivals, Connections, Limits, LoggedVisit, Observe, PIPELINE_MAX, Pick, Plan, Requests, StopRule, Think,
    Transport, Waiting,
};
pub use rates::{ArrivalLaw, ScheduleError, Segment, parse as parse_schedule, rate as parse_rate};
pub use replayed::{Failed, Host, Paths, Replayed};
pub use report::Report;
pub use rhythm::Progress;
pub use run::{RunError, run};
pub use schedule::{Schedule, Step};
pub use session_file::SessionFileError;
pub use target::{Target, TargetError};
pub use timeline::Timeline;
pub use tls::{Tls, TlsError, Trust, client_config};
pub use turns::TIMER_SLACK_MAX;
pub use walk::WalkError;
