//! Targeted cache control (RFC 9213): CDN-Cache-Control and its like, which take the place of Cache-Control.
//!
//! They are structured dictionaries (RFC 9651), parsed strictly by `sfv`. A field that does not parse, has a
//! non-integer time, or is empty counts as absent.

use std::borrow::Cow;

use sfv::{BareItem, Dictionary, ListEntry, Parser};

use super::Control;
use crate::directives::{Argument, Directive};
use crate::fields::Section;

/// Directives whose value is an integer number of seconds.
const TIMES: [&str; 4] = ["max-age", "s-maxage", "stale-while-revalidate", "stale-if-error"];

/// The directives in the field called `name`; `None` if it is absent, invalid or empty.
pub(super) fn control(fields: Section<'_>, name: &str) -> Option<Control> {
    let values: Vec<&[u8]> = fields.values(name).collect();
    let dictionary: Dictionary = Parser::new(&values.join(b", ".as_slice())).parse().ok()?;
    if dictionary.is_empty() {
        return None;
    }
    let mut control = Control { is_targeted: true, ..Control::default() };
    for (key, entry) in &dictionary {
        let is_integer =
            matches!(entry, ListEntry::Item(item) if matches!(item.bare_item, BareItem::Integer(_)));
        if TIMES.contains(&key.as_str()) && !is_integer {
            return None;
        }
        let argument = match entry {
            ListEntry::Item(item) => match &item.bare_item {
                // `?0` is an explicit absence.
                BareItem::Boolean(false) => continue,
                BareItem::Boolean(true) => Argument::None,
                BareItem::Integer(number) => Argument::Value(Cow::Owned(number.to_string().into_bytes())),
                BareItem::String(text) => Argument::Value(Cow::Borrowed(text.as_str().as_bytes())),
                BareItem::Token(token) => Argument::Value(Cow::Borrowed(token.as_str().as_bytes())),
                _ => Argument::Malformed,
            },
            ListEntry::InnerList(_) => Argument::Malformed,
        };
        control.take(&Directive { name: key.as_str().as_bytes(), argument });
    }
    Some(control)
}

#[cfg(test)]
mod tests {
    use super::super::Delta;
    use super::*;

    fn control_of(fields: &[(&str, &str)]) -> Control {
        let lines: String = fields.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        Control::of(
            Section(lines.as_bytes()),
            &["sojourn-cache-control".into(), "cdn-cache-control".into()],
            None,
        )
    }

    /// RFC 9213, 2.2: only the first valid, non-empty field of the list counts.
    #[test]
    fn the_first_that_is_valid() {
        let both = control_of(&[("cache-control", "no-store"), ("cdn-cache-control", "max-age=60")]);
        assert!(both.is_targeted && !both.no_store);
        assert_eq!(both.lifetime(), Delta::Seconds(60));
        let ours = control_of(&[("cdn-cache-control", "max-age=60"), ("sojourn-cache-control", "max-age=5")]);
        assert_eq!(ours.lifetime(), Delta::Seconds(5));
        for ignored in ["", "max-age=60,", "Max-Age=60", "max-age=60; =", "max-age 60"].into_iter().chain([
            "max-age=\"60\"",
            "max-age=60.0",
            "max-age=a",
            "max-age=(6 0)",
            "max-age",
            "s-maxage=?1",
        ]) {
            let other = control_of(&[("cache-control", "max-age=1"), ("cdn-cache-control", ignored)]);
            assert!(!other.is_targeted, "{ignored}");
            assert_eq!(other.lifetime(), Delta::Seconds(1), "{ignored}");
        }
    }

    #[test]
    fn values() {
        let control =
            control_of(&[("cdn-cache-control", "no-store;p=1, private=?0, no-cache=\"set-cookie\"")]);
        assert!(control.no_store && !control.private && !control.no_cache && control.withheld.len() == 1);
        assert_eq!(control_of(&[("cdn-cache-control", "max-age=-5")]).lifetime(), Delta::Invalid);
        let spread = control_of(&[("cdn-cache-control", "max-age=1"), ("cdn-cache-control", "max-age=2")]);
        assert_eq!(spread.lifetime(), Delta::Seconds(2), "the last of equal keys counts (RFC 9651, 4.2.2)");
    }
}
