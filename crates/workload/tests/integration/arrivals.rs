//! Tests of arrivals: replay in the log's order, and staircases that are stationary from their first moment.
//!
//! Statistical checks use fixed seeds and bounds of four standard deviations or more.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use sojourn_workload::arrivals::{Arrival, ArrivalsError, Level, Staircase, Totals, replay};
use sojourn_workload::trace::{Document, Request, Session, Trace};

const SECOND: u64 = 1_000_000_000;

/// Sessions of 1 to 19 requests, up to 3 s apart; session k begins at second k.
fn trace() -> Trace {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
    let document = |index| Document::got(format!("/{index}"), index);
    let mut trace = Trace { documents: (0..50).map(document).collect(), ..Trace::default() };
    for k in 0..500 {
        let (first, count) = (trace.requests.len() as u32, random.random_range(1..20));
        trace.sessions.push(Session { start_ns: k * SECOND, first, count });
        let mut offset_ns = 0;
        for _ in 0..count {
            let document = random.random_range(0..50_u32).min(random.random_range(0..50));
            trace.requests.push(Request { offset_ns, document });
            offset_ns += random.random_range(0..3 * SECOND);
        }
    }
    trace
}

fn totals(trace: &Trace) -> Totals {
    let (sessions, requests) = (trace.sessions.len() as u32, trace.requests.len() as u64);
    let duration_ns = trace.session_durations_ns();
    Totals { sessions, requests, duration_ns, scaled_duration_ns: duration_ns }
}

fn staircase(seed: u64) -> Staircase {
    let level = |second, requests_per_second| Level { start_ns: second * SECOND, requests_per_second };
    Staircase {
        levels: vec![level(2, 500.0), level(22, 1500.0), level(42, 2000.0)],
        end_ns: 62 * SECOND,
        settle_ns: SECOND,
        think_scale: 1.0,
        seed,
    }
}

/// The due times of all requests that are sent.
fn requests(trace: &Trace, arrivals: &[Arrival], think_scale: f64) -> Vec<(u64, u32)> {
    let mut due = Vec::new();
    for arrival in arrivals {
        let session = &trace.sessions[arrival.session as usize];
        for request in &trace.requests_of(session)[arrival.first_request as usize..] {
            let at_ns = arrival.start_ns + (request.offset_ns as f64 * think_scale) as i64;
            due.push((u64::try_from(at_ns).expect("nothing is due before the run"), request.document));
        }
    }
    due.sort_unstable();
    due
}

#[test]
fn a_replay_divides_the_starts_of_sessions_and_nothing_else() {
    let trace = trace();
    let arrivals: Vec<_> = replay(&trace, 2.5).unwrap().collect();
    assert_eq!(arrivals.len(), trace.sessions.len());
    let expected =
        Arrival { connect_ns: 4 * SECOND, start_ns: 4 * SECOND as i64, session: 10, first_request: 0 };
    assert_eq!(arrivals[10], expected);
    assert!(arrivals.is_sorted_by_key(|arrival| arrival.connect_ns));
}

#[test]
fn arrivals_are_in_order_the_same_for_a_seed_and_others_for_another() {
    let trace = trace();
    let draw = |seed| staircase(seed).arrivals(&trace).unwrap().collect::<Vec<_>>();
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
    assert!(draw(1).is_sorted_by_key(|arrival| arrival.connect_ns));
}

#[test]
fn sessions_in_progress_connect_while_the_level_settles_and_send_from_its_start() {
    let trace = trace();
    let starts = [2, 22, 42].map(|second| second * SECOND);
    for arrival in staircase(1).arrivals(&trace).unwrap().filter(|arrival| arrival.first_request > 0) {
        let level = starts.into_iter().find(|start| *start > arrival.connect_ns).unwrap();
        assert!(level - arrival.connect_ns <= SECOND);
        assert!(arrival.start_ns < level as i64);
        let session = &trace.requests_of(&trace.sessions[arrival.session as usize]);
        let due = |k: usize| arrival.start_ns + session[k].offset_ns as i64;
        assert!(due(arrival.first_request as usize) >= level as i64);
        assert!(due(arrival.first_request as usize - 1) < level as i64);
    }
}

/// The mean of a sample and the standard error of that mean.
fn mean_and_error(sample: &[f64]) -> (f64, f64) {
    let n = sample.len() as f64;
    let mean = sample.iter().sum::<f64>() / n;
    let variance = sample.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, (variance / n).sqrt())
}

