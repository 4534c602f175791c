//! Surrogate-Control: the origin's directives for its own surrogates, in place of Cache-Control (W3C, Edge Architecture
//! Specification 1.0).
//!
//! A surrogate announces its name in requests (Surrogate-Capability). A directive followed by `;` and names applies
//! only to the surrogates with these names.

use super::{Control, Delta};
use crate::directives::directives;
use crate::fields::Section;

/// The directives for the surrogate called `name`, if there are any.
pub(super) fn control(fields: Section<'_>, name: &str) -> Option<Control> {
    let mut control = Control { is_targeted: true, ..Control::default() };
    for value in fields.values("surrogate-control") {
        for element in split(value, b',') {
            let mut parts = split(element, b';');
            let directive = parts.next().unwrap_or_default();
            let mut names = parts.map(<[u8]>::trim_ascii).peekable();
            if names.peek().is_none() || names.any(|other| other == name.as_bytes()) {
                directives(directive).for_each(|directive| control.take(&directive));
            }
        }
    }
    (control.no_store || control.max_age != Delta::Absent).then_some(control)
}

/// Splits `value` at `separator`s outside of quotes.
fn split(value: &[u8], separator: u8) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    value.split(move |byte| {
        is_quoted ^= *byte == b'"';
        *byte == separator && !is_quoted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control_of(value: &str) -> Option<Control> {
        control(Section(format!("Surrogate-Control: {value}\r\n").as_bytes()), "me")
    }

    fn lifetime(value: &str) -> Option<Delta> {
        control_of(value).map(|control| control.lifetime())
    }

    #[test]
    fn what_is_for_us() {
        assert_eq!(lifetime("max-age=60"), Some(Delta::Seconds(60)));
        assert_eq!(lifetime("content=\"ESI/1.0, x;y\", MaX-aGe=60"), Some(Delta::Seconds(60)));
        assert_eq!(lifetime("max-age=60;me"), Some(Delta::Seconds(60)));
        assert_eq!(lifetime("max-age=9;you, max-age=60;me"), Some(Delta::Seconds(60)));
        assert_eq!(lifetime("max-age=60;you"), None);
        assert_eq!((lifetime("foo"), lifetime("content=\"max-age=60\"")), (None, None));
        assert_eq!(lifetime("max-age =60"), Some(Delta::Invalid));
        assert!(control_of("no-store").unwrap().no_store);
    }
}
