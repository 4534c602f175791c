//! The lines of a block in few bytes, because one thread writes each of them and another reads it.

use crate::import::class::Class;
use crate::import::entry::Malformed;
use crate::import::judged::{Judged, Logged};
use crate::import::policy::Verdict;

/// A line, with its texts as the parser's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored<'a> {
    Entry { judged: &'a Judged, client: u32, name: u32 },
    NotSelected(Logged),
    Directive,
    Malformed(Malformed),
}

/// The texts of an entry.
#[derive(Clone, Copy)]
pub struct Texts {
    pub client: u32,
    pub name: u32,
}

/// How far ahead a line comes soon.
const LINES_AHEAD: usize = 6;

/// Lines in their order. What few lines have, or what seldom changes, stands apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines {
    lines: Vec<Packed>,
    clocks: Vec<Clock>,
    times: Vec<Times>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packed {
    Entry(Entry),
    NotSelected(Logged),
    Directive,
    Malformed(Malformed),
}

/// A [`Judged`] entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    logged_ns: i64,
    size_bytes: u64,
    client: u32,
    name: u32,
    status: u16,
    method: u8,
    class: Option<Class>,
    verdict: Verdict,
    flags: u8,
}

const HAS_SIZE: u8 = 1;
const ASSUMED_SIZE: u8 = 1 << 1;
const REDIRECTS_FORM: u8 = 1 << 2;
/// The next [`Times`] are those of this line.
const HAS_TIMES: u8 = 1 << 3;
/// The next [`Clock`] holds from this line on.
const OTHER_CLOCK: u8 = 1 << 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Clock {
    resolution_ns: i64,
    utc_offset_seconds: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Times {
    unix_ns: i64,
    duration_ns: Option<i64>,
    upstream_ns: Option<i64>,
}

impl Lines {
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Forgets all lines, but keeps their memory.
    pub fn clear(&mut self) {
        // Another processor has read it. Taking it back for each line that is written takes far longer than all at once.
        self.lines.fill(Packed::Directive);
        self.lines.clear();
        self.clocks.clear();
        self.times.clear();
    }

    #[inline(always)] // its caller knows which one it is
    pub fn push(&mut self, stored: Stored<'_>) {
        let packed = match stored {
            Stored::Entry { judged, client, name } => self.packed(judged, client, name),
            Stored::NotSelected(logged) => Packed::NotSelected(logged),
            Stored::Directive => Packed::Directive,
            Stored::Malformed(reason) => Packed::Malformed(reason),
        };
        self.lines.push(packed);
    }

    #[inline]
    fn packed(&mut self, judged: &Judged, client: u32, name: u32) -> Packed {
        let Judged { logged, unix_ns, resolution_ns, duration_ns, upstream_ns, size_bytes, .. } = *judged;
        let mut flags = (HAS_SIZE * u8::from(size_bytes.is_some()))
            | (ASSUMED_SIZE * u8::from(judged.size_is_assumed))
            | (REDIRECTS_FORM * u8::from(judged.redirects_form));
        let clock = Clock { resolution_ns, utc_offset_seconds: logged.utc_offset_seconds };
        if self.clocks.last() != Some(&clock) {
            self.clocks.push(clock);
            flags |= OTHER_CLOCK;
        }
        if unix_ns != logged.unix_ns || duration_ns.is_some() || upstream_ns.is_some() {
            self.times.push(Times { unix_ns, duration_ns, upstream_ns });
            flags |= HAS_TIMES;
        }
        Packed::Entry(Entry {
            logged_ns: logged.unix_ns,
            size_bytes: size_bytes.unwrap_or(0),
            client,
            name,
            status: judged.status,
            method: judged.method,
            class: judged.class,
            verdict: judged.verdict,
            flags,
        })
    }

    /// Calls `visit` with each line, and with the texts of one that comes soon.
    pub fn try_for_each<E>(
        &self,
        mut visit: impl FnMut(Stored<'_>, Option<Texts>) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut clocks, mut times) = (self.clocks.iter(), self.times.iter());
        let mut clock = Clock::default();
        for (at, line) in self.lines.iter().enumerate() {
            let judged;
            let stored = match line {
                Packed::Entry(entry) => {
                    let has = |flag| entry.flags & flag != 0;
                    if has(OTHER_CLOCK) {
                        clock = clocks.next().copied().unwrap_or_default();
                    }
                    let unix_ns = entry.logged_ns;
                    let times = if has(HAS_TIMES) { times.next().copied() } else { None };
                    let times = times.unwrap_or(Times { unix_ns, duration_ns: None, upstream_ns: None });
                    judged = Judged {
                        logged: Logged { unix_ns, utc_offset_seconds: clock.utc_offset_seconds },
                        unix_ns: times.unix_ns,
                        resolution_ns: clock.resolution_ns,
                        duration_ns: times.duration_ns,
                        upstream_ns: times.upstream_ns,
                        size_bytes: has(HAS_SIZE).then_some(entry.size_bytes),
                        size_is_assumed: has(ASSUMED_SIZE),
                        status: entry.status,
                        method: entry.method,
                        class: entry.class,
                        verdict: entry.verdict,
                        redirects_form: has(REDIRECTS_FORM),
                    };
                    Stored::Entry { judged: &judged, client: entry.client, name: entry.name }
                }
                Packed::NotSelected(logged) => Stored::NotSelected(*logged),
                Packed::Directive => Stored::Directive,
                Packed::Malformed(reason) => Stored::Malformed(*reason),
            };
            let soon = match self.lines.get(at + LINES_AHEAD) {
                Some(Packed::Entry(entry)) => Some(Texts { client: entry.client, name: entry.name }),
                _ => None,
            };
            visit(stored, soon)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_takes_half_a_cache_line() {
        assert_eq!(size_of::<Packed>(), 32);
    }
}
