//! Workloads, checked request by request.

use std::sync::Arc;

use sojourn_workload::trace::Request;

use super::*;
use crate::{
    http::{
        request::{Form, Persistence, Version},
        target::Target,
    },
    plan::{
        LoggedVisit, Pick,
        arrivals::{ArrivalProcess, Segment},
        distribution::Shape,
        scenario::ScenarioInputs,
        session_file::Burst,
    },
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

fn scenario(text: &str) -> Requests {
    let target = Target::resolve("http://127.0.0.1:81/").unwrap();
    let form = Form::get(&target, Version::Http11, Persistence::KeepAlive);
    let inputs = ScenarioInputs {
        read_file: &|_| Err("no such file".to_owned()),
        environment: &|_| None,
        think_shape: Shape::Constant,
    };
    Requests::Scenario(Arc::new(Scenario::parse(&form, text, &inputs).unwrap()))
}

#[test]
fn an_empty_iteration_is_followed_by_one_that_begins_at_the_same_time() {
    let seldom = || scenario("[[request]]\nurl = \"/\"\nshare = 0.3\n");
    let think = Think::AfterAnswer(constant(1000));
    let mut workload = closed(seldom(), think);
    let mut visit_state = workload.start().unwrap();
    let (mut requests, mut empty) = (0, 0);
    while requests < 100 {
        let began = visit_state.began;
        visit_state = match workload.first(&mut visit_state) {
            Some(due) => {
                assert_eq!(due.at, began);
                requests += 1;
                workload.next_visit(&visit_state, due.at + Nanos(5)).unwrap()
            }
            None => {
                empty += 1;
                let next = workload.next_after_empty(&visit_state).unwrap();
                assert_eq!(next.began, began);
                next
            }
        };
    }
    assert!((150..400).contains(&empty), "{empty}");
    // Iterations are counted, whatever they have.
    let quota = Quota { visits: 3, ..Quota::UNLIMITED };
    let arrivals = Arrivals::Closed { clients: 1 };
    let times = (Nanos(100), Nanos::ZERO);
    let mut workload = Workload::new(arrivals, seldom(), think, 1, quota, times, 7);
    let visit_state = workload.start().unwrap();
    assert!(workload.next_after_empty(&visit_state).is_some());
    assert!(workload.next_after_empty(&visit_state).is_some());
    assert!(workload.next_after_empty(&visit_state).is_none() && workload.is_quota_used());
}

#[test]
fn an_arrival_without_a_request_and_a_login_alone_are_followed_by_none() {
    let segments = vec![Segment { from: 1e6, to: 1e6, length: Nanos(1_000_000_000) }];
    let open = Arrivals::Open { segments, process: ArrivalProcess::Constant, under_way_max: 9 };
    let think = Think::AfterAnswer(Distribution::NONE);
    let mut workload = workload(open, scenario("[[request]]\nurl = \"/\"\nshare = 0.3\n"), think);
    let visit_state = workload.start().unwrap();
    assert!(workload.next_after_empty(&visit_state).is_none());
    let login = scenario("[[login]]\nurl = \"/\"\n[[request]]\nurl = \"/\"\nshare = 0\n");
    let mut workload = closed(login, think);
    let mut visit_state = workload.start().unwrap();
    assert!(workload.first(&mut visit_state).is_none() && workload.next_after_empty(&visit_state).is_none());
    visit_state.log_in_first();
    assert!(workload.first(&mut visit_state).is_some() && workload.next_after_empty(&visit_state).is_some());
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
