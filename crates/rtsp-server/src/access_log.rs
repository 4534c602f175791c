//! The access log: a line per session when it ends. It starts like the combined format, so that its readers can parse
//! it; what only streams have follows as names and values.

use std::io::Write;
use std::time::Duration;

use sojourn_server::{Clock, append_escaped};

use crate::stream::Stream;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    Teardown,
    /// Its interleaved connection was closed.
    Closed,
    /// Its client was silent for too long.
    TimedOut,
    /// It never played, and its place was needed.
    Displaced,
    Stopped,
}

impl Ending {
    fn name(self) -> &'static str {
        match self {
            Ending::Teardown => "teardown",
            Ending::Closed => "closed",
            Ending::TimedOut => "timeout",
            Ending::Displaced => "displaced",
            Ending::Stopped => "stop",
        }
    }
}

impl Stream {
    /// Appends the line of an ended session.
    pub(super) fn append_line(&self, lines: &mut Vec<u8>, clock: &Clock, now: Duration, ending: Ending) {
        let _ = write!(lines, "{} - ", self.client);
        append_escaped(lines, self.user.as_deref().unwrap_or("-").as_bytes());
        lines.push(b' ');
        lines.extend_from_slice(&clock.log_time);
        lines.extend_from_slice(b" \"PLAY ");
        append_escaped(lines, self.url.as_bytes());
        let _ = write!(lines, " RTSP/1.0\" 200 {} \"-\" \"", self.totals.bytes);
        append_escaped(lines, if self.agent.is_empty() { b"-" } else { self.agent.as_bytes() });
        let receptions = || self.senders.iter().filter_map(|sender| sender.reception);
        // Without receiver reports the value is unknown.
        let lost = match receptions().count() {
            0 => "-".to_owned(),
            _ => receptions().map(|it| i64::from(it.lost)).sum::<i64>().to_string(),
        };
        let _ = writeln!(
            lines,
            "\" session={} transport={} seconds={:.3} packets={} lost={lost} dropped={} lateness_max_ms={:.1} end={}",
            self.session.id,
            if self.is_interleaved() { "tcp" } else { "udp" },
            now.saturating_sub(self.session.began()).as_secs_f64(),
            self.totals.packets,
            self.totals.dropped,
            1e3 * self.totals.lateness_max.as_secs_f64(),
            ending.name(),
        );
    }
}
