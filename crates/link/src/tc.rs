//! Translates a line to tc(8): its queueing discipline with limits, and reads the discipline's counters.
//!
//! A rate alone becomes a token bucket (tc-tbf(8)); a delay or loss becomes tc-netem(8), with the bucket behind it if there
//! is a rate. Netem's own rate would not do: one limit then counts both the packets that wait and those in transit, however
//! short they are. Otherwise an unlimited FIFO queue provides the counters.

use std::io;

use serde::Deserialize;
use sojourn_queueing::distribution::{Distribution, RandomVariable};

use crate::iproute::ShapingError;
use crate::line::Line;
use crate::loss::Loss;

/// The longest IP packet: the devices' MTU.
const PACKET_BYTES_MAX: u32 = 1500;

/// An Ethernet header: the kernel counts frames, a line counts IP packets.
const HEADER_BYTES: u32 = 14;

/// How late the kernel's timer may be without losing rate, which determines the bucket size beyond one frame. Also the
/// emulator's default lateness limit.
const TIMER_LATENESS_SECONDS: f64 = 1e-3;

/// The most packets in transit.
const TRAVELLING_PACKETS_MAX: u64 = 1_000_000;

/// Transmission time of what TCP may pass on as one packet; at a gigabit, single packets are too many.
const AT_ONCE_SECONDS: f64 = 1e-4;

/// At most 64 kB at once.
const AT_ONCE_PACKETS_MAX: u32 = 45;

/// Below this rate, a packet's transmission time overflows the kernel's representation of the bucket size.
const RATE_BITS_PER_SECOND_MIN: f64 = 1000.0;

/// A queueing discipline at one end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discipline {
    pub kind: &'static str,
    /// Packets that TCP may pass on as one. With 1, each waits and is lost individually.
    pub at_once_packets: u32,
    options: String,
    /// The options of the token bucket behind it, if there is one.
    bucket: Option<String>,
}

impl Discipline {
    /// The discipline for `line`.
    pub fn of(line: &Line) -> Result<Discipline, ShapingError> {
        if line.reorders {
            return Err(ShapingError::Unsupported("reordering"));
        }
        if line.rate.is_some_and(|rate| rate < RATE_BITS_PER_SECOND_MIN) {
            return Err(ShapingError::Unsupported("rates below 1 kbit/s"));
        }
        let delay_seconds = match &line.delay {
            None => 0.0,
            Some(Distribution::Deterministic(time)) => time.mean(),
            Some(_) => return Err(ShapingError::Unsupported("delay distributions other than a constant")),
        };
        let is_plain = delay_seconds == 0.0 && line.loss.mean() == 0.0;
        Ok(match line.rate {
            None if is_plain => Discipline {
                kind: "pfifo",
                at_once_packets: AT_ONCE_PACKETS_MAX,
                options: format!("limit {TRAVELLING_PACKETS_MAX}"),
                bucket: None,
            },
            Some(rate) if is_plain => token_bucket(rate, line.queue_packets_max),
            _ => network_emulator(line, delay_seconds),
        })
    }

    /// The tc arguments that add it to `device`, one discipline after the other, each with its kind.
    pub fn added_to(&self, device: &str) -> Vec<(&'static str, String)> {
        let Discipline { kind, options, bucket, .. } = self;
        let lengths =
            if self.counts_headers() { String::new() } else { format!("stab overhead -{HEADER_BYTES} ") };
        let root = format!("qdisc add dev {device} root handle 1: {lengths}{kind} {options}");
        let behind = |options| ("tbf", format!("qdisc add dev {device} parent 1:1 handle 2: tbf {options}"));
        [(*kind, root)].into_iter().chain(bucket.as_ref().map(behind)).collect()
    }

    /// Bytes of IP packets sent.
    pub fn sent_bytes(&self, counts: Counts) -> u64 {
        let header_bytes = if self.counts_headers() { HEADER_BYTES } else { 0 };
        counts.bytes - counts.packets * u64::from(header_bytes)
    }

    /// True if lengths are those of frames. A size table corrects them to IP lengths, but sees only one header for
    /// packets passed on as one.
    fn counts_headers(&self) -> bool {
        self.at_once_packets > 1
    }
}

/// The tc arguments that show the counters of a device's discipline, for [`Counts::read`].
pub fn shown(device: &str) -> String {
    format!("-s -j qdisc show dev {device}")
}

