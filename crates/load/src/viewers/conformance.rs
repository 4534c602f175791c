//! The rule by which a stream conforms.

use sojourn_measure::Nanos;

use crate::viewers::{
    plan::Quality,
    verdict::{Ending, Fault},
    viewer::Viewer,
};

/// A shorter stream is not judged by its pace, because a single frame would decide.
pub const PACE_JUDGED_AFTER: Nanos = Nanos(2_000_000_000);

/// A track without a packet this long after another track's first has no pace.
pub const SILENT_TRACK_AFTER: Nanos = Nanos(10_000_000_000);

/// The first rule that a stream breaks, if any; judged at `until`, the time of its last packet if the film has ended.
pub fn fault(ending: Ending, viewer: &Viewer, quality: &Quality, until: Nanos) -> Option<Fault> {
    match ending {
        Ending::Refused(_) => return Some(Fault::Refused),
        Ending::Failed(_) => return Some(Fault::Failed),
        Ending::Played | Ending::FilmOver | Ending::Vanished | Ending::Unfinished => {}
    }
    let counts = &viewer.counts;
    if counts.starvations > 0 {
        return Some(Fault::Starved);
    }
    let (expected, lost) = viewer.expected_and_lost();
    if (counts.late + lost) as f64 > quality.late_or_lost_max * expected as f64 {
        return Some(Fault::LateOrLost);
    }
    let begun = viewer.first_packet().unwrap_or(until);
    let is_slow_to_begin = viewer.hls().is_some_and(|session| {
        // Media that arrive more slowly than they are shown arrive below their pace.
        !session.playback.player().has_begun() && until - begun > quality.prebuffer.max(PACE_JUDGED_AFTER)
    });
    if is_slow_to_begin {
        return Some(Fault::Pace);
    }
    if until - begun >= SILENT_TRACK_AFTER
        && viewer.tracks().iter().any(|track| track.playout.first_arrival().is_none())
    {
        return Some(Fault::Pace);
    }
    let is_slow = match quality.nominal_bits_per_second {
        Some(nominal) => bits_per_second(viewer, until).is_some_and(|rate| rate < quality.pace_min * nominal),
        None => viewer
            .tracks()
            .iter()
            .filter_map(|track| track.playout.pace(until, PACE_JUDGED_AFTER))
            .any(|pace| pace < quality.pace_min),
    };
    is_slow.then_some(Fault::Pace)
}

/// Bits per second since the first packet, including headers, if the span is long enough.
pub fn bits_per_second(viewer: &Viewer, until: Nanos) -> Option<f64> {
    let elapsed = until - viewer.first_packet()?;
    (elapsed >= PACE_JUDGED_AFTER).then(|| 8.0 * viewer.counts.bytes as f64 / elapsed.seconds())
}
