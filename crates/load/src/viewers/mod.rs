//! Viewers of films over RTSP or HLS: many clients of a streaming server, and what a player would make of what they
//! receive.
//!
//! [`run_streams`] performs a [`StreamPlan`] and returns a [`StreamOutcome`]. A stream conforms by the rule in
//! `conformance`: it was neither refused nor cut off, its player never starved, and packets were neither late nor lost
//! nor too few. The generator's own lateness is measured, too.
//!
//! Reading order: `plan`, `conformance`; `run` and `event_loop`; a viewer's life in `start`, `rtsp` or `hls`, `rtp`,
//! `end`; `measurements`, `outcome`, `report`. The protocols without sockets are the crate's modules `rtsp`, `hls` and
//! `playout`; RTSP messages and RTP and RTCP headers are in the media crate.

mod conformance;
mod connection;
mod counts;
mod end;
mod event_loop;
mod film;
mod hls;
mod hls_session;
mod measurements;
mod outcome;
mod plan;
mod progress;
mod report;
mod rtp;
mod rtsp;
mod rtsp_session;
mod run;
mod snapshot;
mod sockets;
mod start;
mod viewer;
mod wakeups;

pub use crate::hls::{HlsPlan, Variant};
pub use counts::StreamTimeline;
pub use film::{Film, FilmError};
pub use outcome::StreamOutcome;
pub use plan::{Quality, StreamLimits, StreamPlan, Transport};
pub use progress::StreamProgress;
pub use report::StreamReport;
pub use run::run_streams;
