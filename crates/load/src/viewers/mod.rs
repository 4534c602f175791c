//! Viewers of films: many clients of a server, and what a player would make of what they receive, by RTSP or HLS.
//!
//! A [`StreamPlan`] says what is wanted, [`run_streams`] does it and answers a [`StreamOutcome`]. A stream conforms by
//! the rule in `verdict`: it was neither refused nor cut off, its player never had nothing to show, and packets were
//! neither late nor lost nor too few. The generator measures its own lateness beside it.
//!
//! Reading order: `plan`; pure `dialogue`, `description`, `authorization`, `sequence`, `playout`, `verdict`; then what
//! performs: `run`, `come`, `talk`, `receive`, `leave`; `tally`, `outcome`, `report`. Messages, and headers of RTP and
//! RTCP, are the streaming crate's. What is HLS's own is in `hls`.

mod conformance;
mod counts;
mod end;
mod film;
mod hls;
mod outcome;
mod plan;
mod progress;
mod report;
mod rtp;
mod rtsp;
mod run;
mod snapshot;
mod start;
mod viewer;

pub use crate::hls::{HlsPlan, Variant};
pub use counts::StreamTimeline;
pub use film::{Film, FilmError};
pub use outcome::StreamOutcome;
pub use plan::{Quality, StreamLimits, StreamPlan, Transport};
pub use progress::StreamProgress;
pub use report::StreamReport;
pub use run::run_streams;