fn token_bucket(rate: f64, queue_packets: usize) -> Discipline {
    let at_once_packets = (rate * AT_ONCE_SECONDS / 8.0 / f64::from(PACKET_BYTES_MAX)) as u32;
    let mut discipline = Discipline {
        kind: "tbf",
        at_once_packets: at_once_packets.clamp(1, AT_ONCE_PACKETS_MAX),
        options: String::new(),
        bucket: None,
    };
    // If headers count, the longest packets are sent at the configured rate.
    let counted_bytes = PACKET_BYTES_MAX + if discipline.counts_headers() { HEADER_BYTES } else { 0 };
    discipline.options = bucket(rate, queue_packets, counted_bytes);
    discipline
}

/// The options of a bucket for which the longest packets have `counted_bytes`. It holds one frame, the minimum, plus the
/// bytes that the rate allows while the timer is late, because tokens for a full bucket are lost. A larger bucket would let
/// longer bursts pass after a pause.
fn bucket(rate: f64, queue_packets: usize, counted_bytes: u32) -> String {
    let burst_bytes = PACKET_BYTES_MAX + HEADER_BYTES + (rate / 8.0 * TIMER_LATENESS_SECONDS).ceil() as u32;
    let counted_rate = (rate * f64::from(counted_bytes) / f64::from(PACKET_BYTES_MAX)).round();
    let limit_bytes = queue_packets as u64 * u64::from(counted_bytes);
    format!("rate {counted_rate}bit burst {burst_bytes} limit {limit_bytes}")
}

/// With a constant delay it makes no difference that packets reach the queue after it: all of them do, and so do their
/// drops.
fn network_emulator(line: &Line, delay_seconds: f64) -> Discipline {
    let mut options = format!("limit {TRAVELLING_PACKETS_MAX}");
    if delay_seconds > 0.0 {
        options += &format!(" delay {}us", (delay_seconds * 1e6).round());
    }
    match line.loss {
        Loss::Never => {}
        Loss::Independent(probability) => options += &format!(" loss {}%", probability * 100.0),
        Loss::Bursts { worsening, recovery } => {
            options += &format!(" loss gemodel {}% {}%", worsening * 100.0, recovery * 100.0);
        }
    }
    let bucket = line.rate.map(|rate| bucket(rate, line.queue_packets_max, PACKET_BYTES_MAX));
    Discipline { kind: "netem", at_once_packets: 1, options, bucket }
}

/// A discipline's counters since it was created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
pub struct Counts {
    pub packets: u64,
    pub bytes: u64,
    /// Packets dropped for any reason.
    #[serde(rename = "drops")]
    pub dropped_packets: u64,
    #[serde(rename = "qlen")]
    pub queued_packets: u64,
}

/// A discipline in tc's JSON; it may contain others.
#[derive(Deserialize)]
struct Shown {
    #[serde(default)]
    root: bool,
    #[serde(flatten)]
    counts: Counts,
}

impl Counts {
    /// Reads tc's JSON output for a device.
    pub fn read(json: &str) -> io::Result<Counts> {
        let all: Vec<Shown> = serde_json::from_str(json)?;
        let root = all.iter().find(|each| each.root);
        Ok(root.ok_or_else(|| io::Error::other("tc shows no queueing discipline for the link"))?.counts)
    }
}

#[cfg(test)]
mod tests {
    use sojourn_queueing::distribution::{Deterministic, Exponential};

    use super::*;

    fn line(rate: Option<f64>, delay_seconds: f64, loss: Loss) -> Line {
        let delay = (delay_seconds > 0.0).then(|| Deterministic::new(delay_seconds).unwrap().into());
        Line { rate, delay, loss, queue_packets_max: 100, reorders: false }
    }

    /// The disciplines that are added, the outer one first.
    fn words(line: &Line) -> String {
        let added = Discipline::of(line).unwrap().added_to("dev0");
        let added: Vec<_> =
            added.iter().map(|(_, words)| words.strip_prefix("qdisc add dev dev0 ")).collect();
        let words = added.into_iter().collect::<Option<Vec<_>>>().unwrap().join(", ");
        words.strip_prefix("root handle 1: ").unwrap().to_owned()
    }

    #[test]
    fn a_rate_alone_is_a_bucket_of_a_frame_and_a_millisecond() {
        let check = |rate, expected: &str| assert_eq!(words(&line(Some(rate), 0.0, Loss::Never)), expected);
        check(56e3, "stab overhead -14 tbf rate 56000bit burst 1521 limit 150000");
        check(10e6, "stab overhead -14 tbf rate 10000000bit burst 2764 limit 150000");
        check(1e9, "tbf rate 1009333333bit burst 126514 limit 151400");
        check(1e12, "tbf rate 1009333333333bit burst 125001514 limit 151400");
    }

