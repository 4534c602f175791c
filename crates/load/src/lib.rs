//! Virtual clients and viewers: one thread, one epoll loop, any number of connections, honest latencies.
//!
//! A [`Plan`] says what is wanted as independent values: arrivals × requests × think times × connections × schedule × stop
//! rule. [`run`] carries it out and returns an [`Outcome`], whose [`Report`] distrusts itself: it says how late the
//! generator was, how busy its core was, and whether it, not the server, was the limit. [`viewers`] does the same for
//! players of video, over RTSP or HLS.
//!
//! The rooms, from the top down; a room uses only those below it:
//!
//! | room | what is in it |
//! |---|---|
//! | `clients`, [`viewers`] | the two kinds of run: the loop, its table of clients, what each of them does next |
//! | [`rtsp`], `hls` | the two ways to watch: dialogue and digest; playlists and what to fetch next |
//! | `playout` | the playout buffer: what came in time, what was lost, when there was nothing to show |
//! | `statistics` | recorder, snapshots, histograms per step and interval, checks, the report |
//! | `plan` | what is asked, when, by whom: arrivals, think times, mixes, sessions, schedules, the stop rule |
//! | [`http`] | the one HTTP client: requests, the response reader, TLS, causes of failure |
//! | `runtime` | sockets, timestamps, connector, timers, epoll, batching |

mod clients;
mod hls;
pub mod http;
mod plan;
mod playout;
pub mod rtsp;
mod runtime;
mod statistics;
pub mod viewers;

pub use clients::{Progress, run};
pub use http::{Cause, Form, FormError, Target, TargetError, Tls, TlsError, Trust, Version, client_config};
pub use plan::{
    ArrivalLaw, Arrivals, Catalogue, Connections, Count, Failed, FilelistError, Host, Law, Limits,
    LoggedVisit, Observe, PIPELINE_MAX, Paths, Pick, Plan, Replayed, Requests, Schedule, ScheduleError,
    Segment, SessionFileError, Shape, Step, StopRule, Think, Transport, Waiting, WalkError, duration,
    parse_rate, parse_schedule,
};
pub use runtime::{RunError, TIMER_SLACK_MAX, timestamps};
pub use statistics::{Figures, Outcome, Report, StepLimit, TICK, Timeline, report, webstone};
