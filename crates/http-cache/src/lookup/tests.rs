//! When a stored response may be used, by RFC 9111, 4.2.4 and 5.2.

use proptest::prelude::*;

use super::*;

/// A response that arrives at 1000 with age 0 and stays fresh for a minute.
fn stored() -> Metadata<'static> {
    Metadata { status: 200, response_time: 1000, date: 1000, lifetime: 60, ..Metadata::default() }
}

fn used(control: &str, stored: &Metadata<'_>, now: i64) -> Use {
    let request = RequestDirectives::read(format!("Cache-Control: {control}\r\n").as_bytes());
    lookup(&request, Some(stored), now)
}

const STALE: Use = Use::Revalidate(Need::Stale);
const BY_CLIENT: Use = Use::Revalidate(Need::Client);

#[test]
fn fresh_until_the_lifetime_is_over() {
    assert_eq!(used("", &stored(), 1059), Use::Fresh);
    assert_eq!(used("", &stored(), 1060), STALE);
    assert_eq!(used("", &Metadata { initial_age: 50, ..stored() }, 1009), Use::Fresh);
    assert_eq!(used("", &Metadata { initial_age: 50, ..stored() }, 1010), STALE);
    assert_eq!(used("", &Metadata { no_cache: true, ..stored() }, 1000), Use::Revalidate(Need::NoCache));
}

/// RFC 9111, 5.2.1: request directives.
#[test]
fn what_clients_ask() {
    for (control, now, expected) in [
        ("no-cache", 1000, BY_CLIENT),
        ("no-store", 1000, Use::Fresh),
        ("max-age=0", 1001, BY_CLIENT),
        ("max-age=10", 1010, Use::Fresh),
        ("max-age=10", 1011, BY_CLIENT),
        ("min-fresh=10", 1050, Use::Fresh),
        ("min-fresh=10", 1051, BY_CLIENT),
        ("max-stale", 9999, Use::Stale { allowed_by: Allowance::Client }),
        ("max-stale=10", 1070, Use::Stale { allowed_by: Allowance::Client }),
        ("max-stale=10", 1071, STALE),
        ("max-stale=x", 1061, STALE),
        ("max-stale, max-age=10", 1061, BY_CLIENT),
        ("only-if-cached", 1000, Use::Fresh),
        ("only-if-cached", 1060, Use::GatewayTimeout),
        ("only-if-cached, no-cache", 1000, Use::GatewayTimeout),
        ("only-if-cached, max-stale", 1060, Use::Stale { allowed_by: Allowance::Client }),
    ] {
        assert_eq!(used(control, &stored(), now), expected, "{control} at {now}");
    }
    let only = RequestDirectives { only_if_cached: true, ..RequestDirectives::default() };
    assert_eq!(lookup(&only, None, 0), Use::GatewayTimeout);
    assert_eq!(lookup(&RequestDirectives::default(), None, 0), Use::Miss);
    let conditional = RequestDirectives { is_for_origin: true, ..RequestDirectives::default() };
    assert_eq!(lookup(&conditional, Some(&stored()), 1000), Use::Forward);
}

/// RFC 9111, 5.2.2.2 and RFC 5861: response directives.
#[test]
fn what_responses_allow() {
    let while_revalidating = Metadata { stale_while_revalidate: 10, ..stored() };
    let expected = Use::Stale { allowed_by: Allowance::WhileRevalidating };
    assert_eq!(used("", &while_revalidating, 1069), expected);
    assert_eq!(used("", &while_revalidating, 1070), STALE);
    assert_eq!(used("max-age=30", &while_revalidating, 1061), BY_CLIENT);
    let strict = Metadata { forbids_stale: true, ..while_revalidating };
    assert_eq!(used("", &strict, 1060), STALE);
    assert_eq!(used("max-stale", &strict, 1060), STALE);
    assert_eq!(used("", &strict, 1059), Use::Fresh);
}

#[test]
fn when_the_origin_fails() {
    let may = |failure, control: &str, stored: &Metadata<'_>, now| {
        let request = RequestDirectives::read(format!("Cache-Control: {control}\r\n").as_bytes());
        let policy = Policy { disconnected_seconds: 5, ..Policy::default() };
        may_answer_after(failure, &request, stored, now, &policy)
    };
    let allowed = Metadata { stale_if_error: 10, ..stored() };
    for failure in [Failure::Disconnected, Failure::Status(500), Failure::Status(503), Failure::Status(504)] {
        assert!(may(failure, "", &allowed, 1069) && !may(failure, "", &allowed, 1070), "{failure:?}");
        assert!(may(failure, "stale-if-error=20", &allowed, 1079), "{failure:?}");
        assert!(!may(failure, "no-cache", &allowed, 1069), "{failure:?}");
        assert!(!may(failure, "", &Metadata { forbids_stale: true, ..allowed }, 1061), "{failure:?}");
        assert!(!may(failure, "", &Metadata { no_cache: true, ..allowed }, 1001), "{failure:?}");
    }
    assert!(!may(Failure::Status(404), "", &allowed, 1061) && !may(Failure::Status(501), "", &allowed, 1061));
    assert!(
        may(Failure::Disconnected, "", &stored(), 1064) && !may(Failure::Disconnected, "", &stored(), 1065)
    );
    assert!(!may(Failure::Status(503), "", &stored(), 1060));
}

proptest! {
    /// For any input: a response that forbids it is never used stale, and one that needs validation never without.
    #[test]
    fn never_stale_where_forbidden(
        control in "(max-stale(=[0-9]{1,3})?|max-age=[0-9]{1,3}|min-fresh=[0-9]{1,3}|no-cache|, ){0,5}",
        lifetime in 0_u32..200,
        stale_while_revalidate in 0_u32..200,
        now in 900_i64..1400,
        no_cache in any::<bool>(),
    ) {
        let stored = Metadata { lifetime, stale_while_revalidate, forbids_stale: true, no_cache, ..stored() };
        let verdict = used(&control, &stored, now);
        let is_allowed = matches!(verdict, Use::Revalidate(_)) || (verdict == Use::Fresh && !no_cache);
        prop_assert!(is_allowed, "{:?}", verdict);
        prop_assert!(verdict != Use::Fresh || now < stored.expires_at());
    }
}
