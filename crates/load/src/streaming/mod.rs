//! Viewers of films: many clients of a server, and what a player would make of what they receive, by RTSP or HLS.
//!
//! A [`StreamPlan`] says what is wanted, [`run_streams`] does it and answers a [`StreamOutcome`]. A stream conforms by
//! the rule in `verdict`: it was neither refused nor cut off, its player never had nothing to show, and packets were
//! neither late nor lost nor too few. The generator measures its own lateness beside it.
//!
//! Reading order: `plan`; pure `dialogue`, `description`, `authorization`, `sequence`, `playout`, `verdict`; then what
//! performs: `run`, `come`, `talk`, `receive`, `leave`; `tally`, `outcome`, `report`. Messages, and headers of RTP and
//! RTCP, are the streaming crate's. What is HLS's own is in `hls`.

pub mod authorization;
mod come;
mod description;
pub mod dialogue;
mod film;
mod hls;
mod leave;
mod mark;
mod outcome;
mod plan;
mod playout;
mod progress;
mod receive;
mod report;
mod run;
mod sequence;
mod sockets;
mod talk;
mod tally;
mod verdict;
mod viewer;

pub use film::{Film, FilmError};
pub use hls::{HlsPlan, Variant};
pub use outcome::StreamOutcome;
pub use plan::{Quality, StreamLimits, StreamPlan, Transport};
pub use progress::StreamProgress;
pub use report::StreamReport;
pub use run::run_streams;
pub use tally::StreamTimeline;
