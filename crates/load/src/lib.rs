//! The load generator: virtual clients and viewers in one thread with one epoll loop and any number of connections.
//!
//! A [`Plan`] describes a load by independent values: arrivals, requests, think times, connections, schedule, stop
//! rule. [`run`] performs it and returns an [`Outcome`], whose [`Report`] also says how late the generator was, how
//! busy its core was, and whether the generator rather than the server was the limit. [`viewers`] does the same for
//! video players, over RTSP or HLS.
//!
//! The modules, from the top down; each uses only those below it:
//!
//! | module | what is in it |
//! |---|---|
//! | `clients`, [`viewers`] | the two kinds of run: the loop, its table of clients, what each of them does next |
//! | [`rtsp`], `hls` | the two ways to watch: the RTSP session and its authentication; playlists and the next request |
//! | `playout` | the playout buffer: deadlines, losses, starvation |
//! | `statistics` | recorder, snapshots, histograms per step and interval, checks, the report |
//! | `plan` | the load as data: arrivals, think times, mixes, sessions, schedules, the stop rule |
//! | [`http`] | the one HTTP client: requests, the connection, the response reader, HTTP/2, TLS, causes of failure |
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
#[cfg(debug_assertions)]
pub use plan::scenario_schemas;
pub use plan::{
    Answer, ArrivalProcess, Arrivals, Catalogue, Connections, Count, Distribution, Failed, FilelistError,
    GENERATED, Host, KeptUser, Limits, LoggedVisit, Next, Observe, PIPELINE_MAX, Paths, Pick, Plan, Replayed,
    Requests, RequestsTooLarge, STREAMS_MAX, Scenario, ScenarioError, ScenarioInputs, Schedule,
    ScheduleError, Segment, SessionFileError, Shape, Step, StopRule, Think, Transport, User, Waiting,
    WalkError, duration, is_har, parse_rate, parse_schedule,
};
pub use runtime::{RunError, TIMER_SLACK_MAX, timestamps};
pub use statistics::{EachRequest, Figures, Outcome, Report, StepLimit, TICK, Timeline, report, webstone};