    #[test]
    fn what_is_handed_over_as_one_is_sent_within_a_tenth_of_a_millisecond() {
        let check = |rate, packets, bytes| {
            let discipline = Discipline::of(&line(rate, 0.0, Loss::Never)).unwrap();
            assert_eq!(discipline.at_once_packets, packets);
            let counts = Counts { packets: 10, bytes: 15_140, dropped_packets: 0, queued_packets: 0 };
            assert_eq!(discipline.sent_bytes(counts), bytes);
        };
        check(Some(100e6), 1, 15_140);
        check(Some(1e9), 8, 15_000);
        check(Some(100e9), 45, 15_000);
        check(None, 45, 15_000);
    }

    #[test]
    fn without_anything_it_only_counts() {
        assert_eq!(words(&line(None, 0.0, Loss::Never)), "pfifo limit 1000000");
        assert_eq!(
            words(&line(None, 0.0, Loss::Bursts { worsening: 0.0, recovery: 1.0 })),
            "pfifo limit 1000000"
        );
    }

    #[test]
    fn delays_and_losses_are_the_network_emulators() {
        let check = |line: Line, expected: &str| assert_eq!(words(&line), expected);
        check(line(None, 0.015, Loss::Never), "stab overhead -14 netem limit 1000000 delay 15000us");
        check(line(None, 0.0, Loss::Independent(0.25)), "stab overhead -14 netem limit 1000000 loss 25%");
        let bursts = Loss::Bursts { worsening: 0.125, recovery: 0.5 };
        check(
            line(Some(2e6), 0.0, bursts),
            "stab overhead -14 netem limit 1000000 loss gemodel 12.5% 50%, \
             parent 1:1 handle 2: tbf rate 2000000bit burst 1764 limit 150000",
        );
    }

    /// The line carries 10 Mbit/s for 0.12 s: 100 packets of 1,500 bytes, or 1,500 of 100 bytes.
    #[test]
    fn what_travels_takes_no_room_from_what_waits() {
        let discipline = Discipline::of(&line(Some(10e6), 0.12, Loss::Never)).unwrap();
        assert_eq!(
            discipline.added_to("dev0"),
            [
                (
                    "netem",
                    "qdisc add dev dev0 root handle 1: stab overhead -14 netem limit 1000000 delay 120000us"
                        .to_owned()
                ),
                (
                    "tbf",
                    "qdisc add dev dev0 parent 1:1 handle 2: tbf rate 10000000bit burst 2764 limit 150000"
                        .to_owned()
                )
            ]
        );
        assert_eq!(discipline.at_once_packets, 1);
    }

    #[test]
    fn what_the_kernel_cannot_do_is_refused() {
        let plain = line(Some(1e6), 0.015, Loss::Never);
        let check = |line: Line, expected: &str| {
            let said = Discipline::of(&line).unwrap_err().to_string();
            assert_eq!(said, format!("the kernel's shaper does not support {expected}"));
        };
        check(Line { reorders: true, ..plain.clone() }, "reordering");
        check(Line { rate: Some(999.0), ..plain.clone() }, "rates below 1 kbit/s");
        let delay = Some(Exponential::new(0.015).unwrap().into());
        check(Line { delay, ..plain }, "delay distributions other than a constant");
    }

    #[test]
    fn counts_are_the_root_s() {
        let json = r#"[
            {"kind":"bfifo","handle":"0:","parent":"8001:1","options":{"limit":15000},
             "bytes":1,"packets":1,"drops":1,"overlimits":0,"requeues":0,"backlog":0,"qlen":0},
            {"kind":"tbf","handle":"8001:","root":true,"refcnt":2,"options":{"rate":1250000,"burst":2763,"lat":119000},
             "bytes":150430,"packets":104,"drops":3,"overlimits":88,"requeues":0,"backlog":3000,"qlen":2}]"#;
        let counts = Counts { packets: 104, bytes: 150_430, dropped_packets: 3, queued_packets: 2 };
        assert_eq!(Counts::read(json).unwrap(), counts);
        assert!(Counts::read("[]").unwrap_err().to_string().contains("no queueing discipline"));
        assert!(Counts::read("qdisc tbf 8001: root").is_err());
    }
}
