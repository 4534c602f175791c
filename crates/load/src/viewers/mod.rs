//! Viewers of films: many clients of a server, and what a player would make of what they receive, by RTSP or HLS.
//!
//! A [`StreamPlan`] says what is wanted, [`run_streams`] does it and returns a [`StreamOutcome`]. A stream conforms by
//! the rule in `conformance`: it was neither refused nor cut off, its player never had nothing to show, and packets were
//! neither late nor lost nor too few. The generator measures its own lateness beside it.
//!
//! Reading order: `plan`, `conformance`; `run` and `event_loop`; a viewer's life in `start`, `rtsp` or `hls`, `rtp`,
//! `end`; `measurements`, `outcome`, `report`. The protocols without their sockets are the crate's modules `rtsp`,
//! `hls` and `playout`; messages of RTSP and headers of RTP and RTCP are the media crate's.

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
