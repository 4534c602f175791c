//! `Server-Timing` fields (W3C): what a server says of the time that a response took.

use sojourn_measure::Nanos;

/// Longer ones are mistakes, or not in milliseconds.
const MILLISECONDS_MAX: f64 = 24.0 * 3600.0 * 1e3;

/// The metrics of a field that have a duration, `dur` in milliseconds, by name in lower case; others are left out.
pub fn metrics(field: &[u8]) -> Vec<(String, Nanos)> {
    let Ok(field) = std::str::from_utf8(field) else { return Vec::new() };
    outside_quotes(field, ',').filter_map(metric).collect()
}

fn metric(text: &str) -> Option<(String, Nanos)> {
    let mut parts = outside_quotes(text, ';');
    let name = parts.next()?.trim();
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return None;
    }
    // The first of several counts.
    let value = parts.find_map(|parameter| {
        let (key, value) = parameter.split_once('=')?;
        key.trim().eq_ignore_ascii_case("dur").then(|| value.trim().trim_matches('"'))
    })?;
    let milliseconds: f64 = value.parse().ok()?;
    let is_duration = (0.0..=MILLISECONDS_MAX).contains(&milliseconds);
    is_duration.then(|| (name.to_ascii_lowercase(), Nanos::from_seconds(milliseconds / 1e3)))
}

/// The parts between separators that are not in a quoted string.
fn outside_quotes(text: &str, separator: char) -> impl Iterator<Item = &str> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    text.split(move |character| {
        if std::mem::take(&mut is_escaped) {
            return false;
        }
        match character {
            '\\' => is_escaped = is_quoted,
            '"' => is_quoted = !is_quoted,
            _ => {}
        }
        character == separator && !is_quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(field: &str) -> Vec<(String, f64)> {
        let milliseconds =
            |(name, duration): (String, Nanos)| (name, (duration.seconds() * 1e6).round() / 1e3);
        metrics(field.as_bytes()).into_iter().map(milliseconds).collect()
    }

    #[test]
    fn metrics_with_a_duration() {
        assert_eq!(
            found("db;dur=53.2, App;desc=\"a, b; dur=1 \\\" c\" ; DUR = 47"),
            [("db".to_owned(), 53.2), ("app".to_owned(), 47.0)]
        );
        assert_eq!(found("db;dur=\"2\";dur=3"), [("db".to_owned(), 2.0)]);
    }

    #[test]
    fn what_says_nothing_is_left_out() {
        for field in [
            "",
            ",",
            "miss",
            "db;desc=x",
            "db;dur=",
            "db;dur=-1",
            "db;dur=NaN",
            "db;dur=1e99",
            "a b;dur=1",
            ";dur=1",
        ] {
            assert_eq!(found(field), [], "{field}");
        }
        assert_eq!(metrics(b"db;dur=1;desc=\"\xff\""), []);
    }
}