/// Requests come in sessions, so counts vary more than Poisson's; the bounds are computed from the runs.
fn check_rates(think_scale: f64, windows: &[(u64, u64)]) {
    let trace = trace();
    let runs: Vec<Vec<(u64, u32)>> = (0..30)
        .map(|seed| {
            let plan = Staircase { think_scale, ..staircase(seed) };
            let arrivals: Vec<_> = plan.arrivals(&trace).unwrap().collect();
            requests(&trace, &arrivals, think_scale)
        })
        .collect();
    for (level, rate) in [(2, 500.0), (22, 1500.0), (42, 2000.0)] {
        for &(offset_ns, length_ns) in windows {
            let from = level * SECOND + offset_ns;
            let before = |run: &[(u64, u32)], at: u64| run.partition_point(|&(due, _)| due < at);
            let count = |run: &Vec<_>| (before(run, from + length_ns) - before(run, from)) as f64;
            let counts: Vec<f64> = runs.iter().map(count).collect();
            let (mean, error) = mean_and_error(&counts);
            let wanted = rate * length_ns as f64 / SECOND as f64;
            assert!(
                (mean - wanted).abs() < 4.0 * error,
                "{mean} of {wanted} ± {error}, {offset_ns} ns into {level}"
            );
        }
    }
}

#[test]
fn the_rate_is_as_wanted_from_the_first_100_ms_on() {
    let tenth = SECOND / 10;
    let windows =
        [(0, tenth), (tenth, tenth), (SECOND, tenth), (5 * SECOND, SECOND), (0, SECOND), (0, 20 * SECOND)];
    for think_scale in [1.0, 0.3] {
        check_rates(think_scale, &windows);
    }
}

#[test]
fn new_sessions_are_a_poisson_process() {
    let trace = trace();
    let plan = Staircase {
        levels: vec![Level { start_ns: 0, requests_per_second: 5000.0 }],
        end_ns: 40 * SECOND,
        settle_ns: 0,
        ..staircase(5)
    };
    let starts: Vec<_> =
        plan.arrivals(&trace).unwrap().filter(|a| a.start_ns >= 0).map(|a| a.connect_ns as f64).collect();
    let rate = 5000.0 / trace.mean_requests_per_session() / SECOND as f64;
    // Kolmogorov's test of the gaps against the exponential law: D √n < 1.63 holds in 99 of 100.
    let mut gaps: Vec<_> = starts.windows(2).map(|pair| 1.0 - (-(pair[1] - pair[0]) * rate).exp()).collect();
    gaps.sort_unstable_by(f64::total_cmp);
    let n = gaps.len() as f64;
    let distance = gaps.iter().enumerate().map(|(k, gap)| (gap - k as f64 / n).abs()).fold(0.0, f64::max);
    assert!(n > 10_000.0 && distance * n.sqrt() < 1.63, "{distance} among {n}");
}

#[test]
fn popularity_is_that_of_the_trace() {
    let trace = trace();
    let arrivals: Vec<_> = staircase(9).arrivals(&trace).unwrap().collect();
    let mut drawn = vec![0.0; trace.documents.len()];
    for (_, document) in requests(&trace, &arrivals, 1.0) {
        drawn[document as usize] += 1.0;
    }
    let total: f64 = drawn.iter().sum();
    for (document, &count) in trace.requests_per_document().iter().enumerate() {
        let expected = total * f64::from(count) / trace.requests.len() as f64;
        // Templates repeat, so a document's count varies by more than the square root of its expectation.
        assert!((drawn[document] - expected).abs() < 8.0 * expected.sqrt(), "{document}: {expected}");
    }
}

#[test]
fn sessions_in_progress_follow_littles_law() {
    let trace = trace();
    let plan = staircase(1);
    let joining = plan.arrivals(&trace).unwrap().filter(|arrival| arrival.connect_ns < 2 * SECOND);
    let expected = plan.sessions_in_progress(&totals(&trace), 500.0);
    assert!((joining.count() as f64 - expected).abs() < 4.0 * expected.sqrt());
}

#[test]
fn plans_that_cannot_be_are_refused() {
    let check = |change: fn(&mut Staircase), expected: &str| {
        let mut plan = staircase(1);
        change(&mut plan);
        let error = plan.arrivals(&trace()).map(|_| ()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    check(|plan| plan.levels[1].requests_per_second = 100.0, "level 1");
    check(|plan| plan.levels[2].start_ns = 3, "level 2");
    check(|plan| plan.end_ns = 0, "level 0");
    check(|plan| plan.think_scale = 0.0, "think scale");
    check(|plan| plan.levels[2].requests_per_second = 1e9, "in progress at once");
    assert_eq!(replay(&Trace::default(), 1.0).map(|_| ()), Err(ArrivalsError::EmptyTrace));
}

#[test]
fn each_of_equal_steps_begins_with_half_of_what_settles() {
    let steps = Staircase::in_steps(&[10.0, 30.0], 1000, 200, 0.5, 7);
    let level = |start_ns, requests_per_second| Level { start_ns, requests_per_second };
    assert_eq!(steps.levels, [level(100, 10.0), level(1100, 30.0)]);
    assert_eq!((steps.end_ns, steps.settle_ns, steps.think_scale, steps.seed), (2000, 100, 0.5, 7));
}
