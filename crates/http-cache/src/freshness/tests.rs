//! Ages and lifetimes, by RFC 9111, 4.2.

use proptest::prelude::*;

use super::*;

const NOW: Moments = Moments { request: 784_111_776, response: 784_111_777 };
const DATE: (&str, &str) = ("date", "Sun, 06 Nov 1994 08:49:37 GMT");

fn lines(fields: &[(&str, &str)]) -> String {
    fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
}

fn freshness(status: u16, fields: &[(&str, &str)]) -> (u32, Source) {
    let (lines, policy) = (lines(fields), Policy { error_seconds: 7, ..Policy::default() });
    let fields = Section(lines.as_bytes());
    let control = Control::of(fields, &policy.targets, None);
    let freshness = Freshness::of(status, fields, &control, NOW, &policy);
    (freshness.lifetime, freshness.source)
}

#[test]
fn explicit_lifetimes() {
    let minute = ("expires", "Sun, 06 Nov 1994 08:50:37 GMT");
    let control = |value| ("cache-control", value);
    for (fields, lifetime) in [
        (vec![control("max-age=5")], 5),
        (vec![control("max-age=0"), minute], 0),
        (vec![control("max-age=99999999999")], DELTA_SECONDS_MAX),
        (vec![control("max-age=-1")], 0),
        (vec![control("s-maxage=9, max-age=5"), minute], 9),
        (vec![DATE, minute], 60),
        (vec![minute], 60),
        (vec![("date", "yesterday"), minute], 60),
        (vec![minute, minute], 60),
        (vec![minute, ("expires", "Sun, 06 Nov 1994 08:51:37 GMT")], 0),
        (vec![("expires", "0")], 0),
        (vec![("expires", "Sun, 06 Nov 1994 08:49:37 GMT")], 0),
        (vec![("expires", "Sun, 06 Nov 1994 08:50:37 UTC")], 0),
        (vec![("expires", "SUN, 06 nov 1994 08:50:37 gmt")], 60),
        (vec![("expires", "Sunday, 06-Nov-94 08:50:37 GMT")], 60),
        (vec![("expires", "Sun Nov  6 08:50:37 1994")], 60),
        (vec![("cdn-cache-control", "max-age=3"), control("max-age=5"), minute], 3),
    ] {
        assert_eq!(freshness(200, &fields), (lifetime, Source::Explicit), "{fields:?}");
    }
}

/// RFC 9111, 4.2.2: heuristic lifetimes.
#[test]
fn guessed_lifetimes() {
    let modified = |value| [DATE, ("last-modified", value)];
    assert_eq!(freshness(200, &modified("Sun, 06 Nov 1994 08:32:57 GMT")), (100, Source::Heuristic));
    assert_eq!(freshness(200, &modified("Sun, 06 Nov 1904 08:32:57 GMT")).0, 0);
    assert_eq!(freshness(200, &modified("Fri, 06 Nov 1981 08:32:57 GMT")), (86_400, Source::Heuristic));
    assert_eq!(freshness(200, &modified("Sun, 06 Nov 1994 08:49:38 GMT")), (0, Source::Heuristic));
    assert_eq!(freshness(200, &[DATE]), (0, Source::None));
    for status in [201, 202, 302, 403, 500, 502, 503, 504, 599] {
        let fields = modified("Sun, 06 Nov 1994 08:32:57 GMT");
        assert_eq!(freshness(status, &fields), (0, Source::None), "{status}");
        let public = [fields[0], fields[1], ("cache-control", "public")];
        assert_eq!(freshness(status, &public), (100, Source::Heuristic), "{status}");
    }
}

#[test]
fn errors_are_kept_for_a_short_time() {
    assert_eq!(freshness(404, &[DATE]), (7, Source::Heuristic));
    assert_eq!(freshness(404, &[("cache-control", "max-age=9999")]), (300, Source::Explicit));
    assert_eq!(freshness(503, &[("cache-control", "max-age=9")]), (9, Source::Explicit));
    assert_eq!(freshness(500, &[DATE]), (0, Source::None));
}

/// RFC 9111, 4.2.3: ages.
#[test]
fn ages() {
    let age = |fields: &[(&str, &str)]| initial_age(Section(lines(fields).as_bytes()), NOW);
    assert_eq!(age(&[DATE]), 1, "the request took a second");
    assert_eq!(age(&[DATE, ("age", "10")]), 11);
    assert_eq!(age(&[("date", "Sun, 06 Nov 1994 08:48:37 GMT"), ("age", "10")]), 60);
    assert_eq!(age(&[("date", "Sun, 06 Nov 1994 08:59:37 GMT")]), 1, "a clock that is fast");
    assert_eq!(age(&[DATE, ("age", "10, 20")]), 11);
    assert_eq!(age(&[DATE, ("age", "10"), ("age", "20")]), 11, "the first");
    assert_eq!(age(&[DATE, ("age", "x, 20")]), 1);
    assert_eq!(age(&[DATE, ("age", "99999999999")]), DELTA_SECONDS_MAX);
    for bad in ["abc", "-5", "7200.0", "7200;a=b", ""] {
        assert_eq!(age(&[DATE, ("age", bad)]), 1, "{bad}");
    }
}

proptest! {
    #[test]
    fn a_later_response_is_no_younger(date in 0_i64..1 << 32, age in 0_u32..u32::MAX, delay in 0_i64..1 << 33) {
        let lines = lines(&[
            ("date", std::str::from_utf8(&HttpDate::from_seconds(date).text()).unwrap()),
            ("age", &age.to_string()),
        ]);
        let at = |response| initial_age(Section(lines.as_bytes()), Moments { request: date, response });
        prop_assert!(at(date + delay) <= at(date + delay + 1));
        prop_assert!(at(date + delay) >= age.min(DELTA_SECONDS_MAX));
    }

    #[test]
    fn no_field_overflows(date in any::<i64>(), request in any::<i64>(), response in any::<i64>()) {
        let text = HttpDate::from_seconds(date).text();
        let date = std::str::from_utf8(&text).unwrap();
        let lines = lines(&[("date", date), ("expires", date), ("last-modified", date)]);
        let (moments, policy) = (Moments { request, response }, Policy::default());
        prop_assert!(initial_age(Section(lines.as_bytes()), moments) <= DELTA_SECONDS_MAX);
        let lifetime =
            Freshness::of(200, Section(lines.as_bytes()), &Control::default(), moments, &policy).lifetime;
        prop_assert_eq!(lifetime, 0, "Expires is Date");
    }
}
