//! Workloads, checked request by request.

use sojourn_workload::trace::Request;

use super::*;
use crate::plan::{
    LoggedVisit, Pick,
    arrivals::{ArrivalProcess, Segment},
    distribution::Shape,
    session_file::Burst,
};

fn workload(arrivals: Arrivals<'static>, requests: Requests, think: Think) -> Workload<'static> {
    Workload::new(arrivals, requests, think, 1, Quota::UNLIMITED, (Nanos(100), Nanos(50)), 7)
}

fn closed(requests: Requests, think: Think) -> Workload<'static> {
    workload(Arrivals::Closed { clients: 3 }, requests, think)
}

fn constant(mean: u64) -> Distribution {
    Distribution { mean: Nanos(mean), shape: Shape::Constant }
}

fn begin(workload: &mut Workload<'_>) -> (VisitState, DueRequest) {
    let mut visit_state = workload.start().unwrap();
    let due = workload.first(&mut visit_state).unwrap();
    (visit_state, due)
}

#[test]
fn clients_of_a_closed_loop_come_within_the_ramp_in_order() {
    let mut workload = closed(Requests::Pick(Pick::First), Think::AfterAnswer(constant(10)));
    let mut before = Nanos(100);
    for _ in 0..3 {
        let start = workload.next_start().unwrap();
        assert!(before <= start && start < Nanos(150));
        let (mut visit_state, due) = begin(&mut workload);
        assert_eq!(due, DueRequest { at: start, document: 0 });
        assert_eq!(
            workload.next(&mut visit_state, Nanos(1000), 0),
            Some(DueRequest { at: Nanos(1010), document: 0 })
        );
        before = start;
    }
    assert_eq!(workload.next_start(), None);
}

#[test]
fn thinking_from_the_answer_from_the_start_and_by_the_rate() {
    let after = |think| {
        let mut workload = closed(Requests::Pick(Pick::First), think);
        let (mut visit_state, due) = begin(&mut workload);
        let early = workload.next(&mut visit_state, due.at + Nanos(30), 1000).unwrap().at - due.at;
        let late = workload.next(&mut visit_state, due.at + Nanos(5000), 1000).unwrap().at - due.at;
        (early.0, late.0)
    };
    assert_eq!(after(Think::AfterAnswer(constant(100))), (130, 5100));
    assert_eq!(after(Think::FromStart(constant(100))), (100, 5000));
    // 8000 bits at 8 Gbit/s take a microsecond.
    assert_eq!(after(Think::Rated { bits_per_second: 8e9 }), (1000, 5000));
}

#[test]
fn a_burst_sends_its_first_request_alone_and_the_rest_together() {
    let burst = |requests: &[u32], think| Burst { requests: requests.to_vec(), think };
    let session = vec![burst(&[5, 6, 7], Some(Nanos(40))), burst(&[8], None)];
    let mut workload = closed(Requests::Sessions(vec![session]), Think::AfterAnswer(constant(3)));
    let (mut visit_state, due) = begin(&mut workload);
    assert_eq!(due.document, 5);
    assert_eq!(workload.next_in_burst(&mut visit_state, due.at), None, "the first goes alone");
    assert_eq!(
        workload.next(&mut visit_state, Nanos(200), 0),
        Some(DueRequest { at: Nanos(200), document: 6 })
    );
    assert_eq!(
        workload.next_in_burst(&mut visit_state, Nanos(200)),
        Some(DueRequest { at: Nanos(200), document: 7 })
    );
    assert_eq!(workload.next_in_burst(&mut visit_state, Nanos(200)), None);
    assert_eq!(
        workload.next(&mut visit_state, Nanos(300), 0),
        Some(DueRequest { at: Nanos(340), document: 8 })
    );
    assert_eq!(workload.next(&mut visit_state, Nanos(400), 0), None);
    let mut again = workload.next_visit(&visit_state, Nanos(400)).unwrap();
    assert_eq!(workload.first(&mut again), Some(DueRequest { at: Nanos(403), document: 5 }));
}

#[test]
fn open_arrivals_ask_once_each_and_a_quota_ends_them() {
    let segments = vec![Segment { from: 1e6, to: 1e6, length: Nanos(1_000_000_000) }];
    let open = Arrivals::Open { segments, process: ArrivalProcess::Constant, under_way_max: 9 };
    let requests = Requests::Pick(Pick::First);
    let quota = Quota { visits: 3, ..Quota::UNLIMITED };
    let think = Think::AfterAnswer(Distribution::NONE);
    let mut workload = Workload::new(open, requests, think, 1, quota, (Nanos(100), Nanos::ZERO), 7);
    workload.skip();
    for number in 1..=3 {
        let (mut visit_state, due) = begin(&mut workload);
        assert!((100 + number * 1000..100 + (number + 1) * 1000).contains(&due.at.0), "{due:?}");
        assert_eq!(workload.next(&mut visit_state, due.at, 0), None);
        assert!(workload.next_visit(&visit_state, due.at).is_none());
    }
    assert_eq!(workload.next_start(), None);
    assert_eq!(workload.used(quota), 1.0);
}

#[test]
fn sessions_of_a_log_keep_their_offsets_times_the_think_scale() {
    let requests = [40, 100].map(|offset_ns| Request { offset_ns, document: 0 });
    let visit = LoggedVisit { connect_ns: 10, start_ns: -20, requests: Box::new(requests) };
    let arrivals = Arrivals::Logged(Box::new([visit].into_iter()));
    let requests = Requests::Logged { think_scale: 0.5 };
    let think = Think::AfterAnswer(Distribution::NONE);
    let times = (Nanos(1000), Nanos::ZERO);
    let mut workload = Workload::new(arrivals, requests, think, 1, Quota::UNLIMITED, times, 0);
    assert_eq!(workload.next_start(), Some(Nanos(1010)));
    let (mut visit_state, due) = begin(&mut workload);
    assert_eq!(due.at, Nanos(1000));
    assert_eq!(workload.due_later(&visit_state), [Nanos(1030)]);
    assert_eq!(workload.next(&mut visit_state, Nanos(5000), 0).unwrap().at, Nanos(1030));
    assert_eq!(workload.next(&mut visit_state, Nanos(5000), 0), None);
}
